/* SPDX-License-Identifier: Apache-2.0 */
/* CPU mask, quota and name. */
#include "base/os/cpu.h"

#include "base/os/cgroup.h"
#include "base/os/procfile.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool whim_os_mask_has(const whim_os_mask *mask, int64_t cpu)
{
    return cpu >= 0 && cpu < WHIM_OS_CPUS_MAX && (mask->bits[cpu / 64] >> (cpu % 64) & 1) != 0;
}

void whim_os_mask_add(whim_os_mask *mask, int64_t cpu)
{
    if (cpu >= 0 && cpu < WHIM_OS_CPUS_MAX) {
        mask->bits[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    }
}

bool whim_os_mask_covers(const whim_os_mask *whole, const whim_os_mask *part)
{
    for (int32_t i = 0; i < WHIM_OS_CPUS_MAX / 64; i++) {
        if ((part->bits[i] & ~whole->bits[i]) != 0) {
            return false;
        }
    }
    return true;
}

#ifdef __linux__
#include <sched.h>

bool whim_os_thread_mask(whim_os_mask *out)
{
    cpu_set_t set[sizeof *out / sizeof(cpu_set_t)];
    *out = (whim_os_mask){{0}};
    if (sched_getaffinity(0, sizeof set, set) != 0) {
        return false;
    }
    memcpy(out, set, sizeof set);
    return true;
}

bool whim_os_thread_set_mask(const whim_os_mask *mask)
{
    cpu_set_t set[sizeof *mask / sizeof(cpu_set_t)];
    memcpy(set, mask, sizeof set);
    return sched_setaffinity(0, sizeof set, set) == 0;
}

void whim_os_thread_name(const char *name)
{
    pthread_setname_np(pthread_self(), name);
}

#else

bool whim_os_thread_mask(whim_os_mask *out)
{
    *out = (whim_os_mask){{0}};
    return false;
}

bool whim_os_thread_set_mask(const whim_os_mask *mask)
{
    (void)mask;
    return false;
}

void whim_os_thread_name(const char *name)
{
    (void)name;
}

#endif

static whim_os_mask process_mask;
static pthread_once_t mask_once = PTHREAD_ONCE_INIT;

static void mask_read(void)
{
    (void)whim_os_thread_mask(&process_mask);
}

const whim_os_mask *whim_os_cpu_mask(void)
{
    pthread_once(&mask_once, mask_read);
    return &process_mask;
}

int32_t whim_os_cpu_mask_count(void)
{
    const whim_os_mask *mask = whim_os_cpu_mask();
    int32_t count = 0;
    for (int32_t i = 0; i < WHIM_OS_CPUS_MAX / 64; i++) {
        count += __builtin_popcountll(mask->bits[i]);
    }
    if (count > 0) {
        return count;
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int32_t)n : 1;
}

void whim_os_thread_unpin(void)
{
    /* A refusal leaves the thread where it is: slower, not wrong. */
    (void)whim_os_thread_set_mask(whim_os_cpu_mask());
}

int32_t whim_os_cpu_count(void)
{
    int32_t in_mask = whim_os_cpu_mask_count();
    int32_t in_quota = whim_os_cgroup_cpus("");
    return in_quota < in_mask ? in_quota : in_mask;
}

/* Arm cores tell two numbers, not a name. */
static const struct {
    uint32_t implementer, part;
    const char *name;
} arm_parts[] = {
    {0x41, 0xd03, "Cortex-A53"},   {0x41, 0xd05, "Cortex-A55"},   {0x41, 0xd07, "Cortex-A57"},
    {0x41, 0xd08, "Cortex-A72"},   {0x41, 0xd09, "Cortex-A73"},   {0x41, 0xd0a, "Cortex-A75"},
    {0x41, 0xd0b, "Cortex-A76"},   {0x41, 0xd0d, "Cortex-A77"},   {0x41, 0xd41, "Cortex-A78"},
    {0x41, 0xd44, "Cortex-X1"},    {0x41, 0xd46, "Cortex-A510"},  {0x41, 0xd47, "Cortex-A710"},
    {0x41, 0xd48, "Cortex-X2"},    {0x41, 0xd4d, "Cortex-A715"},  {0x41, 0xd4e, "Cortex-X3"},
    {0x41, 0xd80, "Cortex-A520"},  {0x41, 0xd81, "Cortex-A720"},  {0x41, 0xd82, "Cortex-X4"},
    {0x41, 0xd0c, "Neoverse-N1"},  {0x41, 0xd40, "Neoverse-V1"},  {0x41, 0xd49, "Neoverse-N2"},
    {0x41, 0xd4a, "Neoverse-E1"},  {0x41, 0xd4f, "Neoverse-V2"},  {0x41, 0xd84, "Neoverse-V3"},
    {0x41, 0xd8e, "Neoverse-N3"},  {0x46, 0x001, "A64FX"},        {0x48, 0xd01, "Kunpeng 920"},
    {0x61, 0x022, "Apple M1"},     {0x61, 0x023, "Apple M1"},     {0x61, 0x024, "Apple M1 Pro"},
    {0x61, 0x025, "Apple M1 Pro"}, {0x61, 0x028, "Apple M1 Max"}, {0x61, 0x029, "Apple M1 Max"},
    {0x61, 0x032, "Apple M2"},     {0x61, 0x033, "Apple M2"},     {0xc0, 0xac3, "Ampere-1"},
};

/* The value after "key   : " in cpuinfo, as long as its line; NULL when absent. */
static const char *cpuinfo_value(const char *text, const char *key, int *len)
{
    size_t key_len = strlen(key);
    for (const char *line = text; *line != '\0';) {
        const char *end = line + strcspn(line, "\n");
        const char *colon = memchr(line, ':', (size_t)(end - line));
        if (strncmp(line, key, key_len) == 0 && colon != NULL &&
            strspn(line + key_len, " \t") == (size_t)(colon - line) - key_len) {
            const char *value = colon + 1;
            value += strspn(value, " \t");
            *len = value < end ? (int)(end - value) : 0;
            return *len > 0 ? value : NULL;
        }
        line = *end == '\0' ? end : end + 1;
    }
    return NULL;
}

void whim_os_cpu_model_parse(const char *cpuinfo, char *buf, int64_t n)
{
    int len = 0;
    const char *name = cpuinfo_value(cpuinfo, "model name", &len);
    if (name != NULL) {
        snprintf(buf, (size_t)n, "%.*s", len, name);
        return;
    }
    const char *implementer = cpuinfo_value(cpuinfo, "CPU implementer", &len);
    const char *part = cpuinfo_value(cpuinfo, "CPU part", &len);
    if (implementer == NULL || part == NULL) {
        snprintf(buf, (size_t)n, "unknown CPU");
        return;
    }
    unsigned long maker = strtoul(implementer, NULL, 0);
    unsigned long number = strtoul(part, NULL, 0);
    for (size_t i = 0; i < sizeof arm_parts / sizeof arm_parts[0]; i++) {
        if (arm_parts[i].implementer == maker && arm_parts[i].part == number) {
            snprintf(buf, (size_t)n, "%s", arm_parts[i].name);
            return;
        }
    }
    snprintf(buf, (size_t)n, "Arm part 0x%lx of maker 0x%lx", number, maker);
}

void whim_os_cpu_model(char *buf, int64_t n)
{
    char text[16 * 1024]; /* the first processor's lines are enough */
    if (whim_os_file_text("/proc/cpuinfo", text, sizeof text) < 0) {
        text[0] = '\0';
    }
    whim_os_cpu_model_parse(text, buf, n);
}
