/* The event loop: one thread that waits for connections, answers and timeouts, and computes short
 * batches itself, so that a single request is answered without a context switch. */
#include <errno.h>
#include <math.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "serve/front/server_internal.h"

/* Seconds that the loop computes batches at a time, between looks while requests sleep, and that it
 * waits at most; rounds between two polls of the other descriptors. */
static const double LENDS = 1e-3, LOOKS = 5e-3, RESTS = 1;
enum { EVENTS = 64, ROUNDS = 8 };

/* --- calls from other threads --- */

bool weft_server_is_draining(weft_server *s)
{
    return __atomic_load_n(&s->draining, __ATOMIC_ACQUIRE);
}

void weft_loop_wake(weft_server *s)
{
    const uint64_t one = 1;
    while (write(s->woken, &one, sizeof(one)) < 0 && errno == EINTR) continue;
}

void weft_call_sleep(weft_call *c)
{
    c->state = WEFT_CALL_WAITS;
    c->server->waiting++;
}

/* The lock is held while the loop is woken, so that the server cannot end meanwhile. */
void weft_call_wake(weft_call *c)
{
    weft_server *s = c->server;
    if (pthread_equal(pthread_self(), s->self)) {
        c->next = s->ready;
        s->ready = c;
        return;
    }
    pthread_mutex_lock(&s->lock);
    bool first = !s->answered;
    c->next = s->answered;
    s->answered = c;
    if (first) weft_loop_wake(s);
    pthread_mutex_unlock(&s->lock);
}

/* Resumes the answered calls in the order of their answers; returns whether there were any. */
static bool take_answered(weft_server *s)
{
    weft_call *calls = s->ready, *ordered = NULL;
    s->ready = NULL;
    pthread_mutex_lock(&s->lock);
    if (!calls) {
        calls = s->answered;
        s->answered = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    for (weft_call *c = calls, *next; c; c = next) {
        next = c->next;
        c->next = ordered;
        ordered = c;
    }
    for (weft_call *c = ordered, *next; c; c = next) {
        next = c->next;
        s->waiting--;
        bool slept = c->state == WEFT_CALL_SLEEPS;
        c->state = WEFT_CALL_ANSWERED;
        if (!c->client)
            weft_call_end(c);
        else if (slept)
            MHD_resume_connection(c->connection);
    }
    return ordered != NULL;
}

/* --- rounds --- */

/* Whether the library has more to do at once, such as reading from a socket that has become
 * ready. */
static bool goes_on(const weft_door *door)
{
    MHD_UNSIGNED_LONG_LONG left;
    return MHD_get_timeout(door->daemon, &left) == MHD_YES && left == 0;
}

/* All requests that have arrived are queued before any of them is computed, so that they form a
 * batch. */
static void work(weft_server *s)
{
    bool more = true;
    for (int i = 0; more && i < ROUNDS; i++) {
        while (take_answered(s)) continue;
        s->asked = 0;
        (void)MHD_run(s->doors[0].daemon);
        if (s->asked > 0) (void)weft_service_run_due(s->service, LENDS);
        more = s->asked > 0 || s->ready || goes_on(&s->doors[0]);
    }
    s->busy = more;
    if (s->doors[1].daemon && s->doors[1].stirs) (void)MHD_run(s->doors[1].daemon);
    s->doors[1].stirs = false;
}

/* Milliseconds until the next timeout. */
static int idle_time(weft_server *s)
{
    double time = RESTS;
    if (s->busy) return 0;
    for (int i = 0; i < 2; i++) {
        weft_door *door = &s->doors[i];
        MHD_UNSIGNED_LONG_LONG library;
        if (door->daemon && MHD_get_timeout(door->daemon, &library) == MHD_YES) {
            time = WEFT_MIN(time, 1e-3 * (double)library);
            door->stirs |= library == 0;
        }
        if (door->deaf > 0) time = WEFT_MIN(time, LOOKS);
    }
    if (s->stands[WEFT_STAND_SLEEPS].first) time = WEFT_MIN(time, LOOKS);
    return (int)ceil(1e3 * time);
}

static void see(weft_server *s, const struct epoll_event *event)
{
    void *what = event->data.ptr;
    uint64_t times;
    for (int i = 0; i < 2; i++) {
        weft_door *door = &s->doors[i];
        if (what == door) weft_clients_accept(s, door);
        door->stirs |= what == door || what == &door->daemon;
        if (what == door || what == &door->daemon) return;
    }
    if (what != &s->woken)
        weft_client_hears(s, what, event->events);
    else if (read(s->woken, &times, sizeof(times)) < 0)
        return;
}

/* Reports to the draining thread that no request is in progress. */
static void tell_rested(weft_server *s)
{
    if (!weft_server_is_draining(s)) return;
    pthread_mutex_lock(&s->lock);
    s->rested = s->requests == 0;
    if (s->rested) pthread_cond_broadcast(&s->quiet);
    pthread_mutex_unlock(&s->lock);
}

/* Stops accepting, and gives up the requests that have not been started. */
static void begin_to_end(weft_server *s)
{
    const weft_stand asleep[] = {WEFT_STAND_SLEEPS, WEFT_STAND_WATCHED};
    for (int i = 0; i < 2; i++) {
        if (s->doors[i].listening >= 0) (void)close(s->doors[i].listening);
        s->doors[i].listening = -1;
        while (s->stands[asleep[i]].first) {
            weft_client *client = s->stands[asleep[i]].first;
            weft_client_stand(s, client, WEFT_STAND_NONE);
            if (client->call && weft_call_give_up(client->call)) weft_call_wake(client->call);
        }
    }
}

static void *loop(void *user)
{
    weft_server *s = user;
    struct epoll_event events[EVENTS];
    weft_bear_broken_pipes();
    s->self = pthread_self();
    for (;;) {
        int n = epoll_wait(s->epoll, events, EVENTS, idle_time(s));
        s->now = weft_seconds();
        if (n == 0) s->doors[1].stirs = true;
        for (int i = 0; i < n; i++) see(s, &events[i]);
        if (__atomic_load_n(&s->ending, __ATOMIC_ACQUIRE)) begin_to_end(s);
        work(s);
        weft_clients_look(s);
        tell_rested(s);
        if (__atomic_load_n(&s->ending, __ATOMIC_ACQUIRE) && s->waiting == 0 && !s->ready)
            return NULL;
    }
}

/* --- start and end --- */

static bool look_at(weft_server *s, int descriptor, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    return epoll_ctl(s->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

static bool look_at_door(weft_server *s, weft_door *door)
{
    if (!door->daemon) return true;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(door->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    return info && look_at(s, info->epoll_fd, &door->daemon) && look_at(s, door->listening, door);
}

weft_status weft_loop_start(weft_server *s)
{
    s->now = weft_seconds();
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->epoll < 0 || s->woken < 0 || !look_at(s, s->woken, &s->woken) ||
        !look_at_door(s, &s->doors[0]) || !look_at_door(s, &s->doors[1]))
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
    /* The last thread that woke the loop has released the lock after this. */
    pthread_mutex_lock(&s->lock);
    pthread_mutex_unlock(&s->lock);
    if (s->woken >= 0) (void)close(s->woken);
    if (s->epoll >= 0) (void)close(s->epoll);
}
