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
PLACE(struct pci_info, domain, 16); PLACE(struct pci_info, bus, 20);
PLACE(struct pci_info, device, 24); PLACE(struct pci_info, pciDeviceId, 28);
PLACE(struct pci_info, pciSubSystemId, 32); PLACE(struct pci_info, busId, 36);

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
PLACE(struct pci_info_ext, domain, 4); PLACE(struct pci_info_ext, bus, 8);
PLACE(struct pci_info_ext, device, 12); PLACE(struct pci_info_ext, pciDeviceId, 16);
PLACE(struct pci_info_ext, pciSubSystemId, 20); PLACE(struct pci_info_ext, baseClass, 24);
PLACE(struct pci_info_ext, subClass, 28); PLACE(struct pci_info_ext, busId, 32);

struct memory_v1 {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};
LAYOUT(struct memory_v1, 24);
PLACE(struct memory_v1, free, 8); PLACE(struct memory_v1, used, 16);

struct memory_v2 {
    unsigned int version;
    unsigned long long total;
    unsigned long long reserved;
    unsigned long long free;
    unsigned long long used;
};
LAYOUT(struct memory_v2, 40);
PLACE(struct memory_v2, total, 8); PLACE(struct memory_v2, reserved, 16);
PLACE(struct memory_v2, free, 24); PLACE(struct memory_v2, used, 32);

struct bar1_memory {
    unsigned long long bar1Total;
    unsigned long long bar1Free;
    unsigned long long bar1Used;
};
LAYOUT(struct bar1_memory, 24);
PLACE(struct bar1_memory, bar1Free, 8); PLACE(struct bar1_memory, bar1Used, 16);

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
PLACE(struct temperature, sensorType, 4); PLACE(struct temperature, temperature, 8);

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
PLACE(struct thermal_sensor, defaultMinTemp, 4); PLACE(struct thermal_sensor, defaultMaxTemp, 8);
PLACE(struct thermal_sensor, currentTemp, 12); PLACE(struct thermal_sensor, target, 16);

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
PLACE(struct fan_speed_info, fan, 4); PLACE(struct fan_speed_info, speed, 8);

struct ecc_counts {
    unsigned long long l1Cache;
    unsigned long long l2Cache;
    unsigned long long deviceMemory;
    unsigned long long registerFile;
};
LAYOUT(struct ecc_counts, 32);
PLACE(struct ecc_counts, l2Cache, 8); PLACE(struct ecc_counts, deviceMemory, 16);
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
PLACE(struct sram_status, aggregateUncParity, 8); PLACE(struct sram_status, aggregateUncSecDed, 16);
PLACE(struct sram_status, aggregateCor, 24); PLACE(struct sram_status, volatileUncParity, 32);
PLACE(struct sram_status, volatileUncSecDed, 40); PLACE(struct sram_status, volatileCor, 48);
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
PLACE(struct row_histogram, high, 4); PLACE(struct row_histogram, partial, 8);
PLACE(struct row_histogram, low, 12); PLACE(struct row_histogram, none, 16);

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
PLACE(struct remapped_rows_v2, uncInactiveRemaps, 12); PLACE(struct remapped_rows_v2, bPending, 16);
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
PLACE(struct field_value, scopeId, 4); PLACE(struct field_value, timestamp, 8);
PLACE(struct field_value, latencyUsec, 16); PLACE(struct field_value, valueType, 24);
PLACE(struct field_value, nvmlReturn, 28); PLACE(struct field_value, value, 32);

struct violation_time {
    unsigned long long referenceTime;
    unsigned long long violationTime;
};
LAYOUT(struct violation_time, 16);
PLACE(struct violation_time, violationTime, 8);

struct addressing_mode {
    unsigned int version;
    unsigned int value;
};
LAYOUT(struct addressing_mode, 8);
PLACE(struct addressing_mode, value, 4);

#endif
