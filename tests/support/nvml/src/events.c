/* Event sets: each set that asked for it gets every event; a wait sleeps until one comes. */
#include <stdlib.h>
#include <string.h>

#include "standin.h"

#define SETS_MAX 64
#define QUEUE_MAX 4096

static struct set {
    bool is_used;
    unsigned long long asked[GPU_MAX];
    unsigned int first, count;
    struct event {
        int slot;
        unsigned long long type, data;
        unsigned int gi, ci;
    } queue[QUEUE_MAX];
} *sets[SETS_MAX];

void events_clear(void) {
    for (int i = 0; i < SETS_MAX; i++)
        if (sets[i] != NULL) sets[i]->is_used = false;
    control_wake();
}

void event_send(int slot, unsigned long long type, unsigned long long data, unsigned int gi,
                unsigned int ci) {
    for (int i = 0; i < SETS_MAX; i++) {
        struct set *set = sets[i];
        if (set == NULL || !set->is_used || (set->asked[slot] & type) == 0) continue;
        if (set->count == QUEUE_MAX) continue; /* the newest are lost, as with a slow reader */
        unsigned int last = (set->first + set->count++) % QUEUE_MAX;
        set->queue[last] = (struct event){slot, type, data, gi, ci};
    }
}

static struct set *find(const void *handle) {
    for (int i = 0; i < SETS_MAX; i++)
        if (sets[i] != NULL && sets[i] == handle && sets[i]->is_used) return sets[i];
    return NULL;
}

EXPORT result nvmlEventSetCreate(void **handle) {
    struct call call;
    result code = call_enter(&call, S_nvmlEventSetCreate, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (handle == NULL) return call_leave(&call, INVALID_ARGUMENT);
    for (int i = 0; i < SETS_MAX; i++) {
        if (sets[i] == NULL) sets[i] = calloc(1, sizeof *sets[i]);
        if (sets[i] == NULL || sets[i]->is_used) continue;
        memset(sets[i], 0, offsetof(struct set, queue));
        sets[i]->is_used = true;
        *handle = sets[i];
        return call_leave(&call, SUCCESS);
    }
    return call_leave(&call, MEMORY);
}

EXPORT result nvmlEventSetFree(void *handle) {
    struct call call;
    result code = call_enter(&call, S_nvmlEventSetFree, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    struct set *set = find(handle);
    if (set == NULL) return call_leave(&call, INVALID_ARGUMENT);
    set->is_used = false;
    control_wake();
    return call_leave(&call, SUCCESS);
}

/* A type that the GPU does not have: nothing is registered, the set stays as it was. */
EXPORT result nvmlDeviceRegisterEvents(device handle, unsigned long long types, void *in) {
    struct call call;
    long long supported = 0;
    result code = call_enter(&call, S_nvmlDeviceRegisterEvents, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    struct set *set = find(in);
    if (set == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = number_get(call.gpu, N_EVENTS, &supported);
    if (code == SUCCESS && (types & ~(unsigned long long)supported) != 0) code = NOT_SUPPORTED;
    if (code == SUCCESS) set->asked[call.slot] |= types;
    return call_leave(&call, code);
}

static bool has_lost(const struct set *set) {
    for (int i = 0; i < machine.gpu_count; i++)
        if (set->asked[i] != 0 && (machine.gpus[i]->is_lost || machine.gpus[i]->is_removed))
            return true;
    return false;
}

/* Lock held at entry and at exit, not while asleep. */
static result await(const void *handle, unsigned int timeout_ms, struct event *event) {
    long long until = timeout_ms == NOTHING_U32 ? INT64_MAX : now_ns() + timeout_ms * 1000000LL;
    for (;;) {
        control_follow();
        struct set *set = find(handle);
        if (set == NULL) return INVALID_ARGUMENT;
        if (init_count == 0) return UNINITIALIZED;
        if (machine.calls_answer != SUCCESS) return machine.calls_answer;
        if (set->count > 0) {
            *event = set->queue[set->first];
            set->first = (set->first + 1) % QUEUE_MAX;
            set->count--;
            return SUCCESS;
        }
        if (has_lost(set)) return GPU_IS_LOST;
        if (now_ns() >= until) return TIMEOUT;
        uint32_t seen = control_seen();
        state_unlock();
        control_wait(seen, until);
        state_lock();
    }
}

static result wait_data(int symbol, const void *handle, struct event_data *data,
                        unsigned int timeout_ms, bool has_instances) {
    struct call call;
    struct event event;
    result code = call_enter(&call, symbol, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (data == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = await(handle, timeout_ms, &event);
    if (code == SUCCESS) {
        data->device = gpu_handle(event.slot);
        data->eventType = event.type;
        data->eventData = event.data;
        if (has_instances) data->gpuInstanceId = event.gi, data->computeInstanceId = event.ci;
        call_out(&call, &data->eventData, sizeof data->eventData);
    }
    return call_leave(&call, code);
}

EXPORT result nvmlEventSetWait_v2(void *set, struct event_data *data, unsigned int timeout_ms) {
    return wait_data(S_nvmlEventSetWait_v2, set, data, timeout_ms, true);
}

EXPORT result nvmlEventSetWait(void *set, struct event_data *data, unsigned int timeout_ms) {
    return wait_data(S_nvmlEventSetWait, set, data, timeout_ms, false);
}

EXPORT result nvmlEventSetWait_v3(void *set, struct event_v3 *params) {
    struct call call;
    struct event event;
    result code = call_enter(&call, S_nvmlEventSetWait_v3, NULL, SYSTEM);
    if (code != SUCCESS) return code;
    if (params == NULL) return call_leave(&call, INVALID_ARGUMENT);
    code = await(set, params->timeoutMs, &event);
    if (code == SUCCESS) {
        unsigned int timeout = params->timeoutMs, type = params->dataType;
        memset(params, 0, sizeof *params);
        params->timeoutMs = timeout;
        params->dataType = type;
        snprintf(params->uuid, sizeof params->uuid, "%.95s",
                 machine.gpus[event.slot]->texts[T_UUID].text);
        params->eventType = event.type;
        params->eventData = event.data;
        params->gpuInstanceId = event.gi;
        params->computeInstanceId = event.ci;
        params->timestampUsec = wall_us();
    }
    return call_leave(&call, code);
}
