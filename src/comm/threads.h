/* Inside of the engine threads. */
#ifndef WEFT_COMM_THREADS_H
#define WEFT_COMM_THREADS_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "comm/comm.h"

enum { RING = 64, SMALL = 512 }; /* collectives under way; bytes that are summed by everybody */
enum { POSTED = 1, WORKED = 2, LEFT = 3, STAGES = 4 };

typedef struct cell {
    alignas(64) _Atomic int64_t progress; /* STAGES * sequence + stage */
    weft_transfer t;
    const int64_t *counts;
    char what[64];
    alignas(8) char small[SMALL];
} cell;

/* A send or receive that waits for its partner. */
typedef struct message {
    weft_operation *operation;
    int source;
    _Atomic int taken;
    struct message *next;
} message;

typedef struct mailbox {
    pthread_mutex_t lock;
    message *sends; /* oldest first */
} mailbox;

/* Whether a rank is reading others' memory now. */
typedef struct reader {
    alignas(64) _Atomic int reading;
} reader;

typedef struct hub {
    int size;
    struct hub *root;
    _Atomic int references;
    int *world; /* ranks in the root's numbers */
    cell *cells;
    mailbox *boxes; /* of each receiver */
    /* Of the root alone: */
    reader *readers; /* by world rank */
    _Atomic int aborted;
    char why[768];
    pthread_mutex_t lock;
} hub;

typedef struct threads {
    weft_comm head;
    hub *hub;
} threads;

typedef struct pending {
    int stage;
    message message;
    const void **source; /* [ranks] of a sum */
    void *room;          /* to work in, of a sum */
} pending;

static inline hub *hub_of(const weft_operation *o)
{
    return ((const threads *)o->comm)->hub;
}

static inline cell *cell_of(const weft_operation *o, int rank)
{
    const hub *h = hub_of(o);
    return &h->cells[(size_t)(o->sequence % RING) * (size_t)h->size + (size_t)rank];
}

/* threads.c: a rank reads the memory of others only between enter and leave, and not at all once
 * the job has ended (false). So whoever ends the job and then finds nobody reading may free what
 * its operations had. */
bool threads_enter(const hub *h, int rank);
void threads_leave(const hub *h, int rank);

/* threads_collectives.c: o->state is a pending. */
weft_status threads_advance_collective(weft_operation *o) WEFT_NODISCARD;
/* A send is put where its receiver will look. */
void threads_mail(weft_operation *o);
/* A send that nobody has taken is not found any more; one that is being taken is waited for. */
void threads_withdraw(weft_operation *o);
weft_status threads_advance_receive(weft_operation *o) WEFT_NODISCARD;

#endif
