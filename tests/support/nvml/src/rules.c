/* What commands ask of calls: errors, cost, hanging, garbage; for one GPU or all.
 *
 * The most exact rule wins: this call of this GPU, any call of this GPU, this call of any
 * GPU, any call of any GPU.
 */
#include <stdlib.h>
#include <string.h>

#include "standin.h"

static const struct {
    const char *name;
    short absent_through; /* the newest driver branch known not to have it */
} SYMBOLS[] = {
#define CALL(NAME, ABSENT_THROUGH) {#NAME, ABSENT_THROUGH},
#define STUB(NAME, ABSENT_THROUGH, ANSWER) {#NAME, ABSENT_THROUGH},
#include "symbols.def"
#undef CALL
#undef STUB
};

const char *symbol_name(int symbol) { return SYMBOLS[symbol].name; }

int symbol_find(const char *name) {
    int low = 0, high = SYMBOL_COUNT - 1;
    if (strcmp(name, "*") == 0) return EVERY_SYMBOL;
    while (low <= high) {
        int middle = (low + high) / 2, order = strcmp(name, SYMBOLS[middle].name);
        if (order == 0) return middle;
        if (order < 0) high = middle - 1;
        if (order > 0) low = middle + 1;
    }
    return -1;
}

bool symbol_is_hidden(int symbol) {
    if (machine.hidden[symbol] != 0) return machine.hidden[symbol] == 1;
    return machine.branch != 0 && machine.branch <= SYMBOLS[symbol].absent_through;
}

/* `*`, an index at the start or a UUID; then `:gpu` or `:mig` for one kind of handle only. */
const char *gpus_chosen(char *word, struct gpu **chosen, int *count, unsigned char *on) {
    char *kind = strchr(word, ':');
    *on = ON_GPU | ON_MIG;
    *count = 0;
    if (kind != NULL) {
        *kind++ = '\0';
        *on = strcmp(kind, "gpu") == 0 ? ON_GPU : ON_MIG;
        if (strcmp(kind, "gpu") != 0 && strcmp(kind, "mig") != 0) return "not :gpu or :mig";
    }
    for (int i = 0; i < machine.gpu_count; i++) {
        char index[12];
        snprintf(index, sizeof index, "%d", i);
        if (strcmp(word, "*") == 0 || strcmp(word, index) == 0 ||
            strcmp(word, machine.gpus[i]->texts[T_UUID].text) == 0)
            chosen[(*count)++] = machine.gpus[i];
    }
    return *count > 0 || strcmp(word, "*") == 0 ? NULL : "no such GPU";
}

static const char *rule_set(struct rule *rule, const char *verb, unsigned char on, char *words) {
    char *rest = NULL;
    char *first = strtok_r(words, " \t", &rest);
    char *second = strtok_r(NULL, " \t", &rest);
    if (strcmp(verb, "error") == 0) {
        if (first == NULL || atoi(first) <= 0) return "an error needs a code";
        rule->error = (short)atoi(first);
        rule->error_on = on;
        rule->times = second != NULL ? (unsigned int)atoi(second) : 0;
    } else if (strcmp(verb, "cost") == 0) {
        if (first == NULL) return "a cost needs microseconds";
        rule->cost_us = (unsigned int)strtoul(first, NULL, 10);
        rule->cost_on = rule->cost_us > 0 ? on : 0;
        rule->is_busy = second != NULL && strcmp(second, "busy") == 0;
    } else if (strcmp(verb, "hang") == 0) {
        rule->hang_on = on;
    } else if (strcmp(verb, "release") == 0) {
        rule->hang_on = 0;
    } else if (strcmp(verb, "garbage") == 0) {
        if (first == NULL) return "garbage is ones or random";
        rule->garbage_on = on;
        rule->is_random = strcmp(first, "random") == 0;
        if (!rule->is_random && strcmp(first, "ones") != 0) return "garbage is ones or random";
        rule->seed = second != NULL ? (unsigned int)strtoul(second, NULL, 10) : 1;
    } else {
        *rule = (struct rule){0};
    }
    return NULL;
}

/* `<verb> <gpu> <call> ...`; for the verbs error, cost, hang, release, garbage, clear. */
const char *rule_apply(char *verb, char *words) {
    static struct gpu *chosen[GPU_MAX];
    char *rest = NULL, copy[LINE_BYTES];
    char *which = strtok_r(words, " \t", &rest);
    char *call = strtok_r(NULL, " \t", &rest);
    bool ends = strcmp(verb, "release") == 0 || strcmp(verb, "clear") == 0;
    if (which == NULL && ends) which = "*";
    if (call == NULL && ends) call = "*";
    if (which == NULL || call == NULL) return "needs a GPU and a call";
    int symbol = symbol_find(call), count;
    unsigned char on;
    char word[128];
    snprintf(word, sizeof word, "%s", which);
    if (symbol < 0) return "no such call";
    const char *why = gpus_chosen(word, chosen, &count, &on);
    if (why != NULL) return why;
    bool is_all = word[0] == '*';
    machine.has_rules = true;
    int first = symbol, last = symbol;
    if (ends && symbol == EVERY_SYMBOL) first = 0;
    for (int i = first; why == NULL && i <= last; i++) {
        snprintf(copy, sizeof copy, "%s", rest);
        if (is_all) why = rule_set(&machine.rules[i], verb, on, copy);
        for (int j = 0; why == NULL && j < count && (!is_all || ends); j++) {
            if (chosen[j]->rules == NULL && ends) continue;
            if (chosen[j]->rules == NULL)
                chosen[j]->rules = calloc(SYMBOL_COUNT + 1, sizeof(struct rule));
            if (chosen[j]->rules == NULL) return "out of memory";
            snprintf(copy, sizeof copy, "%s", rest);
            why = rule_set(&chosen[j]->rules[i], verb, on, copy);
        }
    }
    return why;
}
