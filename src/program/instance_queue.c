/* Orders the queues of the instances of a store. A run waits, on the device, for earlier runs of
 * other instances that wrote what it may read, or used what it will write; the store's own queue,
 * in which the host reads and writes, waits for all of them. */
#include "program/instance.h"
#include "program/device_use.h"

static weft_device *device_of(const weft_instance *x)
{
    return x->program->schema->devices[0];
}

weft_status weft_instance_open_queue(weft_instance *x)
{
    WEFT_TRY(weft_queue_open(device_of(x), &x->queue));
    WEFT_TRY(weft_event_open(device_of(x), &x->ended));
    return weft_event_open(device_of(x), &x->copied);
}

void weft_instance_end_commands(weft_instance *x)
{
    weft_queue_close(device_of(x), &x->queue);
    weft_queue_close(device_of(x), &x->transfers);
}

void weft_instance_close_queue(weft_instance *x)
{
    weft_instance_end_commands(x);
    weft_event_close(device_of(x), &x->ended);
    weft_event_close(device_of(x), &x->copied);
}

void weft_instance_attach(weft_instance *x)
{
    weft_store *s = x->store;
    pthread_mutex_lock(&s->lock);
    x->next = s->instances;
    s->instances = x;
    pthread_mutex_unlock(&s->lock);
}

void weft_instance_detach(weft_instance *x)
{
    weft_store *s = x->store;
    pthread_mutex_lock(&s->lock);
    for (weft_instance **at = &s->instances; *at; at = &(*at)->next)
        if (*at == x) {
            *at = x->next;
            break;
        }
    pthread_mutex_unlock(&s->lock);
}

weft_status weft_instance_begin_run(weft_instance *x, bool writes)
{
    weft_store *s = x->store;
    weft_status status = WEFT_OK;
    if (!x->queue) return WEFT_OK;
    pthread_mutex_lock(&s->lock);
    for (weft_instance *y = s->instances; y && status == WEFT_OK; y = y->next)
        if (y != x && (writes || y->wrote))
            status = weft_queue_wait(device_of(x), x->queue, y->ended);
    pthread_mutex_unlock(&s->lock);
    return status == WEFT_OK ? weft_device_use_begin(x) : status;
}

void weft_instance_end_in(weft_instance *x, weft_queue_event *event)
{
    pthread_mutex_lock(&x->store->lock);
    x->ended = event;
    pthread_mutex_unlock(&x->store->lock);
}

weft_status weft_instance_end_run(weft_instance *x, bool wrote)
{
    if (!x->queue) return WEFT_OK;
    WEFT_TRY(weft_device_use_end(x));
    pthread_mutex_lock(&x->store->lock);
    x->wrote = x->wrote || wrote;
    weft_status status = weft_event_record(device_of(x), x->queue, x->ended);
    pthread_mutex_unlock(&x->store->lock);
    return status;
}

weft_status weft_instance_synchronize(const weft_instance *x)
{
    if (!x->queue) return WEFT_OK;
    WEFT_TRY(weft_event_record(device_of(x), x->queue, x->ended));
    return weft_event_wait(device_of(x), x->ended);
}

weft_status weft_store_follow(const weft_store *store)
{
    weft_store *s =
        (weft_store *)(uintptr_t)store; /* its lock and list change, its values do not */
    weft_status status = WEFT_OK;
    if (!s->queue) return WEFT_OK;
    pthread_mutex_lock(&s->lock);
    for (weft_instance *x = s->instances; x && status == WEFT_OK; x = x->next)
        status = weft_queue_wait(schema_store_device(s->schema), s->queue, x->ended);
    pthread_mutex_unlock(&s->lock);
    return status;
}
