/* Internals of the batcher: the state that its executors, its maintenance thread and its search
 * thread share. */
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

/* The search thread runs the policies' searches for a better setting, one at a time, in the lowest
 * scheduling class (SCHED_IDLE). Batches may starve a search, so the thread never takes the
 * batcher's lock, and nothing waits for a search before the batcher ends. */
typedef struct weft_search_thread {
    pthread_t thread;
    bool started, ending;
    sem_t requested;
    bool done; /* atomic: the search has ended */
    weft_policy *policy;
    /* queue of the policy; NULL: the queue was removed, and `policy` is freed after its search */
    weft_batch_queue *queue;
    /* CPU seconds of the last search; time before which no other search starts */
    double cpu_seconds, next_at;
} weft_search_thread;

struct weft_batcher {
    weft_context *context;
    weft_batcher_options options;
    pthread_mutex_t lock;
    /* signalled for a queue that is being removed: one of its batches or answers has ended */
    pthread_cond_t ended;
    weft_dispatch dispatch;
    weft_executor *executors;
    bool ending;
    /* The maintenance thread handles timed events: deadlines of requests, and the policies'
     * searches. */
    pthread_t maintenance;
    pthread_cond_t maintenance_wake;
    bool maintenance_started;
    double next_maintenance; /* time at which the maintenance thread wakes up next */
    weft_search_thread search;
};

/* batcher.c */
void weft_batcher_wait(weft_batcher *b, pthread_cond_t *cond, double when);
/* Wakes one idle executor, which looks for a due batch. */
void weft_batcher_wake(weft_batcher *b);
/* Sets dequeued->failed, too. */
void weft_batcher_answer(weft_dequeued_request *dequeued, weft_status status, const char *message,
                         double queued, double computed, int64_t rows);

/* maintenance.c: the caller holds the lock. */
weft_status weft_maintenance_start(weft_batcher *b) WEFT_NODISCARD;
/* Answers all requests whose deadline has passed; releases the lock for each answer. Returns the
 * next deadline. */
double weft_maintenance_expire(weft_batcher *b);
/* Makes the maintenance thread wake up at `when` or earlier. */
void weft_maintenance_wake_at(weft_batcher *b, double when);
/* If the queue's policy is being searched for, hands the policy over to the search thread, so that
 * the queue can be removed at once. */
void weft_maintenance_detach(weft_batcher *b, weft_batch_queue *queue);
/* Stops the maintenance thread and the search thread. Call it without the lock, after the last
 * queue was removed. */
void weft_maintenance_stop(weft_batcher *b);

#endif
