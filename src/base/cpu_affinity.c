/* Divides the cores of this process into disjoint sets of neighbouring cores, and binds threads to
 * the sets (hwloc). */
#include <hwloc.h>

#include "base/base.h"

struct weft_core_sets {
    hwloc_topology_t topology;
    int count;
    hwloc_cpuset_t *sets;
};

static weft_status no_topology(const char *what)
{
    return weft_fail(WEFT_ERR_IO, "the cores of this machine cannot be found out: %s failed", what);
}

/* Restricts the topology to the cores of this process. *all: the process may use all cores of the
 * machine. */
static weft_status own_cores(weft_core_sets *s, bool *all)
{
    hwloc_bitmap_t own = hwloc_bitmap_alloc();
    if (!own) return weft_fail(WEFT_ERR_MEMORY, "no memory for a set of cores");
    if (hwloc_get_cpubind(s->topology, own, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(own, hwloc_topology_get_allowed_cpuset(s->topology));
    *all = hwloc_bitmap_isincluded(hwloc_topology_get_allowed_cpuset(s->topology), own) != 0;
    if (!*all) (void)hwloc_topology_restrict(s->topology, own, 0);
    hwloc_bitmap_free(own);
    return WEFT_OK;
}

static weft_status find_sets(weft_core_sets *s, int parts, bool processes)
{
    bool all = true;
    if (hwloc_topology_init(&s->topology) != 0) return no_topology("hwloc_topology_init");
    if (hwloc_topology_load(s->topology) != 0) return no_topology("hwloc_topology_load");
    WEFT_TRY(own_cores(s, &all));
    int cores = hwloc_get_nbobjs_by_type(s->topology, HWLOC_OBJ_PU);
    /* A process with fewer cores than the machine has been bound by its launcher, so it is not
     * bound again. */
    if (cores < parts || parts < 2 || (processes && !all)) return WEFT_OK;
    hwloc_obj_t root = hwloc_get_root_obj(s->topology);
    WEFT_TRY(WEFT_NEW(&s->sets, parts));
    s->count = parts;
    if (hwloc_distrib(s->topology, &root, 1, s->sets, (unsigned)parts, INT_MAX, 0) != 0)
        return no_topology("hwloc_distrib");
    return WEFT_OK;
}

weft_status weft_core_sets_make(int parts, bool processes, weft_core_sets **out)
{
    weft_core_sets *s;
    WEFT_TRY(WEFT_NEW(&s, 1));
    weft_status status = find_sets(s, parts, processes);
    if (status != WEFT_OK) weft_core_sets_free(&s);
    *out = s;
    return status;
}

void weft_core_sets_free(weft_core_sets **sets)
{
    if (!sets || !*sets) return;
    weft_core_sets *s = *sets;
    for (int i = 0; i < s->count; i++) hwloc_bitmap_free(s->sets[i]);
    free(s->sets);
    if (s->topology) hwloc_topology_destroy(s->topology);
    free(s);
    *sets = NULL;
}

void *weft_core_sets_enter(const weft_core_sets *s, int part)
{
    if (!s || s->count == 0) return NULL;
    hwloc_bitmap_t before = hwloc_bitmap_alloc();
    if (before && hwloc_get_cpubind(s->topology, before, HWLOC_CPUBIND_THREAD) == 0 &&
        hwloc_set_cpubind(s->topology, s->sets[part % s->count], HWLOC_CPUBIND_THREAD) == 0)
        return before;
    hwloc_bitmap_free(before);
    return NULL;
}

void weft_core_sets_leave(const weft_core_sets *s, void *before)
{
    if (!before) return;
    (void)hwloc_set_cpubind(s->topology, before, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(before);
}
