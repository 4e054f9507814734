/* Implements memory that the host cannot read, and command queues. A thread executes the commands
 * of a queue only up to the position that a caller waits for, so a missing wait in Weft always
 * shows in a test. A wait for one queue executes no command of another queue. New, freed and
 * forgotten memory holds no numbers. */
#include <sys/mman.h>

#include "device/fake_remote/distant.h"

enum { LIST = 1024 };

/* The device's clock is another one than the host's. */
static const double CLOCK_BEGAN = 12345;

/* One lock for the queues of all devices, which may wait for each other. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked_more = PTHREAD_COND_INITIALIZER, done_more = PTHREAD_COND_INITIALIZER;
static weft_queue *queues; /* a list; a wait for one queue runs no other that it does not follow */

struct weft_queue {
    distant_device *device;
    weft_error error;      /* first failure since the last wait */
    distant_command *list; /* a ring */
    uint64_t asked, done;  /* number of commands queued, executed */
    uint64_t wanted;       /* commands before this number may be executed */
    weft_capture *capture; /* records what is asked; NULL: it is executed */
    weft_queue *next;      /* of all devices */
};

struct weft_capture {
    distant_command *list;
    size_t count, capacity;
};

struct weft_queue_event {
    weft_queue *queue; /* NULL: never recorded */
    uint64_t position;
    int tests; /* since it was recorded */
    bool timed;
    double time; /* of the device's clock */
};

/* --- memory --- */

static void release(weft_memory *memory)
{
    distant_memory *m = (distant_memory *)memory;
    distant_device *d = (distant_device *)m->head.device;
    pthread_mutex_lock(&lock);
    d->taken -= (int64_t)m->bytes;
    pthread_mutex_unlock(&lock);
    if (m->head.base) munmap(m->head.base, m->bytes);
    if (m->inside.base) memset(m->inside.base, 0xff, m->bytes);
    free(m->inside.base);
    free(m);
}

static weft_status take(distant_device *d, size_t bytes)
{
    pthread_mutex_lock(&lock);
    int64_t free = d->memory - d->taken;
    bool fits = d->memory == 0 || (int64_t)bytes <= free;
    if (fits) d->taken += (int64_t)bytes;
    pthread_mutex_unlock(&lock);
    return fits ? WEFT_OK
                : weft_fail(
                      WEFT_ERR_MEMORY,
                      "device distant: its memory has no room for %zu bytes; %lld of %lld are free",
                      bytes, (long long)free, (long long)d->memory);
}

static weft_status usage(weft_device *device, size_t *total, size_t *free)
{
    const distant_device *d = (const distant_device *)device;
    pthread_mutex_lock(&lock);
    *total = (size_t)d->memory;
    *free = d->memory ? (size_t)(d->memory - d->taken) : 0;
    pthread_mutex_unlock(&lock);
    return WEFT_OK;
}

static weft_status allocate(weft_device *device, size_t bytes, weft_memory **out)
{
    distant_memory *m;
    WEFT_TRY(take((distant_device *)device, WEFT_MAX(bytes, (size_t)64)));
    WEFT_TRY(WEFT_NEW(&m, 1));
    m->head.device = device;
    m->bytes = WEFT_MAX(bytes, (size_t)64);
    m->inside.device = ((distant_device *)device)->inside;
    weft_status status = weft_new_aligned(m->bytes, &m->inside.base);
    if (status == WEFT_OK) memset(m->inside.base, 0xff, m->bytes);
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
    if (c->time) *c->time = weft_seconds() - CLOCK_BEGAN;
    if (!c->bound && c->bytes == 0) return WEFT_OK;
    if (c->guard && *c->guard != 0) return WEFT_OK;
    if (c->bound) return c->bound->ops->run(c->bound, NULL);
    if (c->from)
        memmove(c->to, c->from, c->bytes);
    else
        memset(c->to, 0xff, c->bytes);
    return WEFT_OK;
}

/* A queue of the device whose next command a caller waits for, also through a wait of another
 * queue, which may be of another device; NULL: there is none. */
static weft_queue *awaited(const distant_device *d)
{
    for (bool more = true; more;) {
        more = false;
        for (weft_queue *q = queues; q; q = q->next) {
            if (q->device != d || q->done >= q->wanted) continue;
            const distant_command *c = &q->list[q->done % LIST];
            if (!c->other || c->other->done >= c->position) return q;
            if (c->other->wanted >= c->position) continue;
            c->other->wanted = c->position;
            more = true;
            pthread_cond_broadcast(&asked_more);
        }
    }
    return NULL;
}

static void *run_queue(void *user)
{
    const distant_device *d = user;
    weft_status threads = weft_parallel_threads(1); /* the default is as good */
    (void)threads;
    pthread_mutex_lock(&lock);
    while (true) {
        weft_queue *q;
        while (!(q = awaited(d)) && !d->ends) pthread_cond_wait(&asked_more, &lock);
        if (!q) break;
        distant_command c = q->list[q->done % LIST];
        if (c.other && q->error.status == WEFT_OK) q->error = c.other->error;
        bool skip = q->error.status != WEFT_OK;
        pthread_mutex_unlock(&lock);
        weft_status status = skip ? WEFT_OK : execute(&c);
        pthread_mutex_lock(&lock);
        weft_error_catch(&q->error, status);
        q->done++;
        pthread_cond_broadcast(&done_more);
        pthread_cond_broadcast(&asked_more); /* a queue of another device may wait for it */
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Waits until the commands before `position` have been executed. The caller holds the device's
 * lock. */
static void wait_until(weft_queue *q, uint64_t position)
{
    q->wanted = WEFT_MAX(q->wanted, position);
    pthread_cond_broadcast(&asked_more);
    while (q->done < position) pthread_cond_wait(&done_more, &lock);
}

static weft_status add(weft_capture *c, const distant_command *command)
{
    if (c->count == c->capacity) {
        distant_command *more;
        WEFT_TRY(WEFT_NEW(&more, 2 * c->capacity + 64));
        if (c->count > 0) memcpy(more, c->list, c->count * sizeof(*more));
        free(c->list);
        c->list = more;
        c->capacity = 2 * c->capacity + 64;
    }
    c->list[c->count++] = *command;
    return WEFT_OK;
}

weft_status distant_ask(weft_queue *queue, distant_command command)
{
    if (queue->capture && command.other)
        return weft_fail(WEFT_ERR_INTERNAL,
                         "device distant: a capture has kernels and copies alone");
    if (queue->capture) return add(queue->capture, &command);
    pthread_mutex_lock(&lock);
    if (queue->asked - queue->done == LIST)
        wait_until(queue, queue->done + 1); /* the queue is full */
    queue->list[queue->asked++ % LIST] = command;
    pthread_mutex_unlock(&lock);
    return WEFT_OK;
}

weft_status distant_start(distant_device *d)
{
    WEFT_TRY(weft_thread_start(&d->thread, run_queue, d));
    d->started = true;
    return WEFT_OK;
}

void distant_end(distant_device *d)
{
    pthread_mutex_lock(&lock);
    d->ends = true;
    pthread_cond_broadcast(&asked_more);
    pthread_mutex_unlock(&lock);
    if (d->started) pthread_join(d->thread, NULL);
}

/* --- queues and events --- */

static weft_status open_queue(weft_device *device, weft_queue **out)
{
    distant_device *d = (distant_device *)device;
    weft_queue *q;
    WEFT_TRY(WEFT_NEW(&q, 1));
    weft_status status = WEFT_NEW(&q->list, LIST);
    if (status != WEFT_OK) {
        free(q);
        return status;
    }
    q->device = d;
    pthread_mutex_lock(&lock);
    q->next = queues;
    queues = q;
    pthread_mutex_unlock(&lock);
    *out = q;
    return WEFT_OK;
}

static void close_queue(weft_queue *queue)
{
    weft_queue **at = &queues;
    pthread_mutex_lock(&lock);
    wait_until(queue, queue->asked);
    for (weft_queue *q = queues; q; q = q->next)
        for (uint64_t i = q->done; i < q->asked; i++)
            if (q->list[i % LIST].other == queue) q->list[i % LIST].other = NULL;
    while (*at != queue) at = &(*at)->next;
    *at = queue->next;
    pthread_mutex_unlock(&lock);
    free(queue->list);
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

weft_status distant_forget(weft_queue *queue, weft_address at, size_t bytes)
{
    return distant_ask(queue,
                       (distant_command){.to = weft_host(distant_inside(at)), .bytes = bytes});
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

static weft_status open_timer(weft_device *device, weft_queue_event **out)
{
    WEFT_TRY(open_event(device, out));
    (*out)->timed = true;
    return WEFT_OK;
}

static weft_status elapsed(weft_queue_event *from, weft_queue_event *to, double *seconds)
{
    *seconds = to->time - from->time;
    return WEFT_OK;
}

static weft_status record(weft_queue *queue, weft_queue_event *event)
{
    if (queue->capture)
        return weft_fail(WEFT_ERR_INTERNAL, "device distant: an event is recorded in a capture");
    if (event->timed) WEFT_TRY(distant_ask(queue, (distant_command){.time = &event->time}));
    pthread_mutex_lock(&lock);
    event->queue = queue;
    event->position = queue->asked;
    event->tests = 0;
    pthread_mutex_unlock(&lock);
    return WEFT_OK;
}

static weft_status wait(weft_queue_event *event)
{
    weft_queue *queue = event->queue;
    if (!queue) return WEFT_OK;
    pthread_mutex_lock(&lock);
    wait_until(queue, event->position);
    weft_status status = weft_error_raise(&queue->error);
    queue->error = (weft_error){0};
    pthread_mutex_unlock(&lock);
    return status;
}

/* The first test finds the commands not ended, and the second one waits for them, so each caller
 * sees both, in every run alike. */
static weft_status test(weft_queue_event *event, bool *done)
{
    *done = !event->queue || event->tests++ > 0;
    return *done ? wait(event) : WEFT_OK;
}

static weft_status wait_queue(weft_queue *queue, weft_queue_event *event)
{
    if (!event->queue || event->queue == queue) return WEFT_OK;
    return distant_ask(queue,
                       (distant_command){.other = event->queue, .position = event->position});
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
    .test = test,
    .wait_queue = wait_queue,
    .usage = usage,
    .open_timer = open_timer,
    .elapsed = elapsed,
};

/* --- captures --- */

static weft_status begin_capture(weft_queue *queue)
{
    if (queue->capture)
        return weft_fail(WEFT_ERR_INTERNAL, "device distant: the queue captures already");
    return WEFT_NEW(&queue->capture, 1);
}

static weft_status end_capture(weft_queue *queue, weft_capture **out)
{
    *out = queue->capture;
    queue->capture = NULL;
    return WEFT_OK;
}

static weft_status replay(weft_queue *queue, weft_capture *capture)
{
    for (size_t i = 0; i < capture->count; i++) {
        const distant_command *c = &capture->list[i];
        if (c->placed && *c->placed != c->places)
            return weft_fail(WEFT_ERR_INTERNAL,
                             "device distant: kernel %s has other addresses than in the capture",
                             c->bound->kernel->text);
        WEFT_TRY(distant_ask(queue, *c));
    }
    return WEFT_OK;
}

static void close_capture(weft_capture *capture)
{
    free(capture->list);
    free(capture);
}

const weft_capture_ops distant_capture_ops = {
    .begin = begin_capture, .end = end_capture, .replay = replay, .close = close_capture};
