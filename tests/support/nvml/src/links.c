/* PCIe, NVLink, C2C and the fabric; confidential memory of one GPU. */
#include <stdlib.h>
#include <string.h>

#include "standin.h"

#define NUMBER_CALL(NAME, KEY)                                                        \
    EXPORT result NAME(device handle, unsigned int *value) {                          \
        return read_u32(S_##NAME, handle, PHYSICAL, KEY, value);                      \
    }
NUMBER_CALL(nvmlDeviceGetPcieReplayCounter, N_PCIE_REPLAY)
NUMBER_CALL(nvmlDeviceGetCurrPcieLinkGeneration, N_PCIE_GEN)
NUMBER_CALL(nvmlDeviceGetCurrPcieLinkWidth, N_PCIE_WIDTH)
NUMBER_CALL(nvmlDeviceGetMaxPcieLinkGeneration, N_PCIE_MAX_GEN)
NUMBER_CALL(nvmlDeviceGetMaxPcieLinkWidth, N_PCIE_MAX_WIDTH)
NUMBER_CALL(nvmlDeviceGetGpuMaxPcieLinkGeneration, N_PCIE_DEVICE_GEN)
NUMBER_CALL(nvmlDeviceGetPcieLinkMaxSpeed, N_PCIE_MAX_GEN) /* the enum counts generations */

EXPORT result nvmlDeviceGetPcieSpeed(device handle, unsigned int *mbps) {
    static const unsigned int MBPS[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    unsigned int generation = 0;
    result code = read_u32(S_nvmlDeviceGetPcieSpeed, handle, PHYSICAL, N_PCIE_GEN, &generation);
    if (code == SUCCESS) *mbps = generation < 7 ? MBPS[generation] : 0;
    return code;
}

/* No link at all is "not supported"; beyond the last link the argument is wrong. */
static result link_enter(struct call *call, int symbol, device handle, unsigned int link) {
    long long links = 0;
    result code = call_enter(call, symbol, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    code = number_get(call->gpu, N_LINKS, &links);
    if (code == SUCCESS && links == 0) code = NOT_SUPPORTED;
    if (code == SUCCESS && (link >= (unsigned long long)links || link >= LINK_MAX))
        code = INVALID_ARGUMENT;
    return code != SUCCESS ? call_leave(call, code) : SUCCESS;
}

static result link_number(int symbol, device handle, unsigned int link, int key,
                          unsigned int *value) {
    struct call call;
    result code = link_enter(&call, symbol, handle, link);
    return code == SUCCESS ? answer_u32(&call, key, value) : code;
}

#define LINK_CALL(NAME, KEY)                                                          \
    EXPORT result NAME(device handle, unsigned int link, unsigned int *value) {       \
        return link_number(S_##NAME, handle, link, KEY, value);                       \
    }
LINK_CALL(nvmlDeviceGetNvLinkState, N_LINK_ACTIVE + (int)(link % LINK_MAX))
LINK_CALL(nvmlDeviceGetNvLinkVersion, N_LINK_VERSION)
LINK_CALL(nvmlDeviceGetNvLinkRemoteDeviceType, N_LINK_REMOTE_TYPE + (int)(link % LINK_MAX))

EXPORT result nvmlDeviceGetNvLinkCapability(device handle, unsigned int link,
                                            unsigned int capability, unsigned int *value) {
    struct call call;
    result code = link_enter(&call, S_nvmlDeviceGetNvLinkCapability, handle, link);
    if (code != SUCCESS) return code;
    if (value == NULL || capability > 5) return call_leave(&call, INVALID_ARGUMENT);
    *value = 1;
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlDeviceGetNvLinkErrorCounter(device handle, unsigned int link,
                                              unsigned int counter, unsigned long long *value) {
    static const int KEYS[] = {N_LINK_REPLAY, N_LINK_RECOVERY, N_LINK_FLIT, N_LINK_DATA,
                               N_LINK_ECC};
    struct call call;
    long long found = 0;
    result code = link_enter(&call, S_nvmlDeviceGetNvLinkErrorCounter, handle, link);
    if (code != SUCCESS) return code;
    if (value == NULL || counter > 4) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, KEYS[counter] + (int)link, &found);
    if (code == SUCCESS) *value = (unsigned long long)found;
    call_out(&call, value, sizeof *value);
    return call_leave(&call, code);
}

static result remote(int symbol, device handle, unsigned int link, struct pci_info *info,
                     size_t bytes) {
    struct call call;
    struct pci_info whole;
    result code = link_enter(&call, symbol, handle, link);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    const struct text_value *text = &call.gpu->texts[T_NVLINK_REMOTE];
    if (text->code != SUCCESS) return call_leave(&call, text->code);
    memset(&whole, 0, sizeof whole);
    snprintf(whole.busId, sizeof whole.busId, "%.31s", text->text);
    snprintf(whole.busIdLegacy, sizeof whole.busIdLegacy, "%.15s",
             strlen(text->text) > 12 ? text->text + 4 : text->text);
    sscanf(text->text, "%x:%x:%x", &whole.domain, &whole.bus, &whole.device);
    memcpy(info, &whole, bytes);
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlDeviceGetNvLinkRemotePciInfo_v2(device handle, unsigned int link,
                                                  struct pci_info *info) {
    return remote(S_nvmlDeviceGetNvLinkRemotePciInfo_v2, handle, link, info, sizeof *info);
}

EXPORT result nvmlDeviceGetC2cModeInfoV(device handle, struct c2c_mode *info) {
    return read_u32(S_nvmlDeviceGetC2cModeInfoV, handle, PHYSICAL, N_C2C_MODE,
                    info == NULL ? NULL : &info->isC2cEnabled);
}

static void cluster(const char *text, unsigned char *bytes) {
    int used = 0;
    for (const char *at = text; *at != '\0' && at[1] != '\0' && used < 16;) {
        if (*at == '-') {
            at++;
            continue;
        }
        char digits[3] = {at[0], at[1], '\0'};
        bytes[used++] = (unsigned char)strtoul(digits, NULL, 16);
        at += 2;
    }
}

static result fabric(struct call *call, struct fabric_info_v3 *info) {
    long long state = 0;
    result code = number_get(call->gpu, N_FABRIC_STATE, &state);
    memset(info, 0, sizeof *info);
    if (code != SUCCESS) return code;
    if (call->gpu->texts[T_FABRIC_CLUSTER].code == SUCCESS)
        cluster(call->gpu->texts[T_FABRIC_CLUSTER].text, info->clusterUuid);
    info->status = (unsigned int)number_or(call->gpu, N_FABRIC_STATUS, 0);
    info->cliqueId = (unsigned int)number_or(call->gpu, N_FABRIC_CLIQUE, 0);
    info->state = (unsigned int)state;
    info->healthMask = (unsigned int)number_or(call->gpu, N_FABRIC_HEALTH_MASK, 0);
    info->healthSummary = (unsigned char)number_or(call->gpu, N_FABRIC_SUMMARY, 0);
    return SUCCESS;
}

/* As much is written as the version word has room for. */
EXPORT result nvmlDeviceGetGpuFabricInfoV(device handle, void *info) {
    struct call call;
    struct fabric_info_v3 whole;
    result code = call_enter(&call, S_nvmlDeviceGetGpuFabricInfoV, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    unsigned int version = *(unsigned int *)info;
    size_t bytes = 0;
    if (version_fits(call.symbol, version, 2, sizeof(struct fabric_info_v2)))
        bytes = sizeof(struct fabric_info_v2);
    if (version_fits(call.symbol, version, 3, sizeof whole)) bytes = sizeof whole;
    if (bytes == 0) return call_leave(&call, VERSION_MISMATCH);
    code = fabric(&call, &whole);
    whole.version = version;
    if (code == SUCCESS) memcpy(info, &whole, bytes);
    call_out(&call, (char *)info + sizeof version, bytes - sizeof version);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetGpuFabricInfo(device handle, struct fabric_info_v1 *info) {
    struct call call;
    struct fabric_info_v3 whole;
    result code = call_enter(&call, S_nvmlDeviceGetGpuFabricInfo, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = fabric(&call, &whole);
    if (code == SUCCESS) {
        memcpy(info->clusterUuid, whole.clusterUuid, sizeof info->clusterUuid);
        info->status = whole.status;
        info->cliqueId = whole.cliqueId;
        info->state = whole.state;
    }
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetConfComputeMemSizeInfo(device handle, struct cc_memory *info) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetConfComputeMemSizeInfo, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, N_CC_TOTAL, &found);
    if (code == SUCCESS) {
        long long total = number_or(call.gpu, N_MEMORY_TOTAL, 0);
        info->protectedMemSizeKib = (unsigned long long)found / 1024;
        info->unprotectedMemSizeKib = (unsigned long long)(total - found) / 1024;
    }
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetConfComputeProtectedMemoryUsage(device handle, struct memory_v1 *info) {
    struct call call;
    long long total = 0, used = 0;
    result code =
        call_enter(&call, S_nvmlDeviceGetConfComputeProtectedMemoryUsage, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, N_CC_TOTAL, &total);
    if (code == SUCCESS) code = number_get(call.gpu, N_CC_USED, &used);
    if (code == SUCCESS) {
        info->total = (unsigned long long)total;
        info->used = (unsigned long long)used;
        info->free = (unsigned long long)(total - used);
    }
    return call_leave(&call, code);
}
