/* The thread that writes a checkpoint, and the rank that serves it and polls its exchange. */
#include "checkpoint/write_thread.h"

#include <time.h>

/* The time between two polls. */
enum { NAP_NS = 20000000 };

struct weft_write_thread {
    weft_status (*write)(weft_write_thread *thread, void *user);
    void *user;
    weft_status (*asked)(void *user); /* called next in the thread of the rank; NULL: nothing */
    void *asked_user;
    bool ended;
    weft_error answer, error, poll_error; /* failures of that call, of `write`, and of a poll */
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void *write_checkpoints(void *user)
{
    weft_write_thread *t = user;
    weft_error_catch(&t->error, t->write(t, t->user));
    pthread_mutex_lock(&t->lock);
    t->ended = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

weft_status weft_write_thread_ask(weft_write_thread *t, weft_status (*fn)(void *user), void *user)
{
    if (!t) return fn(user);
    pthread_mutex_lock(&t->lock);
    t->asked_user = user;
    t->asked = fn;
    pthread_cond_broadcast(&t->changed);
    while (t->asked) pthread_cond_wait(&t->changed, &t->lock);
    weft_status status = weft_error_raise(&t->answer);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* Waits for the next request or the end, but no longer than until the next poll. */
static void nap(weft_write_thread *t)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += NAP_NS;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    (void)pthread_cond_timedwait(&t->changed, &t->lock, &at);
}

/* Calls what the thread asks for. The caller holds the lock, which is free during the call. */
static void answer(weft_write_thread *t)
{
    pthread_mutex_unlock(&t->lock);
    t->answer = (weft_error){0};
    weft_error_catch(&t->answer, t->asked(t->asked_user));
    pthread_mutex_lock(&t->lock);
    t->asked = NULL;
    pthread_cond_broadcast(&t->changed);
}

/* Serves the thread until it has ended. After a failed poll there are no more polls; the thread
 * goes on, since it cannot be stopped. */
static void poll_exchange(weft_write_thread *t, weft_exchange *exchange)
{
    pthread_mutex_lock(&t->lock);
    while (!t->ended) {
        if (t->asked) answer(t);
        pthread_mutex_unlock(&t->lock);
        if (t->poll_error.status == WEFT_OK)
            weft_error_catch(&t->poll_error, weft_exchange_poll(exchange));
        pthread_mutex_lock(&t->lock);
        if (!t->asked && !t->ended) nap(t);
    }
    pthread_mutex_unlock(&t->lock);
}

weft_status weft_write_thread_run(weft_exchange *exchange,
                                  weft_status (*write)(weft_write_thread *thread, void *user),
                                  void *user)
{
    weft_write_thread *t;
    pthread_condattr_t monotonic;
    pthread_t thread;
    if (!exchange || !exchange->ops->step.poll) return write(NULL, user);
    WEFT_TRY(WEFT_NEW(&t, 1));
    t->write = write;
    t->user = user;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    weft_status status = weft_thread_start(&thread, write_checkpoints, t);
    if (status == WEFT_OK) {
        poll_exchange(t, exchange);
        pthread_join(thread, NULL);
        status = weft_error_raise(t->error.status == WEFT_OK ? &t->poll_error : &t->error);
    }
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    free(t);
    return status;
}
