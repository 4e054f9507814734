/* Divides the cores of this process into disjoint sets of neighbouring cores, and binds threads to
 * the sets (hwloc). */
#include <hwloc.h>

#include "base/core_lists.h"

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

static weft_status load_cores(weft_core_sets *s, bool *all)
{
    if (hwloc_topology_init(&s->topology) != 0) return no_topology("hwloc_topology_init");
    if (hwloc_topology_load(s->topology) != 0) return no_topology("hwloc_topology_load");
    return own_cores(s, all);
}

static weft_status find_sets(weft_core_sets *s, int parts, bool processes)
{
    bool all = true;
    WEFT_TRY(load_cores(s, &all));
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

/* --- lists of cores --- */

static weft_status malformed(const char *list)
{
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "the cores '%s', must be numbers and ranges with '+' between them, such as "
                     "0-3+8",
                     list);
}

/* Reads a number of at most five digits, and moves *at behind it; -1: there is none. */
static int read_core(const char **at)
{
    int number = 0, digits = 0;
    for (; **at >= '0' && **at <= '9' && digits < 5; ++*at, digits++)
        number = number * 10 + (**at - '0');
    return digits > 0 ? number : -1;
}

static weft_status parse_list(const char *list, hwloc_cpuset_t cores)
{
    const char *at = list;
    while (true) {
        int first = read_core(&at), last = first;
        if (first >= 0 && *at == '-') {
            at++;
            last = read_core(&at);
        }
        if (first < 0 || last < first || (*at != '\0' && *at != '+')) return malformed(list);
        hwloc_bitmap_set_range(cores, (unsigned)first, last);
        if (*at++ == '\0') return WEFT_OK;
    }
}

/* Adds the cores of a list to `cores`, all of which this process must be allowed to use. */
static weft_status take_list(const weft_core_sets *s, const char *list, hwloc_cpuset_t cores)
{
    WEFT_TRY(parse_list(list, cores));
    hwloc_const_cpuset_t own = hwloc_topology_get_topology_cpuset(s->topology);
    if (hwloc_bitmap_isincluded(cores, own)) return WEFT_OK;
    char *text = NULL;
    hwloc_bitmap_t missing = hwloc_bitmap_dup(own);
    int core = -1;
    if (missing) {
        hwloc_bitmap_andnot(missing, cores, own);
        core = hwloc_bitmap_first(missing);
    }
    hwloc_bitmap_free(missing);
    if (hwloc_bitmap_list_asprintf(&text, own) < 0) text = NULL;
    weft_status status =
        weft_fail(WEFT_ERR_ARGUMENT, "the cores '%s': this process may not use core %d, only %s",
                  list, core, text ? text : "others");
    free(text);
    return status;
}

static weft_status fill_sets(weft_core_sets *s, const char *const *lists, int parts)
{
    hwloc_const_cpuset_t own = hwloc_topology_get_topology_cpuset(s->topology);
    WEFT_TRY(WEFT_NEW(&s->sets, parts + 1)); /* the last: cores that a list has */
    for (; s->count <= parts; s->count++)
        if (!(s->sets[s->count] = hwloc_bitmap_alloc()))
            return weft_fail(WEFT_ERR_MEMORY, "no memory for a set of cores");
    hwloc_cpuset_t taken = s->sets[parts];
    for (int i = 0; i < parts; i++) {
        if (!lists[i]) continue;
        WEFT_TRY(take_list(s, lists[i], s->sets[i]));
        if (hwloc_bitmap_intersects(s->sets[i], taken))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "the cores '%s' of a rank: another rank of this machine has some of "
                             "them, too; each core may be of one rank",
                             lists[i]);
        hwloc_bitmap_or(taken, taken, s->sets[i]);
    }
    for (int i = 0; i < parts; i++) {
        if (lists[i]) continue;
        hwloc_bitmap_andnot(s->sets[i], own, taken);
        if (hwloc_bitmap_iszero(s->sets[i])) hwloc_bitmap_copy(s->sets[i], own);
    }
    return WEFT_OK;
}

weft_status weft_core_sets_of_lists(const char *const *lists, int parts, weft_core_sets **out)
{
    weft_core_sets *s;
    *out = NULL;
    WEFT_TRY(WEFT_NEW(&s, 1));
    bool all;
    weft_status status = load_cores(s, &all);
    if (status == WEFT_OK) status = fill_sets(s, lists, parts);
    if (status == WEFT_OK)
        *out = s;
    else
        weft_core_sets_free(&s);
    return status;
}

weft_status weft_core_list_count(const char *list, int *count)
{
    weft_core_sets *s;
    WEFT_TRY(weft_core_sets_of_lists(&list, 1, &s));
    *count = hwloc_bitmap_weight(s->sets[0]);
    weft_core_sets_free(&s);
    return WEFT_OK;
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
