/* What the parts of the stand-in know of each other.
 *
 * One lock guards everything. `call_enter` takes it and `call_leave` gives it back; while
 * a call is made to hang, to cost time or to wait for an event the lock is not held.
 * Values of a GPU live in two arrays by key (keys.def), each with its own result code.
 */
#ifndef WINDVANE_STANDIN_H
#define WINDVANE_STANDIN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "nvml_lists.h"

#define EXPORT __attribute__((visibility("default")))
#define GPU_MAX 1024
#define MIG_MAX 8
#define FAN_MAX 8
#define LINK_MAX 36
#define GPM_MAX 480
#define FIELD_MAX 320
#define TEXT_BYTES 100
#define PROCESS_MAX 512
#define HISTORY_MAX 64
#define LINE_BYTES 4096
#define NS_PER_S 1000000000LL
#define NOTHING_U32 0xffffffffU

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    TIMEOUT = 10,
    LIBRARY_NOT_FOUND = 12,
    FUNCTION_NOT_FOUND = 13,
    GPU_IS_LOST = 15,
    LIB_RM_VERSION_MISMATCH = 18,
    MEMORY = 20,
    VERSION_MISMATCH = 25,
    UNKNOWN = 999,
};

enum number {
#define NUMBER(ID, PATH, COUNT) N_##ID, N_LAST_##ID = N_##ID + (COUNT) - 1,
#define TEXT(ID, PATH, COUNT)
#include "keys.def"
#undef NUMBER
#undef TEXT
    NUMBER_COUNT
};

enum text {
#define NUMBER(ID, PATH, COUNT)
#define TEXT(ID, PATH, COUNT) T_##ID, T_LAST_##ID = T_##ID + (COUNT) - 1,
#include "keys.def"
#undef NUMBER
#undef TEXT
    TEXT_COUNT
};

enum symbol {
#define CALL(NAME, ABSENT_THROUGH) S_##NAME,
#define STUB(NAME, ABSENT_THROUGH, ANSWER) S_##NAME,
#include "symbols.def"
#undef CALL
#undef STUB
    SYMBOL_COUNT,
    EVERY_SYMBOL = SYMBOL_COUNT
};

struct number_value {
    short code;   /* not SUCCESS: what a call that asks for it answers */
    bool is_real; /* in `real`, else in `whole` */
    bool is_held; /* a counter that was set and stands still */
    union {
        long long whole;
        double real;
    };
};

struct text_value {
    short code;
    char text[TEXT_BYTES];
};

enum { ON_GPU = 1, ON_MIG = 2 };

/* What a command asks of a call; the part that is zero is not asked. */
struct rule {
    short error;
    unsigned char error_on; /* ON_GPU | ON_MIG */
    unsigned char hang_on;
    unsigned char cost_on;
    unsigned char garbage_on;
    bool is_busy;          /* cost is spent computing, not sleeping */
    bool is_random;        /* garbage is random, not all ones */
    unsigned int times;    /* the error is given so often; 0 is always */
    unsigned int cost_us;
    unsigned int seed;
};

struct process {
    unsigned int pid;
    unsigned char kinds; /* COMPUTE | GRAPHICS | MPS */
    int mig;             /* slot, or -1 */
    int utilization[6];  /* sm, memory, encoder, decoder, jpeg, ofa; -1 is no sample */
    unsigned long long memory_bytes;
    char name[TEXT_BYTES];
};

enum { COMPUTE = 1, GRAPHICS = 2, MPS = 4 };

struct change {
    int key;
    long long at_ns;
    long long before;
};

struct gpu {
    bool is_lost;
    bool is_removed;
    long long settled_ns; /* until when the counters have counted */
    struct number_value numbers[NUMBER_COUNT];
    struct text_value texts[TEXT_COUNT];
    struct rule *rules; /* SYMBOL_COUNT + 1 of them, once there is one */
    struct process *processes;
    int process_count;
    int grown;        /* processes that appear between the two calls of a listing */
    int junk;         /* junk records of process utilisation */
    struct change history[HISTORY_MAX];
    unsigned int changes;
    char profile[64];
};

struct machine {
    char folder[512];
    char profiles[512];
    char driver[80];  /* the kernel's */
    char library[80]; /* this library's own; they differ after an upgrade */
    char cuda[16];
    char sample[64];
    int branch;
    int init_answer;     /* what nvmlInit answers */
    int calls_answer;    /* what every other call answers */
    long long clock_shift_ns;
    struct gpu *gpus[GPU_MAX];
    int gpu_count;       /* slots in use, removed ones too */
    struct listing {
        int slot[GPU_MAX]; /* by index */
        int count;
    } shown, coming; /* what is enumerated now, and from the next nvmlInit on */
    bool is_pinned;  /* the two may differ: as the real library does it */
    struct rule rules[SYMBOL_COUNT + 1];
    bool has_rules;
    unsigned char hidden[SYMBOL_COUNT]; /* 1 hidden, 2 shown, 0 as the branch has it */
    unsigned char version_max[SYMBOL_COUNT];
    int cc[5]; /* environment, feature, devtools, multi-GPU, ready */
};

extern struct machine machine;
extern int init_count;

/* state.c: values */
struct key {
    bool is_text;
    int id;
    int count; /* more than one where the path says `*` */
};
bool key_find(const char *path, struct key *found);
enum origin { FROM_PROFILE, FROM_SAMPLE, FROM_COMMAND };
const char *value_set(struct gpu *gpu, const char *path, const char *text, enum origin origin);
const char *value_count(struct gpu *gpu, const char *path);
result number_get(struct gpu *gpu, int key, long long *value);
result real_get(struct gpu *gpu, int key, double *value);
long long number_or(struct gpu *gpu, int key, long long otherwise);
long long number_at(struct gpu *gpu, int key, long long at_ns);
void gpu_settle(struct gpu *gpu, long long now_ns);
struct gpu *gpu_add(const struct gpu *template);
void listing_changed(void);
void machine_clear(void);
bool unescape(const char *from, char *to, size_t bytes);

/* clock.c: time */
long long now_ns(void);
unsigned long long wall_us(void);
unsigned long long wall_us_at(long long at_ns);

/* machine.c: files */
bool machine_load(const char *folder, char *problem, size_t bytes);
const char *gpu_load(struct gpu *gpu, const char *profile, const char *sample, enum origin origin);
char *trimmed(char *line);

/* control.c and commands.c: what was said while running */
bool control_open(const char *folder);
void control_close(void);
void control_follow(void);
uint32_t control_seen(void);
void control_wait(uint32_t seen, long long until_ns);
void control_wake(void);
void control_problem(const char *line, const char *why);
void control_count(int symbol);
const char *command_apply(char *line);
const char *process_apply(struct gpu *gpu, char *words);

/* rules.c */
const char *rule_apply(char *verb, char *words);
int symbol_find(const char *name);
const char *symbol_name(int symbol);
bool symbol_is_hidden(int symbol);
const char *gpus_chosen(char *word, struct gpu **chosen, int *count, unsigned char *on);

/* calls.c */
struct call {
    int symbol;
    struct gpu *gpu; /* NULL where the call is about the system */
    int slot;
    int mig; /* slot of the instance, or -1 */
    int outs;
    struct {
        void *at;
        size_t bytes, stride;
        unsigned int count;
    } out[4]; /* what garbage falls on */
};
enum { SYSTEM = 0, PHYSICAL = 1, INSTANCE = 2, EITHER = 3, BEFORE_INIT = 4 };

result call_enter(struct call *call, int symbol, device handle, int about);
result call_faults(struct call *call);
void call_out(struct call *call, void *at, size_t bytes);
void call_outs(struct call *call, void *at, size_t bytes, size_t stride, unsigned int count);
result call_leave(struct call *call, result code);
bool version_fits(int symbol, unsigned int asked, unsigned int version, size_t bytes);
device gpu_handle(int slot);
device mig_handle(int slot, int mig);
bool handle_find(device handle, int *slot, int *mig);
result answer_u32(struct call *call, int key, unsigned int *value);
result read_u32(int symbol, device handle, int about, int key, unsigned int *value);
result read_u64(int symbol, device handle, int about, int key, unsigned long long *value);
result read_text(int symbol, device handle, int about, int key, char *text, unsigned int bytes);
result text_out(struct call *call, const char *from, char *text, unsigned int bytes);
void state_lock(void);
void state_unlock(void);

/* events.c */
void event_send(int slot, unsigned long long type, unsigned long long data, unsigned int gi,
                unsigned int ci);
void events_clear(void);

#endif
