/* Opening and closing: the library's own reference count, and which machine it plays. */
#include <stdlib.h>
#include <string.h>

#include "standin.h"

static char chosen[512]; /* by standin_open; else the environment says it */
static char opened[512];

/* Play the machine in this folder from the next nvmlInit on, from its beginning. */
EXPORT void standin_open(const char *folder) {
    state_lock();
    snprintf(chosen, sizeof chosen, "%s", folder == NULL ? "" : folder);
    opened[0] = '\0';
    init_count = 0;
    events_clear();
    control_close();
    machine_clear();
    state_unlock();
}

/* Is the machine in this folder well formed? What is wrong is written to `problem`. */
EXPORT int standin_check(const char *folder, char *problem, unsigned int bytes) {
    static struct machine played;
    state_lock();
    played = machine;
    memset(&machine, 0, sizeof machine);
    bool is_good = machine_load(folder, problem, bytes);
    machine_clear();
    machine = played;
    state_unlock();
    return is_good ? 0 : 1;
}

static result open_machine(void) {
    char problem[LINE_BYTES] = "its files cannot be shared";
    const char *folder = chosen[0] != '\0' ? chosen : getenv("WINDVANE_NVML_STANDIN");
    if (folder == NULL || *folder == '\0') return LIBRARY_NOT_FOUND;
    if (strcmp(folder, opened) == 0) return SUCCESS;
    control_close();
    if (!machine_load(folder, problem, sizeof problem) || !control_open(folder)) {
        fprintf(stderr, "NVML stand-in: %s\n", problem);
        return UNKNOWN;
    }
    snprintf(opened, sizeof opened, "%s", folder);
    control_follow();
    return SUCCESS;
}

static result init(int symbol) {
    struct call call;
    state_lock();
    result code = init_count > 0 ? SUCCESS : open_machine();
    state_unlock();
    if (code != SUCCESS) return code;
    code = call_enter(&call, symbol, NULL, BEFORE_INIT);
    if (code != SUCCESS) return code;
    if (init_count == 0) code = machine.init_answer;
    if (code == SUCCESS && init_count == 0) listing_changed();
    if (code == SUCCESS) init_count++;
    return call_leave(&call, code);
}

EXPORT result nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    return init(S_nvmlInitWithFlags);
}

EXPORT result nvmlInit_v2(void) { return init(S_nvmlInit_v2); }

EXPORT result nvmlInit(void) { return init(S_nvmlInit); }

EXPORT result nvmlShutdown(void) {
    struct call call;
    result code = call_enter(&call, S_nvmlShutdown, NULL, BEFORE_INIT);
    if (code != SUCCESS) return code;
    if (init_count == 0) return call_leave(&call, UNINITIALIZED);
    if (--init_count == 0) events_clear();
    return call_leave(&call, SUCCESS);
}

EXPORT const char *nvmlErrorString(result code) {
    control_count(S_nvmlErrorString);
    switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}
