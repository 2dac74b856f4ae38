/* GPM: two samples, and metrics between them.
 *
 * Metrics that are not set with `gpm.<id>` follow from the utilisation and the rates; those
 * of an instance are given with its slot. A sample remembers only what it was taken of.
 */
#include <stdlib.h>

#include "standin.h"

struct gpm_sample {
    int slot; /* -1: not taken yet */
    int mig;
    long long at_ns;
};

EXPORT result nvmlGpmQueryDeviceSupport(device handle, struct gpm_support *support) {
    struct call call;
    result code = call_enter(&call, S_nvmlGpmQueryDeviceSupport, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (support == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (support->version != 1) return call_leave(&call, VERSION_MISMATCH);
    support->isSupportedDevice = (unsigned int)number_or(call.gpu, N_GPM_SUPPORTED, 0);
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlGpmSampleAlloc(struct gpm_sample **sample) {
    struct call call;
    result code = call_enter(&call, S_nvmlGpmSampleAlloc, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (sample == NULL) return call_leave(&call, INVALID_ARGUMENT);
    *sample = malloc(sizeof **sample);
    if (*sample != NULL) **sample = (struct gpm_sample){-1, -1, 0};
    return call_leave(&call, *sample != NULL ? SUCCESS : MEMORY);
}

EXPORT result nvmlGpmSampleFree(struct gpm_sample *sample) {
    struct call call;
    result code = call_enter(&call, S_nvmlGpmSampleFree, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    free(sample);
    return call_leave(&call, SUCCESS);
}

static result take(int symbol, device handle, unsigned int gi, struct gpm_sample *sample) {
    struct call call;
    result code = call_enter(&call, symbol, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (sample == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (number_or(call.gpu, N_GPM_SUPPORTED, 0) == 0) return call_leave(&call, NOT_SUPPORTED);
    int mig = -1;
    for (int i = 0; gi != NOTHING_U32 && i < MIG_MAX; i++)
        if (number_or(call.gpu, N_MIG_GI + i, -1) == gi) mig = i;
    if (gi != NOTHING_U32 && mig < 0) return call_leave(&call, INVALID_ARGUMENT);
    *sample = (struct gpm_sample){call.slot, mig, now_ns()};
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlGpmSampleGet(device handle, struct gpm_sample *sample) {
    return take(S_nvmlGpmSampleGet, handle, NOTHING_U32, sample);
}

EXPORT result nvmlGpmMigSampleGet(device handle, unsigned int gi, struct gpm_sample *sample) {
    return take(S_nvmlGpmMigSampleGet, handle, gi, sample);
}

/* What a metric follows from where it is not set: the GPU's keys, and those of an instance. */
static const struct {
    unsigned int id;
    int key, mig_key;
    double scale;
} FOLLOWS[] = {
    {1, N_UTIL_GPU, N_MIG_GRAPHICS_UTIL, 1},   {2, N_UTIL_GPU, N_MIG_SM_UTIL, 1},
    {5, NUMBER_COUNT, N_MIG_TENSOR_UTIL, 1},   {10, N_UTIL_MEMORY, N_MIG_DRAM_UTIL, 1},
    {20, N_PCIE_TX, NUMBER_COUNT, 1.0 / 1024}, {21, N_PCIE_RX, NUMBER_COUNT, 1.0 / 1024},
    {30, N_UTIL_DECODER, NUMBER_COUNT, 1},
};

static result metric(const struct gpm_sample *sample, unsigned int id, double *value) {
    struct gpu *gpu = machine.gpus[sample->slot];
    if (id == 0 || id >= GPM_MAX) return INVALID_ARGUMENT;
    if (sample->mig < 0 && gpu->numbers[N_GPM_VALUE + (int)id].code != NOT_SUPPORTED)
        return real_get(gpu, N_GPM_VALUE + (int)id, value);
    for (size_t i = 0; i < sizeof FOLLOWS / sizeof FOLLOWS[0]; i++) {
        if (FOLLOWS[i].id != id) continue;
        int key = FOLLOWS[i].key;
        if (sample->mig >= 0)
            key = FOLLOWS[i].mig_key + (FOLLOWS[i].mig_key == NUMBER_COUNT ? 0 : sample->mig);
        if (key == NUMBER_COUNT) return NOT_SUPPORTED;
        result code = real_get(gpu, key, value);
        *value *= FOLLOWS[i].scale;
        return code;
    }
    return NOT_SUPPORTED;
}

EXPORT result nvmlGpmMetricsGet(struct gpm_metrics_get *asked) {
    struct call call;
    result code = call_enter(&call, S_nvmlGpmMetricsGet, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (asked == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (asked->version != 1) return call_leave(&call, VERSION_MISMATCH);
    const struct gpm_sample *first = (const void *)asked->sample1;
    const struct gpm_sample *second = (const void *)asked->sample2;
    if (first == NULL || second == NULL || first->slot < 0 || first->slot != second->slot ||
        first->mig != second->mig || second->at_ns <= first->at_ns ||
        first->slot >= machine.gpu_count)
        return call_leave(&call, INVALID_ARGUMENT);
    call.gpu = machine.gpus[first->slot];
    code = call_faults(&call);
    for (unsigned int i = 0; code == SUCCESS && i < asked->numMetrics; i++) {
        struct gpm_metric *one = &asked->metrics[i];
        double value = 0;
        one->nvmlReturn = (unsigned int)metric(second, one->metricId, &value);
        one->value = value;
    }
    return call_leave(&call, code);
}

EXPORT result nvmlGpmQueryIfStreamingEnabled(device handle, unsigned int *state) {
    return read_u32(S_nvmlGpmQueryIfStreamingEnabled, handle, PHYSICAL, N_GPM_SUPPORTED, state);
}
