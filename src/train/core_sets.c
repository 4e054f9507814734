/* Gives the ranks of this machine sets of cores: those that --device names for a rank
 * (cpu:cores=0-3), or disjoint ones. */
#include "base/core_lists.h"
#include "device/device.h"
#include "train/trainer.h"
#include "weft/device.h"

/* The names of the devices of the machine's ranks, which follow each other. */
static weft_status name_devices(const weft_trainer *t, int here, char **names)
{
    int first = weft_comm_rank(t->worlds[0]) - weft_comm_local_rank(t->worlds[0]);
    for (int i = 0; i < here; i++)
        WEFT_TRY(weft_device_of_rank(t->context, t->options.where.device, first + i, &names[i]));
    return WEFT_OK;
}

/* With lists each rank has as many threads as the longest list has cores, and none more than its
 * own. */
static weft_status bind_to_lists(weft_trainer *t, int here, const char *const *lists)
{
    if (t->options.where.no_bind)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "device '%s' names cores, to which a rank is bound, and --no-bind forbids "
                         "it; leave one of them out",
                         t->options.where.device);
    for (int i = 0; i < here; i++) {
        int count = 0;
        if (lists[i]) WEFT_TRY(weft_core_list_count(lists[i], &count));
        t->listed_cores = WEFT_MAX(t->listed_cores, count);
    }
    return weft_core_sets_of_lists(lists, here, &t->cores);
}

weft_status weft_trainer_find_cores(weft_trainer *t, int here)
{
    char **names = NULL;
    const char **lists = NULL;
    bool any = false;
    size_t size;
    weft_status status = WEFT_NEW(&names, here);
    if (status == WEFT_OK) status = WEFT_NEW(&lists, here);
    if (status == WEFT_OK) status = name_devices(t, here, names);
    for (int i = 0; i < here && status == WEFT_OK; i++) {
        lists[i] = weft_device_cores(names[i], &size);
        any = any || lists[i];
    }
    if (status == WEFT_OK && any)
        status = bind_to_lists(t, here, lists);
    else if (status == WEFT_OK && !t->options.where.no_bind && here > 1)
        status = weft_core_sets_make(here, t->engine->launched, &t->cores);
    for (int i = 0; names && i < here; i++) free(names[i]);
    free((void *)names);
    free((void *)lists);
    return status;
}
