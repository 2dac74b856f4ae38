/* How every call begins and ends: counting, news, init, handle, rules; then its value.
 *
 * A handle is a place in an area that is never read: it stays valid for as long as the
 * process lives and a foreign pointer is told from it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "standin.h"

int init_count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char gpu_area[GPU_MAX];
static char mig_area[GPU_MAX * MIG_MAX];

void state_lock(void) { pthread_mutex_lock(&lock); }
void state_unlock(void) { pthread_mutex_unlock(&lock); }

/* A fork while another thread is inside must not leave the lock taken in the child. */
__attribute__((constructor)) static void forks(void) {
    pthread_atfork(state_lock, state_unlock, state_unlock);
}

device gpu_handle(int slot) { return &gpu_area[slot]; }
device mig_handle(int slot, int mig) { return &mig_area[slot * MIG_MAX + mig]; }

bool handle_find(device handle, int *slot, int *mig) {
    uintptr_t at = (uintptr_t)handle, gpus = (uintptr_t)gpu_area, migs = (uintptr_t)mig_area;
    *mig = -1;
    if (at >= gpus && at < gpus + sizeof gpu_area) {
        *slot = (int)(at - gpus);
    } else if (at >= migs && at < migs + sizeof mig_area) {
        *slot = (int)(at - migs) / MIG_MAX;
        *mig = (int)(at - migs) % MIG_MAX;
    } else {
        return false;
    }
    return *slot < machine.gpu_count;
}

/* The rule of the call for one aspect, given by the place of its `_on` byte. */
static struct rule *rule_of(const struct call *call, size_t aspect) {
    unsigned char on = call->mig >= 0 ? ON_MIG : ON_GPU;
    struct rule *own = call->gpu != NULL ? call->gpu->rules : NULL;
    struct rule *candidates[] = {
        own != NULL ? &own[call->symbol] : NULL,
        own != NULL ? &own[EVERY_SYMBOL] : NULL,
        &machine.rules[call->symbol],
        &machine.rules[EVERY_SYMBOL],
    };
    for (int i = 0; i < 4; i++) {
        if (candidates[i] != NULL && (((unsigned char *)candidates[i])[aspect] & on) != 0)
            return candidates[i];
    }
    return NULL;
}

static void spend(unsigned int cost_us, bool is_busy) {
    long long until = now_ns() + cost_us * 1000LL;
    if (is_busy) {
        while (now_ns() < until) continue;
    } else {
        struct timespec at = {until / NS_PER_S, until % NS_PER_S};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) continue;
    }
}

static result find(struct call *call, device handle, int about) {
    control_follow();
    if (about == BEFORE_INIT) return SUCCESS;
    if (init_count == 0) return UNINITIALIZED;
    if (symbol_is_hidden(call->symbol)) return FUNCTION_NOT_FOUND;
    if ((about & EITHER) == 0) return SUCCESS;
    if (!handle_find(handle, &call->slot, &call->mig)) return INVALID_ARGUMENT;
    call->gpu = machine.gpus[call->slot];
    if (call->mig >= 0 && (about & INSTANCE) == 0) return NOT_SUPPORTED;
    if (call->mig < 0 && (about & PHYSICAL) == 0) return NOT_SUPPORTED;
    return SUCCESS;
}

/* Hang and cost are spent without the lock; what was found is looked up anew after. */
static result delay(struct call *call, device handle, int about) {
    struct rule *rule;
    while ((rule = rule_of(call, offsetof(struct rule, hang_on))) != NULL) {
        uint32_t seen = control_seen();
        state_unlock();
        control_wait(seen, now_ns() + NS_PER_S);
        state_lock();
        result code = find(call, handle, about);
        if (code != SUCCESS) return code;
    }
    rule = rule_of(call, offsetof(struct rule, cost_on));
    if (rule == NULL) return SUCCESS;
    unsigned int cost_us = rule->cost_us;
    bool is_busy = rule->is_busy;
    state_unlock();
    spend(cost_us, is_busy);
    state_lock();
    return find(call, handle, about);
}

result call_faults(struct call *call) {
    if (call->gpu != NULL && (call->gpu->is_lost || call->gpu->is_removed)) return GPU_IS_LOST;
    struct rule *rule = machine.has_rules ? rule_of(call, offsetof(struct rule, error_on)) : NULL;
    if (rule == NULL) return SUCCESS;
    result code = rule->error;
    if (rule->times > 0 && --rule->times == 0) rule->error_on = 0;
    return code;
}

result call_enter(struct call *call, int symbol, device handle, int about) {
    call->symbol = symbol;
    call->gpu = NULL;
    call->mig = -1;
    call->outs = 0;
    state_lock();
    control_count(symbol);
    result code = find(call, handle, about);
    if (code == SUCCESS && machine.has_rules) code = delay(call, handle, about);
    if (code == SUCCESS && about != BEFORE_INIT) code = machine.calls_answer;
    if (code == SUCCESS) code = call_faults(call);
    if (code == SUCCESS && call->mig >= 0 &&
        call->gpu->numbers[N_MIG_GI + call->mig].code != SUCCESS)
        code = INVALID_ARGUMENT; /* the instance is no more */
    if (code != SUCCESS) state_unlock();
    return code;
}

void call_outs(struct call *call, void *at, size_t bytes, size_t stride, unsigned int count) {
    call->out[call->outs].at = at;
    call->out[call->outs].bytes = bytes;
    call->out[call->outs].stride = stride;
    call->out[call->outs++].count = count;
}

void call_out(struct call *call, void *at, size_t bytes) { call_outs(call, at, bytes, bytes, 1); }

static void spoil(const struct call *call, const struct rule *rule) {
    unsigned int state = rule->seed;
    for (int i = 0; i < call->outs; i++) {
        for (unsigned int k = 0; call->out[i].at != NULL && k < call->out[i].count; k++) {
            unsigned char *bytes = (unsigned char *)call->out[i].at + k * call->out[i].stride;
            for (size_t j = 0; j < call->out[i].bytes; j++)
                bytes[j] = rule->is_random ? (unsigned char)(rand_r(&state) >> 7) : 0xff;
        }
    }
}

result call_leave(struct call *call, result code) {
    if (code == SUCCESS && machine.has_rules) {
        struct rule *rule = rule_of(call, offsetof(struct rule, garbage_on));
        if (rule != NULL) spoil(call, rule);
    }
    state_unlock();
    return code;
}

/* Is this the version word of a layout that the driver knows? */
bool version_fits(int symbol, unsigned int asked, unsigned int version, size_t bytes) {
    unsigned int newest = machine.version_max[symbol];
    return asked == (bytes | version << 24U) && (newest == 0 || version <= newest);
}

/* The number of a key is the answer of a call that was entered. */
result answer_u32(struct call *call, int key, unsigned int *value) {
    long long found = 0;
    if (value == NULL) return call_leave(call, INVALID_ARGUMENT);
    result code = number_get(call->gpu, key, &found);
    if (code == SUCCESS) *value = (unsigned int)found;
    call_out(call, value, sizeof *value);
    return call_leave(call, code);
}

result read_u32(int symbol, device handle, int about, int key, unsigned int *value) {
    struct call call;
    result code = call_enter(&call, symbol, handle, about);
    return code == SUCCESS ? answer_u32(&call, key, value) : code;
}

result read_u64(int symbol, device handle, int about, int key, unsigned long long *value) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, symbol, handle, about);
    if (code != SUCCESS) return code;
    if (value == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, key, &found);
    if (code == SUCCESS) *value = (unsigned long long)found;
    call_out(&call, value, sizeof *value);
    return call_leave(&call, code);
}

result text_out(struct call *call, const char *from, char *text, unsigned int bytes) {
    if (text == NULL) return INVALID_ARGUMENT;
    size_t length = strlen(from);
    if (length + 1 > bytes) return INSUFFICIENT_SIZE;
    memcpy(text, from, length + 1);
    call_out(call, text, length);
    return SUCCESS;
}

result read_text(int symbol, device handle, int about, int key, char *text, unsigned int bytes) {
    struct call call;
    result code = call_enter(&call, symbol, handle, about);
    if (code != SUCCESS) return code;
    const struct text_value *value = &call.gpu->texts[key];
    code = value->code != SUCCESS ? value->code : text_out(&call, value->text, text, bytes);
    return call_leave(&call, code);
}
