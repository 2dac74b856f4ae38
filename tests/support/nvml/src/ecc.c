/* Memory errors: ECC counts, retired pages, remapped rows, repairs. */
#include <string.h>

#include "standin.h"

static const int COUNTS[2][2] = {{N_ECC_VC_L1, N_ECC_AC_L1}, {N_ECC_VU_L1, N_ECC_AU_L1}};
enum { PLACES = 8 };

/* The sum of the places, unless a total is given. */
static result total(struct gpu *gpu, int first, long long *sum) {
    long long value = 0;
    result code = number_get(gpu, first + PLACES, sum);
    if (code != NOT_SUPPORTED) return code;
    *sum = 0;
    for (int i = 0; i < PLACES; i++) {
        result found = number_get(gpu, first + i, &value);
        if (found == SUCCESS) {
            *sum += value;
            code = SUCCESS;
        }
    }
    return code;
}

result ecc_total(struct gpu *gpu, int error, int counter, long long *sum) {
    return total(gpu, COUNTS[error][counter], sum);
}

result ecc_place(struct gpu *gpu, int error, int counter, int place, long long *value) {
    return number_get(gpu, COUNTS[error][counter] + place, value);
}

EXPORT result nvmlDeviceGetTotalEccErrors(device handle, unsigned int error, unsigned int counter,
                                          unsigned long long *count) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetTotalEccErrors, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (count == NULL || error > 1 || counter > 1) return call_leave(&call, INVALID_ARGUMENT);
    code = total(call.gpu, COUNTS[error][counter], &found);
    if (code == SUCCESS) *count = (unsigned long long)found;
    call_out(&call, count, sizeof *count);
    return call_leave(&call, code);
}

/* An instance tells only its volatile uncorrected errors outside of DRAM. */
EXPORT result nvmlDeviceGetMemoryErrorCounter(device handle, unsigned int error,
                                              unsigned int counter, unsigned int place,
                                              unsigned long long *count) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetMemoryErrorCounter, handle, EITHER);
    if (code != SUCCESS) return code;
    if (count == NULL || error > 1 || counter > 1 || place >= PLACES)
        return call_leave(&call, INVALID_ARGUMENT);
    if (call.mig < 0) {
        code = number_get(call.gpu, COUNTS[error][counter] + (int)place, &found);
    } else {
        bool is_told = error == 1 && counter == 0 && place == 7;
        code = is_told ? number_get(call.gpu, N_MIG_SRAM + call.mig, &found) : NOT_SUPPORTED;
    }
    if (code == SUCCESS) *count = (unsigned long long)found;
    call_out(&call, count, sizeof *count);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetDetailedEccErrors(device handle, unsigned int error,
                                             unsigned int counter, struct ecc_counts *counts) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetDetailedEccErrors, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (counts == NULL || error > 1 || counter > 1) return call_leave(&call, INVALID_ARGUMENT);
    int first = COUNTS[error][counter];
    code = total(call.gpu, first, &found);
    if (code == SUCCESS) {
        counts->l1Cache = (unsigned long long)number_or(call.gpu, first, 0);
        counts->l2Cache = (unsigned long long)number_or(call.gpu, first + 1, 0);
        counts->deviceMemory = (unsigned long long)number_or(call.gpu, first + 2, 0);
        counts->registerFile = (unsigned long long)number_or(call.gpu, first + 3, 0);
    }
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetSramEccErrorStatus(device handle, struct sram_status *status) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetSramEccErrorStatus, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (status == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, status->version, 1, sizeof *status))
        return call_leave(&call, VERSION_MISMATCH);
    struct gpu *gpu = call.gpu;
    code = number_get(gpu, N_SRAM_A_PARITY, &found);
    if (code == SUCCESS) {
        unsigned int version = status->version;
        memset(status, 0, sizeof *status);
        status->version = version;
        status->aggregateUncParity = (unsigned long long)found;
        status->aggregateUncSecDed = (unsigned long long)number_or(gpu, N_SRAM_A_SECDED, 0);
        status->aggregateCor = (unsigned long long)number_or(gpu, N_ECC_AC_SRAM, 0);
        status->volatileUncParity = (unsigned long long)number_or(gpu, N_SRAM_V_PARITY, 0);
        status->volatileUncSecDed = (unsigned long long)number_or(gpu, N_SRAM_V_SECDED, 0);
        status->volatileCor = (unsigned long long)number_or(gpu, N_ECC_VC_SRAM, 0);
        status->bThresholdExceeded = (unsigned int)number_or(gpu, N_SRAM_EXCEEDED, 0);
    }
    return call_leave(&call, code);
}

/* Pages as many as are counted, at addresses made up; by cause. */
static result retired(int symbol, device handle, unsigned int cause, unsigned int *count,
                      unsigned long long *pages, unsigned long long *times, bool is_v2) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, symbol, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (count == NULL || cause > 1) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, cause == 0 ? N_RETIRED_SINGLE : N_RETIRED_DOUBLE, &found);
    if (code != SUCCESS) return call_leave(&call, code);
    unsigned int room = *count;
    *count = (unsigned int)found;
    if (room < *count) return call_leave(&call, INSUFFICIENT_SIZE);
    for (unsigned int i = 0; i < *count && pages != NULL; i++) {
        pages[i] = 0x10000ULL * (i + 1) + cause * 0x1000ULL;
        if (is_v2) times[i] = wall_us() / 1000000;
    }
    return call_leave(&call, SUCCESS);
}

EXPORT result nvmlDeviceGetRetiredPages(device handle, unsigned int cause, unsigned int *count,
                                        unsigned long long *pages) {
    return retired(S_nvmlDeviceGetRetiredPages, handle, cause, count, pages, NULL, false);
}

EXPORT result nvmlDeviceGetRetiredPages_v2(device handle, unsigned int cause, unsigned int *count,
                                           unsigned long long *pages, unsigned long long *times) {
    return retired(S_nvmlDeviceGetRetiredPages_v2, handle, cause, count, pages, times, true);
}

EXPORT result nvmlDeviceGetRetiredPagesPendingStatus(device handle, unsigned int *pending) {
    return read_u32(S_nvmlDeviceGetRetiredPagesPendingStatus, handle, PHYSICAL, N_RETIRED_PENDING,
                    pending);
}

static const int REMAPPED[4] = {N_REMAPPED_CORRECTABLE, N_REMAPPED_UNCORRECTABLE,
                                N_REMAPPED_PENDING, N_REMAPPED_FAILURE};

static result remapped(struct call *call, unsigned int *values) {
    long long found = 0;
    if (number_or(call->gpu, N_MIG_CURRENT, 0) != 0) return NOT_SUPPORTED;
    for (int i = 0; i < 4; i++) {
        result code = number_get(call->gpu, REMAPPED[i], &found);
        if (code != SUCCESS) return code;
        values[i] = (unsigned int)found;
    }
    return SUCCESS;
}

EXPORT result nvmlDeviceGetRemappedRows(device handle, unsigned int *corrected,
                                        unsigned int *uncorrected, unsigned int *pending,
                                        unsigned int *failure) {
    struct call call;
    unsigned int values[4];
    result code = call_enter(&call, S_nvmlDeviceGetRemappedRows, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (corrected == NULL || uncorrected == NULL || pending == NULL || failure == NULL)
        return call_leave(&call, INVALID_ARGUMENT);
    code = remapped(&call, values);
    if (code == SUCCESS) {
        *corrected = values[0];
        *uncorrected = values[1];
        *pending = values[2];
        *failure = values[3];
    }
    call_out(&call, corrected, sizeof *corrected);
    call_out(&call, uncorrected, sizeof *uncorrected);
    call_out(&call, pending, sizeof *pending);
    call_out(&call, failure, sizeof *failure);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetRemappedRows_v2(device handle, struct remapped_rows_v2 *info) {
    struct call call;
    unsigned int values[4];
    result code = call_enter(&call, S_nvmlDeviceGetRemappedRows_v2, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = remapped(&call, values);
    if (code == SUCCESS)
        *info = (struct remapped_rows_v2){values[0], 0, values[1], 0, values[2], values[3]};
    call_out(&call, info, sizeof *info);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetRowRemapperHistogram(device handle, struct row_histogram *rows) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetRowRemapperHistogram, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (rows == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, N_ROWS_MAX, &found);
    if (code == SUCCESS) {
        rows->max = (unsigned int)found;
        rows->high = (unsigned int)number_or(call.gpu, N_ROWS_HIGH, 0);
        rows->partial = (unsigned int)number_or(call.gpu, N_ROWS_PARTIAL, 0);
        rows->low = (unsigned int)number_or(call.gpu, N_ROWS_LOW, 0);
        rows->none = (unsigned int)number_or(call.gpu, N_ROWS_NONE, 0);
    }
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetRepairStatus(device handle, struct repair_status *status) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetRepairStatus, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (status == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, status->version, 1, sizeof *status))
        return call_leave(&call, VERSION_MISMATCH);
    code = number_get(call.gpu, N_REPAIR_CHANNEL, &found);
    if (code == SUCCESS) {
        status->bChannelRepairPending = (unsigned int)found;
        status->bTpcRepairPending = (unsigned int)number_or(call.gpu, N_REPAIR_TPC, 0);
    }
    return call_leave(&call, code);
}
