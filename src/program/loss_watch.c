/* Watches the losses of a step on the device. With several micro-batches or ranks they are noted
 * next to each other, and the ranks exchange theirs on their devices, so that each sets its own
 * flag by the same numbers. */
#include "program/far.h"
#include "program/run_ahead.h"

struct loss_watch {
    weft_instance *instance;
    size_t size;                    /* of a loss */
    int micros, loss;               /* see weft_loss_watch_open */
    weft_memory *flag, *mine, *all; /* mine, all: NULL: the loss is watched where it is */
    weft_kernel *kernel;
    weft_bound *bound;
    far_buffers *far; /* exchanges the losses; NULL: there is one rank */
    weft_operation *exchange;
};

static weft_device *device_of(const loss_watch *w)
{
    return w->instance->program->schema->devices[0];
}

static weft_status zeros(const loss_watch *w, size_t bytes, weft_memory **out)
{
    WEFT_TRY(weft_memory_new(device_of(w), bytes, out));
    return weft_memory_zero(device_of(w), w->instance->queue, (weft_address){*out, 0}, bytes);
}

static weft_status open_exchange(loss_watch *w, weft_comm *learner, weft_dtype dtype)
{
    int n = weft_comm_size(learner), me = weft_comm_rank(learner);
    weft_transfer what = {.kind = WEFT_ALL_GATHER,
                          .dtype = dtype,
                          .what = "the losses that devices watch",
                          .send = w->mine->base,
                          .receive = w->all->base,
                          .count = w->micros};
    WEFT_TRY(weft_far_open(w->instance, &what, n, me, (weft_address){w->mine, 0},
                           (weft_address){w->all, 0}, NULL, &w->far));
    return weft_comm_prepare_far(learner, &what, weft_far_head(w->far), &w->exchange);
}

static weft_status make(loss_watch *w, weft_dtype dtype)
{
    weft_comm *learner = ahead_ranks(w->instance);
    int ranks = learner ? weft_comm_size(learner) : 1, count = w->micros * ranks;
    const weft_type type = {dtype, weft_shape_of(1, (int64_t[]){count})};
    weft_address in = {NULL, 0}, out;
    WEFT_TRY(zeros(w, sizeof(int32_t), &w->flag));
    if (count > 1) WEFT_TRY(zeros(w, w->size * (size_t)w->micros, &w->mine));
    if (ranks > 1) WEFT_TRY(zeros(w, w->size * (size_t)count, &w->all));
    if (ranks > 1) WEFT_TRY(open_exchange(w, learner, dtype));
    in.memory = w->all ? w->all : w->mine;
    if (!in.memory) in = weft_instance_address(w->instance, w->loss);
    out = (weft_address){w->flag, 0};
    WEFT_TRY(weft_device_watch(device_of(w), &type, &w->kernel));
    WEFT_TRY(weft_kernel_bind(w->kernel, &w->bound));
    return weft_bound_place(w->bound, &in, &out, (weft_address){0});
}

weft_status weft_loss_watch_open(weft_instance *x, weft_dtype dtype, int micros, int loss,
                                 loss_watch **out)
{
    loss_watch *w;
    WEFT_TRY(WEFT_NEW(&w, 1));
    *w =
        (loss_watch){.instance = x, .size = weft_dtype_size(dtype), .micros = micros, .loss = loss};
    weft_status status = make(w, dtype);
    if (status == WEFT_OK)
        *out = w;
    else
        weft_loss_watch_close(&w);
    return status;
}

void weft_loss_watch_close(loss_watch **watch)
{
    loss_watch *w = *watch;
    *watch = NULL;
    if (!w) return;
    weft_operation_destroy(&w->exchange);
    weft_far_close(&w->far);
    if (w->bound) w->bound->ops->destroy(w->bound);
    if (w->kernel) w->kernel->ops->destroy(w->kernel);
    weft_memory_free(&w->flag);
    weft_memory_free(&w->mine);
    weft_memory_free(&w->all);
    free(w);
}

weft_address weft_loss_watch_flag(const loss_watch *w)
{
    return (weft_address){w->flag, 0};
}

weft_status weft_loss_watch_note(const loss_watch *w, int micro)
{
    if (!w->mine) return weft_bound_run(w->bound, w->instance->queue);
    return weft_copy(w->instance->queue, (weft_address){w->mine, w->size * (size_t)micro},
                     weft_instance_address(w->instance, w->loss), w->size);
}

static weft_status exchange(const loss_watch *w)
{
    double start = weft_seconds();
    WEFT_TRY(weft_far_ready(w->far));
    WEFT_TRY(weft_operation_start(w->exchange));
    WEFT_TRY(weft_operation_wait(w->exchange));
    w->instance->waited += weft_seconds() - start;
    return weft_far_end(w->far);
}

weft_status weft_loss_watch_look(const loss_watch *w, weft_comm_stats *apart)
{
    *apart = (weft_comm_stats){0};
    if (w->exchange) {
        weft_comm *learner = ahead_ranks(w->instance);
        weft_comm_stats before = weft_comm_get_stats(learner), after;
        WEFT_TRY(exchange(w));
        after = weft_comm_get_stats(learner);
        apart->bytes = after.bytes - before.bytes;
        apart->seconds = after.seconds - before.seconds;
        apart->waited = after.waited - before.waited;
    }
    return w->mine ? weft_bound_run(w->bound, w->instance->queue) : WEFT_OK;
}

weft_status weft_loss_watch_clear(const loss_watch *w)
{
    return weft_memory_zero(device_of(w), w->instance->queue, weft_loss_watch_flag(w),
                            sizeof(int32_t));
}
