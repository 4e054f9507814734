/* The connections of one rank to all others over a transport that was added
 * (weft/transport_ops.h): frames, which are sent and received as a whole. */
#ifndef WEFT_COMM_LINES_H
#define WEFT_COMM_LINES_H

#include <pthread.h>
#include <stdatomic.h>

#include "comm/comm.h"
#include "weft/transport_ops.h"

/* The engine of an entry. */
typedef struct added_engine {
    weft_engine engine;
    const weft_transport_ops *ops;
} added_engine;

/* The state that the ranks of a job share. */
typedef struct transport_job {
    const added_engine *engine;
    void *state;
    int ranks;
    _Atomic int references, aborted;
    pthread_mutex_t lock; /* of why, while it is written */
    char why[768];
} transport_job;

/* The use of a frame: a communicator, and there a collective (from 0) or a tag (-1 - tag). */
typedef struct frame_head {
    uint64_t comm;
    int64_t number;
    uint64_t bytes; /* of the data, which follow */
} frame_head;

typedef struct frame {
    struct frame *next;
    int *unsent;  /* counts frames of an operation that are not sent yet; NULL: nobody counts */
    size_t moved; /* bytes of head and data that were sent or received */
    frame_head head;
    char data[];
} frame;

/* The connection to one rank, or to the rank itself, whose frames go to `inbox` at once. */
typedef struct line {
    frame *outbox, *inbox; /* oldest first */
    frame *arriving;       /* its head is complete */
    frame_head head;       /* of the next frame, as far as it has arrived */
    size_t head_moved;
} line;

typedef struct lines {
    transport_job *job;
    int rank, references;
    line of[]; /* [ranks] */
} lines;

weft_status weft_lines_new(transport_job *job, int rank, lines **out) WEFT_NODISCARD;
void weft_lines_release(lines *lines);
void weft_transport_job_release(transport_job *job);
void weft_transport_end_job(transport_job *job, const char *why);
weft_status weft_frame_new(const frame_head *head, frame **out) WEFT_NODISCARD;
/* Takes over a frame to rank `to`. */
void weft_lines_put(lines *lines, int to, frame *frame);
/* The oldest frame from a rank for this use, which stays in the inbox; NULL: none has come. */
frame *weft_lines_find(const lines *lines, int from, uint64_t comm, int64_t number);
/* Frees a frame of the inbox. */
void weft_lines_drop(lines *lines, int from, frame *frame);
/* No frame counts down *unsent any longer. */
void weft_lines_forget(lines *lines, const int *unsent);
/* Sends and receives what the transport takes and has. */
weft_status weft_lines_advance(lines *lines) WEFT_NODISCARD;

#endif
