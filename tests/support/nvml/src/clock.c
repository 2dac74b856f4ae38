/* Time: one monotonic clock for all processes, and a wall clock that a command may shift. */
#include <time.h>

#include "standin.h"

static long long read_ns(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

long long now_ns(void) { return read_ns(CLOCK_MONOTONIC); }

unsigned long long wall_us(void) {
    return (unsigned long long)(read_ns(CLOCK_REALTIME) + machine.clock_shift_ns) / 1000;
}

unsigned long long wall_us_at(long long at_ns) {
    return wall_us() - (unsigned long long)((now_ns() - at_ns) / 1000);
}
