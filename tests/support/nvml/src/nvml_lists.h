/* The structures of lists, events, GPM, instances and the system; see nvml_types.h. */
#ifndef WINDVANE_NVML_LISTS_H
#define WINDVANE_NVML_LISTS_H

#include "nvml_types.h"

struct process_info {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
};
LAYOUT(struct process_info, 24);
PLACE(struct process_info, usedGpuMemory, 8); PLACE(struct process_info, gpuInstanceId, 16);
PLACE(struct process_info, computeInstanceId, 20);

struct process_detail {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
    unsigned long long usedGpuCcProtectedMemory;
};
LAYOUT(struct process_detail, 32);
PLACE(struct process_detail, usedGpuMemory, 8); PLACE(struct process_detail, gpuInstanceId, 16);
PLACE(struct process_detail, computeInstanceId, 20);
PLACE(struct process_detail, usedGpuCcProtectedMemory, 24);

struct process_detail_list {
    unsigned int version;
    unsigned int mode;
    unsigned int numProcArrayEntries;
    struct process_detail *procArray;
};
LAYOUT(struct process_detail_list, 24);
PLACE(struct process_detail_list, mode, 4);
PLACE(struct process_detail_list, numProcArrayEntries, 8);
PLACE(struct process_detail_list, procArray, 16);

struct process_sample {
    unsigned int pid;
    unsigned long long timeStamp;
    unsigned int smUtil;
    unsigned int memUtil;
    unsigned int encUtil;
    unsigned int decUtil;
};
LAYOUT(struct process_sample, 32);
PLACE(struct process_sample, timeStamp, 8); PLACE(struct process_sample, smUtil, 16);
PLACE(struct process_sample, memUtil, 20); PLACE(struct process_sample, encUtil, 24);
PLACE(struct process_sample, decUtil, 28);

struct process_utilization {
    unsigned long long timeStamp;
    unsigned int pid;
    unsigned int smUtil;
    unsigned int memUtil;
    unsigned int encUtil;
    unsigned int decUtil;
    unsigned int jpgUtil;
    unsigned int ofaUtil;
};
LAYOUT(struct process_utilization, 40);
PLACE(struct process_utilization, pid, 8); PLACE(struct process_utilization, smUtil, 12);
PLACE(struct process_utilization, memUtil, 16); PLACE(struct process_utilization, encUtil, 20);
PLACE(struct process_utilization, decUtil, 24); PLACE(struct process_utilization, jpgUtil, 28);
PLACE(struct process_utilization, ofaUtil, 32);

struct processes_utilization {
    unsigned int version;
    unsigned int processSamplesCount;
    unsigned long long lastSeenTimeStamp;
    struct process_utilization *procUtilArray;
};
LAYOUT(struct processes_utilization, 24);
PLACE(struct processes_utilization, processSamplesCount, 4);
PLACE(struct processes_utilization, lastSeenTimeStamp, 8);
PLACE(struct processes_utilization, procUtilArray, 16);

struct accounting_stats {
    unsigned int gpuUtilization;
    unsigned int memoryUtilization;
    unsigned long long maxMemoryUsage;
    unsigned long long time;
    unsigned long long startTime;
    unsigned int isRunning;
    unsigned int reserved[5];
};
LAYOUT(struct accounting_stats, 56);
PLACE(struct accounting_stats, memoryUtilization, 4);
PLACE(struct accounting_stats, maxMemoryUsage, 8); PLACE(struct accounting_stats, time, 16);
PLACE(struct accounting_stats, startTime, 24); PLACE(struct accounting_stats, isRunning, 32);
PLACE(struct accounting_stats, reserved, 36);

struct event_data {
    void *device;
    unsigned long long eventType;
    unsigned long long eventData;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
};
LAYOUT(struct event_data, 32);
PLACE(struct event_data, eventType, 8); PLACE(struct event_data, eventData, 16);
PLACE(struct event_data, gpuInstanceId, 24); PLACE(struct event_data, computeInstanceId, 28);

struct event_v3 {
    unsigned int timeoutMs;
    unsigned int dataType;
    char uuid[96];
    char sourceModule[16];
    unsigned long long eventType;
    unsigned long long eventData;
    unsigned long long groupCursor;
    unsigned long long instanceId;
    unsigned long long timestampUsec;
    unsigned long long traceId;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
    unsigned int severity;
    unsigned int categoryId;
    unsigned int moduleEventCode;
    unsigned int scope;
    unsigned int originator;
    unsigned int moduleInstance;
    unsigned int chipletId;
    unsigned int logLevel;
    unsigned int attributes;
    unsigned int groupCperSize;
    unsigned int groupAttributes;
    unsigned char groupSize;
    unsigned char groupIndex;
};
LAYOUT(struct event_v3, 224);
PLACE(struct event_v3, dataType, 4); PLACE(struct event_v3, uuid, 8);
PLACE(struct event_v3, sourceModule, 104); PLACE(struct event_v3, eventType, 120);
PLACE(struct event_v3, eventData, 128); PLACE(struct event_v3, groupCursor, 136);
PLACE(struct event_v3, instanceId, 144); PLACE(struct event_v3, timestampUsec, 152);
PLACE(struct event_v3, traceId, 160); PLACE(struct event_v3, gpuInstanceId, 168);
PLACE(struct event_v3, computeInstanceId, 172); PLACE(struct event_v3, severity, 176);
PLACE(struct event_v3, categoryId, 180); PLACE(struct event_v3, moduleEventCode, 184);
PLACE(struct event_v3, scope, 188); PLACE(struct event_v3, originator, 192);
PLACE(struct event_v3, moduleInstance, 196); PLACE(struct event_v3, chipletId, 200);
PLACE(struct event_v3, logLevel, 204); PLACE(struct event_v3, attributes, 208);
PLACE(struct event_v3, groupCperSize, 212); PLACE(struct event_v3, groupAttributes, 216);
PLACE(struct event_v3, groupSize, 220); PLACE(struct event_v3, groupIndex, 221);

struct device_attributes {
    unsigned int multiprocessorCount;
    unsigned int sharedCopyEngineCount;
    unsigned int sharedDecoderCount;
    unsigned int sharedEncoderCount;
    unsigned int sharedJpegCount;
    unsigned int sharedOfaCount;
    unsigned int gpuInstanceSliceCount;
    unsigned int computeInstanceSliceCount;
    unsigned long long memorySizeMB;
};
LAYOUT(struct device_attributes, 40);
PLACE(struct device_attributes, sharedCopyEngineCount, 4);
PLACE(struct device_attributes, sharedDecoderCount, 8);
PLACE(struct device_attributes, sharedEncoderCount, 12);
PLACE(struct device_attributes, sharedJpegCount, 16);
PLACE(struct device_attributes, sharedOfaCount, 20);
PLACE(struct device_attributes, gpuInstanceSliceCount, 24);
PLACE(struct device_attributes, computeInstanceSliceCount, 28);
PLACE(struct device_attributes, memorySizeMB, 32);

struct cc_state {
    unsigned int environment;
    unsigned int ccFeature;
    unsigned int devToolsMode;
};
LAYOUT(struct cc_state, 12);
PLACE(struct cc_state, ccFeature, 4); PLACE(struct cc_state, devToolsMode, 8);

struct cc_settings {
    unsigned int version;
    unsigned int environment;
    unsigned int ccFeature;
    unsigned int devToolsMode;
    unsigned int multiGpuMode;
};
LAYOUT(struct cc_settings, 20);
PLACE(struct cc_settings, environment, 4); PLACE(struct cc_settings, ccFeature, 8);
PLACE(struct cc_settings, devToolsMode, 12); PLACE(struct cc_settings, multiGpuMode, 16);

struct cc_caps {
    unsigned int cpuCaps;
    unsigned int gpusCaps;
};
LAYOUT(struct cc_caps, 8);
PLACE(struct cc_caps, gpusCaps, 4);

struct cc_memory {
    unsigned long long protectedMemSizeKib;
    unsigned long long unprotectedMemSizeKib;
};
LAYOUT(struct cc_memory, 16);
PLACE(struct cc_memory, unprotectedMemSizeKib, 8);

struct metric_names {
    char *shortName;
    char *longName;
    char *unit;
};
LAYOUT(struct metric_names, 24);
PLACE(struct metric_names, longName, 8); PLACE(struct metric_names, unit, 16);

struct gpm_metric {
    unsigned int metricId;
    unsigned int nvmlReturn;
    double value;
    struct metric_names metricInfo;
};
LAYOUT(struct gpm_metric, 40);
PLACE(struct gpm_metric, nvmlReturn, 4); PLACE(struct gpm_metric, value, 8);
PLACE(struct gpm_metric, metricInfo, 16);

struct gpm_metrics_get {
    unsigned int version;
    unsigned int numMetrics;
    void *sample1;
    void *sample2;
    struct gpm_metric metrics[477];
};
LAYOUT(struct gpm_metrics_get, 19104);
PLACE(struct gpm_metrics_get, numMetrics, 4); PLACE(struct gpm_metrics_get, sample1, 8);
PLACE(struct gpm_metrics_get, sample2, 16); PLACE(struct gpm_metrics_get, metrics, 24);

struct gpm_support {
    unsigned int version;
    unsigned int isSupportedDevice;
};
LAYOUT(struct gpm_support, 8);
PLACE(struct gpm_support, isSupportedDevice, 4);

struct c2c_mode {
    unsigned int isC2cEnabled;
};
LAYOUT(struct c2c_mode, 4);

struct fabric_info_v1 {
    unsigned char clusterUuid[16];
    unsigned int status;
    unsigned int cliqueId;
    unsigned int state;
};
LAYOUT(struct fabric_info_v1, 28);
PLACE(struct fabric_info_v1, status, 16); PLACE(struct fabric_info_v1, cliqueId, 20);
PLACE(struct fabric_info_v1, state, 24);

struct fabric_info_v2 {
    unsigned int version;
    unsigned char clusterUuid[16];
    unsigned int status;
    unsigned int cliqueId;
    unsigned int state;
    unsigned int healthMask;
};
LAYOUT(struct fabric_info_v2, 36);
PLACE(struct fabric_info_v2, clusterUuid, 4); PLACE(struct fabric_info_v2, status, 20);
PLACE(struct fabric_info_v2, cliqueId, 24); PLACE(struct fabric_info_v2, state, 28);
PLACE(struct fabric_info_v2, healthMask, 32);

struct fabric_info_v3 {
    unsigned int version;
    unsigned char clusterUuid[16];
    unsigned int status;
    unsigned int cliqueId;
    unsigned int state;
    unsigned int healthMask;
    unsigned char healthSummary;
};
LAYOUT(struct fabric_info_v3, 40);
PLACE(struct fabric_info_v3, clusterUuid, 4); PLACE(struct fabric_info_v3, status, 20);
PLACE(struct fabric_info_v3, cliqueId, 24); PLACE(struct fabric_info_v3, state, 28);
PLACE(struct fabric_info_v3, healthMask, 32); PLACE(struct fabric_info_v3, healthSummary, 36);

struct platform_info {
    unsigned int version;
    char ibGuid[16];
    char chassisSerialNumber[16];
    char slotNumber;
    char trayIndex;
    char hostId;
    char peerType;
    char moduleId;
};
LAYOUT(struct platform_info, 44);
PLACE(struct platform_info, ibGuid, 4); PLACE(struct platform_info, chassisSerialNumber, 20);
PLACE(struct platform_info, slotNumber, 36); PLACE(struct platform_info, trayIndex, 37);
PLACE(struct platform_info, hostId, 38); PLACE(struct platform_info, peerType, 39);
PLACE(struct platform_info, moduleId, 40);

struct driver_branch {
    unsigned int version;
    char branch[80];
};
LAYOUT(struct driver_branch, 84);
PLACE(struct driver_branch, branch, 4);

#endif
