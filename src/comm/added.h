/* The communicators of an engine that was added, and their operations. */
#ifndef WEFT_COMM_ADDED_H
#define WEFT_COMM_ADDED_H

#include "comm/lines.h"

typedef struct added {
    weft_comm head;
    lines *lines;
    uint64_t id; /* equal on its ranks, and different from all other communicators */
    int *world;  /* [size] rank in the job of each rank */
    int splits;  /* communicators that were split off */
} added;

typedef struct pending {
    int unsent;
    bool received, started;
    bool summed; /* of a sliced all-reduce: the slices are summed, and their sums are sent */
    const void **source; /* [ranks] of a sum */
    void *room;          /* workspace of a sum */
} pending;

static inline added *weft_added_of(const weft_operation *o)
{
    return (added *)o->comm;
}

/* added_collectives.c: the frame of rank `rank` of the communicator for this operation; NULL: none
 * has come. */
frame *weft_added_arrived(const weft_operation *operation, int rank);
/* Sends rank `to` this rank's frame. */
weft_status weft_added_send(weft_operation *operation, int to) WEFT_NODISCARD;
/* Set `received` and the result when all frames of a collective, or that of a receive, have
 * come. */
weft_status weft_added_receive_all(weft_operation *operation) WEFT_NODISCARD;
weft_status weft_added_receive_one(weft_operation *operation) WEFT_NODISCARD;

#endif
