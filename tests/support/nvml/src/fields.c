/* nvmlDeviceGetFieldValues: readings by number, each entry with its own answer.
 *
 * A field is looked for in the table, then among the links, then at `field.<id>` of the
 * GPU. Numbers above what a driver branch knew are wrong arguments to it.
 */
#include "standin.h"

result ecc_total(struct gpu *gpu, int error, int counter, long long *sum);
result ecc_place(struct gpu *gpu, int error, int counter, int place, long long *value);

enum { AS_DOUBLE = 0, AS_U32 = 1, AS_U64 = 3, AS_I64 = 4, AS_I32 = 5 };

static const struct {
    unsigned short id;
    short key;
    unsigned char type;
    short scale; /* times the value */
} FIELDS[] = {
    {1, N_ECC_CURRENT, AS_U32, 1},
    {2, N_ECC_PENDING, AS_U32, 1},
    {29, N_RETIRED_SINGLE, AS_U64, 1},
    {30, N_RETIRED_DOUBLE, AS_U64, 1},
    {31, N_RETIRED_PENDING, AS_U64, 1},
    {74, N_HELD_POWER, AS_U64, 1000},
    {75, N_HELD_SW_THERMAL, AS_U64, 1000},
    {76, N_HELD_SYNC, AS_U64, 1000},
    {77, N_HELD_BOARD, AS_U64, 1000},
    {78, N_HELD_IDLE, AS_U64, 1000},
    {79, N_HELD_RELIABILITY, AS_U64, 1000},
    {80, N_HELD_APP, AS_U64, 1000},
    {81, N_HELD_BASE, AS_U64, 1000},
    {82, N_TEMPERATURE_MEMORY, AS_U32, 1},
    {83, N_ENERGY, AS_U64, 1},
    {90, N_LINK_SPEED, AS_U32, 1},
    {91, N_LINKS, AS_U32, 1},
    {94, N_PCIE_REPLAY, AS_U32, 1},
    {95, N_PCIE_ROLLOVER, AS_U32, 1},
    {142, N_REMAPPED_CORRECTABLE, AS_U32, 1},
    {143, N_REMAPPED_UNCORRECTABLE, AS_U32, 1},
    {144, N_REMAPPED_PENDING, AS_U32, 1},
    {145, N_REMAPPED_FAILURE, AS_U32, 1},
    {170, N_C2C_LINKS, AS_U32, 1},
    {187, N_LIMIT_MIN, AS_U32, 1},
    {188, N_LIMIT_MAX, AS_U32, 1},
    {189, N_LIMIT_DEFAULT, AS_U32, 1},
    {190, N_LIMIT_ENFORCED, AS_U32, 1},
    {191, N_ENERGY, AS_U64, 1},
    {192, N_LIMIT_REQUESTED, AS_U32, 1},
    {193, N_TLIMIT_SHUTDOWN, AS_I32, 1},
    {194, N_TLIMIT_SLOWDOWN, AS_I32, 1},
    {195, N_TLIMIT_MEMORY, AS_I32, 1},
    {196, N_TLIMIT_GPU, AS_I32, 1},
    {197, N_PCIE_TX_BYTES, AS_U64, 1},
    {198, N_PCIE_RX_BYTES, AS_U64, 1},
    {230, N_RECOVERY_ACTION, AS_U32, 1},
    {269, N_HELD_SW_THERMAL, AS_U64, 1000},
    {270, N_HELD_HW_THERMAL, AS_U64, 1000},
    {271, N_HELD_BRAKE, AS_U64, 1000},
};

/* Fields of one link by scope; a scope of all ones is the sum. */
static const struct {
    unsigned short id;
    short key;
    unsigned char type;
} LINK_FIELDS[] = {
    {138, N_LINK_TX, AS_U64},       {139, N_LINK_RX, AS_U64},     {140, N_LINK_TX, AS_U64},
    {141, N_LINK_RX, AS_U64},       {161, N_LINK_REPLAY, AS_U64}, {162, N_LINK_RECOVERY, AS_U64},
    {163, N_LINK_FLIT, AS_U64},     {165, N_LINK_ACTIVE, AS_U32},
};

/* Totals over the links. */
static const struct {
    unsigned short id;
    short key;
} LINK_TOTALS[] = {{38, N_LINK_FLIT}, {45, N_LINK_DATA}, {52, N_LINK_REPLAY}, {59, N_LINK_RECOVERY},
                   {160, N_LINK_ECC}};

struct answer {
    long long whole;
    double real;
    unsigned int type;
};

static result links_sum(struct gpu *gpu, int key, unsigned int link, struct answer *answer) {
    long long links = 0, found = 0;
    result code = number_get(gpu, N_LINKS, &links);
    if (code == SUCCESS && links == 0) code = NOT_SUPPORTED;
    if (code != SUCCESS) return code;
    if (link != NOTHING_U32) {
        if (link >= (unsigned long long)links || link >= LINK_MAX) return INVALID_ARGUMENT;
        return number_get(gpu, key + (int)link, &answer->whole);
    }
    answer->whole = 0;
    code = NOT_SUPPORTED;
    for (int i = 0; i < links && i < LINK_MAX; i++) {
        if (number_get(gpu, key + i, &found) != SUCCESS) continue;
        answer->whole += found;
        code = SUCCESS;
    }
    return code;
}

static bool link_field(struct gpu *gpu, const struct field_value *asked, struct answer *answer,
                       result *code) {
    for (size_t i = 0; i < sizeof LINK_TOTALS / sizeof LINK_TOTALS[0]; i++) {
        if (LINK_TOTALS[i].id != asked->fieldId) continue;
        answer->type = AS_U64;
        *code = links_sum(gpu, LINK_TOTALS[i].key, NOTHING_U32, answer);
        return true;
    }
    for (size_t i = 0; i < sizeof LINK_FIELDS / sizeof LINK_FIELDS[0]; i++) {
        if (LINK_FIELDS[i].id != asked->fieldId) continue;
        answer->type = LINK_FIELDS[i].type;
        *code = links_sum(gpu, LINK_FIELDS[i].key, asked->scopeId, answer);
        return true;
    }
    if (asked->fieldId != 164 && asked->fieldId != 166) return false;
    answer->type = AS_U32;
    *code = links_sum(gpu, N_LINK_ACTIVE, asked->scopeId, answer);
    if (*code == SUCCESS)
        *code = number_get(gpu, asked->fieldId == 164 ? N_LINK_SPEED : N_LINK_VERSION,
                           &answer->whole);
    return true;
}

/* Power by scope: the GPU, its module, its memory. */
static result power_field(struct gpu *gpu, unsigned int id, unsigned int scope, long long *value) {
    static const int AVERAGE[] = {N_POWER_AVERAGE, N_POWER_MODULE, N_POWER_MEMORY};
    static const int INSTANT[] = {N_POWER_INSTANT, N_POWER_MODULE, NUMBER_COUNT};
    const int *keys = id == 185 ? AVERAGE : INSTANT;
    if (scope > 2) return INVALID_ARGUMENT;
    return keys[scope] == NUMBER_COUNT ? NOT_SUPPORTED : number_get(gpu, keys[scope], value);
}

/* ECC by number: four totals, then places in the order of the ids. */
static bool ecc_field(struct gpu *gpu, unsigned int id, struct answer *answer, result *code) {
    static const signed char PLACES[] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 6};
    if (id < 3 || id > 28) return false;
    answer->type = AS_U64;
    if (id <= 6) {
        *code = ecc_total(gpu, (id - 3) % 2, id >= 5, &answer->whole);
        return true;
    }
    unsigned int at = (id - 7) % 11;
    int error = at == 10 ? 1 : (int)(at % 2);
    *code = ecc_place(gpu, error, id >= 18, PLACES[at], &answer->whole);
    return true;
}

/* The first number that this driver cannot know: of the oldest header that is not older. */
static unsigned int field_max(void) {
    static const struct {
        int branch;
        unsigned int max;
    } KNOWN[] = {{510, 161}, {525, 170}, {550, 200}, {580, 274}, {610, 303}};
    for (size_t i = 0; machine.branch != 0 && i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        if (machine.branch <= KNOWN[i].branch) return KNOWN[i].max;
    return FIELD_MAX;
}

static result own_field(struct gpu *gpu, unsigned int id, struct answer *answer) {
    const struct number_value *value = &gpu->numbers[N_FIELD + (int)id];
    if (value->code != SUCCESS) return value->code;
    answer->type = value->is_real ? AS_DOUBLE : AS_U64;
    answer->whole = value->whole;
    answer->real = value->real;
    if (!value->is_real && value->whole < 0) answer->type = AS_I64;
    return SUCCESS;
}

static result field(struct gpu *gpu, const struct field_value *asked, struct answer *answer) {
    result code = NOT_SUPPORTED;
    unsigned int id = asked->fieldId;
    if (id == 0 || id >= FIELD_MAX) return INVALID_ARGUMENT;
    if (gpu->numbers[N_FIELD + (int)id].code != NOT_SUPPORTED) return own_field(gpu, id, answer);
    if (id >= field_max()) return INVALID_ARGUMENT;
    if (id == 185 || id == 186) {
        answer->type = AS_U32;
        return power_field(gpu, id, asked->scopeId, &answer->whole);
    }
    if (id >= 142 && id <= 145 && number_or(gpu, N_MIG_CURRENT, 0) != 0) return NOT_SUPPORTED;
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
        if (FIELDS[i].id != id) continue;
        code = number_get(gpu, FIELDS[i].key, &answer->whole);
        answer->whole *= FIELDS[i].scale;
        answer->type = FIELDS[i].type;
        return code;
    }
    if (ecc_field(gpu, id, answer, &code) || link_field(gpu, asked, answer, &code)) return code;
    return NOT_SUPPORTED;
}

static void field_fill(struct gpu *gpu, struct field_value *value) {
    struct answer answer = {0, 0, AS_U32};
    value->nvmlReturn = (unsigned int)field(gpu, value, &answer);
    value->timestamp = (long long)wall_us();
    value->latencyUsec = 0;
    value->valueType = answer.type;
    value->value.ullVal = 0;
    if (value->nvmlReturn != SUCCESS) return;
    if (answer.type == AS_DOUBLE) value->value.dVal = answer.real;
    if (answer.type == AS_U32) value->value.uiVal = (unsigned int)answer.whole;
    if (answer.type == AS_U64) value->value.ullVal = (unsigned long long)answer.whole;
    if (answer.type == AS_I64) value->value.sllVal = answer.whole;
    if (answer.type == AS_I32) value->value.siVal = (int)answer.whole;
}

EXPORT result nvmlDeviceGetFieldValues(device handle, int count, struct field_value *values) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetFieldValues, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (values == NULL || count < 0) return call_leave(&call, INVALID_ARGUMENT);
    for (int i = 0; i < count; i++) field_fill(call.gpu, &values[i]);
    call_outs(&call, &values[0].value, sizeof values->value, sizeof *values, (unsigned int)count);
    return call_leave(&call, SUCCESS);
}
