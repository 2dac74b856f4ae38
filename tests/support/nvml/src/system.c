/* The calls about the system: versions, process names, confidential computing. */
#include <stdlib.h>
#include <string.h>

#include "standin.h"

EXPORT result nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    struct call call;
    result code = call_enter(&call, S_nvmlSystemGetDriverVersion, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    return call_leave(&call, text_out(&call, machine.driver, version, length));
}

/* The library knows its own version without the driver. */
EXPORT result nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
    struct call call;
    char text[100];
    result code = call_enter(&call, S_nvmlSystemGetNVMLVersion, NULL, BEFORE_INIT);
    if (code != SUCCESS) return code;
    snprintf(text, sizeof text, "%d.%s", atoi(machine.cuda), machine.library);
    return call_leave(&call, text_out(&call, text, version, length));
}

static result cuda_version(int symbol, int *version) {
    struct call call;
    result code = call_enter(&call, symbol, NULL, BEFORE_INIT);
    if (code != SUCCESS) return code;
    if (version == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (machine.cuda[0] == '\0') return call_leave(&call, LIBRARY_NOT_FOUND);
    const char *dot = strchr(machine.cuda, '.');
    *version = atoi(machine.cuda) * 1000 + (dot != NULL ? atoi(dot + 1) * 10 : 0);
    call_out(&call, version, sizeof *version);
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlSystemGetCudaDriverVersion(int *version) {
    return cuda_version(S_nvmlSystemGetCudaDriverVersion, version);
}

EXPORT result nvmlSystemGetCudaDriverVersion_v2(int *version) {
    return cuda_version(S_nvmlSystemGetCudaDriverVersion_v2, version);
}

EXPORT result nvmlSystemGetDriverBranch(struct driver_branch *info, unsigned int length) {
    struct call call;
    result code = call_enter(&call, S_nvmlSystemGetDriverBranch, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, info->version, 1, sizeof *info))
        return call_leave(&call, VERSION_MISMATCH);
    char text[24];
    snprintf(text, sizeof text, "r%d_00", atoi(machine.driver));
    return call_leave(&call, text_out(&call, text, info->branch, length));
}

EXPORT result nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length) {
    struct call call;
    result code = call_enter(&call, S_nvmlSystemGetProcessName, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    code = NOT_FOUND;
    for (int i = 0; code == NOT_FOUND && i < machine.gpu_count; i++) {
        const struct gpu *gpu = machine.gpus[i];
        for (int j = 0; code == NOT_FOUND && j < gpu->process_count; j++)
            if (gpu->processes[j].pid == pid && gpu->processes[j].name[0] != '\0')
                code = text_out(&call, gpu->processes[j].name, name, length);
    }
    return call_leave(&call, code);
}

static result cc_enter(struct call *call, int symbol, const void *out) {
    result code = call_enter(call, symbol, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (out == NULL) return call_leave(call, INVALID_ARGUMENT);
    return machine.cc[0] < 0 ? call_leave(call, NOT_SUPPORTED) : SUCCESS;
}

EXPORT result nvmlSystemGetConfComputeState(struct cc_state *state) {
    struct call call;
    result code = cc_enter(&call, S_nvmlSystemGetConfComputeState, state);
    if (code != SUCCESS) return code;
    state->environment = (unsigned int)machine.cc[0];
    state->ccFeature = (unsigned int)machine.cc[1];
    state->devToolsMode = (unsigned int)machine.cc[2];
    call_out(&call, state, sizeof *state);
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlSystemGetConfComputeSettings(struct cc_settings *settings) {
    struct call call;
    result code = cc_enter(&call, S_nvmlSystemGetConfComputeSettings, settings);
    if (code != SUCCESS) return code;
    if (!version_fits(call.symbol, settings->version, 1, sizeof *settings))
        return call_leave(&call, VERSION_MISMATCH);
    settings->environment = (unsigned int)machine.cc[0];
    settings->ccFeature = (unsigned int)machine.cc[1];
    settings->devToolsMode = (unsigned int)machine.cc[2];
    settings->multiGpuMode = (unsigned int)machine.cc[3];
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlSystemGetConfComputeGpusReadyState(unsigned int *ready) {
    struct call call;
    result code = cc_enter(&call, S_nvmlSystemGetConfComputeGpusReadyState, ready);
    if (code != SUCCESS) return code;
    *ready = (unsigned int)machine.cc[4];
    call_out(&call, ready, sizeof *ready);
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlSystemGetConfComputeCapabilities(struct cc_caps *caps) {
    struct call call;
    result code = cc_enter(&call, S_nvmlSystemGetConfComputeCapabilities, caps);
    if (code != SUCCESS) return code;
    caps->cpuCaps = machine.cc[1] != 0 ? 1 : 0;
    caps->gpusCaps = machine.cc[1] != 0 ? 1 : 0;
    call_out(&call, caps, sizeof *caps);
    return call_leave(&call, SUCCESS);
}
