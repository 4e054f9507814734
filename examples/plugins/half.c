/* A batching policy as a plug-in: a batch waits for half of the limit, but no longer than a batch
 * of that size takes, or `wait` microseconds where that is not measured yet:
 *
 *   weft serve --plugin ./libhalf.so MODEL --policy half:wait=500 */
#include <stdlib.h>

#include "weft/batching_ops.h"
#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */

typedef struct half {
    const weft_batching_queue *queue;
    double wait;
} half;

static weft_status half_open(const char *arguments, const weft_batching_queue *queue,
                             weft_batch_setting *setting, void **state)
{
    half *h;
    double wait = 1000;
    const weft_spec_key keys[] = {{.name = "wait", .number = &wait, .high = 1e9}, {.name = NULL}};
    weft_status status = weft->parse("policy half", arguments, keys);
    if (status == WEFT_OK) status = weft->allocate(sizeof(*h), &h);
    if (status != WEFT_OK) return status;
    *h = (half){.queue = queue, .wait = wait / 1e6};
    setting->min_rows = queue->limit / 2;
    setting->max_delay = h->wait;
    *state = h;
    return WEFT_OK;
}

static void half_arrived(void *state, double now, int64_t rows, int64_t in_system,
                         weft_batch_setting *setting)
{
    const half *h = state;
    double seconds = h->queue->seconds(h->queue, (double)setting->min_rows);
    (void)now, (void)rows, (void)in_system;
    setting->max_delay = seconds > 0 ? seconds : h->wait;
}

static const weft_batching_ops ops = {
    .struct_size = sizeof(ops), .open = half_open, .close = free, .arrived = half_arrived};

static const weft_entry entries[] = {{.kind = WEFT_KIND_POLICY,
                                      .name = "half",
                                      .form = "half[:wait=US]",
                                      .summary = "half of the limit, or what has come while a "
                                                 "batch would have been computed",
                                      .ops = &ops},
                                     {.name = NULL}};

WEFT_PLUGIN(weft, entries);
