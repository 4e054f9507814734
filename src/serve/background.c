/* The service's background thread: scans the model repository for changed versions every `watch`
 * seconds, and saves the learned batch times of all versions every two minutes. */
#include <time.h>

#include "serve/service_internal.h"

/* Seconds between two saves of the batch times. */
static const double SAVE_SECONDS = 120;

/* Waits until the time `when` (weft_seconds) or until the service ends. The caller holds the
 * service's lock. */
static void wait_until(weft_service *s, double when)
{
    struct timespec at = {.tv_sec = (time_t)when,
                          .tv_nsec = (long)((when - (double)(time_t)when) * 1e9)};
    while (!s->ending && weft_seconds() < when) pthread_cond_timedwait(&s->wake, &s->lock, &at);
}

static void write_times(weft_service *s)
{
    weft_service_item item;
    for (int i = 0; weft_service_entry(s, i, &item); i++) {
        weft_servable *servable = weft_service_hold_entry(s, i);
        if (!servable) continue;
        weft_batch_times_write(servable);
        weft_servable_release(&servable);
    }
}

static void *run_background(void *user)
{
    weft_service *s = user;
    double watch = s->models ? s->options.watch : 0, began = weft_seconds();
    double look = began + watch, write = began + SAVE_SECONDS;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        wait_until(s, watch > 0 ? WEFT_MIN(look, write) : write);
        if (s->ending) break;
        pthread_mutex_unlock(&s->lock);
        if (watch > 0 && weft_seconds() >= look) {
            weft_service_poll_changes(s);
            look = weft_seconds() + watch;
        }
        if (weft_seconds() >= write) {
            write_times(s);
            write = weft_seconds() + SAVE_SECONDS;
        }
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

weft_status weft_service_start_background(weft_service *s)
{
    WEFT_TRY(weft_thread_start(&s->background, run_background, s));
    s->background_started = true;
    return WEFT_OK;
}

void weft_service_stop_background(weft_service *s)
{
    if (!s->background_started) return;
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_broadcast(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->background, NULL);
    s->background_started = false;
}
