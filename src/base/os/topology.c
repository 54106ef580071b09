/* SPDX-License-Identifier: Apache-2.0 */
/* Cores and nodes from hwloc or from /sys; masks and slices. */
#include "base/os/topology.h"

#include "base/os/procfile.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef WHIM_HWLOC
#include <hwloc.h>
#include <unistd.h>
#endif

static int cpu_order(const void *a, const void *b)
{
    const whim_os_cpu *x = a, *y = b;
    return x->node != y->node   ? (x->node < y->node ? -1 : 1)
           : x->core != y->core ? (x->core < y->core ? -1 : 1)
                                : (x->cpu > y->cpu) - (x->cpu < y->cpu);
}

/* Sort what a reader found, and count cores from 0 in that order. */
static bool finish(whim_os_topology *t, const char *source)
{
    t->source = source;
    t->n_core = t->n_node = 0;
    qsort(t->cpus, (size_t)t->n_cpu, sizeof t->cpus[0], cpu_order);
    whim_os_cpu before = {.core = -1, .node = -1};
    for (int32_t i = 0; i < t->n_cpu; i++) {
        whim_os_cpu at = t->cpus[i];
        bool new_node = i == 0 || at.node != before.node;
        t->n_node += new_node;
        t->n_core += new_node || at.core != before.core;
        t->cpus[i].core = t->n_core - 1;
        before = at;
    }
    return t->n_cpu > 0;
}

#ifdef WHIM_HWLOC
bool whim_os_topology_hwloc(const whim_os_mask *mask, whim_os_topology *out)
{
    hwloc_topology_t t;
    /* Without these files (a chroot without /sys) hwloc writes to standard error, and finds
     * nothing. */
    if (access("/sys/devices/system/cpu/cpu0/topology", F_OK) != 0 ||
        hwloc_topology_init(&t) != 0) {
        return false;
    }
    out->n_cpu = 0;
    /* The reader that moves this thread over all CPUs to question each is left out: /sys knows
     * enough. */
    hwloc_topology_set_components(t, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    if (hwloc_topology_load(t) == 0) {
        for (hwloc_obj_t pu = NULL;
             (pu = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_PU, pu)) != NULL;) {
            hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_CORE, pu);
            if (whim_os_mask_has(mask, pu->os_index)) {
                out->cpus[out->n_cpu++] = (whim_os_cpu){
                    .cpu = (int32_t)pu->os_index,
                    .core = (int32_t)(core != NULL ? core : pu)->logical_index,
                    .node = pu->nodeset != NULL ? hwloc_bitmap_first(pu->nodeset) : 0,
                };
            }
        }
    }
    hwloc_topology_destroy(t);
    return finish(out, "hwloc");
}
#else
bool whim_os_topology_hwloc(const whim_os_mask *mask, whim_os_topology *out)
{
    (void)mask;
    (void)out;
    return false;
}
#endif

/* The numbers of a list like "0-3,8" in a file; false when it cannot be read. */
static bool read_list(const char *path, whim_os_mask *out)
{
    char text[8 * 1024];
    *out = (whim_os_mask){{0}};
    if (whim_os_file_text(path, text, sizeof text) < 0) {
        return false;
    }
    for (char *p = text; *p >= '0' && *p <= '9'; p += *p == ',') {
        int64_t first = strtoll(p, &p, 10), last = *p == '-' ? strtoll(p + 1, &p, 10) : first;
        for (int64_t i = first; i <= last && i < WHIM_OS_CPUS_MAX; i++) {
            whim_os_mask_add(out, i);
        }
    }
    return true;
}

static int32_t lowest(const whim_os_mask *mask)
{
    for (int32_t i = 0; i < WHIM_OS_CPUS_MAX; i++) {
        if (whim_os_mask_has(mask, i)) {
            return i;
        }
    }
    return -1;
}

static void read_nodes(const char *root, whim_os_topology *t)
{
    char path[512];
    whim_os_mask nodes, members;
    snprintf(path, sizeof path, "%s/sys/devices/system/node/online", root);
    if (!read_list(path, &nodes)) {
        return; /* a kernel without nodes: one */
    }
    for (int32_t node = 0; node < WHIM_OS_CPUS_MAX; node++) {
        snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist", root, node);
        if (!whim_os_mask_has(&nodes, node) || !read_list(path, &members)) {
            continue;
        }
        for (int32_t i = 0; i < t->n_cpu; i++) {
            if (whim_os_mask_has(&members, t->cpus[i].cpu)) {
                t->cpus[i].node = node;
            }
        }
    }
}

bool whim_os_topology_sysfs(const char *root, const whim_os_mask *mask, whim_os_topology *out)
{
    out->n_cpu = 0;
    for (int32_t cpu = 0; cpu < WHIM_OS_CPUS_MAX; cpu++) {
        char path[512];
        whim_os_mask siblings;
        if (!whim_os_mask_has(mask, cpu)) {
            continue;
        }
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 root, cpu);
        if (!read_list(path, &siblings) || !whim_os_mask_has(&siblings, cpu)) {
            return false;
        }
        out->cpus[out->n_cpu++] = (whim_os_cpu){.cpu = cpu, .core = lowest(&siblings)};
    }
    read_nodes(root, out);
    return finish(out, "sysfs");
}

static whim_os_topology topology;
static pthread_once_t topology_once = PTHREAD_ONCE_INIT;

static void topology_read(void)
{
    const whim_os_mask *mask = whim_os_cpu_mask();
    int32_t n = whim_os_cpu_mask_count();
    if ((whim_os_topology_hwloc(mask, &topology) && topology.n_cpu == n) ||
        (whim_os_topology_sysfs("", mask, &topology) && topology.n_cpu == n)) {
        return;
    }
    topology.n_cpu = 0;
    for (int32_t cpu = 0; cpu < WHIM_OS_CPUS_MAX; cpu++) {
        if (whim_os_mask_has(mask, cpu)) {
            topology.cpus[topology.n_cpu++] = (whim_os_cpu){.cpu = cpu, .core = cpu};
        }
    }
    finish(&topology, "none");
}

const whim_os_topology *whim_os_topology_get(void)
{
    pthread_once(&topology_once, topology_read);
    return &topology;
}

void whim_os_topology_slice(const whim_os_topology *t, int32_t index, int32_t count, int32_t *begin,
                            int32_t *end)
{
    *begin = 0;
    *end = t->n_cpu;
    if (count > t->n_cpu) {
        return;
    }
    if (count > t->n_core) {
        *begin = (int32_t)((int64_t)t->n_cpu * index / count);
        *end = (int32_t)((int64_t)t->n_cpu * (index + 1) / count);
        return;
    }
    int64_t first = (int64_t)t->n_core * index / count;
    int64_t after = (int64_t)t->n_core * (index + 1) / count;
    while (*begin < *end && t->cpus[*begin].core < first) {
        (*begin)++;
    }
    while (*end > *begin && t->cpus[*end - 1].core >= after) {
        (*end)--;
    }
}

int32_t whim_os_topology_nodes(const whim_os_topology *t, int32_t index, int32_t count,
                               int32_t *nodes)
{
    int32_t n = 0, begin, end;
    whim_os_topology_slice(t, index, count, &begin, &end);
    for (int32_t i = begin; i < end; i++) {
        if (n == 0 || nodes[n - 1] != t->cpus[i].node) {
            nodes[n++] = t->cpus[i].node;
        }
    }
    return n;
}

int32_t whim_os_topology_even_nodes(const whim_os_topology *t)
{
    int32_t begin, end;
    for (int32_t i = 0; i < t->n_node; i++) { /* then slices are nodes */
        whim_os_topology_slice(t, i, t->n_node, &begin, &end);
        bool starts = begin < end && (begin == 0 || t->cpus[begin - 1].node != t->cpus[begin].node);
        if (!starts || t->cpus[end - 1].node != t->cpus[begin].node || t->n_core % t->n_node != 0) {
            return 1;
        }
    }
    return t->n_node;
}

void whim_os_topology_mask(const whim_os_topology *t, int32_t begin, int32_t end, whim_os_mask *out)
{
    *out = (whim_os_mask){{0}};
    for (int32_t i = begin; i < end; i++) {
        whim_os_mask_add(out, t->cpus[i].cpu);
    }
}
