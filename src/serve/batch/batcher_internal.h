/* Internals of the batcher: the state that its threads share. */
#ifndef WEFT_SERVE_BATCH_BATCHER_INTERNAL_H
#define WEFT_SERVE_BATCH_BATCHER_INTERNAL_H

#include <semaphore.h>

#include "serve/batch/batch_internal.h"

typedef enum weft_executor_state {
    WEFT_EXECUTOR_IDLE,
    WEFT_EXECUTOR_BUSY,
    WEFT_EXECUTOR_IN_CALLER
} weft_executor_state;

typedef struct weft_executor {
    weft_batcher *batcher;
    int index;
    weft_executor_state state;
    bool started;
    pthread_t thread;
    pthread_cond_t wake;
} weft_executor;

/* Policies search for a setting one at a time, in a thread of the lowest scheduling class. It may
 * be starved while batches are computed, so it never takes the lock, and no thread waits for it. */
typedef struct weft_search_thread {
    pthread_t thread;
    bool started, ending;
    sem_t requested;
    bool done; /* atomic */
    weft_policy *policy;
    weft_batch_queue
        *queue; /* NULL: the queue was removed meanwhile, and its policy remains here */
    double cpu_seconds, next_at; /* CPU seconds of the last search; earliest time of the next one */
} weft_search_thread;

struct weft_batcher {
    weft_context *context;
    weft_batcher_options options;
    pthread_mutex_t lock;
    pthread_cond_t
        ended; /* signalled when a batch ends, or an answer that was given without the lock */
    weft_dispatch dispatch;
    weft_executor *executors;
    bool ending;
    /* The maintenance thread handles timed events: deadlines, and the policies' searches. */
    pthread_t maintenance;
    pthread_cond_t maintenance_wake;
    bool maintenance_started;
    double next_maintenance; /* when it wakes up next */
    weft_search_thread search;
};

/* batcher.c */
void weft_batcher_wait(weft_batcher *b, pthread_cond_t *cond, double when);
/* Wakes one idle executor to look for a due batch. */
void weft_batcher_wake(weft_batcher *b);
void weft_batcher_answer(const weft_dequeued_request *dequeued, weft_status status,
                         const char *message, double queued, double computed, int64_t rows);

/* maintenance.c: call these with the lock. */
weft_status weft_maintenance_start(weft_batcher *b) WEFT_NODISCARD;
/* Answers requests that are past their deadline; releases the lock for each answer. Returns the
 * time of the next deadline. */
double weft_maintenance_expire(weft_batcher *b);
/* Wakes the maintenance thread at `when` at the latest. */
void weft_maintenance_wake_at(weft_batcher *b, double when);
/* Detaches a search in progress from a queue that is removed. */
void weft_maintenance_detach(weft_batcher *b, weft_batch_queue *queue);
/* Stops both threads; call it without the lock, after the last queue was removed. */
void weft_maintenance_stop(weft_batcher *b);

#endif
