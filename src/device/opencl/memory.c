/* Implements memory, queues and events of devices with buffers, in-order queues and markers. */
#include <stdio.h>

#include "device/opencl/opencl.h"

typedef struct buffer {
    weft_memory head;
    cl_mem memory;
} buffer;

struct weft_queue {
    const cl_card *card;
    cl_command_queue queue;
};

struct weft_queue_event {
    const cl_card *card;
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

static const cl_card *card_of(const weft_device *device)
{
    return (const cl_card *)((const gpu_device *)device)->card;
}

static void release(weft_memory *memory)
{
    buffer *b = (buffer *)memory;
    if (b->memory) (void)card_of(memory->device)->f.clReleaseMemObject(b->memory);
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

static weft_status fill(const cl_card *card, const buffer *b, size_t bytes)
{
    /* 64-bit zeros: the size is a multiple of 64. */
    const cl_ulong zero = 0;
    cl_int error = card->f.clEnqueueFillBuffer(card->fills, b->memory, &zero, sizeof(zero), 0,
                                               bytes, 0, NULL, NULL);
    if (error == CL_SUCCESS) error = card->f.clFinish(card->fills);
    if (error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES)
        return no_room(card, bytes);
    return cl_check(card, error, "clEnqueueFillBuffer");
}

static weft_status allocate(weft_device *device, size_t bytes, weft_memory **out)
{
    const cl_card *card = card_of(device);
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
    q->queue = card->f.clCreateCommandQueue(card->context, card->device, 0, &error);
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

static weft_status open_event(weft_device *device, weft_queue_event **out)
{
    WEFT_TRY(weft->allocate(sizeof(**out), out));
    (*out)->card = card_of(device);
    return WEFT_OK;
}

static void forget(weft_queue_event *event)
{
    if (event->event) (void)event->card->f.clReleaseEvent(event->event);
    event->event = NULL;
}

static void close_event(weft_queue_event *event)
{
    forget(event);
    free(event);
}

static weft_status record(weft_queue *queue, weft_queue_event *event)
{
    const cl_functions *f = &queue->card->f;
    forget(event);
    cl_int error = f->clEnqueueMarkerWithWaitList(queue->queue, 0, NULL, &event->event);
    if (error == CL_SUCCESS) error = f->clFlush(queue->queue);
    return cl_check(queue->card, error, "clEnqueueMarkerWithWaitList");
}

static weft_status wait(weft_queue_event *event)
{
    if (!event->event) return WEFT_OK;
    return cl_check(event->card, event->card->f.clWaitForEvents(1, &event->event),
                    "clWaitForEvents");
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
                                       .wait = wait};
