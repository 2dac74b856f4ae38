/* Readings that change: memory, utilisation, power, temperature, clocks, fans. */
#include <string.h>

#include "standin.h"

#define NUMBER_CALL(NAME, ABOUT, KEY)                                         \
    EXPORT result NAME(device handle, unsigned int *value) {                  \
        return read_u32(S_##NAME, handle, ABOUT, KEY, value);                 \
    }

static result three(struct call *call, int total, int free_, int used, unsigned long long *values) {
    const int keys[3] = {total, free_, used};
    long long found = 0;
    for (int i = 0; i < 3; i++) {
        result code = number_get(call->gpu, keys[i], &found);
        if (code != SUCCESS) return code;
        values[i] = (unsigned long long)found;
    }
    return SUCCESS;
}

static result memory(struct call *call, unsigned long long *values, unsigned long long *reserved) {
    int mig = call->mig;
    int key = mig < 0 ? N_MEMORY_RESERVED : N_MIG_RESERVED + mig;
    *reserved = (unsigned long long)number_or(call->gpu, key, 0);
    if (mig < 0) return three(call, N_MEMORY_TOTAL, N_MEMORY_FREE, N_MEMORY_USED, values);
    return three(call, N_MIG_TOTAL + mig, N_MIG_FREE + mig, N_MIG_USED + mig, values);
}

/* Version 1 counts the reserved memory as used. */
EXPORT result nvmlDeviceGetMemoryInfo(device handle, struct memory_v1 *info) {
    struct call call;
    unsigned long long values[3], reserved;
    result code = call_enter(&call, S_nvmlDeviceGetMemoryInfo, handle, EITHER);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = memory(&call, values, &reserved);
    if (code == SUCCESS) {
        info->total = values[0];
        info->free = values[1];
        info->used = values[2] + reserved;
    }
    call_out(&call, info, sizeof *info);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetMemoryInfo_v2(device handle, struct memory_v2 *info) {
    struct call call;
    unsigned long long values[3], reserved;
    result code = call_enter(&call, S_nvmlDeviceGetMemoryInfo_v2, handle, EITHER);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, info->version, 2, sizeof *info))
        return call_leave(&call, VERSION_MISMATCH);
    code = memory(&call, values, &reserved);
    if (code == SUCCESS) {
        info->total = values[0];
        info->reserved = reserved;
        info->free = values[1];
        info->used = values[2];
        if (number_or(call.gpu, N_MEMORY_V2_WITH_RESERVED, 0) != 0) info->used += reserved;
    }
    call_out(&call, &info->total, sizeof *info - offsetof(struct memory_v2, total));
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetBAR1MemoryInfo(device handle, struct bar1_memory *info) {
    struct call call;
    unsigned long long values[3];
    result code = call_enter(&call, S_nvmlDeviceGetBAR1MemoryInfo, handle, EITHER);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (call.mig < 0) {
        code = three(&call, N_BAR1_TOTAL, N_BAR1_FREE, N_BAR1_USED, values);
    } else {
        int total = N_MIG_BAR1_TOTAL + call.mig, used = N_MIG_BAR1_USED + call.mig;
        code = three(&call, total, used, used, values);
        values[1] = values[0] - values[2];
    }
    if (code == SUCCESS) {
        info->bar1Total = values[0];
        info->bar1Free = values[1];
        info->bar1Used = values[2];
    }
    call_out(&call, info, sizeof *info);
    return call_leave(&call, code);
}

/* A GPU that is cut into instances tells no utilisation. */
static result utilization(struct call *call, int key, unsigned int *value) {
    long long found = 0;
    if (number_or(call->gpu, N_MIG_CURRENT, 0) != 0) return NOT_SUPPORTED;
    result code = number_get(call->gpu, key, &found);
    if (code == SUCCESS) *value = (unsigned int)found;
    return code;
}

EXPORT result nvmlDeviceGetUtilizationRates(device handle, struct utilization *rates) {
    struct call call;
    unsigned int gpu = 0, memory_pct = 0;
    result code = call_enter(&call, S_nvmlDeviceGetUtilizationRates, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (rates == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = utilization(&call, N_UTIL_GPU, &gpu);
    if (code == SUCCESS) {
        (void)utilization(&call, N_UTIL_MEMORY, &memory_pct);
        rates->gpu = gpu;
        rates->memory = memory_pct;
    }
    call_out(&call, rates, sizeof *rates);
    return call_leave(&call, code);
}

static result engine(int symbol, device handle, int key, unsigned int *percent, unsigned int *us) {
    struct call call;
    result code = call_enter(&call, symbol, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (percent == NULL || us == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = utilization(&call, key, percent);
    if (code == SUCCESS) *us = (unsigned int)number_or(call.gpu, N_UTIL_PERIOD, 166667);
    call_out(&call, percent, sizeof *percent);
    return call_leave(&call, code);
}

#define ENGINE_CALL(NAME, KEY)                                                        \
    EXPORT result NAME(device handle, unsigned int *percent, unsigned int *us) {      \
        return engine(S_##NAME, handle, KEY, percent, us);                            \
    }
ENGINE_CALL(nvmlDeviceGetEncoderUtilization, N_UTIL_ENCODER)
ENGINE_CALL(nvmlDeviceGetDecoderUtilization, N_UTIL_DECODER)
ENGINE_CALL(nvmlDeviceGetJpgUtilization, N_UTIL_JPEG)
ENGINE_CALL(nvmlDeviceGetOfaUtilization, N_UTIL_OFA)

EXPORT result nvmlDeviceGetEncoderStats(device handle, unsigned int *sessions, unsigned int *fps,
                                        unsigned int *latency_us) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetEncoderStats, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (sessions == NULL || fps == NULL || latency_us == NULL)
        return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, N_ENCODER_SESSIONS, &found);
    if (code == SUCCESS) {
        *sessions = (unsigned int)found;
        *fps = (unsigned int)number_or(call.gpu, N_ENCODER_FPS, 0);
        *latency_us = (unsigned int)number_or(call.gpu, N_ENCODER_LATENCY, 0);
    }
    return call_leave(&call, code);
}

NUMBER_CALL(nvmlDeviceGetPowerUsage, PHYSICAL, N_POWER)
NUMBER_CALL(nvmlDeviceGetEnforcedPowerLimit, PHYSICAL, N_LIMIT_ENFORCED)
NUMBER_CALL(nvmlDeviceGetPowerManagementLimit, PHYSICAL, N_LIMIT_REQUESTED)
NUMBER_CALL(nvmlDeviceGetPowerManagementDefaultLimit, PHYSICAL, N_LIMIT_DEFAULT)
NUMBER_CALL(nvmlDeviceGetPowerSource, PHYSICAL, N_POWER_SOURCE)
NUMBER_CALL(nvmlDeviceGetPowerState, PHYSICAL, N_PERFORMANCE_STATE)
NUMBER_CALL(nvmlDeviceGetPerformanceState, PHYSICAL, N_PERFORMANCE_STATE)

EXPORT result nvmlDeviceGetTotalEnergyConsumption(device handle, unsigned long long *energy) {
    return read_u64(S_nvmlDeviceGetTotalEnergyConsumption, handle, PHYSICAL, N_ENERGY, energy);
}

/* Two numbers of one call: both, or the code of the first. */
static result pair(int symbol, device handle, int first, int second, unsigned int *a,
                   unsigned int *b) {
    struct call call;
    long long found[2] = {0, 0};
    result code = call_enter(&call, symbol, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (a == NULL || b == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, first, &found[0]);
    if (code == SUCCESS) code = number_get(call.gpu, second, &found[1]);
    if (code == SUCCESS) *a = (unsigned int)found[0], *b = (unsigned int)found[1];
    call_out(&call, a, sizeof *a);
    call_out(&call, b, sizeof *b);
    return call_leave(&call, code);
}

#define PAIR_CALL(NAME, FIRST, SECOND)                                                \
    EXPORT result NAME(device handle, unsigned int *a, unsigned int *b) {             \
        return pair(S_##NAME, handle, FIRST, SECOND, a, b);                           \
    }
PAIR_CALL(nvmlDeviceGetPowerManagementLimitConstraints, N_LIMIT_MIN, N_LIMIT_MAX)
PAIR_CALL(nvmlDeviceGetEccMode, N_ECC_CURRENT, N_ECC_PENDING)
PAIR_CALL(nvmlDeviceGetMigMode, N_MIG_CURRENT, N_MIG_PENDING)

enum { NO_KEY = -1 };

/* A key by index from a short list; beyond it the argument is wrong. */
static result listed(int symbol, device handle, const int *keys, int count, unsigned int index,
                     unsigned int *value) {
    if (index < (unsigned int)count && keys[index] >= 0)
        return read_u32(symbol, handle, PHYSICAL, keys[index], value);
    struct call call;
    result code = call_enter(&call, symbol, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    return call_leave(&call, index < (unsigned int)count ? NOT_SUPPORTED : INVALID_ARGUMENT);
}
#define COUNT(KEYS) (int)(sizeof KEYS / sizeof KEYS[0])

static const int SENSORS[] = {N_TEMPERATURE};
static const int THRESHOLDS[] = {N_THRESHOLD_SHUTDOWN, N_THRESHOLD_SLOWDOWN, N_THRESHOLD_MEMORY,
                                 N_THRESHOLD_GPU,      NO_KEY,               N_THRESHOLD_TARGET,
                                 NO_KEY,               NO_KEY};
static const int CLOCKS[] = {N_CLOCK_GRAPHICS, N_CLOCK_SM, N_CLOCK_MEMORY, N_CLOCK_VIDEO};
static const int CLOCK_MAXIMA[] = {N_MAX_GRAPHICS, N_MAX_SM, N_MAX_MEMORY, N_MAX_VIDEO};
static const int APP_CLOCKS[] = {N_APP_GRAPHICS, N_APP_GRAPHICS, N_APP_MEMORY};
static const int DEFAULT_CLOCKS[] = {N_DEFAULT_GRAPHICS, N_DEFAULT_GRAPHICS, N_DEFAULT_MEMORY};
static const int BOOST_CLOCKS[] = {N_BOOST_MAX, N_BOOST_MAX, N_MAX_MEMORY};
static const int PCIE_RATES[] = {N_PCIE_TX, N_PCIE_RX};

#define LISTED_CALL(NAME, KEYS)                                                       \
    EXPORT result NAME(device handle, unsigned int index, unsigned int *value) {      \
        return listed(S_##NAME, handle, KEYS, COUNT(KEYS), index, value);             \
    }
LISTED_CALL(nvmlDeviceGetTemperature, SENSORS)
LISTED_CALL(nvmlDeviceGetTemperatureThreshold, THRESHOLDS)
LISTED_CALL(nvmlDeviceGetClockInfo, CLOCKS)
LISTED_CALL(nvmlDeviceGetMaxClockInfo, CLOCK_MAXIMA)
LISTED_CALL(nvmlDeviceGetApplicationsClock, APP_CLOCKS)
LISTED_CALL(nvmlDeviceGetDefaultApplicationsClock, DEFAULT_CLOCKS)
LISTED_CALL(nvmlDeviceGetMaxCustomerBoostClock, BOOST_CLOCKS)
LISTED_CALL(nvmlDeviceGetPcieThroughput, PCIE_RATES)

EXPORT result nvmlDeviceGetClock(device handle, unsigned int type, unsigned int id,
                                 unsigned int *value) {
    static const struct {
        const int *keys;
        int count;
    } BY_ID[] = {{CLOCKS, 4}, {APP_CLOCKS, 3}, {DEFAULT_CLOCKS, 3}, {BOOST_CLOCKS, 3}};
    unsigned int chosen = id < 4 ? id : 0;
    int count = id < 4 ? BY_ID[chosen].count : 0;
    return listed(S_nvmlDeviceGetClock, handle, BY_ID[chosen].keys, count, type, value);
}

/* The versioned call is signed; the old one hands the same bits out as unsigned. */
EXPORT result nvmlDeviceGetTemperatureV(device handle, struct temperature *info) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetTemperatureV, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, info->version, 1, sizeof *info))
        return call_leave(&call, VERSION_MISMATCH);
    if (info->sensorType != 0) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, N_TEMPERATURE, &found);
    if (code == SUCCESS) info->temperature = (int)found;
    call_out(&call, &info->temperature, sizeof info->temperature);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetMarginTemperature(device handle, struct margin_temperature *info) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetMarginTemperature, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, info->version, 1, sizeof *info))
        return call_leave(&call, VERSION_MISMATCH);
    code = number_get(call.gpu, N_TEMPERATURE_MARGIN, &found);
    if (code == SUCCESS) info->marginTemperature = (int)found;
    call_out(&call, &info->marginTemperature, sizeof info->marginTemperature);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetThermalSettings(device handle, unsigned int index,
                                           struct thermal_settings *settings) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetThermalSettings, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (settings == NULL || (index != 0 && index != 15)) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, N_TEMPERATURE, &found);
    if (code == SUCCESS) {
        memset(settings, 0, sizeof *settings);
        settings->count = 1;
        settings->sensor[0] = (struct thermal_sensor){1, -256, 2047, (int)found, 1};
    }
    return call_leave(&call, code);
}

#define MASK_CALL(NAME, KEY)                                                          \
    EXPORT result NAME(device handle, unsigned long long *mask) {                     \
        return read_u64(S_##NAME, handle, PHYSICAL, KEY, mask);                       \
    }
MASK_CALL(nvmlDeviceGetCurrentClocksEventReasons, N_REASONS)
MASK_CALL(nvmlDeviceGetCurrentClocksThrottleReasons, N_REASONS)
MASK_CALL(nvmlDeviceGetSupportedClocksEventReasons, N_REASONS_SUPPORTED)
MASK_CALL(nvmlDeviceGetSupportedClocksThrottleReasons, N_REASONS_SUPPORTED)
MASK_CALL(nvmlDeviceGetSupportedEventTypes, N_EVENTS)

EXPORT result nvmlDeviceGetViolationStatus(device handle, unsigned int policy,
                                           struct violation_time *time) {
    static const int KEYS[] = {N_HELD_POWER, N_HELD_SW_THERMAL,  N_HELD_SYNC, N_HELD_BOARD,
                               N_HELD_IDLE,  N_HELD_RELIABILITY, -1,          -1,
                               -1,           -1,                 N_HELD_APP,  N_HELD_BASE};
    struct call call;
    long long held_us = 0;
    result code = call_enter(&call, S_nvmlDeviceGetViolationStatus, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (time == NULL || policy >= COUNT(KEYS) || KEYS[policy] < 0)
        return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, KEYS[policy], &held_us);
    if (code == SUCCESS) {
        time->referenceTime = wall_us();
        time->violationTime = (unsigned long long)held_us * 1000;
    }
    call_out(&call, time, sizeof *time);
    return call_leave(&call, code);
}

NUMBER_CALL(nvmlDeviceGetNumFans, PHYSICAL, N_FANS)
NUMBER_CALL(nvmlDeviceGetFanSpeed, PHYSICAL, N_FAN_SPEED)

EXPORT result nvmlDeviceGetFanSpeed_v2(device handle, unsigned int fan, unsigned int *speed) {
    static const int SPEEDS[FAN_MAX] = {N_FAN_SPEED,     N_FAN_SPEED + 1, N_FAN_SPEED + 2,
                                        N_FAN_SPEED + 3, N_FAN_SPEED + 4, N_FAN_SPEED + 5,
                                        N_FAN_SPEED + 6, N_FAN_SPEED + 7};
    return listed(S_nvmlDeviceGetFanSpeed_v2, handle, SPEEDS, FAN_MAX, fan, speed);
}

EXPORT result nvmlDeviceGetFanSpeedRPM(device handle, struct fan_speed_info *info) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetFanSpeedRPM, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (info == NULL || info->fan >= FAN_MAX) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, info->version, 1, sizeof *info))
        return call_leave(&call, VERSION_MISMATCH);
    code = number_get(call.gpu, N_FAN_RPM + (int)info->fan, &found);
    if (code == SUCCESS) info->speed = (unsigned int)found;
    return call_leave(&call, code);
}
