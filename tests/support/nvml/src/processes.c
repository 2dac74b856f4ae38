/* The processes on a GPU: lists, utilisation samples, and the command that makes them. */
#include <stdlib.h>
#include <string.h>

#include "standin.h"

static bool word_apply(struct gpu *gpu, struct process *process, const char *name, char *value) {
    static const char *const SHARES[] = {"sm", "memory", "encoder", "decoder", "jpeg", "ofa"};
    for (int i = 0; i < 6; i++) {
        if (strcmp(name, SHARES[i]) != 0) continue;
        process->utilization[i] = atoi(value);
        return true;
    }
    if (strcmp(name, "pid") == 0) {
        process->pid = (unsigned int)strtoul(value, NULL, 10);
    } else if (strcmp(name, "memory_bytes") == 0) {
        bool is_none = strcmp(value, "unsupported") == 0;
        process->memory_bytes = is_none ? ~0ULL : strtoull(value, NULL, 10);
    } else if (strcmp(name, "kind") == 0) {
        process->kinds = 0;
        if (strstr(value, "compute") != NULL) process->kinds |= COMPUTE;
        if (strstr(value, "graphics") != NULL) process->kinds |= GRAPHICS;
        if (strstr(value, "mps") != NULL) process->kinds |= MPS;
    } else if (strcmp(name, "mig") == 0) {
        process->mig = atoi(value);
    } else if (strcmp(name, "gi") == 0) {
        for (int i = 0; i < MIG_MAX; i++)
            if (number_or(gpu, N_MIG_GI + i, -1) == atoll(value)) process->mig = i;
    } else if (strcmp(name, "name") == 0) {
        unescape(value, process->name, sizeof process->name);
    } else {
        return false;
    }
    return true;
}

/* `pid=.. memory_bytes=.. kind=compute,graphics mig=.. sm=.. name=..`: a new one, or a change. */
const char *process_apply(struct gpu *gpu, char *words) {
    struct process made = {.kinds = COMPUTE, .mig = -1, .utilization = {-1, -1, -1, -1, -1, -1}};
    char *rest = NULL, *first = strtok_r(words, " \t", &rest);
    if (first == NULL || strncmp(first, "pid=", 4) != 0) return "begins with pid=";
    made.pid = (unsigned int)strtoul(first + 4, NULL, 10);
    int at = 0;
    while (at < gpu->process_count && gpu->processes[at].pid != made.pid) at++;
    if (at < gpu->process_count) made = gpu->processes[at];
    for (char *word; (word = strtok_r(NULL, " \t", &rest)) != NULL;) {
        char *value = strchr(word, '=');
        if (value == NULL) return "needs name=value";
        *value++ = '\0';
        if (!word_apply(gpu, &made, word, value)) return "unknown word about a process";
    }
    if (gpu->processes == NULL) gpu->processes = calloc(PROCESS_MAX, sizeof *gpu->processes);
    if (gpu->processes == NULL || at == PROCESS_MAX) return "too many processes";
    gpu->processes[at] = made;
    if (at == gpu->process_count) gpu->process_count++;
    return NULL;
}

static bool is_listed(const struct call *call, const struct process *process, unsigned int kind) {
    return (process->kinds & kind) != 0 && (call->mig < 0 || call->mig == process->mig);
}

static void info_fill(struct gpu *gpu, const struct process *process, struct process_info *info) {
    info->pid = process->pid;
    info->usedGpuMemory = process->memory_bytes;
    info->gpuInstanceId = NOTHING_U32;
    info->computeInstanceId = NOTHING_U32;
    if (process->mig < 0) return;
    info->gpuInstanceId = (unsigned int)number_or(gpu, N_MIG_GI + process->mig, NOTHING_U32);
    info->computeInstanceId = (unsigned int)number_or(gpu, N_MIG_CI + process->mig, NOTHING_U32);
}

/* With `grow`, more are there at the second call than the first one told. */
static result list(int symbol, device handle, unsigned int kind, unsigned int *count,
                   struct process_info *infos) {
    struct call call;
    result code = call_enter(&call, symbol, handle, EITHER);
    if (code != SUCCESS) return code;
    if (count == NULL) return call_leave(&call, INVALID_ARGUMENT);
    unsigned int room = infos == NULL ? 0 : *count, found = 0;
    for (int i = 0; i < call.gpu->process_count; i++) {
        const struct process *process = &call.gpu->processes[i];
        if (!is_listed(&call, process, kind)) continue;
        if (found < room) info_fill(call.gpu, process, &infos[found]);
        found++;
    }
    if (room > 0) {
        found += (unsigned int)call.gpu->grown;
        for (unsigned int i = found - (unsigned int)call.gpu->grown; i < found && i < room; i++)
            infos[i] = (struct process_info){900000 + i, 1 << 20, NOTHING_U32, NOTHING_U32};
    }
    *count = found;
    if (found <= room) call_out(&call, infos, sizeof *infos * found);
    return call_leave(&call, found > room ? INSUFFICIENT_SIZE : SUCCESS);
}

#define LIST_CALL(NAME, KIND)                                                             \
    EXPORT result NAME(device handle, unsigned int *count, struct process_info *infos) {  \
        return list(S_##NAME, handle, KIND, count, infos);                                \
    }
LIST_CALL(nvmlDeviceGetComputeRunningProcesses_v2, COMPUTE)
LIST_CALL(nvmlDeviceGetComputeRunningProcesses_v3, COMPUTE)
LIST_CALL(nvmlDeviceGetGraphicsRunningProcesses_v2, GRAPHICS)
LIST_CALL(nvmlDeviceGetGraphicsRunningProcesses_v3, GRAPHICS)
LIST_CALL(nvmlDeviceGetMPSComputeRunningProcesses_v2, MPS)
LIST_CALL(nvmlDeviceGetMPSComputeRunningProcesses_v3, MPS)

EXPORT result nvmlDeviceGetRunningProcessDetailList(device handle,
                                                    struct process_detail_list *plist) {
    static const unsigned int KINDS[] = {COMPUTE, GRAPHICS, MPS, COMPUTE | GRAPHICS | MPS};
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetRunningProcessDetailList, handle, EITHER);
    if (code != SUCCESS) return code;
    if (plist == NULL || plist->mode > 3) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, plist->version, 1, sizeof *plist))
        return call_leave(&call, VERSION_MISMATCH);
    unsigned int room = plist->procArray == NULL ? 0 : plist->numProcArrayEntries, found = 0;
    for (int i = 0; i < call.gpu->process_count; i++) {
        struct process_info info;
        if (!is_listed(&call, &call.gpu->processes[i], KINDS[plist->mode])) continue;
        info_fill(call.gpu, &call.gpu->processes[i], &info);
        if (found < room)
            plist->procArray[found] = (struct process_detail){
                info.pid, info.usedGpuMemory, info.gpuInstanceId, info.computeInstanceId, ~0ULL};
        found++;
    }
    plist->numProcArrayEntries = found;
    return call_leave(&call, found > room ? INSUFFICIENT_SIZE : SUCCESS);
}

enum { STEP_US = 166667, JUNK_HUGE = 3, JUNK_PERCENT = 37000 };

/* One record for each process that has utilisation, of the last step; then the junk: three
 * with impossible shares and the rest empty. */
static unsigned int gather(struct gpu *gpu, unsigned long long since,
                           struct process_utilization *records, unsigned int room) {
    unsigned long long now = wall_us(), stamp = now - now % STEP_US;
    unsigned int found = 0;
    for (int i = 0; i < gpu->process_count && stamp > since; i++) {
        const struct process *process = &gpu->processes[i];
        unsigned int shares[6];
        bool is_told = false;
        for (int j = 0; j < 6; j++) {
            is_told = is_told || process->utilization[j] >= 0;
            shares[j] = process->utilization[j] < 0 ? 0 : (unsigned int)process->utilization[j];
        }
        if (!is_told) continue;
        if (found < room)
            records[found] = (struct process_utilization){
                stamp,     process->pid, shares[0], shares[1],
                shares[2], shares[3],    shares[4], shares[5]};
        found++;
    }
    for (int i = 0; i < gpu->junk; i++, found++) {
        if (found >= room) continue;
        unsigned int share = i < JUNK_HUGE ? (unsigned int)(JUNK_PERCENT + i) : 0;
        records[found] = (struct process_utilization){
            i < JUNK_HUGE ? stamp : 0, i < JUNK_HUGE ? 990000U + (unsigned int)i : 0, share, share,
            share, share, 0, 0};
    }
    return found;
}

static result shares(struct call *call, unsigned long long since, unsigned int room,
                     struct process_utilization *records, unsigned int *found) {
    if (number_or(call->gpu, N_MIG_CURRENT, 0) != 0) return NOT_SUPPORTED;
    if (call->gpu->numbers[N_UTIL_GPU].code != SUCCESS) return call->gpu->numbers[N_UTIL_GPU].code;
    *found = gather(call->gpu, since, records, room);
    if (*found == 0) return NOT_FOUND;
    return *found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

EXPORT result nvmlDeviceGetProcessUtilization(device handle, struct process_sample *samples,
                                              unsigned int *count, unsigned long long since) {
    static struct process_utilization records[PROCESS_MAX + 1024];
    struct call call;
    unsigned int found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetProcessUtilization, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (count == NULL) return call_leave(&call, INVALID_ARGUMENT);
    unsigned int room = samples == NULL ? 0 : *count;
    if (room > PROCESS_MAX + 1024) room = PROCESS_MAX + 1024;
    code = shares(&call, since, room, records, &found);
    if (code == SUCCESS || code == INSUFFICIENT_SIZE) *count = found;
    for (unsigned int i = 0; code == SUCCESS && i < found; i++)
        samples[i] = (struct process_sample){records[i].pid,     records[i].timeStamp,
                                             records[i].smUtil,  records[i].memUtil,
                                             records[i].encUtil, records[i].decUtil};
    if (code == SUCCESS) call_out(&call, samples, sizeof *samples * found);
    return call_leave(&call, code);
}

EXPORT result nvmlDeviceGetProcessesUtilizationInfo(device handle,
                                                    struct processes_utilization *info) {
    struct call call;
    unsigned int found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetProcessesUtilizationInfo, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (info == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (!version_fits(call.symbol, info->version, 1, sizeof *info))
        return call_leave(&call, VERSION_MISMATCH);
    unsigned int room = info->procUtilArray == NULL ? 0 : info->processSamplesCount;
    code = shares(&call, info->lastSeenTimeStamp, room, info->procUtilArray, &found);
    if (code == SUCCESS || code == INSUFFICIENT_SIZE) info->processSamplesCount = found;
    if (code == SUCCESS) call_out(&call, info->procUtilArray, sizeof *info->procUtilArray * found);
    return call_leave(&call, code);
}

/* Not kept; a process that is there has a record that says nothing. */
EXPORT result nvmlDeviceGetAccountingStats(device handle, unsigned int pid,
                                           struct accounting_stats *stats) {
    struct call call;
    result code = call_enter(&call, S_nvmlDeviceGetAccountingStats, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (stats == NULL) return call_leave(&call, INVALID_ARGUMENT);
    if (number_or(call.gpu, N_ACCOUNTING, 0) == 0) return call_leave(&call, NOT_SUPPORTED);
    code = NOT_FOUND;
    for (int i = 0; code == NOT_FOUND && i < call.gpu->process_count; i++) {
        if (call.gpu->processes[i].pid != pid) continue;
        memset(stats, 0, sizeof *stats);
        stats->maxMemoryUsage = call.gpu->processes[i].memory_bytes;
        stats->isRunning = 1;
        code = SUCCESS;
    }
    return call_leave(&call, code);
}
