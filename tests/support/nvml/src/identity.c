/* Which GPUs there are, how they are found, and what does not change about them. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "standin.h"

static result count(int symbol, unsigned int *number) {
    struct call call;
    result code = call_enter(&call, symbol, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (number == NULL) return call_leave(&call, INVALID_ARGUMENT);
    *number = (unsigned int)machine.shown.count;
    call_out(&call, number, sizeof *number);
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlDeviceGetCount_v2(unsigned int *n) { return count(S_nvmlDeviceGetCount_v2, n); }
EXPORT result nvmlDeviceGetCount(unsigned int *n) { return count(S_nvmlDeviceGetCount, n); }

/* A lost GPU, and a rule for that GPU, are met here already. */
static result found(struct call *call, int slot, device *handle) {
    call->gpu = machine.gpus[slot];
    result code = call_faults(call);
    if (code == SUCCESS) *handle = gpu_handle(slot);
    return call_leave(call, code);
}

static result by_index(int symbol, unsigned int index, device *handle) {
    struct call call;
    result code = call_enter(&call, symbol, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (handle == NULL || index >= (unsigned int)machine.shown.count)
        return call_leave(&call, INVALID_ARGUMENT);
    return found(&call, machine.shown.slot[index], handle);
}

EXPORT result nvmlDeviceGetHandleByIndex_v2(unsigned int index, device *handle) {
    return by_index(S_nvmlDeviceGetHandleByIndex_v2, index, handle);
}

EXPORT result nvmlDeviceGetHandleByIndex(unsigned int index, device *handle) {
    return by_index(S_nvmlDeviceGetHandleByIndex, index, handle);
}

EXPORT result nvmlDeviceGetHandleByUUID(const char *uuid, device *handle) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetHandleByUUID, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (uuid == NULL || handle == NULL) return call_leave(&call, INVALID_ARGUMENT);
    for (int i = 0; i < machine.shown.count; i++) {
        int slot = machine.shown.slot[i];
        struct gpu *gpu = machine.gpus[slot];
        if (strcmp(gpu->texts[T_UUID].text, uuid) == 0) return found(&call, slot, handle);
        for (int j = 0; j < MIG_MAX; j++) {
            if (strcmp(gpu->texts[T_MIG_UUID + j].text, uuid) != 0) continue;
            if (gpu->numbers[N_MIG_GI + j].code != SUCCESS) continue;
            *handle = mig_handle(slot, j);
            return call_leave(&call, gpu->is_lost ? GPU_IS_LOST : SUCCESS);
        }
    }
    return call_leave(&call, NOT_FOUND);
}

/* Two boards with one serial number cannot be told apart by it. */
EXPORT result nvmlDeviceGetHandleBySerial(const char *serial, device *handle) {
    struct call call;
    int slot = -1, matches = 0;
    result code = call_enter(&call, S_nvmlDeviceGetHandleBySerial, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (serial == NULL || handle == NULL) return call_leave(&call, INVALID_ARGUMENT);
    for (int i = 0; i < machine.shown.count; i++) {
        const struct text_value *own = &machine.gpus[machine.shown.slot[i]]->texts[T_SERIAL];
        if (own->code != SUCCESS || strcmp(own->text, serial) != 0) continue;
        slot = machine.shown.slot[i];
        matches++;
    }
    if (matches == 1) return found(&call, slot, handle);
    return call_leave(&call, matches == 0 ? NOT_FOUND : INVALID_ARGUMENT);
}

struct address {
    unsigned int domain, bus, device, function;
};

static bool address_parse(const char *text, struct address *at) {
    at->function = 0;
    return sscanf(text, "%x:%x:%x.%x", &at->domain, &at->bus, &at->device, &at->function) >= 3;
}

static result by_address(int symbol, const char *bus_id, device *handle) {
    struct call call;
    struct address asked, own;
    result code = call_enter(&call, symbol, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (bus_id == NULL || handle == NULL || !address_parse(bus_id, &asked))
        return call_leave(&call, INVALID_ARGUMENT);
    for (int i = 0; i < machine.shown.count; i++) {
        int slot = machine.shown.slot[i];
        if (address_parse(machine.gpus[slot]->texts[T_BUS_ID].text, &own) &&
            memcmp(&own, &asked, sizeof own) == 0)
            return found(&call, slot, handle);
    }
    return call_leave(&call, NOT_FOUND);
}

EXPORT result nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, device *handle) {
    return by_address(S_nvmlDeviceGetHandleByPciBusId_v2, bus_id, handle);
}

EXPORT result nvmlDeviceGetHandleByPciBusId(const char *bus_id, device *handle) {
    return by_address(S_nvmlDeviceGetHandleByPciBusId, bus_id, handle);
}

EXPORT result nvmlDeviceGetIndex(device handle, unsigned int *index) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetIndex, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (index == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = INVALID_ARGUMENT;
    for (int i = 0; i < machine.shown.count; i++) {
        if (machine.shown.slot[i] != call.slot) continue;
        *index = (unsigned int)i;
        code = SUCCESS;
    }
    call_out(&call, index, sizeof *index);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetUUID(device handle, char *uuid, unsigned int length) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetUUID, handle, EITHER);
    if (code != SUCCESS) return code;
    int key = call.mig < 0 ? T_UUID : T_MIG_UUID + call.mig;
    const struct text_value *value = &call.gpu->texts[key];
    code = value->code != SUCCESS ? value->code : text_out(&call, value->text, uuid, length);
    return call_leave(&call, code);
}

/* An instance is called after its parent, with its slices and memory. */
EXPORT result nvmlDeviceGetName(device handle, char *name, unsigned int length) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetName, handle, EITHER);
    if (code != SUCCESS) return code;
    const struct text_value *value = &call.gpu->texts[T_NAME];
    char text[TEXT_BYTES + 60];
    snprintf(text, sizeof text, "%s", value->text);
    if (call.mig >= 0)
        snprintf(text, sizeof text, "%s MIG %lldg.%lldgb", value->text,
                 number_or(call.gpu, N_MIG_GPU_SLICES + call.mig, 1),
                 (number_or(call.gpu, N_MIG_TOTAL + call.mig, 0) + (1LL << 29)) >> 30);
    code = value->code != SUCCESS ? value->code : text_out(&call, text, name, length);
    return call_leave(&call, code);
}

#define TEXT_CALL(NAME, KEY)                                                  \
    EXPORT result NAME(device handle, char *text, unsigned int length) {      \
        return read_text(S_##NAME, handle, PHYSICAL, KEY, text, length);      \
    }
TEXT_CALL(nvmlDeviceGetSerial, T_SERIAL)
TEXT_CALL(nvmlDeviceGetVbiosVersion, T_VBIOS)
TEXT_CALL(nvmlDeviceGetBoardPartNumber, T_BOARD_PART)
TEXT_CALL(nvmlDeviceGetInforomImageVersion, T_INFOROM_IMAGE)

EXPORT result nvmlDeviceGetInforomVersion(device handle, unsigned int object, char *text,
                                          unsigned int length) {
    static const int KEYS[] = {T_INFOROM_OEM, T_INFOROM_ECC, T_INFOROM_POWER};
    if (object > 2) return NOT_SUPPORTED;
    return read_text(S_nvmlDeviceGetInforomVersion, handle, PHYSICAL, KEYS[object], text, length);
}

EXPORT result nvmlDeviceGetGspFirmwareVersion(device handle, char *version) {
    return read_text(S_nvmlDeviceGetGspFirmwareVersion, handle, PHYSICAL, T_GSP_VERSION, version,
                     64);
}

#define NUMBER_CALL(NAME, ABOUT, KEY)                                         \
    EXPORT result NAME(device handle, unsigned int *value) {                  \
        return read_u32(S_##NAME, handle, ABOUT, KEY, value);                 \
    }
NUMBER_CALL(nvmlDeviceGetBrand, EITHER, N_BRAND)
NUMBER_CALL(nvmlDeviceGetArchitecture, EITHER, N_ARCHITECTURE)
NUMBER_CALL(nvmlDeviceGetMinorNumber, PHYSICAL, N_MINOR)
NUMBER_CALL(nvmlDeviceGetModuleId, PHYSICAL, N_MODULE)
NUMBER_CALL(nvmlDeviceGetNumaNodeId, PHYSICAL, N_NUMA)
NUMBER_CALL(nvmlDeviceGetBoardId, PHYSICAL, N_BOARD)
NUMBER_CALL(nvmlDeviceGetMultiGpuBoard, PHYSICAL, N_MULTI_BOARD)
NUMBER_CALL(nvmlDeviceGetNumGpuCores, EITHER, N_CORES)
NUMBER_CALL(nvmlDeviceGetMemoryBusWidth, PHYSICAL, N_BUS_BITS)
NUMBER_CALL(nvmlDeviceGetPersistenceMode, PHYSICAL, N_PERSISTENCE)
NUMBER_CALL(nvmlDeviceGetComputeMode, EITHER, N_COMPUTE_MODE)
NUMBER_CALL(nvmlDeviceGetDisplayActive, PHYSICAL, N_DISPLAY_ACTIVE)
NUMBER_CALL(nvmlDeviceGetDisplayMode, PHYSICAL, N_DISPLAY_MODE)
NUMBER_CALL(nvmlDeviceGetVirtualizationMode, PHYSICAL, N_VIRTUALIZATION)
NUMBER_CALL(nvmlDeviceGetAccountingMode, PHYSICAL, N_ACCOUNTING)
NUMBER_CALL(nvmlDeviceGetAccountingBufferSize, PHYSICAL, N_ACCOUNTING_BUFFER)

EXPORT result nvmlDeviceGetCudaComputeCapability(device handle, int *major, int *minor) {
    struct call call;
    long long numbers[2] = {0, 0};
    result code = call_enter(&call, S_nvmlDeviceGetCudaComputeCapability, handle, EITHER);
    if (code != SUCCESS) return code;
    if (major == NULL || minor == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, N_COMPUTE_MAJOR, &numbers[0]);
    if (code == SUCCESS) code = number_get(call.gpu, N_COMPUTE_MINOR, &numbers[1]);
    if (code == SUCCESS) *major = (int)numbers[0], *minor = (int)numbers[1];
    return call_leave(&call, code);
}

static void pci_fill(struct gpu *gpu, struct pci_info *pci) {
    struct address at = {0, 0, 0, 0};
    const char *text = gpu->texts[T_BUS_ID].text;
    address_parse(text, &at);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "%.31s", text);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.%X", at.domain & 0xffffU,
             at.bus & 0xffU, at.device & 0xffU, at.function & 0xfU);
    pci->domain = at.domain;
    pci->bus = at.bus;
    pci->device = at.device;
    pci->pciDeviceId = (unsigned int)number_or(gpu, N_PCI_DEVICE, 0);
    pci->pciSubSystemId = (unsigned int)number_or(gpu, N_PCI_SUBSYSTEM, 0);
}

static result pci(int symbol, device handle, struct pci_info *info, size_t bytes) {
    struct call call;
    struct pci_info whole;
    result code = call_enter(&call, symbol, handle, EITHER);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = call.gpu->texts[T_BUS_ID].code;
    pci_fill(call.gpu, &whole);
    if (code == SUCCESS) memcpy(info, &whole, bytes);
    call_out(&call, info, bytes);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetPciInfo_v3(device handle, struct pci_info *info) {
    return pci(S_nvmlDeviceGetPciInfo_v3, handle, info, sizeof *info);
}

EXPORT result nvmlDeviceGetPciInfo_v2(device handle, struct pci_info *info) {
    return pci(S_nvmlDeviceGetPciInfo_v2, handle, info, offsetof(struct pci_info, busId));
}

EXPORT result nvmlDeviceGetPciInfoExt(device handle, struct pci_info_ext *info) {
    struct call call;
    struct pci_info whole;
    result code = call_enter(&call, S_nvmlDeviceGetPciInfoExt, handle, EITHER);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, info->version, 1, sizeof *info))
        return call_leave(&call, VERSION_MISMATCH);
    pci_fill(call.gpu, &whole);
    info->domain = whole.domain;
    info->bus = whole.bus;
    info->device = whole.device;
    info->pciDeviceId = whole.pciDeviceId;
    info->pciSubSystemId = whole.pciSubSystemId;
    info->baseClass = 3;
    info->subClass = 2;
    memcpy(info->busId, whole.busId, sizeof info->busId);
    return call_leave(&call, call.gpu->texts[T_BUS_ID].code);
}

EXPORT result nvmlDeviceGetGspFirmwareMode(device handle, unsigned int *on, unsigned int *usual) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetGspFirmwareMode, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (on == NULL || usual == NULL) return call_leave(&call, INVALID_ARGUMENT);
    long long mode = 0;
    code = number_get(call.gpu, N_GSP_MODE, &mode);
    if (code == SUCCESS) {
        *on = (unsigned int)mode;
        *usual = (unsigned int)number_or(call.gpu, N_GSP_DEFAULT, mode);
    }
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetAddressingMode(device handle, struct addressing_mode *mode) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetAddressingMode, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (mode == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, mode->version, 1, sizeof *mode))
        return call_leave(&call, VERSION_MISMATCH);
    long long value = 0;
    code = number_get(call.gpu, N_ADDRESSING, &value);
    if (code == SUCCESS) mode->value = (unsigned int)value;
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetPlatformInfo(device handle, struct platform_info *info) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetPlatformInfo, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, info->version, 1, sizeof *info) &&
        !version_fits(call.symbol, info->version, 2, sizeof *info))
        return call_leave(&call, VERSION_MISMATCH);
    if (call.gpu->texts[T_CHASSIS_SERIAL].code != SUCCESS)
        return call_leave(&call, call.gpu->texts[T_CHASSIS_SERIAL].code);
    memset(info->ibGuid, 0, sizeof info->ibGuid);
    snprintf((char *)info->chassisSerialNumber, sizeof info->chassisSerialNumber, "%.15s",
             call.gpu->texts[T_CHASSIS_SERIAL].text);
    info->slotNumber = (char)number_or(call.gpu, N_PLATFORM_SLOT, 0);
    info->trayIndex = (char)number_or(call.gpu, N_PLATFORM_TRAY, 0);
    info->hostId = (char)number_or(call.gpu, N_PLATFORM_HOST, 0);
    info->peerType = (char)number_or(call.gpu, N_PLATFORM_PEER, 0);
    info->moduleId = (char)number_or(call.gpu, N_MODULE, 0);
    return call_leave(&call, SUCCESS);
}
