/* Declares the shared memory through which ranks that are threads exchange data: a hub for each
 * communicator, with cells for collectives and mailboxes for messages. */
#ifndef WEFT_COMM_THREADS_H
#define WEFT_COMM_THREADS_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "comm/comm.h"

enum { RING = 64, SMALL = 512 }; /* active collectives; bytes of which each rank sums all */
/* The stages of a rank in a collective: its buffers are posted; its part of a sum is ready; it
 * reads no memory of other ranks any more; with memory of devices, nor their marks. */
enum { POSTED = 1, WORKED = 2, LEFT = 3, GONE = 4, STAGES = 5 };

/* The buffers that one rank posts in one collective, for the other ranks to read. */
typedef struct cell {
    alignas(64) _Atomic int64_t progress; /* STAGES * sequence + stage */
    weft_transfer t;
    const int64_t *counts;
    weft_far *far; /* buffers in memory of a device; NULL: host memory, or freed */
    char what[64];
    alignas(8) char small[SMALL];
} cell;

/* A send that waits in the mailbox of its receiver for the matching receive. `taken` is set when
 * the receiver has copied the elements or, in memory of a device, has queued the copy: then each is
 * the other's `partner` until the sender follows the copy and sets `taken` of the receiver's. */
typedef struct message {
    weft_operation *operation;
    int source;
    _Atomic int taken;
    struct message *next;
    struct message *partner;
} message;

typedef struct mailbox {
    pthread_mutex_t lock;
    message *sends; /* oldest first */
} mailbox;

/* Whether a rank reads memory of other ranks now. */
typedef struct reader {
    alignas(64) _Atomic int reading;
} reader;

/* The state that the ranks of a communicator share. The root is the hub of the communicator of all
 * ranks, from which the others were split off. */
typedef struct hub {
    int size;
    struct hub *root;
    _Atomic int references;
    int *world; /* [size] rank in the root of each rank */
    cell *cells;
    mailbox *boxes; /* [size]: of each receiver */
    /* The following fields are used in the root only. */
    reader *readers; /* [size]: of each rank */
    _Atomic int aborted;
    char why[768];
    pthread_mutex_t lock;
} hub;

typedef struct threads {
    weft_comm head;
    hub *hub;
    void *room; /* workspace of a sum, of `room_bytes`; its sums follow one another in one thread */
    size_t room_bytes;
} threads;

typedef struct pending {
    int stage; /* of a collective; POSTED: a receive in memory of a device is queued */
    message message;
    const void **source; /* [ranks] of a sum */
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

/* threads.c: a rank reads the memory of other ranks only between enter and leave. threads_enter
 * returns false after the job has been ended. So a rank that ends the job and then finds no reader
 * may free the buffers of its operations. */
bool threads_enter(const hub *h, int rank);
void threads_leave(const hub *h, int rank);

/* threads_collectives.c: advances a collective; o->state is a `pending`. */
weft_status threads_advance_collective(weft_operation *o) WEFT_NODISCARD;
/* Whether every rank has reached a stage of collective number `sequence`; a negative number, before
 * the first collective, counts as reached. */
bool threads_all_reached(const weft_operation *o, int64_t sequence, int stage);

/* threads_messages.c */
/* Puts a send into the mailbox of its receiver. */
void threads_mail(weft_operation *o);
/* Takes a send back from the mailbox; if a receiver has taken it already, waits until the receiver
 * has copied its elements. */
void threads_withdraw(weft_operation *o);
weft_status threads_advance_send(weft_operation *o) WEFT_NODISCARD;
weft_status threads_advance_receive(weft_operation *o) WEFT_NODISCARD;
/* Waits, after the job has ended, until no device reads the buffers of an operation
 * in memory of a device, and hides them from other ranks. */
void threads_part_far(weft_operation *o);

#endif
