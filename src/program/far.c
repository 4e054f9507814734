/* Buffers of transfers in memory of devices: what a communicator of ranks whose devices reach each
 * other queues, in a queue beside the one that computes. */
#include "program/instance.h"
#include "program/far.h"

#include "base/tree_sum.h"

struct far_buffers {
    weft_far head;
    weft_device *device;
    weft_queue *computes;    /* of the instance */
    weft_queue **queue;      /* of its transfers; NULL after a failure */
    device_library *library; /* of which `by` runs the whole transfer; NULL: the ranks do */
    weft_collective *by;
    weft_address send, receive;
    size_t size; /* of an element */
    weft_queue_event *event[WEFT_FAR_MARKS];
    int64_t stride; /* elements from one subtree of a rank to the next */
    far_graph *sum; /* NULL: it adds nothing */
    weft_tree_step *step;
    int steps;
    weft_address *source; /* [steps + 1] while a sum is placed: inputs and result */
};

/* After a failure there may be no mark behind what was queued before, which reads memory of other
 * ranks: closing the queue waits for it. */
static weft_status queued(const far_buffers *f, weft_status status)
{
    if (status != WEFT_OK) weft_queue_close(f->device, f->queue);
    return status;
}

static weft_status check_queue(const far_buffers *f)
{
    return *f->queue ? WEFT_OK : weft_fail(WEFT_ERR_INTERNAL, "the queue of transfers has failed");
}

static weft_status mark(weft_far *far, weft_far_mark which)
{
    const far_buffers *f = (const far_buffers *)far;
    WEFT_TRY(check_queue(f));
    return queued(f, weft_event_record(f->device, *f->queue, f->event[which]));
}

static weft_status follow(weft_far *far, const weft_far *other, weft_far_mark which)
{
    const far_buffers *f = (const far_buffers *)far;
    WEFT_TRY(check_queue(f));
    return queued(
        f, weft_queue_wait(f->device, *f->queue, ((const far_buffers *)other)->event[which]));
}

static weft_status copy(weft_far *far, const weft_far *from, bool received, size_t at, size_t to,
                        size_t bytes)
{
    const far_buffers *f = (const far_buffers *)far, *other = (const far_buffers *)from;
    weft_address source = received ? other->receive : other->send;
    WEFT_TRY(check_queue(f));
    return queued(
        f, weft_copy(*f->queue, weft_beyond(f->receive, to), weft_beyond(source, at), bytes));
}

static weft_status sum(weft_far *far, const weft_far *const *all, int64_t begin, int64_t end,
                       int64_t to)
{
    const far_buffers *f = (const far_buffers *)far;
    int sources = 0;
    WEFT_TRY(check_queue(f));
    if (begin == end) return WEFT_OK;
    for (int i = 0; i < f->steps; i++) {
        if (f->step[i].rank < 0) continue;
        int64_t first = f->step[i].part * f->stride + begin;
        f->source[sources++] =
            weft_beyond(((const far_buffers *)all[f->step[i].rank])->send, (size_t)first * f->size);
    }
    f->source[sources] = weft_beyond(f->receive, (size_t)to * f->size);
    return queued(f, weft_far_graph_run(f->sum, f->source, *f->queue));
}

/* Keeps the message of what failed before. */
static void settle(const weft_far *far)
{
    const far_buffers *f = (const far_buffers *)far;
    weft_error message = {.status = WEFT_OK};
    weft_error_catch(&message, WEFT_ERR_INTERNAL);
    weft_status status = WEFT_OK;
    for (int m = WEFT_FAR_SUMMED; m < WEFT_FAR_MARKS; m++)
        if (f->event[m] && weft_event_wait(f->device, f->event[m]) != WEFT_OK)
            status = weft_error_raise(&message);
    (void)status;
}

static const weft_far_ops ops = {
    .mark = mark, .follow = follow, .copy = copy, .sum = sum, .settle = settle};

static weft_status run(weft_far *far, const weft_transfer *what, const int64_t *counts)
{
    const far_buffers *f = (const far_buffers *)far;
    WEFT_TRY(weft_queue_wait(f->device, *f->queue, f->event[WEFT_FAR_READY]));
    /* An operation that fails may have been queued: settle waits for its end. */
    weft_error failure = {.status = WEFT_OK};
    weft_status status = weft_collectives_run(f->library, f->by, what, counts, f->send, f->receive);
    if (status != WEFT_OK) weft_error_catch(&failure, status);
    weft_status recorded = weft_event_record(f->device, *f->queue, f->event[WEFT_FAR_DONE]);
    return status == WEFT_OK ? recorded : weft_error_raise(&failure);
}

static const weft_far_ops library_ops = {.settle = settle, .run = run};

static weft_status open_sum(far_buffers *f, const weft_transfer *what, int ranks, int rank)
{
    int leaves = what->leaves ? what->leaves : ranks;
    int64_t count = what->counts ? what->counts[rank]
                                 : weft_part_start(what->count, rank + 1, ranks) -
                                       weft_part_start(what->count, rank, ranks);
    f->stride = what->count;
    f->steps = weft_tree_steps(leaves, ranks, NULL);
    WEFT_TRY(WEFT_NEW(&f->step, f->steps));
    WEFT_TRY(WEFT_NEW(&f->source, f->steps + 1));
    (void)weft_tree_steps(leaves, ranks, f->step);
    return count == 0 ? WEFT_OK
                      : weft_far_sum_open(f->device, what->dtype, leaves, ranks, count, &f->sum);
}

weft_status weft_far_open(weft_instance *x, const weft_transfer *what, int ranks, int rank,
                          weft_address send, weft_address receive, weft_collective *by,
                          far_buffers **out)
{
    far_buffers *f;
    weft_device *device = x->program->schema->devices[0];
    device_library *library = by ? x->program->schema->reach->library : NULL;
    if (!by && !x->transfers) WEFT_TRY(weft_queue_open(device, &x->transfers));
    WEFT_TRY(WEFT_NEW(&f, 1));
    *f = (far_buffers){.head = {by ? &library_ops : &ops},
                       .device = device,
                       .computes = x->queue,
                       .queue = by ? weft_collectives_queue(library) : &x->transfers,
                       .library = library,
                       .by = by,
                       .send = send,
                       .receive = receive,
                       .size = weft_dtype_size(what->dtype)};
    weft_status status = WEFT_OK;
    for (int m = 0; m < WEFT_FAR_MARKS && status == WEFT_OK; m++)
        status = weft_event_open(device, &f->event[m]);
    if (status == WEFT_OK && !by && weft_is_sum(what->kind))
        status = open_sum(f, what, ranks, rank);
    if (status == WEFT_OK)
        *out = f;
    else
        weft_far_close(&f);
    return status;
}

weft_far *weft_far_head(far_buffers *far)
{
    return &far->head;
}

weft_status weft_far_ready(far_buffers *f)
{
    return weft_event_record(f->device, f->computes, f->event[WEFT_FAR_READY]);
}

weft_status weft_far_end(far_buffers *f)
{
    return weft_queue_wait(f->device, f->computes, f->event[WEFT_FAR_DONE]);
}

void weft_far_close(far_buffers **far)
{
    far_buffers *f = *far;
    *far = NULL;
    if (!f) return;
    settle(&f->head);
    for (int m = 0; m < WEFT_FAR_MARKS; m++) weft_event_close(f->device, &f->event[m]);
    weft_far_graph_close(&f->sum);
    free(f->step);
    free(f->source);
    free(f);
}
