/* Instances of a GPU that is cut up: by slot, with holes, each with a handle of its own. */
#include <string.h>

#include "standin.h"

EXPORT result nvmlDeviceGetMaxMigDeviceCount(device handle, unsigned int *count) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetMaxMigDeviceCount, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (count == NULL) return call_leave(&call, INVALID_ARGUMENT);
    bool is_cut = number_or(call.gpu, N_MIG_CURRENT, 0) != 0;
    *count = is_cut ? (unsigned int)number_or(call.gpu, N_MIG_DEVICES, 7) : 0;
    call_out(&call, count, sizeof *count);
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlDeviceGetMigDeviceHandleByIndex(device handle, unsigned int index, device *mig) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetMigDeviceHandleByIndex, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (number_or(call.gpu, N_MIG_CURRENT, 0) == 0)
        code = NOT_SUPPORTED;
    else if (mig == NULL || index >= (unsigned int)number_or(call.gpu, N_MIG_DEVICES, 7))
        code = INVALID_ARGUMENT;
    else if (index >= MIG_MAX || call.gpu->numbers[N_MIG_GI + (int)index].code != SUCCESS)
        code = NOT_FOUND;
    else
        *mig = mig_handle(call.slot, (int)index);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceIsMigDeviceHandle(device handle, unsigned int *is_mig) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceIsMigDeviceHandle, handle, EITHER);
    if (code != SUCCESS) return code;
    if (is_mig == NULL) return call_leave(&call, INVALID_ARGUMENT);
    *is_mig = call.mig >= 0;
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device handle, device *parent) {
    struct call call;
    result code =
        call_enter(&call, S_nvmlDeviceGetDeviceHandleFromMigDeviceHandle, handle, INSTANCE);
    if (code != SUCCESS) return code;
    if (parent == NULL) return call_leave(&call, INVALID_ARGUMENT);
    *parent = gpu_handle(call.slot);
    return call_leave(&call, SUCCESS);
}

static result instance_number(int symbol, device handle, int first, unsigned int *value) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, symbol, handle, INSTANCE);
    if (code != SUCCESS) return code;
    if (value == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, first + call.mig, &found);
    if (code == SUCCESS) *value = (unsigned int)found;
    call_out(&call, value, sizeof *value);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetGpuInstanceId(device handle, unsigned int *id) {
    return instance_number(S_nvmlDeviceGetGpuInstanceId, handle, N_MIG_GI, id);
}

EXPORT result nvmlDeviceGetComputeInstanceId(device handle, unsigned int *id) {
    return instance_number(S_nvmlDeviceGetComputeInstanceId, handle, N_MIG_CI, id);
}

EXPORT result nvmlDeviceGetAttributes_v2(device handle, struct device_attributes *attributes) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetAttributes_v2, handle, INSTANCE);
    if (code != SUCCESS) return code;
    if (attributes == NULL) return call_leave(&call, INVALID_ARGUMENT);
    struct gpu *gpu = call.gpu;
    int mig = call.mig;
    attributes->multiprocessorCount = (unsigned int)number_or(gpu, N_MIG_SM + mig, 0);
    attributes->sharedCopyEngineCount = (unsigned int)number_or(gpu, N_MIG_COPY + mig, 0);
    attributes->sharedDecoderCount = (unsigned int)number_or(gpu, N_MIG_DECODERS + mig, 0);
    attributes->sharedEncoderCount = (unsigned int)number_or(gpu, N_MIG_ENCODERS + mig, 0);
    attributes->sharedJpegCount = (unsigned int)number_or(gpu, N_MIG_JPEG + mig, 0);
    attributes->sharedOfaCount = (unsigned int)number_or(gpu, N_MIG_OFA + mig, 0);
    attributes->gpuInstanceSliceCount = (unsigned int)number_or(gpu, N_MIG_GPU_SLICES + mig, 0);
    attributes->computeInstanceSliceCount =
        (unsigned int)number_or(gpu, N_MIG_COMPUTE_SLICES + mig, 0);
    attributes->memorySizeMB = (unsigned long long)number_or(gpu, N_MIG_TOTAL + mig, 0) >> 20;
    call_out(&call, attributes, sizeof *attributes);
    return call_leave(&call, SUCCESS);
}
