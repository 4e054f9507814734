/* Inside of the batcher: what its threads have in common. */
#ifndef WEFT_SERVE_BATCH_BATCHER_H
#define WEFT_SERVE_BATCH_BATCHER_H

#include <semaphore.h>

#include "serve/batch/line.h"

typedef enum weft_executor_state {
    WEFT_EXECUTOR_IDLE,
    WEFT_EXECUTOR_BUSY,
    WEFT_EXECUTOR_LENT
} weft_executor_state;

typedef struct weft_executor {
    weft_batcher *batcher;
    int index;
    weft_executor_state state;
    bool started;
    pthread_t thread;
    pthread_cond_t wake;
} weft_executor;

/* Thoughts are for one policy at a time. The thread that has them has the lowest priority there is,
 * and may stand still while others compute; so it never holds the lock, and nobody waits for it. */
typedef struct weft_mind {
    pthread_t thread;
    bool started, ending;
    sem_t asked;
    bool done; /* atomic */
    weft_policy *policy;
    weft_line *line;     /* NULL: it has gone meanwhile, and has left its policy */
    double took, rested; /* seconds that the last one computed; until when none is begun */
} weft_mind;

struct weft_batcher {
    weft_context *context;
    weft_batcher_options options;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a batch, or what was told outside of the lock */
    weft_dispatch dispatch;
    weft_executor *executors;
    bool ending;
    /* A thread that sees to what has its time: requests that are late, and thoughts. */
    pthread_t keeper;
    pthread_cond_t keep;
    bool keeps;
    double keeper_looks; /* when it will of itself */
    weft_mind mind;
};

/* batcher.c */
void weft_batcher_wait(weft_batcher *b, pthread_cond_t *cond, double when);
/* An idle executor looks whether something is due. */
void weft_batcher_wake(weft_batcher *b);
void weft_batcher_answer(const weft_taken *taken, weft_status status, const char *message,
                         double queued, double computed, int64_t rows);

/* keeper.c: all of these with the lock */
weft_status weft_keeper_start(weft_batcher *b) WEFT_NODISCARD;
/* Tells those whose time is over; gives up the lock meanwhile. When to look again. */
double weft_keeper_tell_late(weft_batcher *b);
/* There may be something to see to at this time. */
void weft_keeper_mind(weft_batcher *b, double when);
/* Of a line that goes. */
void weft_keeper_leave(weft_batcher *b, weft_line *line);
/* Without the lock, when no line is left. */
void weft_keeper_end(weft_batcher *b);

#endif
