/* Implements memory, queues and events of devices with buffers, in-order queues and markers. */
#include <pthread.h>
#include <stdio.h>

#include "device/opencl/opencl.h"

typedef struct buffer {
    weft_memory head;
    cl_mem memory;
    size_t bytes;
} buffer;

struct weft_queue {
    const cl_card *card;
    cl_command_queue queue;
};

/* A thread may wait for an event while another one records it again, so it takes a reference to the
 * event of OpenCL first. */
struct weft_queue_event {
    const cl_card *card;
    pthread_mutex_t lock;
    cl_event event; /* NULL: nothing was recorded */
};

cl_mem cl_memory_of(weft_address address)
{
    return ((const buffer *)address.memory)->memory;
}

cl_command_queue cl_queue_of(const weft_queue *queue)
{
    return queue->queue;
}

static cl_card *card_of(const weft_device *device)
{
    return (cl_card *)((const gpu_device *)device)->card;
}

static void release(weft_memory *memory)
{
    buffer *b = (buffer *)memory;
    cl_card *card = card_of(memory->device);
    if (b->memory) (void)card->f.clReleaseMemObject(b->memory);
    if (b->memory) atomic_fetch_sub(&card->taken, b->bytes);
    free(b);
}

static weft_status no_room(const cl_card *card, size_t bytes)
{
    return weft->fail(
        WEFT_ERR_MEMORY,
        "device opencl: %s has no room for %zu bytes; it has %llu, of which one "
        "allocation may have %llu; a smaller batch, or more micro-batches, needs less",
        card->head.name, bytes, (unsigned long long)card->bytes, (unsigned long long)card->most);
}

/* Fills new memory with numbers that are none, which also makes the device provide it. */
static weft_status fill(const cl_card *card, const buffer *b, size_t bytes)
{
    const cl_ulong none = ~(cl_ulong)0; /* the size is a multiple of 64 */
    cl_int error = card->f.clEnqueueFillBuffer(card->fills, b->memory, &none, sizeof(none), 0,
                                               bytes, 0, NULL, NULL);
    if (error == CL_SUCCESS) error = card->f.clFinish(card->fills);
    if (error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES)
        return no_room(card, bytes);
    return cl_check(card, error, "clEnqueueFillBuffer");
}

static weft_status allocate(weft_device *device, size_t bytes, weft_memory **out)
{
    cl_card *card = card_of(device);
    buffer *b;
    cl_int error;
    size_t whole = (WEFT_MAX(bytes, (size_t)64) + 63) / 64 * 64;
    if (whole > card->most) return no_room(card, bytes);
    WEFT_TRY(weft->allocate(sizeof(*b), &b));
    b->head.device = device;
    b->memory = card->f.clCreateBuffer(card->context, CL_MEM_READ_WRITE, whole, NULL, &error);
    b->head.base = (char *)b->memory;
    weft_status status = error == CL_MEM_OBJECT_ALLOCATION_FAILURE ||
                                 error == CL_OUT_OF_RESOURCES || error == CL_INVALID_BUFFER_SIZE
                             ? no_room(card, bytes)
                             : cl_check(card, error, "clCreateBuffer");
    b->bytes = whole;
    if (status == WEFT_OK) atomic_fetch_add(&card->taken, whole);
    if (status == WEFT_OK) status = fill(card, b, whole);
    if (status == WEFT_OK)
        *out = &b->head;
    else
        release(&b->head);
    return status;
}

static weft_status open_queue(weft_device *device, weft_queue **out)
{
    const cl_card *card = card_of(device);
    weft_queue *q;
    cl_int error;
    WEFT_TRY(weft->allocate(sizeof(*q), &q));
    q->card = card;
    q->queue = card->f.clCreateCommandQueue(card->context, card->device, CL_QUEUE_PROFILING_ENABLE,
                                            &error);
    weft_status status = cl_check(card, error, "clCreateCommandQueue");
    if (status == WEFT_OK)
        *out = q;
    else
        free(q);
    return status;
}

static void close_queue(weft_queue *queue)
{
    (void)queue->card->f.clFinish(queue->queue);
    (void)queue->card->f.clReleaseCommandQueue(queue->queue);
    free(queue);
}

static weft_status copy_in(weft_queue *queue, weft_address to, const void *from, size_t bytes)
{
    if (bytes == 0) return WEFT_OK;
    cl_int error = queue->card->f.clEnqueueWriteBuffer(queue->queue, cl_memory_of(to), CL_FALSE,
                                                       to.offset, bytes, from, 0, NULL, NULL);
    return cl_check(queue->card, error, "clEnqueueWriteBuffer");
}

static weft_status copy_out(weft_queue *queue, void *to, weft_address from, size_t bytes)
{
    if (bytes == 0) return WEFT_OK;
    cl_int error = queue->card->f.clEnqueueReadBuffer(queue->queue, cl_memory_of(from), CL_FALSE,
                                                      from.offset, bytes, to, 0, NULL, NULL);
    return cl_check(queue->card, error, "clEnqueueReadBuffer");
}

static weft_status copy(weft_queue *queue, weft_address to, weft_address from, size_t bytes)
{
    bool same = cl_memory_of(to) == cl_memory_of(from) && to.offset == from.offset;
    if (bytes == 0 || same) return WEFT_OK;
    cl_int error =
        queue->card->f.clEnqueueCopyBuffer(queue->queue, cl_memory_of(from), cl_memory_of(to),
                                           from.offset, to.offset, bytes, 0, NULL, NULL);
    return cl_check(queue->card, error, "clEnqueueCopyBuffer");
}

/* OpenCL does not say how much memory is free: this counts what this process has allocated. */
static weft_status usage(weft_device *device, size_t *total, size_t *free)
{
    const cl_card *card = card_of(device);
    size_t taken = atomic_load(&card->taken);
    *total = (size_t)card->bytes;
    *free = *total > taken ? *total - taken : 0;
    return WEFT_OK;
}

bool cl_reaches(weft_device *device, weft_device *other)
{
    return card_of(device) == card_of(other);
}

static weft_status open_event(weft_device *device, weft_queue_event **out)
{
    WEFT_TRY(weft->allocate(sizeof(**out), out));
    (*out)->card = card_of(device);
    pthread_mutex_init(&(*out)->lock, NULL);
    return WEFT_OK;
}

/* Replaces the event of OpenCL. */
static void keep(weft_queue_event *event, cl_event now)
{
    pthread_mutex_lock(&event->lock);
    cl_event old = event->event;
    event->event = now;
    pthread_mutex_unlock(&event->lock);
    if (old) (void)event->card->f.clReleaseEvent(old);
}

/* A reference to the event of OpenCL, which the caller releases, or NULL. */
static cl_event refer(weft_queue_event *event)
{
    pthread_mutex_lock(&event->lock);
    cl_event now = event->event;
    if (now) (void)event->card->f.clRetainEvent(now);
    pthread_mutex_unlock(&event->lock);
    return now;
}

static void close_event(weft_queue_event *event)
{
    keep(event, NULL);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

static weft_status record(weft_queue *queue, weft_queue_event *event)
{
    const cl_functions *f = &queue->card->f;
    cl_event now = NULL;
    cl_int error = f->clEnqueueMarkerWithWaitList(queue->queue, 0, NULL, &now);
    keep(event, now);
    if (error == CL_SUCCESS) error = f->clFlush(queue->queue);
    /* Nobody can wait for what is queued, and its memory goes when this failure ends the run. */
    if (error != CL_SUCCESS) (void)f->clFinish(queue->queue);
    return cl_check(queue->card, error, "clEnqueueMarkerWithWaitList");
}

/* After a failure nothing of the queue may still use memory that goes then. */
static void finish_queue_of(const cl_card *card, cl_event event)
{
    cl_command_queue queue = NULL;
    cl_int error =
        card->f.clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof(queue), (void *)&queue, NULL);
    if (error == CL_SUCCESS && queue) (void)card->f.clFinish(queue);
}

static weft_status wait(weft_queue_event *event)
{
    cl_event now = refer(event);
    if (!now) return WEFT_OK;
    cl_int error = event->card->f.clWaitForEvents(1, &now);
    if (error != CL_SUCCESS) finish_queue_of(event->card, now);
    (void)event->card->f.clReleaseEvent(now);
    return cl_check(event->card, error, "clWaitForEvents");
}

static weft_status test(weft_queue_event *event, bool *done)
{
    cl_event now = refer(event);
    cl_int state = CL_COMPLETE;
    *done = true;
    if (!now) return WEFT_OK;
    cl_int error = event->card->f.clGetEventInfo(now, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                 sizeof(state), &state, NULL);
    (void)event->card->f.clReleaseEvent(now);
    *done = state <= CL_COMPLETE; /* below it: a failure */
    if (error == CL_SUCCESS && state < CL_COMPLETE) error = state;
    return cl_check(event->card, error, "clGetEventInfo");
}

static weft_status wait_queue(weft_queue *queue, weft_queue_event *event)
{
    cl_event now = refer(event);
    if (!now) return WEFT_OK;
    cl_int error = queue->card->f.clEnqueueBarrierWithWaitList(queue->queue, 1, &now, NULL);
    (void)event->card->f.clReleaseEvent(now);
    return cl_check(queue->card, error, "clEnqueueBarrierWithWaitList");
}

/* The device's clock, in nanoseconds, at the end of the marker. */
static weft_status clock_of(weft_queue_event *event, cl_ulong *out)
{
    cl_event now = refer(event);
    if (!now) return weft->fail(WEFT_ERR_INTERNAL, "device opencl: a timer was never recorded");
    cl_int error = event->card->f.clGetEventProfilingInfo(now, CL_PROFILING_COMMAND_END,
                                                          sizeof(*out), out, NULL);
    (void)event->card->f.clReleaseEvent(now);
    return cl_check(event->card, error, "clGetEventProfilingInfo");
}

static weft_status elapsed(weft_queue_event *from, weft_queue_event *to, double *seconds)
{
    cl_ulong first = 0, last = 0;
    WEFT_TRY(clock_of(from, &first));
    WEFT_TRY(clock_of(to, &last));
    *seconds = (double)(cl_long)(last - first) * 1e-9;
    return WEFT_OK;
}

const weft_memory_ops cl_memory_ops = {.allocate = allocate,
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
                                       .usage = usage,
                                       .open_timer = open_event,
                                       .elapsed = elapsed};
