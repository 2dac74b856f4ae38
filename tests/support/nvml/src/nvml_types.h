/* Structures of NVML as the library lays them out on a 64-bit Linux.
 *
 * Sizes and offsets: nvidia-ml-py 13.615.71 and nvml.h 13.3.29, looked up 2026-12-01.
 * The names are ours. Every layout is asserted, so that a slip does not compile.
 */
#ifndef WINDVANE_NVML_TYPES_H
#define WINDVANE_NVML_TYPES_H

#include <stddef.h>

#define LAYOUT(type, bytes) _Static_assert(sizeof(type) == (bytes), "size of " #type)
#define PLACE(type, member, at) _Static_assert(offsetof(type, member) == (at), #type "." #member)
#define VERSIONED(type, version) (sizeof(type) | ((version) << 24U))

typedef int result;
typedef void *device;

struct pci_info {
    char busIdLegacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    char busId[32];
};
LAYOUT(struct pci_info, 68);
PLACE(struct pci_info, domain, 16);
PLACE(struct pci_info, bus, 20);
PLACE(struct pci_info, device, 24);
PLACE(struct pci_info, pciDeviceId, 28);
PLACE(struct pci_info, pciSubSystemId, 32);
PLACE(struct pci_info, busId, 36);

struct pci_info_ext {
    unsigned int version;
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    unsigned int baseClass;
    unsigned int subClass;
    char busId[32];
};
LAYOUT(struct pci_info_ext, 64);
PLACE(struct pci_info_ext, domain, 4);
PLACE(struct pci_info_ext, bus, 8);
PLACE(struct pci_info_ext, device, 12);
PLACE(struct pci_info_ext, pciDeviceId, 16);
PLACE(struct pci_info_ext, pciSubSystemId, 20);
PLACE(struct pci_info_ext, baseClass, 24);
PLACE(struct pci_info_ext, subClass, 28);
PLACE(struct pci_info_ext, busId, 32);

struct memory_v1 {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};
LAYOUT(struct memory_v1, 24);
PLACE(struct memory_v1, free, 8);
PLACE(struct memory_v1, used, 16);

struct memory_v2 {
    unsigned int version;
    unsigned long long total;
    unsigned long long reserved;
    unsigned long long free;
    unsigned long long used;
};
LAYOUT(struct memory_v2, 40);
PLACE(struct memory_v2, total, 8);
PLACE(struct memory_v2, reserved, 16);
PLACE(struct memory_v2, free, 24);
PLACE(struct memory_v2, used, 32);

struct bar1_memory {
    unsigned long long bar1Total;
    unsigned long long bar1Free;
    unsigned long long bar1Used;
};
LAYOUT(struct bar1_memory, 24);
PLACE(struct bar1_memory, bar1Free, 8);
PLACE(struct bar1_memory, bar1Used, 16);

struct utilization {
    unsigned int gpu;
    unsigned int memory;
};
LAYOUT(struct utilization, 8);
PLACE(struct utilization, memory, 4);

struct temperature {
    unsigned int version;
    unsigned int sensorType;
    int temperature;
};
LAYOUT(struct temperature, 12);
PLACE(struct temperature, sensorType, 4);
PLACE(struct temperature, temperature, 8);

struct margin_temperature {
    unsigned int version;
    int marginTemperature;
};
LAYOUT(struct margin_temperature, 8);
PLACE(struct margin_temperature, marginTemperature, 4);

struct thermal_sensor {
    int controller;
    int defaultMinTemp;
    int defaultMaxTemp;
    int currentTemp;
    int target;
};
LAYOUT(struct thermal_sensor, 20);
PLACE(struct thermal_sensor, defaultMinTemp, 4);
PLACE(struct thermal_sensor, defaultMaxTemp, 8);
PLACE(struct thermal_sensor, currentTemp, 12);
PLACE(struct thermal_sensor, target, 16);

struct thermal_settings {
    unsigned int count;
    struct thermal_sensor sensor[3];
};
LAYOUT(struct thermal_settings, 64);
PLACE(struct thermal_settings, sensor, 4);

struct fan_speed_info {
    unsigned int version;
    unsigned int fan;
    unsigned int speed;
};
LAYOUT(struct fan_speed_info, 12);
PLACE(struct fan_speed_info, fan, 4);
PLACE(struct fan_speed_info, speed, 8);

struct process_info {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
};
LAYOUT(struct process_info, 24);
PLACE(struct process_info, usedGpuMemory, 8);
PLACE(struct process_info, gpuInstanceId, 16);
PLACE(struct process_info, computeInstanceId, 20);

struct process_detail {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
    unsigned long long usedGpuCcProtectedMemory;
};
LAYOUT(struct process_detail, 32);
PLACE(struct process_detail, usedGpuMemory, 8);
PLACE(struct process_detail, gpuInstanceId, 16);
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
PLACE(struct process_sample, timeStamp, 8);
PLACE(struct process_sample, smUtil, 16);
PLACE(struct process_sample, memUtil, 20);
PLACE(struct process_sample, encUtil, 24);
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
PLACE(struct process_utilization, pid, 8);
PLACE(struct process_utilization, smUtil, 12);
PLACE(struct process_utilization, memUtil, 16);
PLACE(struct process_utilization, encUtil, 20);
PLACE(struct process_utilization, decUtil, 24);
PLACE(struct process_utilization, jpgUtil, 28);
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
PLACE(struct accounting_stats, maxMemoryUsage, 8);
PLACE(struct accounting_stats, time, 16);
PLACE(struct accounting_stats, startTime, 24);
PLACE(struct accounting_stats, isRunning, 32);
PLACE(struct accounting_stats, reserved, 36);

struct ecc_counts {
    unsigned long long l1Cache;
    unsigned long long l2Cache;
    unsigned long long deviceMemory;
    unsigned long long registerFile;
};
LAYOUT(struct ecc_counts, 32);
PLACE(struct ecc_counts, l2Cache, 8);
PLACE(struct ecc_counts, deviceMemory, 16);
PLACE(struct ecc_counts, registerFile, 24);

struct sram_status {
    unsigned int version;
    unsigned long long aggregateUncParity;
    unsigned long long aggregateUncSecDed;
    unsigned long long aggregateCor;
    unsigned long long volatileUncParity;
    unsigned long long volatileUncSecDed;
    unsigned long long volatileCor;
    unsigned long long aggregateUncBucketL2;
    unsigned long long aggregateUncBucketSm;
    unsigned long long aggregateUncBucketPcie;
    unsigned long long aggregateUncBucketMcu;
    unsigned long long aggregateUncBucketOther;
    unsigned int bThresholdExceeded;
};
LAYOUT(struct sram_status, 104);
PLACE(struct sram_status, aggregateUncParity, 8);
PLACE(struct sram_status, aggregateUncSecDed, 16);
PLACE(struct sram_status, aggregateCor, 24);
PLACE(struct sram_status, volatileUncParity, 32);
PLACE(struct sram_status, volatileUncSecDed, 40);
PLACE(struct sram_status, volatileCor, 48);
PLACE(struct sram_status, aggregateUncBucketL2, 56);
PLACE(struct sram_status, aggregateUncBucketSm, 64);
PLACE(struct sram_status, aggregateUncBucketPcie, 72);
PLACE(struct sram_status, aggregateUncBucketMcu, 80);
PLACE(struct sram_status, aggregateUncBucketOther, 88);
PLACE(struct sram_status, bThresholdExceeded, 96);

struct row_histogram {
    unsigned int max;
    unsigned int high;
    unsigned int partial;
    unsigned int low;
    unsigned int none;
};
LAYOUT(struct row_histogram, 20);
PLACE(struct row_histogram, high, 4);
PLACE(struct row_histogram, partial, 8);
PLACE(struct row_histogram, low, 12);
PLACE(struct row_histogram, none, 16);

struct remapped_rows_v2 {
    unsigned int corrActiveRemaps;
    unsigned int corrInactiveRemaps;
    unsigned int uncActiveRemaps;
    unsigned int uncInactiveRemaps;
    unsigned int bPending;
    unsigned int bfailureOccurred;
};
LAYOUT(struct remapped_rows_v2, 24);
PLACE(struct remapped_rows_v2, corrInactiveRemaps, 4);
PLACE(struct remapped_rows_v2, uncActiveRemaps, 8);
PLACE(struct remapped_rows_v2, uncInactiveRemaps, 12);
PLACE(struct remapped_rows_v2, bPending, 16);
PLACE(struct remapped_rows_v2, bfailureOccurred, 20);

struct repair_status {
    unsigned int version;
    unsigned int bChannelRepairPending;
    unsigned int bTpcRepairPending;
};
LAYOUT(struct repair_status, 12);
PLACE(struct repair_status, bChannelRepairPending, 4);
PLACE(struct repair_status, bTpcRepairPending, 8);

union any_value {
    double dVal;
    unsigned int uiVal;
    unsigned long long ulVal;
    unsigned long long ullVal;
    long long sllVal;
    int siVal;
    unsigned short usVal;
};
LAYOUT(union any_value, 8);

struct sample {
    unsigned long long timeStamp;
    union any_value sampleValue;
};
LAYOUT(struct sample, 16);
PLACE(struct sample, sampleValue, 8);

struct field_value {
    unsigned int fieldId;
    unsigned int scopeId;
    long long timestamp;
    long long latencyUsec;
    unsigned int valueType;
    unsigned int nvmlReturn;
    union any_value value;
};
LAYOUT(struct field_value, 40);
PLACE(struct field_value, scopeId, 4);
PLACE(struct field_value, timestamp, 8);
PLACE(struct field_value, latencyUsec, 16);
PLACE(struct field_value, valueType, 24);
PLACE(struct field_value, nvmlReturn, 28);
PLACE(struct field_value, value, 32);

struct violation_time {
    unsigned long long referenceTime;
    unsigned long long violationTime;
};
LAYOUT(struct violation_time, 16);
PLACE(struct violation_time, violationTime, 8);

struct event_data {
    void *device;
    unsigned long long eventType;
    unsigned long long eventData;
    unsigned int gpuInstanceId;
    unsigned int computeInstanceId;
};
LAYOUT(struct event_data, 32);
PLACE(struct event_data, eventType, 8);
PLACE(struct event_data, eventData, 16);
PLACE(struct event_data, gpuInstanceId, 24);
PLACE(struct event_data, computeInstanceId, 28);

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
PLACE(struct event_v3, dataType, 4);
PLACE(struct event_v3, uuid, 8);
PLACE(struct event_v3, sourceModule, 104);
PLACE(struct event_v3, eventType, 120);
PLACE(struct event_v3, eventData, 128);
PLACE(struct event_v3, groupCursor, 136);
PLACE(struct event_v3, instanceId, 144);
PLACE(struct event_v3, timestampUsec, 152);
PLACE(struct event_v3, traceId, 160);
PLACE(struct event_v3, gpuInstanceId, 168);
PLACE(struct event_v3, computeInstanceId, 172);
PLACE(struct event_v3, severity, 176);
PLACE(struct event_v3, categoryId, 180);
PLACE(struct event_v3, moduleEventCode, 184);
PLACE(struct event_v3, scope, 188);
PLACE(struct event_v3, originator, 192);
PLACE(struct event_v3, moduleInstance, 196);
PLACE(struct event_v3, chipletId, 200);
PLACE(struct event_v3, logLevel, 204);
PLACE(struct event_v3, attributes, 208);
PLACE(struct event_v3, groupCperSize, 212);
PLACE(struct event_v3, groupAttributes, 216);
PLACE(struct event_v3, groupSize, 220);
PLACE(struct event_v3, groupIndex, 221);

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
PLACE(struct cc_state, ccFeature, 4);
PLACE(struct cc_state, devToolsMode, 8);

struct cc_settings {
    unsigned int version;
    unsigned int environment;
    unsigned int ccFeature;
    unsigned int devToolsMode;
    unsigned int multiGpuMode;
};
LAYOUT(struct cc_settings, 20);
PLACE(struct cc_settings, environment, 4);
PLACE(struct cc_settings, ccFeature, 8);
PLACE(struct cc_settings, devToolsMode, 12);
PLACE(struct cc_settings, multiGpuMode, 16);

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
PLACE(struct metric_names, longName, 8);
PLACE(struct metric_names, unit, 16);

struct gpm_metric {
    unsigned int metricId;
    unsigned int nvmlReturn;
    double value;
    struct metric_names metricInfo;
};
LAYOUT(struct gpm_metric, 40);
PLACE(struct gpm_metric, nvmlReturn, 4);
PLACE(struct gpm_metric, value, 8);
PLACE(struct gpm_metric, metricInfo, 16);

struct gpm_metrics_get {
    unsigned int version;
    unsigned int numMetrics;
    void *sample1;
    void *sample2;
    struct gpm_metric metrics[477];
};
LAYOUT(struct gpm_metrics_get, 19104);
PLACE(struct gpm_metrics_get, numMetrics, 4);
PLACE(struct gpm_metrics_get, sample1, 8);
PLACE(struct gpm_metrics_get, sample2, 16);
PLACE(struct gpm_metrics_get, metrics, 24);

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
PLACE(struct fabric_info_v1, status, 16);
PLACE(struct fabric_info_v1, cliqueId, 20);
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
PLACE(struct fabric_info_v2, clusterUuid, 4);
PLACE(struct fabric_info_v2, status, 20);
PLACE(struct fabric_info_v2, cliqueId, 24);
PLACE(struct fabric_info_v2, state, 28);
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
PLACE(struct fabric_info_v3, clusterUuid, 4);
PLACE(struct fabric_info_v3, status, 20);
PLACE(struct fabric_info_v3, cliqueId, 24);
PLACE(struct fabric_info_v3, state, 28);
PLACE(struct fabric_info_v3, healthMask, 32);
PLACE(struct fabric_info_v3, healthSummary, 36);

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
PLACE(struct platform_info, ibGuid, 4);
PLACE(struct platform_info, chassisSerialNumber, 20);
PLACE(struct platform_info, slotNumber, 36);
PLACE(struct platform_info, trayIndex, 37);
PLACE(struct platform_info, hostId, 38);
PLACE(struct platform_info, peerType, 39);
PLACE(struct platform_info, moduleId, 40);

struct driver_branch {
    unsigned int version;
    char branch[80];
};
LAYOUT(struct driver_branch, 84);
PLACE(struct driver_branch, branch, 4);

struct addressing_mode {
    unsigned int version;
    unsigned int value;
};
LAYOUT(struct addressing_mode, 8);
PLACE(struct addressing_mode, value, 4);

struct pstates_utilization {
    unsigned int bIsPresent;
    unsigned int percentage;
    unsigned int incThreshold;
    unsigned int decThreshold;
};
LAYOUT(struct pstates_utilization, 16);
PLACE(struct pstates_utilization, percentage, 4);
PLACE(struct pstates_utilization, incThreshold, 8);
PLACE(struct pstates_utilization, decThreshold, 12);

struct pstates_info {
    unsigned int flags;
    struct pstates_utilization utilization[8];
};
LAYOUT(struct pstates_info, 132);
PLACE(struct pstates_info, utilization, 4);

struct unrepairable_memory {
    unsigned int version;
    unsigned int unrepairableMemory;
};
LAYOUT(struct unrepairable_memory, 8);
PLACE(struct unrepairable_memory, unrepairableMemory, 4);

#endif
