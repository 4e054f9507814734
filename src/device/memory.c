/* Accesses device memory, queues and events. For a device with its own memory the device's
 * functions are called; for a device in host memory, allocations and copies are done here. */
#include <sched.h>
#include <time.h>

#include "device/device.h"

/* Host memory. owner: the device that allocated it for its copies; NULL: malloc. */
typedef struct host_memory {
    weft_memory head;
    weft_device *owner;
} host_memory;

static weft_status allocate_host(const host_memory *m, size_t bytes, void *out)
{
    uint64_t before = weft_failures();
    if (!m->owner) return weft_new_aligned(bytes, out);
    return weft_device_told(m->owner, m->owner->ops->memory->allocate_host(m->owner, bytes, out),
                            before, "allocate_host");
}

weft_status weft_memory_new_host(weft_device *host, weft_device *far, size_t bytes,
                                 weft_memory **out)
{
    host_memory *m;
    WEFT_TRY(WEFT_NEW(&m, 1));
    m->head.device = host;
    if (!weft_device_shares(far) && far->ops->memory->allocate_host) m->owner = far;
    weft_status status = allocate_host(m, bytes, &m->head.base);
    if (status == WEFT_OK)
        *out = &m->head;
    else
        free(m);
    return status;
}

weft_status weft_memory_new(weft_device *device, size_t bytes, weft_memory **out)
{
    uint64_t before = weft_failures();
    if (weft_device_shares(device)) return weft_memory_new_host(device, device, bytes, out);
    return weft_device_told(device, device->ops->memory->allocate(device, bytes, out), before,
                            "allocate");
}

weft_status weft_memory_usage(weft_device *device, size_t *total, size_t *free)
{
    uint64_t before = weft_failures();
    *total = *free = 0;
    if (weft_device_shares(device) || !device->ops->memory->usage) return WEFT_OK;
    return weft_device_told(device, device->ops->memory->usage(device, total, free), before,
                            "usage");
}

void weft_memory_free(weft_memory **memory)
{
    weft_memory *m = *memory;
    *memory = NULL;
    if (!m) return;
    if (!weft_device_shares(m->device)) {
        m->device->ops->memory->release(m);
        return;
    }
    weft_device *owner = ((host_memory *)m)->owner;
    if (owner)
        owner->ops->memory->release_host(owner, m->base);
    else
        free(m->base);
    free(m);
}

weft_status weft_queue_open(weft_device *device, weft_queue **out)
{
    *out = NULL;
    uint64_t before = weft_failures();
    if (weft_device_shares(device)) return WEFT_OK;
    return weft_device_told(device, device->ops->memory->open_queue(device, out), before,
                            "open_queue");
}

void weft_queue_close(weft_device *device, weft_queue **queue)
{
    if (*queue) device->ops->memory->close_queue(*queue);
    *queue = NULL;
}

static const weft_memory_ops *ops_of(weft_address address)
{
    return address.memory->device->ops->memory;
}

/* Copies in host memory; pointers may be NULL if bytes is 0, which memcpy forbids. */
static weft_status copy_host(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) memcpy(to, from, bytes);
    return WEFT_OK;
}

weft_status weft_copy_in(weft_queue *queue, weft_address to, const void *from, size_t bytes)
{
    uint64_t before = weft_failures();
    if (!queue) return copy_host(weft_host(to), from, bytes);
    return weft_device_told(to.memory->device, ops_of(to)->copy_in(queue, to, from, bytes), before,
                            "copy_in");
}

weft_status weft_copy_out(weft_queue *queue, void *to, weft_address from, size_t bytes)
{
    uint64_t before = weft_failures();
    if (!queue) return copy_host(to, weft_host(from), bytes);
    return weft_device_told(from.memory->device, ops_of(from)->copy_out(queue, to, from, bytes),
                            before, "copy_out");
}

weft_status weft_copy(weft_queue *queue, weft_address to, weft_address from, size_t bytes)
{
    uint64_t before = weft_failures();
    if (!queue) return copy_host(weft_host(to), weft_host(from), bytes);
    return weft_device_told(to.memory->device, ops_of(to)->copy(queue, to, from, bytes), before,
                            "copy");
}

/* Copies zeros in, a mebibyte at a time. */
static weft_status copy_zeros(weft_queue *queue, weft_queue_event *event, weft_address at,
                              size_t bytes, const void *zeros, size_t size)
{
    for (size_t done = 0; done < bytes; done += size)
        WEFT_TRY(weft_copy_in(queue, weft_beyond(at, done), zeros, WEFT_MIN(size, bytes - done)));
    weft_device *device = at.memory->device;
    WEFT_TRY(weft_event_record(device, queue, event));
    return weft_event_wait(device, event);
}

weft_status weft_memory_zero(weft_device *device, weft_queue *queue, weft_address at, size_t bytes)
{
    size_t size = WEFT_MIN(bytes, (size_t)1 << 20);
    weft_queue_event *event;
    void *zeros = NULL;
    if (!queue) {
        if (bytes > 0) memset(weft_host(at), 0, bytes);
        return WEFT_OK;
    }
    WEFT_TRY(weft_event_open(device, &event));
    weft_status status = weft_new_bytes(&zeros, size, 1);
    if (status == WEFT_OK) status = copy_zeros(queue, event, at, bytes, zeros, size);
    free(zeros);
    weft_event_close(device, &event);
    return status;
}

weft_status weft_memory_forget(weft_queue *queue, weft_address at, size_t bytes)
{
    uint64_t before = weft_failures();
    if (bytes == 0) return WEFT_OK;
    const weft_device *device = at.memory->device;
    if (queue)
        return weft_device_told(device, device->ops->forget(queue, at, bytes), before, "forget");
    memset(weft_host(at), 0xff, bytes);
    return WEFT_OK;
}

weft_status weft_event_open(weft_device *device, weft_queue_event **out)
{
    *out = NULL;
    uint64_t before = weft_failures();
    if (weft_device_shares(device)) return WEFT_OK;
    return weft_device_told(device, device->ops->memory->open_event(device, out), before,
                            "open_event");
}

void weft_event_close(weft_device *device, weft_queue_event **event)
{
    if (*event) device->ops->memory->close_event(*event);
    *event = NULL;
}

weft_status weft_event_record(weft_device *device, weft_queue *queue, weft_queue_event *event)
{
    uint64_t before = weft_failures();
    if (!event) return WEFT_OK;
    return weft_device_told(device, device->ops->memory->record(queue, event), before, "record");
}

/* Waits for an event, and asks now and then whether it will come. After a failure the device has
 * given up what it waits for, and its memory may be freed when the event has come. */
static weft_status wait_watchfully(weft_device *device, weft_queue_event *event)
{
    double began = weft_seconds();
    for (int64_t round = 0;; round++) {
        bool done;
        WEFT_TRY(weft_event_test(device, event, &done));
        if (done) return WEFT_OK;
        if (round < 1000)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        if (round % 32 != 31) continue;
        weft_status status = device->waiting(device->waiting_user, weft_seconds() - began);
        if (status == WEFT_OK) continue;
        weft_error why = {.status = WEFT_OK};
        weft_error_catch(&why, status);
        (void)device->ops->memory->wait(event);
        return weft_error_raise(&why);
    }
}

weft_status weft_event_wait(weft_device *device, weft_queue_event *event)
{
    uint64_t before = weft_failures();
    if (!event) return WEFT_OK;
    if (device->waiting) return wait_watchfully(device, event);
    return weft_device_told(device, device->ops->memory->wait(event), before, "wait");
}

weft_status weft_event_test(weft_device *device, weft_queue_event *event, bool *done)
{
    uint64_t before = weft_failures();
    *done = true;
    if (!event) return WEFT_OK;
    return weft_device_told(device, device->ops->memory->test(event, done), before, "test");
}

weft_status weft_queue_wait(weft_device *device, weft_queue *queue, weft_queue_event *event)
{
    uint64_t before = weft_failures();
    if (!queue) return WEFT_OK;
    return weft_device_told(device, device->ops->memory->wait_queue(queue, event), before,
                            "wait_queue");
}

weft_status weft_capture_begin(weft_device *device, weft_queue *queue)
{
    uint64_t before = weft_failures();
    if (!device->ops->capture)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "device %s captures nothing", device->ops->name);
    return weft_device_told(device, device->ops->capture->begin(queue), before, "capture->begin");
}

weft_status weft_capture_end(weft_device *device, weft_queue *queue, weft_capture **out)
{
    uint64_t before = weft_failures();
    *out = NULL;
    return weft_device_told(device, device->ops->capture->end(queue, out), before, "capture->end");
}

weft_status weft_capture_replay(weft_device *device, weft_queue *queue, weft_capture *capture)
{
    uint64_t before = weft_failures();
    return weft_device_told(device, device->ops->capture->replay(queue, capture), before,
                            "capture->replay");
}

void weft_capture_close(weft_device *device, weft_capture **capture)
{
    if (*capture) device->ops->capture->close(*capture);
    *capture = NULL;
}

weft_status weft_timer_open(weft_device *device, weft_queue_event **out)
{
    uint64_t before = weft_failures();
    *out = NULL;
    return weft_device_told(device, device->ops->memory->open_timer(device, out), before,
                            "open_timer");
}

weft_status weft_timer_elapsed(weft_device *device, weft_queue_event *from, weft_queue_event *to,
                               double *seconds)
{
    uint64_t before = weft_failures();
    return weft_device_told(device, device->ops->memory->elapsed(from, to, seconds), before,
                            "elapsed");
}

bool weft_device_reaches(weft_device *device, weft_device *other)
{
    const weft_device_ops *ops = device->ops;
    return ops->memory && ops == other->ops && ops->reaches && ops->reaches(device, other);
}
