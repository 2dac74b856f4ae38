/* The machine file and the profiles: what the stand-in is at the start.
 *
 * machine:  `key = value` lines, then one `[gpu]` section for each GPU with its profile,
 * sample and overrides. profile: `key = value` lines for what does not change, and
 * `@sample key = value` lines for each state in which the device was seen.
 */
#include <stdlib.h>
#include <string.h>

#include "standin.h"

#define TEMPLATES_MAX 64

static struct template {
    char profile[64], sample[64];
    struct gpu *gpu;
} templates[TEMPLATES_MAX];
static int template_count;

char *trimmed(char *line) {
    while (*line == ' ' || *line == '\t') line++;
    size_t length = strlen(line);
    while (length > 0 && strchr(" \t\r\n", line[length - 1]) != NULL) line[--length] = '\0';
    return line;
}

/* Cut `key = value`; NULL where there is no `=`. */
static char *value_after(char *line) {
    char *equals = strchr(line, '=');
    if (equals == NULL) return NULL;
    *equals = '\0';
    trimmed(line);
    return trimmed(equals + 1);
}

static void copy_text(char *to, size_t bytes, const char *from) { snprintf(to, bytes, "%s", from); }

static const char *profile_line(struct gpu *gpu, char *line, char *sample, size_t bytes,
                                enum origin origin) {
    if (*line == '@') {
        char *rest = strchr(line, ' ');
        if (rest == NULL) return "a sample without a key";
        *rest = '\0';
        if (strcmp(line + 1, sample) != 0) return NULL;
        line = trimmed(rest + 1);
    } else if (origin == FROM_SAMPLE) {
        return NULL;
    }
    if (strncmp(line, "process ", 8) == 0) return process_apply(gpu, line + 8);
    char *value = value_after(line);
    if (value == NULL) return "a line without =";
    if (strcmp(line, "default_sample") == 0) {
        if (*sample == '\0') copy_text(sample, bytes, value);
        return NULL;
    }
    if (strncmp(line, "driver_version", 14) == 0 || strncmp(line, "cuda_version", 12) == 0 ||
        strncmp(line, "source.", 7) == 0)
        return NULL;
    return value_set(gpu, line, value, origin);
}

const char *gpu_load(struct gpu *gpu, const char *profile, const char *sample, enum origin origin) {
    static char problem[LINE_BYTES + 200];
    char path[600], line[LINE_BYTES], chosen[64];
    bool is_known = *sample == '\0';
    snprintf(path, sizeof path, "%s/%s.txt", machine.profiles, profile);
    copy_text(chosen, sizeof chosen, sample);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        snprintf(problem, sizeof problem, "no profile %s", profile);
        return problem;
    }
    const char *why = NULL;
    for (int number = 1; why == NULL && fgets(line, sizeof line, file) != NULL; number++) {
        char *text = trimmed(line);
        if (*text == '\0' || *text == '#') continue;
        size_t length = strlen(chosen);
        is_known = is_known || (*text == '@' && strncmp(text + 1, chosen, length) == 0 &&
                                text[length + 1] == ' ');
        why = profile_line(gpu, text, chosen, sizeof chosen, origin);
        if (why != NULL) {
            snprintf(problem, sizeof problem, "%s.txt line %d: %s: %.200s", profile, number, why,
                     text);
            why = problem;
        }
    }
    fclose(file);
    if (why == NULL && !is_known) {
        snprintf(problem, sizeof problem, "profile %s has no sample %s", profile, sample);
        why = problem;
    }
    if (origin == FROM_PROFILE) copy_text(gpu->profile, sizeof gpu->profile, profile);
    return why;
}

static struct gpu *from_template(const char *profile, const char *sample, const char **why) {
    for (int i = 0; i < template_count; i++)
        if (strcmp(templates[i].profile, profile) == 0 && strcmp(templates[i].sample, sample) == 0)
            return gpu_add(templates[i].gpu);
    struct gpu *gpu = gpu_add(NULL);
    if (gpu == NULL) return NULL;
    *why = gpu_load(gpu, profile, sample, FROM_PROFILE);
    if (*why == NULL && template_count < TEMPLATES_MAX) {
        struct template *made = &templates[template_count];
        made->gpu = malloc(sizeof *made->gpu);
        if (made->gpu != NULL) {
            *made->gpu = *gpu;
            copy_text(made->profile, sizeof made->profile, profile);
            copy_text(made->sample, sizeof made->sample, sample);
            struct process *copy = calloc(PROCESS_MAX, sizeof *copy);
            made->gpu->processes = copy;
            if (copy == NULL) made->gpu->process_count = 0;
            for (int i = 0; i < made->gpu->process_count; i++) copy[i] = gpu->processes[i];
            template_count++;
        }
    }
    return gpu;
}

static void templates_clear(void) {
    for (int i = 0; i < template_count; i++) {
        free(templates[i].gpu->processes);
        free(templates[i].gpu);
    }
    template_count = 0;
}

static const char *system_line(const char *key, const char *value, long long *started) {
    if (strcmp(key, "driver_version") == 0) {
        copy_text(machine.driver, sizeof machine.driver, value);
        copy_text(machine.library, sizeof machine.library, value);
        machine.branch = atoi(value);
    } else if (strcmp(key, "cuda_version") == 0) {
        copy_text(machine.cuda, sizeof machine.cuda, value);
    } else if (strcmp(key, "profiles") == 0) {
        copy_text(machine.profiles, sizeof machine.profiles, value);
    } else if (strcmp(key, "started_ns") == 0) {
        *started = atoll(value);
    } else {
        return "unknown key";
    }
    return NULL;
}

/* A section's `profile` and `sample` come first, then its overrides. */
struct section {
    bool is_open;
    char profile[64], sample[64];
    struct gpu *gpu;
};

static const char *section_line(struct section *section, char *key, char *value) {
    const char *why = NULL;
    if (strcmp(key, "profile") == 0) {
        copy_text(section->profile, sizeof section->profile, value);
    } else if (strcmp(key, "sample") == 0) {
        copy_text(section->sample, sizeof section->sample, value);
    } else {
        if (section->gpu == NULL)
            section->gpu = from_template(section->profile, section->sample, &why);
        if (section->gpu == NULL) return "too many GPUs";
        if (why == NULL) why = value_set(section->gpu, key, value, FROM_PROFILE);
    }
    return why;
}

static const char *section_end(struct section *section) {
    const char *why = NULL;
    if (section->is_open && section->gpu == NULL &&
        from_template(section->profile, section->sample, &why) == NULL)
        return "too many GPUs";
    *section = (struct section){.is_open = true};
    return why;
}

static const char *machine_line(struct section *section, char *text, long long *started) {
    if (*text == '\0' || *text == '#') return NULL;
    if (strcmp(text, "[gpu]") == 0) return section_end(section);
    char *value = value_after(text);
    if (value == NULL) return "a line without =";
    if (!section->is_open) return system_line(text, value, started);
    return section_line(section, text, value);
}

bool machine_load(const char *folder, char *problem, size_t bytes) {
    char path[600], line[LINE_BYTES];
    long long started = now_ns();
    struct section section = {.is_open = false};
    machine_clear();
    copy_text(machine.folder, sizeof machine.folder, folder);
    snprintf(path, sizeof path, "%s/machine", folder);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        snprintf(problem, bytes, "cannot open %s", path);
        return false;
    }
    const char *why = NULL;
    int number = 0;
    while (why == NULL && fgets(line, sizeof line, file) != NULL) {
        number++;
        why = machine_line(&section, trimmed(line), &started);
    }
    fclose(file);
    if (why == NULL && section.is_open) why = section_end(&section);
    templates_clear();
    for (int i = 0; i < machine.gpu_count; i++) machine.gpus[i]->settled_ns = started;
    if (why != NULL)
        snprintf(problem, bytes, "machine line %d: %s: %.200s", number, why, trimmed(line));
    return why == NULL;
}
