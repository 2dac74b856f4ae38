/* Samples with time stamps: one each 20 ms of power, one each sixth of a second otherwise.
 *
 * The stamps lie on a grid of the wall clock. A sample has the value that was in force at
 * its time, as far back as the history of changes goes.
 */
#include <string.h>

#include "standin.h"

enum { POWER_STEP_US = 20000, STEP_US = 166667, BUFFER = 120 };

static const struct {
    int key;
    unsigned int step_us;
} SAMPLED[] = {
    {N_POWER, POWER_STEP_US},        {N_UTIL_GPU, STEP_US},     {N_UTIL_MEMORY, STEP_US},
    {N_UTIL_ENCODER, STEP_US},       {N_UTIL_DECODER, STEP_US}, {N_CLOCK_SM, POWER_STEP_US},
    {N_CLOCK_MEMORY, POWER_STEP_US}, {N_POWER_MODULE, POWER_STEP_US},
    {N_UTIL_JPEG, STEP_US},          {N_UTIL_OFA, STEP_US},
};

static unsigned int write(struct gpu *gpu, int key, unsigned int step, unsigned long long since,
                          struct sample *samples, unsigned int room) {
    unsigned long long now = wall_us(), last = now - now % step, written = 0;
    long long now_mono = now_ns();
    for (unsigned long long i = BUFFER; i-- > 0 && written < room;) {
        unsigned long long at = last - i * step;
        if (at <= since) continue;
        long long at_ns = now_mono - (long long)(now - at) * 1000;
        samples[written].timeStamp = at;
        samples[written].sampleValue.ullVal = 0;
        samples[written].sampleValue.uiVal = (unsigned int)number_at(gpu, key, at_ns);
        written++;
    }
    return (unsigned int)written;
}

EXPORT result nvmlDeviceGetSamples(device handle, unsigned int type, unsigned long long since,
                                   unsigned int *value_type, unsigned int *count,
                                   struct sample *samples) {
    struct call call;
    long long found = 0;
    result code = call_enter(&call, S_nvmlDeviceGetSamples, handle, PHYSICAL);
    if (code != SUCCESS) return code;
    if (value_type == NULL || count == NULL || type >= sizeof SAMPLED / sizeof SAMPLED[0])
        return call_leave(&call, INVALID_ARGUMENT);
    if (type != 0 && number_or(call.gpu, N_MIG_CURRENT, 0) != 0)
        return call_leave(&call, NOT_SUPPORTED);
    code = number_get(call.gpu, SAMPLED[type].key, &found);
    if (code != SUCCESS) return call_leave(&call, code);
    *value_type = 1;
    if (samples == NULL) {
        *count = BUFFER;
        return call_leave(&call, SUCCESS);
    }
    *count = write(call.gpu, SAMPLED[type].key, SAMPLED[type].step_us, since, samples, *count);
    return call_leave(&call, *count > 0 ? SUCCESS : NOT_FOUND);
}
