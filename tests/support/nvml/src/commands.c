/* The commands: one verb, one function, one line in the table at the end. */
#include <stdlib.h>
#include <string.h>

#include "standin.h"

static char *next_word(char **rest) { return strtok_r(NULL, " \t", rest); }

static char *first_word(char *words, char **rest) { return strtok_r(words, " \t", rest); }

/* `name=value` words: the number of one of them, or what it is otherwise. */
static long long option(const char *words, const char *name, long long otherwise) {
    size_t length = strlen(name);
    for (const char *at = strstr(words, name); at != NULL; at = strstr(at + 1, name)) {
        bool starts = at == words || at[-1] == ' ';
        if (starts && at[length] == '=') return strtoll(at + length + 1, NULL, 0);
    }
    return otherwise;
}

typedef const char *for_gpu(struct gpu *gpu, int slot, const char *rest);

/* Do it to every GPU that the first word names, with the words after it. */
static const char *each(char *words, for_gpu *apply) {
    static struct gpu *chosen[GPU_MAX];
    char *rest = NULL, *which = first_word(words, &rest);
    int count;
    unsigned char on;
    if (which == NULL) return "needs a GPU";
    const char *why = gpus_chosen(which, chosen, &count, &on);
    for (int i = 0; why == NULL && i < count; i++) {
        int slot = 0;
        while (machine.gpus[slot] != chosen[i]) slot++;
        why = apply(chosen[i], slot, rest);
    }
    return why;
}

static const char *set_one(struct gpu *gpu, int slot, const char *rest) {
    (void)slot;
    char copy[LINE_BYTES], *value;
    snprintf(copy, sizeof copy, "%s", rest);
    value = strpbrk(copy, " \t");
    if (value == NULL) return "needs a key and a value";
    *value = '\0';
    return value_set(gpu, copy, trimmed(value + 1), FROM_COMMAND);
}

static const char *count_one(struct gpu *gpu, int slot, const char *rest) {
    (void)slot;
    return value_count(gpu, rest);
}

static const char *sample_one(struct gpu *gpu, int slot, const char *rest) {
    (void)slot;
    int listed = gpu->process_count;
    gpu->process_count = 0;
    const char *why = gpu_load(gpu, gpu->profile, rest, FROM_SAMPLE);
    if (why != NULL) gpu->process_count = listed;
    return why;
}

static const char *lose_one(struct gpu *gpu, int slot, const char *rest) {
    (void)slot, (void)rest;
    gpu->is_lost = true;
    return NULL;
}

static const char *back_one(struct gpu *gpu, int slot, const char *rest) {
    (void)slot, (void)rest;
    gpu->is_lost = false;
    return NULL;
}

static const char *remove_one(struct gpu *gpu, int slot, const char *rest) {
    (void)rest;
    int kept = 0;
    gpu->is_removed = true;
    for (int i = 0; i < machine.coming.count; i++)
        if (machine.coming.slot[i] != slot) machine.coming.slot[kept++] = machine.coming.slot[i];
    machine.coming.count = kept;
    listing_changed();
    return NULL;
}

static const char *xid_one(struct gpu *gpu, int slot, const char *rest) {
    (void)gpu;
    char *end;
    unsigned long long xid = strtoull(rest, &end, 10);
    if (end == rest) return "needs a number";
    for (long long i = option(rest, "count", 1); i > 0; i--)
        event_send(slot, (unsigned long long)option(rest, "type", 8), xid,
                   (unsigned int)option(rest, "gi", NOTHING_U32),
                   (unsigned int)option(rest, "ci", NOTHING_U32));
    return NULL;
}

static const char *process_one(struct gpu *gpu, int slot, const char *rest) {
    (void)slot;
    char copy[LINE_BYTES];
    snprintf(copy, sizeof copy, "%s", rest);
    return process_apply(gpu, copy);
}

static const char *end_one(struct gpu *gpu, int slot, const char *rest) {
    (void)slot;
    unsigned int pid = (unsigned int)strtoul(rest, NULL, 10);
    int kept = 0;
    for (int i = 0; i < gpu->process_count; i++)
        if (*rest != '\0' && *rest != '*' && gpu->processes[i].pid != pid)
            gpu->processes[kept++] = gpu->processes[i];
    gpu->process_count = kept;
    return NULL;
}

static const char *grow_one(struct gpu *gpu, int slot, const char *rest) {
    (void)slot;
    gpu->grown = atoi(rest);
    return NULL;
}

static const char *junk_one(struct gpu *gpu, int slot, const char *rest) {
    (void)slot;
    gpu->junk = atoi(rest);
    return NULL;
}

static const char *order(char *words) {
    int found[GPU_MAX], count = 0;
    for (char *at = words; *at != '\0' && count < GPU_MAX;) {
        char *end;
        long slot = strtol(at, &end, 10);
        if (end == at || slot < 0 || slot >= machine.gpu_count) return "no such GPU";
        found[count++] = (int)slot;
        at = end + strspn(end, ", \t");
    }
    if (count == 0) return "needs the GPUs in their order";
    memcpy(machine.coming.slot, found, sizeof found[0] * (size_t)count);
    machine.coming.count = count;
    listing_changed();
    return NULL;
}

static const char *add(char *words) {
    char *rest = NULL, *profile = first_word(words, &rest);
    if (profile == NULL) return "needs a profile";
    struct gpu *gpu = gpu_add(NULL);
    if (gpu == NULL) return "too many GPUs";
    const char *why = gpu_load(gpu, profile, "", FROM_PROFILE);
    gpu->settled_ns = now_ns();
    for (char *word; why == NULL && (word = next_word(&rest)) != NULL;) {
        char *value = strchr(word, '=');
        if (value == NULL) return "needs key=value";
        *value++ = '\0';
        why = value_set(gpu, word, value, FROM_PROFILE);
    }
    return why;
}

/* The kernel's driver against this library: `none`, or a version and what became of it. */
static const char *driver(char *words) {
    char *rest = NULL, *version = first_word(words, &rest), *state = next_word(&rest);
    if (version == NULL) return "needs a version or none";
    if (strcmp(version, "none") == 0) {
        machine.init_answer = DRIVER_NOT_LOADED;
        machine.calls_answer = UNKNOWN;
        return NULL;
    }
    snprintf(machine.driver, sizeof machine.driver, "%s", version);
    bool is_loaded = state != NULL && strcmp(state, "loaded") == 0;
    if (state != NULL && !is_loaded) return "a driver is loaded, or nothing is said of it";
    machine.init_answer = is_loaded ? SUCCESS : LIB_RM_VERSION_MISMATCH;
    machine.calls_answer = SUCCESS;
    if (is_loaded) {
        machine.branch = atoi(version);
        memcpy(machine.library, machine.driver, sizeof machine.library);
    }
    return NULL;
}

static const char *show(char *words, unsigned char how) {
    int symbol = symbol_find(trimmed(words));
    if (symbol < 0 || symbol == EVERY_SYMBOL) return "no such call";
    machine.hidden[symbol] = how;
    return NULL;
}

static const char *versions(char *words) {
    char *rest = NULL, *call = first_word(words, &rest), *newest = next_word(&rest);
    int symbol = call == NULL ? -1 : symbol_find(call);
    if (symbol < 0 || symbol == EVERY_SYMBOL || newest == NULL) return "needs a call and a version";
    machine.version_max[symbol] = (unsigned char)atoi(newest);
    return NULL;
}

static const char *confidential(char *words) {
    static const char *const NAMES[] = {"environment", "feature", "devtools", "multi_gpu", "ready"};
    for (int i = 0; i < 5; i++) machine.cc[i] = (int)option(words, NAMES[i], machine.cc[i]);
    return NULL;
}

static const char *uninitialise(char *words) {
    (void)words;
    init_count = 0;
    return NULL;
}

static const char *shift_clock(char *words) {
    machine.clock_shift_ns = (long long)(strtod(words, NULL) * 1e9);
    return NULL;
}

static const char *enumerate(char *words) {
    machine.is_pinned = strcmp(words, "at-init") == 0;
    if (!machine.is_pinned && strcmp(words, "now") != 0) return "enumerate is now or at-init";
    listing_changed();
    return NULL;
}

static const char *hide(char *words) { return show(words, 1); }
static const char *unhide(char *words) { return show(words, 2); }

static const struct {
    const char *verb;
    for_gpu *gpu;                /* done to each GPU that the first word names */
    const char *(*plain)(char *words);
} VERBS[] = {
    {"set", set_one, NULL},         {"count", count_one, NULL},     {"sample", sample_one, NULL},
    {"lost", lose_one, NULL},       {"back", back_one, NULL},       {"remove", remove_one, NULL},
    {"xid", xid_one, NULL},         {"process", process_one, NULL}, {"no-process", end_one, NULL},
    {"grow", grow_one, NULL},       {"junk", junk_one, NULL},       {"order", NULL, order},
    {"add", NULL, add},             {"driver", NULL, driver},       {"hide", NULL, hide},
    {"show", NULL, unhide},         {"versions", NULL, versions},   {"clock", NULL, shift_clock},
    {"enumerate", NULL, enumerate}, {"confidential", NULL, confidential},
    {"uninitialise", NULL, uninitialise},
};

const char *command_apply(char *line) {
    static const char *const RULES[] = {"error", "cost", "hang", "release", "garbage", "clear"};
    char none[1] = "", *words = strpbrk(line, " \t");
    if (words == NULL) {
        words = none;
    } else {
        *words = '\0';
        words = trimmed(words + 1);
    }
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++)
        if (strcmp(line, RULES[i]) == 0) return rule_apply(line, words);
    for (size_t i = 0; i < sizeof VERBS / sizeof VERBS[0]; i++) {
        if (strcmp(line, VERBS[i].verb) != 0) continue;
        return VERBS[i].gpu != NULL ? each(words, VERBS[i].gpu) : VERBS[i].plain(words);
    }
    return "no such command";
}
