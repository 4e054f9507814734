/* The event loop of the front: one thread that waits for connections, answers of other threads, and
 * timeouts (epoll). The loop also computes short batches itself, so that a single request is
 * answered without a context switch. */
#include <errno.h>
#include <math.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "serve/front/server_internal.h"

/* The loop computes batches for so long before it handles events again. */
static const double COMPUTE_SECONDS = 1e-3;
/* The time between two checks while requests are suspended or accepting pauses. */
static const double CHECK_SECONDS = 5e-3;
static const double MOST_WAIT_SECONDS = 1; /* the longest wait for events */
static const double SAMPLE_SECONDS = 2;    /* between two samples for the status page */
enum {
    EVENTS = 64, /* handled after one wait */
    ROUNDS = 8   /* waits with events before a batch is computed */
};

/* --- requests from other threads --- */

bool weft_server_is_draining(weft_server *s)
{
    return __atomic_load_n(&s->draining, __ATOMIC_ACQUIRE);
}

void weft_loop_wake(weft_server *s)
{
    const uint64_t one = 1;
    while (write(s->wake_event, &one, sizeof(one)) < 0 && errno == EINTR) continue;
}

void weft_http_request_suspend(weft_http_request *request)
{
    request->state = WEFT_HTTP_SUSPENDED;
    request->server->suspended++;
}

/* Hands a request back to the loop. The lock is held while the loop is woken, so that the server
 * cannot be freed meanwhile. */
void weft_http_request_resume(weft_http_request *request)
{
    weft_server *s = request->server;
    if (pthread_equal(pthread_self(), s->self)) {
        request->next = s->ready;
        s->ready = request;
        return;
    }
    pthread_mutex_lock(&s->lock);
    bool first = !s->answered;
    request->next = s->answered;
    s->answered = request;
    if (first) weft_loop_wake(s);
    pthread_mutex_unlock(&s->lock);
}

/* Takes the requests that were answered, in the order of their answers, and sends the replies.
 * Returns whether there were any. */
static bool take_answered(weft_server *s)
{
    weft_http_request *calls = s->ready, *ordered = NULL;
    s->ready = NULL;
    pthread_mutex_lock(&s->lock);
    if (!calls) {
        calls = s->answered;
        s->answered = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    for (weft_http_request *c = calls, *next; c; c = next) {
        next = c->next;
        c->next = ordered;
        ordered = c;
    }
    for (weft_http_request *c = ordered, *next; c; c = next) {
        next = c->next;
        if (c->reading && weft_http_request_was_read(c)) continue;
        s->suspended--;
        c->state = WEFT_HTTP_ANSWERED;
        if (!c->connection && weft_http_stream_outlives(c)) continue;
        if (!c->connection)
            weft_http_request_free(c);
        else if (weft_http_request_complete_suspended(c))
            weft_http_connection_run(s, c->connection);
        else
            weft_http_connection_close(s, c->connection);
    }
    return ordered != NULL;
}

/* --- rounds --- */

/* Goes on with the connections that have waited for others. */
static void run_pending(weft_server *s)
{
    weft_http_connection *last = NULL, *next;
    /* The list has the newest first, and grows while its connections run. */
    for (weft_http_connection *c = s->pending; c; c = next) {
        next = c->next_pending;
        c->next_pending = last;
        last = c;
    }
    s->pending = NULL;
    for (weft_http_connection *c = last; c; c = next) {
        next = c->next_pending;
        c->pending = false;
        weft_http_connection_run(s, c);
    }
}

/* Computes short batches and sends answers. All requests that have arrived are queued before a
 * batch is computed, so that they share a batch. */
static void compute_and_answer(weft_server *s)
{
    run_pending(s);
    if (s->submitted > 0) {
        s->submitted = 0;
        (void)weft_service_run_due(s->service, COMPUTE_SECONDS);
    }
    while (take_answered(s)) continue;
}

/* The milliseconds for which the next epoll_wait may wait. */
static int idle_time(weft_server *s)
{
    double time = MOST_WAIT_SECONDS;
    if (s->submitted > 0 || s->ready || s->pending) return 0;
    for (int i = 0; i < 2; i++)
        if (s->listeners[i].paused_until > 0) time = WEFT_MIN(time, CHECK_SECONDS);
    if (s->by_state[WEFT_CONNECTION_SUSPENDED].first ||
        __atomic_load_n(&s->ending, __ATOMIC_ACQUIRE))
        time = WEFT_MIN(time, CHECK_SECONDS);
    return (int)ceil(1e3 * time);
}

static void handle_event(weft_server *s, const struct epoll_event *event)
{
    void *what = event->data.ptr;
    uint64_t times;
    for (int i = 0; i < 2; i++)
        if (what == &s->listeners[i]) {
            (void)weft_http_connections_accept(s, &s->listeners[i]);
            return;
        }
    if (what != &s->wake_event)
        weft_http_connection_event(s, what, event->events);
    else if (read(s->wake_event, &times, sizeof(times)) < 0)
        return;
}

/* Waits for events, and sees all that have come. An event names a connection at most once, and only
 * its own closes it, so none that follows is of one that is gone. */
static void wait_and_handle_events(weft_server *s)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(s->epoll, events, EVENTS, idle_time(s));
    s->now = weft_seconds();
    for (int round = 1; n > 0; round++) {
        for (int i = 0; i < n; i++) handle_event(s, &events[i]);
        n = n == EVENTS && round < ROUNDS ? epoll_wait(s->epoll, events, EVENTS, 0) : 0;
    }
}

/* Tells the thread that waits in weft_server_drain whether no request is in progress any more. */
static void signal_drained(weft_server *s)
{
    if (!weft_server_is_draining(s)) return;
    pthread_mutex_lock(&s->lock);
    s->is_drained = s->requests == 0;
    if (s->is_drained) pthread_cond_broadcast(&s->drained);
    pthread_mutex_unlock(&s->lock);
}

/* A draining process leaves a port that it shares to the others: it takes the connections that the
 * kernel has already given to it, and gets no more. */
static void leave_shared_port(weft_server *s)
{
    weft_http_listener *listener = &s->listeners[0];
    if (!s->shared || listener->socket < 0 || !weft_server_is_draining(s)) return;
    while (weft_http_connections_accept(s, listener)) continue;
    (void)close(listener->socket);
    listener->socket = -1;
}

/* Begins the end of the server: stops accepting, and cancels the requests that wait in batch
 * queues. */
static void begin_to_end(weft_server *s)
{
    const weft_http_connection_state asleep[] = {WEFT_CONNECTION_SUSPENDED,
                                                 WEFT_CONNECTION_WATCHED};
    for (int i = 0; i < 2; i++) {
        if (s->listeners[i].socket >= 0) (void)close(s->listeners[i].socket);
        s->listeners[i].socket = -1;
        while (s->by_state[asleep[i]].first) {
            weft_http_connection *connection = s->by_state[asleep[i]].first;
            weft_http_connection_set_state(s, connection, WEFT_CONNECTION_NONE);
            if (connection->request && weft_http_request_cancel(connection->request))
                weft_http_request_resume(connection->request);
        }
    }
}

/* Samples the statistics for the status page, so that it shows the last minutes also if no browser
 * had it open. */
static void sample(weft_server *s)
{
    if (s->now < s->next_sample) return;
    s->next_sample = s->now + SAMPLE_SECONDS;
    weft_history_sample_all(s->history, s->service, s->now);
}

static void *loop(void *user)
{
    weft_server *s = user;
    weft_block_sigpipe();
    s->self = pthread_self();
    for (;;) {
        wait_and_handle_events(s);
        leave_shared_port(s);
        weft_server_take_tokens(s);
        sample(s);
        if (__atomic_load_n(&s->ending, __ATOMIC_ACQUIRE)) begin_to_end(s);
        compute_and_answer(s);
        weft_http_connections_check(s);
        signal_drained(s);
        if (__atomic_load_n(&s->ending, __ATOMIC_ACQUIRE) && s->suspended == 0 && !s->ready &&
            !weft_http_streams_open(s))
            return NULL;
    }
}

/* --- start and end --- */

static bool watch(weft_server *s, int descriptor, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    return epoll_ctl(s->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

static bool watch_listener(weft_server *s, weft_http_listener *listener)
{
    return listener->socket < 0 || watch(s, listener->socket, listener);
}

weft_status weft_loop_start(weft_server *s)
{
    s->now = weft_seconds();
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->wake_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->epoll < 0 || s->wake_event < 0 || !watch(s, s->wake_event, &s->wake_event) ||
        !watch_listener(s, &s->listeners[0]) || !watch_listener(s, &s->listeners[1]))
        return weft_fail(WEFT_ERR_IO, "cannot wait for connections: %s", strerror(errno));
    WEFT_TRY(weft_thread_start(&s->thread, loop, s));
    s->started = true;
    return WEFT_OK;
}

void weft_loop_end(weft_server *s)
{
    if (s->started) {
        __atomic_store_n(&s->ending, true, __ATOMIC_RELEASE);
        weft_loop_wake(s);
        pthread_join(s->thread, NULL);
    }
    /* This also waits until the last thread that woke the loop has released the lock. */
    weft_body_readers_wait(s);
    if (s->wake_event >= 0) (void)close(s->wake_event);
    if (s->epoll >= 0) (void)close(s->epoll);
}
