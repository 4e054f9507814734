/* Implements memory, queues and events of devices with device memory, streams and events of CUDA.
 */
#include "device/cuda/cuda.h"

struct weft_queue {
    const cuda_card *card;
    cu_stream stream;
};

struct weft_capture {
    const cuda_card *card;
    cu_graph_exec graph;
};

struct weft_queue_event {
    const cuda_card *card;
    cu_event event;
};

cu_stream cuda_stream_of(const weft_queue *queue)
{
    return queue->stream;
}

static const cuda_card *card_of(const weft_device *device)
{
    return (const cuda_card *)((const gpu_device *)device)->card;
}

cu_pointer cuda_pointer_of(weft_address address)
{
    const weft_memory *memory = address.memory;
    return (memory ? (cu_pointer)(uintptr_t)memory->base : 0) + address.offset;
}

static void release(weft_memory *memory)
{
    const cuda_card *card = card_of(memory->device);
    cu_pointer base = (cu_pointer)(uintptr_t)memory->base;
    if (base) (void)CUDA_CALL(card, cuMemFree_v2, base);
    free(memory);
}

static weft_status usage(weft_device *device, size_t *total, size_t *free)
{
    return CUDA_CHECK(card_of(device), cuMemGetInfo_v2, free, total);
}

static weft_status no_room(weft_device *device, size_t bytes)
{
    size_t total = 0, free = 0;
    WEFT_TRY(usage(device, &total, &free));
    return weft->fail(WEFT_ERR_MEMORY,
                      "device cuda: %s has no room for %zu bytes: %zu of its %zu are free; a "
                      "smaller batch, or more micro-batches, needs less",
                      card_of(device)->head.name, bytes, free, total);
}

/* Fills new memory with numbers that are none. */
static weft_status fill(const cuda_card *card, cu_pointer to, size_t bytes)
{
    WEFT_TRY(CUDA_CHECK(card, cuMemsetD8Async, to, 0xff, bytes, card->fills));
    return CUDA_CHECK(card, cuStreamSynchronize, card->fills);
}

static weft_status allocate(weft_device *device, size_t bytes, weft_memory **out)
{
    const cuda_card *card = card_of(device);
    weft_memory *m;
    cu_pointer base = 0;
    size_t whole = WEFT_MAX(bytes, (size_t)64);
    WEFT_TRY(weft->allocate(sizeof(*m), &m));
    m->device = device;
    cu_result result = CUDA_CALL(card, cuMemAlloc_v2, &base, whole);
    weft_status status = result == CU_OUT_OF_MEMORY ? no_room(device, bytes)
                                                    : cuda_check(card, result, "cuMemAlloc");
    if (status == WEFT_OK) {
        m->base = (char *)(uintptr_t)base;
        status = fill(card, base, whole);
    }
    if (status == WEFT_OK)
        *out = m;
    else
        release(m);
    return status;
}

static weft_status open_queue(weft_device *device, weft_queue **out)
{
    weft_queue *q;
    WEFT_TRY(weft->allocate(sizeof(*q), &q));
    q->card = card_of(device);
    weft_status status = CUDA_CHECK(q->card, cuStreamCreate, &q->stream, CU_NON_BLOCKING);
    if (status == WEFT_OK)
        *out = q;
    else
        free(q);
    return status;
}

static void close_queue(weft_queue *queue)
{
    (void)CUDA_CALL(queue->card, cuStreamSynchronize, queue->stream);
    (void)CUDA_CALL(queue->card, cuStreamDestroy_v2, queue->stream);
    free(queue);
}

static weft_status copy_in(weft_queue *queue, weft_address to, const void *from, size_t bytes)
{
    if (bytes == 0) return WEFT_OK;
    return CUDA_CHECK(queue->card, cuMemcpyHtoDAsync_v2, cuda_pointer_of(to), from, bytes,
                      queue->stream);
}

static weft_status copy_out(weft_queue *queue, void *to, weft_address from, size_t bytes)
{
    if (bytes == 0) return WEFT_OK;
    return CUDA_CHECK(queue->card, cuMemcpyDtoHAsync_v2, to, cuda_pointer_of(from), bytes,
                      queue->stream);
}

static weft_status copy(weft_queue *queue, weft_address to, weft_address from, size_t bytes)
{
    if (bytes == 0 || cuda_pointer_of(to) == cuda_pointer_of(from)) return WEFT_OK;
    return CUDA_CHECK(queue->card, cuMemcpyDtoDAsync_v2, cuda_pointer_of(to), cuda_pointer_of(from),
                      bytes, queue->stream);
}

bool cuda_reaches(weft_device *device, weft_device *other)
{
    const cuda_card *card = card_of(device), *peer = card_of(other);
    int can = 0;
    if (card == peer || card->context == peer->context) return true;
    if (CUDA_CALL(card, cuDeviceCanAccessPeer, &can, card->device, peer->device) != CU_OK || !can)
        return false;
    cu_result result = CUDA_CALL(card, cuCtxEnablePeerAccess, peer->context, 0);
    return result == CU_OK || result == CU_PEER_ACCESS_ALREADY_ENABLED;
}

static weft_status new_event(weft_device *device, unsigned flags, weft_queue_event **out)
{
    weft_queue_event *e;
    WEFT_TRY(weft->allocate(sizeof(*e), &e));
    e->card = card_of(device);
    weft_status status = CUDA_CHECK(e->card, cuEventCreate, &e->event, flags);
    if (status == WEFT_OK)
        *out = e;
    else
        free(e);
    return status;
}

static weft_status open_event(weft_device *device, weft_queue_event **out)
{
    return new_event(device, CU_DISABLE_TIMING, out);
}

static weft_status open_timer(weft_device *device, weft_queue_event **out)
{
    return new_event(device, CU_WITH_TIMING, out);
}

static weft_status elapsed(weft_queue_event *from, weft_queue_event *to, double *seconds)
{
    float milliseconds = 0;
    WEFT_TRY(CUDA_CHECK(from->card, cuEventElapsedTime, &milliseconds, from->event, to->event));
    *seconds = (double)milliseconds * 1e-3;
    return WEFT_OK;
}

static void close_event(weft_queue_event *event)
{
    (void)CUDA_CALL(event->card, cuEventDestroy_v2, event->event);
    free(event);
}

static weft_status record(weft_queue *queue, weft_queue_event *event)
{
    return CUDA_CHECK(queue->card, cuEventRecord, event->event, queue->stream);
}

static weft_status wait(weft_queue_event *event)
{
    return CUDA_CHECK(event->card, cuEventSynchronize, event->event);
}

static weft_status test(weft_queue_event *event, bool *done)
{
    cu_result result = CUDA_CALL(event->card, cuEventQuery, event->event);
    *done = result != CU_NOT_READY;
    return *done ? cuda_check(event->card, result, "cuEventQuery") : WEFT_OK;
}

static weft_status wait_queue(weft_queue *queue, weft_queue_event *event)
{
    return CUDA_CHECK(queue->card, cuStreamWaitEvent, queue->stream, event->event, 0);
}

static weft_status allocate_host(weft_device *device, size_t bytes, void **out)
{
    WEFT_TRY(
        CUDA_CHECK(card_of(device), cuMemHostAlloc, out, WEFT_MAX(bytes, (size_t)64), CU_PORTABLE));
    memset(*out, 0, bytes);
    return WEFT_OK;
}

static void release_host(weft_device *device, void *data)
{
    if (data) (void)CUDA_CALL(card_of(device), cuMemFreeHost, data);
}

const weft_memory_ops cuda_memory_ops = {.allocate = allocate,
                                         .release = release,
                                         .open_queue = open_queue,
                                         .close_queue = close_queue,
                                         .copy_in = copy_in,
                                         .copy_out = copy_out,
                                         .copy = copy,
                                         .open_event = open_event,
                                         .close_event = close_event,
                                         .record = record,
                                         .wait = wait,
                                         .test = test,
                                         .wait_queue = wait_queue,
                                         .allocate_host = allocate_host,
                                         .release_host = release_host,
                                         .usage = usage,
                                         .open_timer = open_timer,
                                         .elapsed = elapsed};

static weft_status begin_capture(weft_queue *queue)
{
    return CUDA_CHECK(queue->card, cuStreamBeginCapture_v2, queue->stream, CU_CAPTURE_OF_THREAD);
}

static weft_status end_capture(weft_queue *queue, weft_capture **out)
{
    const cuda_card *card = queue->card;
    weft_capture *c;
    cu_graph graph = NULL;
    WEFT_TRY(CUDA_CHECK(card, cuStreamEndCapture, queue->stream, &graph));
    weft_status status = weft->allocate(sizeof(*c), &c);
    if (status == WEFT_OK) {
        c->card = card;
        status = CUDA_CHECK(card, cuGraphInstantiateWithFlags, &c->graph, graph, 0);
        if (status == WEFT_OK)
            *out = c;
        else
            free(c);
    }
    (void)CUDA_CALL(card, cuGraphDestroy, graph);
    return status;
}

static weft_status replay(weft_queue *queue, weft_capture *capture)
{
    return CUDA_CHECK(queue->card, cuGraphLaunch, capture->graph, queue->stream);
}

static void close_capture(weft_capture *capture)
{
    (void)CUDA_CALL(capture->card, cuGraphExecDestroy, capture->graph);
    free(capture);
}

const weft_capture_ops cuda_capture_ops = {
    .begin = begin_capture, .end = end_capture, .replay = replay, .close = close_capture};
