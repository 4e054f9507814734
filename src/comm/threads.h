/* Internals of the engine threads. */
#ifndef WEFT_COMM_THREADS_H
#define WEFT_COMM_THREADS_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "comm/comm.h"

enum { RING = 64, SMALL = 512 }; /* active collectives; bytes that every rank sums itself */
enum { POSTED = 1, WORKED = 2, LEFT = 3, STAGES = 4 };

typedef struct cell {
    alignas(64) _Atomic int64_t progress; /* STAGES * sequence + stage */
    weft_transfer t;
    const int64_t *counts;
    char what[64];
    alignas(8) char small[SMALL];
} cell;

/* A send that waits for its receive. */
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

/* Whether a rank reads the memory of others now. */
typedef struct reader {
    alignas(64) _Atomic int reading;
} reader;

typedef struct hub {
    int size;
    struct hub *root;
    _Atomic int references;
    int *world; /* ranks of the root */
    cell *cells;
    mailbox *boxes; /* [ranks]: of each receiver */
    /* For the root only: */
    reader *readers; /* [ranks of the root] */
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
    void *room;          /* workspace of a sum */
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

/* threads.c: a rank reads the memory of others only between enter and leave, and not after the end
 * of the job (false). So a rank that ends the job and then finds no reader may free the buffers of
 * its operations. */
bool threads_enter(const hub *h, int rank);
void threads_leave(const hub *h, int rank);

/* threads_collectives.c: o->state is a pending. */
weft_status threads_advance_collective(weft_operation *o) WEFT_NODISCARD;
/* Puts a send into the mailbox of its receiver. */
void threads_mail(weft_operation *o);
/* Takes back a send that no receive has taken; waits for one that is being taken. */
void threads_withdraw(weft_operation *o);
weft_status threads_advance_receive(weft_operation *o) WEFT_NODISCARD;

#endif
