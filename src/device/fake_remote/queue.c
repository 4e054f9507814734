/* Memory that the host cannot read, and the command list. A thread executes the list only as far as
 * the host waits for it, so a missing wait always shows. */
#include <sys/mman.h>

#include "device/fake_remote/distant.h"

enum { LIST = 1024 };

struct weft_queue {
    distant_device *device;
    weft_error error; /* the first failure since the last wait */
};

struct weft_queue_event {
    weft_queue *queue; /* NULL: never recorded */
    uint64_t position;
};

/* --- memory --- */

static void release(weft_memory *memory)
{
    distant_memory *m = (distant_memory *)memory;
    if (m->head.base) munmap(m->head.base, m->bytes);
    free(m->inside.base);
    free(m);
}

static weft_status allocate(weft_device *device, size_t bytes, weft_memory **out)
{
    distant_memory *m;
    WEFT_TRY(WEFT_NEW(&m, 1));
    m->head.device = device;
    m->bytes = WEFT_MAX(bytes, (size_t)64);
    m->inside.device = ((distant_device *)device)->reference;
    weft_status status = weft_new_aligned(m->bytes, &m->inside.base);
    void *seen = MAP_FAILED;
    if (status == WEFT_OK)
        seen = mmap(NULL, m->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (status == WEFT_OK && seen == MAP_FAILED) status = weft_fail_memory(bytes);
    if (status == WEFT_OK) m->head.base = seen;
    if (status == WEFT_OK)
        *out = &m->head;
    else
        release(&m->head);
    return status;
}

/* --- the command list --- */

static weft_status execute(const distant_command *c)
{
    if (c->bound) return c->bound->ops->run(c->bound, NULL);
    memmove(c->to, c->from, c->bytes);
    return WEFT_OK;
}

static void *work(void *user)
{
    distant_device *d = user;
    pthread_mutex_lock(&d->lock);
    while (true) {
        while (d->done >= d->wanted && !d->ends) pthread_cond_wait(&d->asked_more, &d->lock);
        if (d->done >= d->wanted) break;
        distant_command c = d->list[d->done % LIST];
        bool skip = c.queue->error.status != WEFT_OK;
        pthread_mutex_unlock(&d->lock);
        weft_status status = skip ? WEFT_OK : execute(&c);
        pthread_mutex_lock(&d->lock);
        weft_error_catch(&c.queue->error, status);
        d->done++;
        pthread_cond_broadcast(&d->done_more);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* Call it with the lock. */
static void wait_until(distant_device *d, uint64_t position)
{
    d->wanted = WEFT_MAX(d->wanted, position);
    pthread_cond_broadcast(&d->asked_more);
    while (d->done < position) pthread_cond_wait(&d->done_more, &d->lock);
}

weft_status distant_ask(weft_queue *queue, distant_command command)
{
    distant_device *d = queue->device;
    command.queue = queue;
    pthread_mutex_lock(&d->lock);
    if (d->asked - d->done == LIST) wait_until(d, d->done + 1); /* a full list blocks */
    d->list[d->asked++ % LIST] = command;
    pthread_mutex_unlock(&d->lock);
    return WEFT_OK;
}

weft_status distant_start(distant_device *d)
{
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->asked_more, NULL);
    pthread_cond_init(&d->done_more, NULL);
    WEFT_TRY(WEFT_NEW(&d->list, LIST));
    WEFT_TRY(weft_thread_start(&d->thread, work, d));
    d->started = true;
    return WEFT_OK;
}

void distant_end(distant_device *d)
{
    pthread_mutex_lock(&d->lock);
    d->ends = true;
    pthread_cond_broadcast(&d->asked_more);
    pthread_mutex_unlock(&d->lock);
    if (d->started) pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->done_more);
    pthread_cond_destroy(&d->asked_more);
    pthread_mutex_destroy(&d->lock);
    free(d->list);
}

/* --- queues and events --- */

static weft_status open_queue(weft_device *device, weft_queue **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    (*out)->device = (distant_device *)device;
    return WEFT_OK;
}

/* Executes the remaining commands, none of which may refer to the queue afterwards. */
static void close_queue(weft_queue *queue)
{
    distant_device *d = queue->device;
    pthread_mutex_lock(&d->lock);
    wait_until(d, d->asked);
    pthread_mutex_unlock(&d->lock);
    free(queue);
}

static weft_status copy_in(weft_queue *queue, weft_address to, const void *from, size_t bytes)
{
    return distant_ask(
        queue,
        (distant_command){.to = weft_host(distant_inside(to)), .from = from, .bytes = bytes});
}

static weft_status copy_out(weft_queue *queue, void *to, weft_address from, size_t bytes)
{
    return distant_ask(
        queue,
        (distant_command){.to = to, .from = weft_host(distant_inside(from)), .bytes = bytes});
}

static weft_status copy(weft_queue *queue, weft_address to, weft_address from, size_t bytes)
{
    return distant_ask(queue, (distant_command){.to = weft_host(distant_inside(to)),
                                                .from = weft_host(distant_inside(from)),
                                                .bytes = bytes});
}

static weft_status open_event(weft_device *device, weft_queue_event **out)
{
    (void)device;
    return WEFT_NEW(out, 1);
}

static void close_event(weft_queue_event *event)
{
    free(event);
}

static weft_status record(weft_queue *queue, weft_queue_event *event)
{
    pthread_mutex_lock(&queue->device->lock);
    *event = (weft_queue_event){queue, queue->device->asked};
    pthread_mutex_unlock(&queue->device->lock);
    return WEFT_OK;
}

static weft_status wait(weft_queue_event *event)
{
    weft_queue *queue = event->queue;
    if (!queue) return WEFT_OK;
    pthread_mutex_lock(&queue->device->lock);
    wait_until(queue->device, event->position);
    weft_status status = weft_error_raise(&queue->error);
    queue->error = (weft_error){0};
    pthread_mutex_unlock(&queue->device->lock);
    return status;
}

const weft_memory_ops distant_memory_ops = {
    .allocate = allocate,
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
};
