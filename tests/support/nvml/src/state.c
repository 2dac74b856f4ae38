/* The values of the GPUs: by key, with history, and counters that count.
 *
 * A counter stands as a real number and is settled before it is read and before its rate
 * changes: energy from power, throttle time from the active reasons, bytes from rates.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

struct machine machine;

static const struct {
    const char *path;
    short first, count;
    bool is_text;
} KEYS[] = {
#define NUMBER(ID, PATH, COUNT) {PATH, N_##ID, COUNT, false},
#define TEXT(ID, PATH, COUNT) {PATH, T_##ID, COUNT, true},
#include "keys.def"
#undef NUMBER
#undef TEXT
};

/* Counter, its rate, and how much of the counter one unit of the rate gives in a second;
 * a mask counts while one of its bits is in the rate. */
static const struct {
    int counter, rate, count;
    double per_second;
    long long mask;
} COUNTERS[] = {
    {N_ENERGY, N_POWER, 1, 1.0, 0},
    {N_PCIE_TX_BYTES, N_PCIE_TX, 1, 1024.0, 0},
    {N_PCIE_RX_BYTES, N_PCIE_RX, 1, 1024.0, 0},
    {N_HELD_POWER, N_REASONS, 1, 1e6, 0x4},
    {N_HELD_SYNC, N_REASONS, 1, 1e6, 0x10},
    {N_HELD_SW_THERMAL, N_REASONS, 1, 1e6, 0x20},
    {N_HELD_HW_THERMAL, N_REASONS, 1, 1e6, 0x40},
    {N_HELD_BRAKE, N_REASONS, 1, 1e6, 0x80},
    {N_HELD_IDLE, N_REASONS, 1, 1e6, 0x1},
    {N_HELD_APP, N_REASONS, 1, 1e6, 0x2},
    {N_LINK_TX, N_LINK_TX_RATE, LINK_MAX, 1.0, 0},
    {N_LINK_RX, N_LINK_RX_RATE, LINK_MAX, 1.0, 0},
};
#define COUNTER_COUNT (int)(sizeof COUNTERS / sizeof COUNTERS[0])

static const int SAMPLED[] = {N_POWER,        N_UTIL_GPU,  N_UTIL_MEMORY, N_UTIL_ENCODER,
                              N_UTIL_DECODER, N_UTIL_JPEG, N_UTIL_OFA,    N_CLOCK_SM,
                              N_CLOCK_MEMORY, N_POWER_MODULE};

/* `fan.3.rpm` as `fan.*.rpm` and 3. */
static int starred(const char *path, char *general, size_t bytes) {
    int index = 0;
    bool found = false;
    size_t used = 0;
    for (const char *at = path; *at != '\0' && used + 2 < bytes;) {
        bool starts = at == path || at[-1] == '.';
        size_t digits = strspn(at, "0123456789");
        if (starts && !found && digits > 0 && digits < 5 && (at[digits] == '.' || !at[digits])) {
            index = atoi(at);
            found = true;
            general[used++] = '*';
            at += digits;
        } else {
            general[used++] = *at++;
        }
    }
    general[used] = '\0';
    return index;
}

bool key_find(const char *path, struct key *found) {
    char general[128];
    int index = starred(path, general, sizeof general);
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        if (strcmp(KEYS[i].path, general) == 0 && index < KEYS[i].count) {
            found->is_text = KEYS[i].is_text;
            found->id = KEYS[i].first + index;
            found->count = strcmp(path, general) == 0 ? KEYS[i].count : 1;
            return true;
        }
    }
    return false;
}

static int answer_named(const char *text) {
    if (strcmp(text, "unsupported") == 0) return NOT_SUPPORTED;
    if (strcmp(text, "no-permission") == 0) return NO_PERMISSION;
    if (strncmp(text, "error:", 6) == 0) return atoi(text + 6);
    return SUCCESS;
}

static bool number_parse(const char *text, struct number_value *value) {
    char *end;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        value->whole = text[0] == 't';
        return true;
    }
    value->is_real = strchr(text, '.') != NULL && strncmp(text, "0x", 2) != 0;
    if (value->is_real) {
        value->real = strtod(text, &end);
    } else if (text[0] == '-') {
        value->whole = strtoll(text, &end, 0);
    } else {
        value->whole = (long long)strtoull(text, &end, 0);
    }
    return end != text && *end == '\0';
}

bool unescape(const char *from, char *to, size_t bytes) {
    size_t used = 0;
    while (*from != '\0') {
        if (used + 1 >= bytes) return false;
        if (from[0] == '\\' && from[1] == 'x' && isxdigit((unsigned char)from[2]) &&
            isxdigit((unsigned char)from[3])) {
            char digits[3] = {from[2], from[3], '\0'};
            to[used++] = (char)strtol(digits, NULL, 16);
            from += 4;
        } else {
            to[used++] = *from++;
        }
    }
    to[used] = '\0';
    return true;
}

static int counter_of(int key) {
    for (int i = 0; i < COUNTER_COUNT; i++) {
        int at = key - COUNTERS[i].counter;
        if (at >= 0 && at < COUNTERS[i].count) return i;
    }
    return -1;
}

static void remember(struct gpu *gpu, int key, long long at_ns) {
    for (size_t i = 0; i < sizeof SAMPLED / sizeof SAMPLED[0]; i++) {
        if (SAMPLED[i] == key) {
            struct change *change = &gpu->history[gpu->changes++ % HISTORY_MAX];
            *change = (struct change){key, at_ns, number_or(gpu, key, 0)};
        }
    }
}

/* Used memory takes from the free, and the other way round: a total stays a total. */
static void rebalance(struct gpu *gpu, int key, int total, int reserved, int used, int free_) {
    long long rest = number_or(gpu, total, 0) - (reserved < 0 ? 0 : number_or(gpu, reserved, 0));
    int other = key == used ? free_ : used;
    if (gpu->numbers[other].code == SUCCESS && gpu->numbers[key].code == SUCCESS) {
        long long left = rest - gpu->numbers[key].whole;
        gpu->numbers[other].whole = left < 0 ? 0 : left;
    }
}

static void memory_set(struct gpu *gpu, int key) {
    if (key == N_MEMORY_USED || key == N_MEMORY_FREE)
        rebalance(gpu, key, N_MEMORY_TOTAL, N_MEMORY_RESERVED, N_MEMORY_USED, N_MEMORY_FREE);
    if (key == N_BAR1_USED || key == N_BAR1_FREE)
        rebalance(gpu, key, N_BAR1_TOTAL, -1, N_BAR1_USED, N_BAR1_FREE);
    if (key >= N_MIG_USED && key <= N_LAST_MIG_USED) {
        int mig = key - N_MIG_USED;
        rebalance(gpu, key, N_MIG_TOTAL + mig, N_MIG_RESERVED + mig, key, N_MIG_FREE + mig);
    }
}

static const char *text_set(struct gpu *gpu, int id, const char *text) {
    struct text_value *value = &gpu->texts[id];
    value->code = (short)answer_named(text);
    return unescape(text, value->text, sizeof value->text) ? NULL : "the text is too long";
}

static const char *number_set(struct gpu *gpu, int id, const char *text, enum origin origin) {
    struct number_value value = {.code = (short)answer_named(text)};
    bool is_counter = counter_of(id) >= 0;
    if (value.code == SUCCESS && !number_parse(text, &value)) return "not a number";
    if (is_counter && origin == FROM_SAMPLE) return NULL;
    if (is_counter && !value.is_real) {
        value.real = (double)(unsigned long long)value.whole;
        value.is_real = true;
    }
    value.is_held = is_counter && origin == FROM_COMMAND;
    if (origin != FROM_PROFILE) remember(gpu, id, gpu->settled_ns);
    gpu->numbers[id] = value;
    if (origin == FROM_COMMAND) memory_set(gpu, id);
    return NULL;
}

/* A `*` in the key sets all of them. */
const char *value_set(struct gpu *gpu, const char *path, const char *text, enum origin origin) {
    struct key key;
    const char *why = NULL;
    if (!key_find(path, &key)) return "unknown key";
    for (int i = 0; why == NULL && i < key.count; i++)
        why = key.is_text ? text_set(gpu, key.id + i, text)
                          : number_set(gpu, key.id + i, text, origin);
    return why;
}

const char *value_count(struct gpu *gpu, const char *path) {
    struct key key;
    if (!key_find(path, &key) || key.is_text || counter_of(key.id) < 0) return "not a counter";
    gpu->numbers[key.id].is_held = false;
    return NULL;
}

result real_get(struct gpu *gpu, int key, double *value) {
    const struct number_value *found = &gpu->numbers[key];
    if (found->code != SUCCESS) return found->code;
    *value = found->is_real ? found->real : (double)found->whole;
    return SUCCESS;
}

result number_get(struct gpu *gpu, int key, long long *value) {
    const struct number_value *found = &gpu->numbers[key];
    if (found->code != SUCCESS) return found->code;
    if (counter_of(key) >= 0) gpu_settle(gpu, now_ns());
    if (!found->is_real) {
        *value = found->whole;
    } else if (found->real >= 0) {
        *value = (long long)(unsigned long long)found->real;
    } else {
        *value = (long long)found->real;
    }
    return SUCCESS;
}

long long number_or(struct gpu *gpu, int key, long long otherwise) {
    long long value;
    return number_get(gpu, key, &value) == SUCCESS ? value : otherwise;
}

/* The value that was in force at an earlier time, as far as it is remembered. */
long long number_at(struct gpu *gpu, int key, long long at_ns) {
    unsigned int oldest = gpu->changes > HISTORY_MAX ? gpu->changes - HISTORY_MAX : 0;
    for (unsigned int i = oldest; i < gpu->changes; i++) {
        const struct change *change = &gpu->history[i % HISTORY_MAX];
        if (change->key == key && change->at_ns > at_ns) return change->before;
    }
    return number_or(gpu, key, 0);
}

void gpu_settle(struct gpu *gpu, long long now) {
    double passed_s = (double)(now - gpu->settled_ns) / (double)NS_PER_S;
    if (passed_s <= 0) return;
    gpu->settled_ns = now;
    for (int i = 0; i < COUNTER_COUNT; i++) {
        for (int j = 0; j < COUNTERS[i].count; j++) {
            struct number_value *counter = &gpu->numbers[COUNTERS[i].counter + j];
            int rate_key = COUNTERS[i].rate + (COUNTERS[i].count > 1 ? j : 0);
            const struct number_value *rate = &gpu->numbers[rate_key];
            if (counter->code != SUCCESS || counter->is_held || rate->code != SUCCESS) continue;
            double per_s = rate->is_real ? rate->real : (double)rate->whole;
            if (COUNTERS[i].mask != 0) per_s = (rate->whole & COUNTERS[i].mask) != 0;
            counter->real += per_s * COUNTERS[i].per_second * passed_s;
        }
    }
}

struct gpu *gpu_add(const struct gpu *template) {
    if (machine.gpu_count == GPU_MAX || machine.coming.count == GPU_MAX) return NULL;
    struct gpu *gpu = calloc(1, sizeof *gpu);
    if (gpu == NULL) return NULL;
    if (template != NULL) {
        *gpu = *template;
        gpu->rules = NULL;
        gpu->processes = NULL;
        if (gpu->process_count > 0) {
            gpu->processes = calloc(PROCESS_MAX, sizeof *gpu->processes);
            if (gpu->processes == NULL) gpu->process_count = 0;
            for (int i = 0; i < gpu->process_count; i++)
                gpu->processes[i] = template->processes[i];
        }
    } else {
        for (int i = 0; i < NUMBER_COUNT; i++) gpu->numbers[i].code = NOT_SUPPORTED;
        for (int i = 0; i < TEXT_COUNT; i++) gpu->texts[i].code = NOT_SUPPORTED;
    }
    machine.gpus[machine.gpu_count] = gpu;
    machine.coming.slot[machine.coming.count++] = machine.gpu_count++;
    listing_changed();
    return gpu;
}

/* Pinned, the library enumerates anew only when it is initialised anew. */
void listing_changed(void) {
    if (!machine.is_pinned || init_count == 0) machine.shown = machine.coming;
}

void machine_clear(void) {
    for (int i = 0; i < machine.gpu_count; i++) {
        free(machine.gpus[i]->rules);
        free(machine.gpus[i]->processes);
        free(machine.gpus[i]);
    }
    memset(&machine, 0, sizeof machine);
}
