/* The limits of estimates: devices whose times are not known, and keys of a cluster without effect.
 */
#include <string.h>

#include "train/estimate/tracks.h"
#include "weft/device.h"

/* Keys of the file about single messages, which steps of ranks do not lose and actors do, and about
 * machines that stop, each at times of its own. */
void weft_estimate_note_unused(const weft_context *context, const weft_cluster *c, bool actors)
{
    const weft_sim_link *link = &c->link;
    bool some = link->lost > 0 || link->twice > 0 || link->reordered > 0, stops = false;
    for (int g = 0; g < c->group_count; g++) {
        link = &c->groups[g].link;
        some = some || link->lost > 0 || link->twice > 0 || link->reordered > 0;
        stops = stops || c->groups[g].awake < 1;
    }
    if (some && !actors)
        weft_log(context, WEFT_LOG_WARNING,
                 "the keys lost, twice and reordered of the cluster are of simulated messages; the "
                 "estimates of runs without an exchange, or with one in lock step, such as "
                 "average, take them as 0");
    if (stops)
        weft_log(context, WEFT_LOG_WARNING,
                 "machines that are awake for a share of each period, and their links, count as "
                 "that much slower; where ranks or learners wait for each other, and machines stop "
                 "one after the other, a step takes longer than that");
}

static weft_status check_device_of(const weft_trainer *t, int rank, const char *measured)
{
    char *device;
    WEFT_TRY(weft_device_of_rank(t->context, t->options.where.device, rank, &device));
    size_t size = strcspn(device, ":");
    weft_status status =
        size == strlen(measured) && strncmp(device, measured, size) == 0
            ? WEFT_OK
            : weft_fail(WEFT_ERR_UNSUPPORTED,
                        "the times of a cluster are those of the device %s, and rank %d has %s; "
                        "give --device %s",
                        measured, rank, device, measured);
    free(device);
    return status;
}

weft_status weft_estimate_go_on(const weft_estimate_end *end)
{
    if (!end || !end->asked || !end->asked(end->user)) return WEFT_OK;
    return weft_fail(WEFT_ERR_INTERRUPTED, "stopped before the step was estimated");
}

/* Times are of the device on which weft measure runs, the default. */
weft_status weft_estimate_check_devices(const weft_trainer *t)
{
    weft_train_options usual = {0};
    weft_status status = weft_train_options_init(t->context, &usual);
    for (int r = 0; r < t->mesh && status == WEFT_OK; r++)
        status = check_device_of(t, r, usual.where.device);
    weft_options_free(weft_train_table(t->context), &usual);
    return status;
}
