/* The control file: commands appended by another hand while the library runs.
 *
 * `generation` is a number in shared memory that whoever appends raises. A call compares
 * it with the number it saw last and reads the file only when they differ. The same
 * number is a futex, so that those who wait sleep until something is said.
 * `calls` is shared memory too: how often each symbol was called, by all processes.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "standin.h"

struct counted {
    char name[72];
    uint64_t times;
};

static _Atomic uint32_t *generation;
static struct counted *counted;
static uint32_t seen;
static long read_until;
static char folder[512];

static void *map_file(const char *name, size_t bytes, const char *in) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", in, name);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return NULL;
    struct stat is;
    void *at = NULL;
    if (fstat(file, &is) == 0 &&
        ((size_t)is.st_size >= bytes || ftruncate(file, (off_t)bytes) == 0)) {
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (at == MAP_FAILED) at = NULL;
    }
    close(file);
    return at;
}

bool control_open(const char *in) {
    snprintf(folder, sizeof folder, "%s", in);
    generation = map_file("generation", sizeof *generation, in);
    counted = map_file("calls", sizeof *counted * SYMBOL_COUNT, in);
    if (generation == NULL || counted == NULL) return false;
    for (int i = 0; i < SYMBOL_COUNT; i++)
        snprintf(counted[i].name, sizeof counted[i].name, "%s", symbol_name(i));
    read_until = 0;
    seen = *generation - 1;
    return true;
}

void control_close(void) {
    if (generation != NULL) munmap((void *)generation, sizeof *generation);
    if (counted != NULL) munmap(counted, sizeof *counted * SYMBOL_COUNT);
    generation = NULL;
    counted = NULL;
}

void control_count(int symbol) {
    if (counted != NULL) __atomic_fetch_add(&counted[symbol].times, 1, __ATOMIC_RELAXED);
}

void control_problem(const char *line, const char *why) {
    char path[600];
    snprintf(path, sizeof path, "%s/problems", folder);
    FILE *file = fopen(path, "ae");
    if (file == NULL) return;
    fprintf(file, "%s: %s\n", why, line);
    fclose(file);
}

/* A line may begin with `@` and the time at which it was said; counters count until then. */
static void follow_line(char *line) {
    long long at_ns = now_ns();
    char whole[LINE_BYTES];
    line = trimmed(line);
    if (*line == '@') at_ns = strtoll(line + 1, &line, 10);
    line = trimmed(line);
    if (*line == '\0' || *line == '#') return;
    for (int i = 0; i < machine.gpu_count; i++) gpu_settle(machine.gpus[i], at_ns);
    snprintf(whole, sizeof whole, "%s", line);
    const char *why = command_apply(line);
    if (why != NULL) control_problem(whole, why);
}

void control_follow(void) {
    if (generation == NULL || *generation == seen) return;
    char path[600], line[LINE_BYTES];
    seen = *generation;
    snprintf(path, sizeof path, "%s/control", folder);
    FILE *file = fopen(path, "re");
    if (file == NULL) return;
    fseek(file, read_until, SEEK_SET);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strchr(line, '\n') == NULL) break; /* not all of it is written yet */
        read_until = ftell(file);
        follow_line(line);
    }
    fclose(file);
}

uint32_t control_seen(void) { return seen; }

static long futex(int what, uint32_t value, const struct timespec *time) {
    return syscall(SYS_futex, generation, what, value, time, NULL, 0);
}

/* Sleep until something new is said, or until then; a second at most. */
void control_wait(uint32_t since, long long until_ns) {
    long long left = until_ns - now_ns();
    if (left <= 0 || generation == NULL) return;
    if (left > NS_PER_S) left = NS_PER_S;
    struct timespec time = {left / NS_PER_S, left % NS_PER_S};
    futex(FUTEX_WAIT, since, &time);
}

void control_wake(void) {
    if (generation != NULL) futex(FUTEX_WAKE, INT32_MAX, NULL);
}

/* Append commands (lines) to a machine's control file; 0, or the error number. */
EXPORT int standin_say(const char *in, const char *lines) {
    char path[600];
    snprintf(path, sizeof path, "%s/control", in);
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return errno;
    char stamp[32];
    int stamped = snprintf(stamp, sizeof stamp, "@%lld ", now_ns());
    size_t length = strlen(lines), used = 0, count = 1;
    for (const char *at = lines; *at != '\0'; at++) count += *at == '\n';
    char *text = malloc(length + count * (size_t)(stamped + 1) + 1);
    for (const char *at = lines; text != NULL && *at != '\0';) {
        size_t line = strcspn(at, "\n");
        memcpy(text + used, stamp, (size_t)stamped);
        memcpy(text + used + stamped, at, line);
        used += (size_t)stamped + line;
        text[used++] = '\n';
        at += line + (at[line] == '\n');
    }
    bool is_written = text != NULL && write(file, text, used) == (ssize_t)used;
    int error = is_written ? 0 : errno;
    free(text);
    close(file);
    _Atomic uint32_t *raised = map_file("generation", sizeof *raised, in);
    if (raised == NULL) return errno;
    ++*raised;
    syscall(SYS_futex, raised, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    munmap((void *)raised, sizeof *raised);
    return error;
}
