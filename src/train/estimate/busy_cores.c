/* Implements threads that keep all cores busy. */
#include "train/estimate/busy_cores.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* Bytes that each thread passes over: more than its share of the caches. */
static const size_t BYTES = (size_t)1 << 24;

typedef struct busy_core {
    weft_busy_cores *all;
    uint8_t *memory; /* [2 * BYTES] */
    pthread_t thread;
    clockid_t clock; /* of the thread's processor time */
} busy_core;

struct weft_busy_cores {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* of the next three */
    bool over, work;
    int working;    /* threads that do not rest */
    atomic_bool go; /* as `work`, for threads that pass over memory */
    int started;
    busy_core *cores;
};

/* Waits until there is work; false: never again. */
static bool rest(weft_busy_cores *b)
{
    pthread_mutex_lock(&b->lock);
    b->working--;
    pthread_cond_broadcast(&b->changed);
    while (!b->work && !b->over) pthread_cond_wait(&b->changed, &b->lock);
    bool goes_on = !b->over;
    b->working += goes_on;
    pthread_mutex_unlock(&b->lock);
    return goes_on;
}

static void *pass_over(void *user)
{
    const busy_core *c = user;
    enum { PIECE = 1 << 16 };
    for (size_t at = 0; rest(c->all);)
        for (; atomic_load_explicit(&c->all->go, memory_order_relaxed); at = (at + PIECE) % BYTES)
            memcpy(c->memory + BYTES + at, c->memory + at, PIECE);
    return NULL;
}

void weft_busy_cores_work(weft_busy_cores *b, bool work)
{
    pthread_mutex_lock(&b->lock);
    b->work = work;
    atomic_store(&b->go, work);
    pthread_cond_broadcast(&b->changed);
    while (!work && b->working > 0) pthread_cond_wait(&b->changed, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

static weft_status start(weft_busy_cores *b)
{
    int cores = weft_cores();
    WEFT_TRY(WEFT_NEW(&b->cores, cores));
    for (; b->started < cores; b->started++) {
        busy_core *c = &b->cores[b->started];
        c->all = b;
        WEFT_TRY(weft_new_aligned(2 * BYTES, &c->memory));
        b->working++;
        weft_status status = weft_thread_start(&c->thread, pass_over, c);
        if (status != WEFT_OK) {
            b->working--;
            free(c->memory);
            return status;
        }
        (void)pthread_getcpuclockid(c->thread, &c->clock);
    }
    weft_busy_cores_work(b, false);
    return WEFT_OK;
}

weft_status weft_busy_cores_start(weft_busy_cores **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    atomic_init(&(*out)->go, false);
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->changed, NULL);
    weft_status status = start(*out);
    if (status != WEFT_OK) weft_busy_cores_end(out);
    return status;
}

void weft_busy_cores_end(weft_busy_cores **busy)
{
    weft_busy_cores *b = *busy;
    if (!b) return;
    pthread_mutex_lock(&b->lock);
    b->over = true;
    atomic_store(&b->go, false);
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    for (int i = 0; i < b->started; i++) {
        pthread_join(b->cores[i].thread, NULL);
        free(b->cores[i].memory);
    }
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->changed);
    free(b->cores);
    free(b);
    *busy = NULL;
}

static double seconds_of(clockid_t clock)
{
    struct timespec t = {0};
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double weft_busy_cores_beside(const weft_busy_cores *busy)
{
    double seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < busy->started; i++) seconds -= seconds_of(busy->cores[i].clock);
    return seconds;
}
