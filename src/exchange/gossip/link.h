/* One direction of an edge between two peers: rumours go over it in order, none twice, none lost.
 * A part of the queue is under way at a time, the rest waits here. A neighbour that takes less than
 * there is makes nobody wait: beyond a bound in bytes, the updates of one origin that wait are
 * added up in one message, so a queue never holds more than the bound for either part and a sum for
 * each origin. */
#ifndef WEFT_EXCHANGE_GOSSIP_LINK_H
#define WEFT_EXCHANGE_GOSSIP_LINK_H

#include "actor/actor.h"
#include "actor/rto.h"

typedef struct weft_gossip_update {
    weft_actor_id origin;
    int64_t first, sequence; /* of the origin's updates, those that the payload adds up */
    weft_buffer
        *payload; /* NULL: the origin has ended; in the queue of an edge, held by that alone */
    bool sum;     /* the payload is one that the edge has added up itself */
    bool halt;    /* the origin wants all others to end, too */
    double began; /* when it came, where peers come and go */
    double sent;  /* when it last went over the edge; the edge's own */
} weft_gossip_update;

typedef struct weft_link {
    weft_actor_id to;
    int64_t heard;             /* the other has all up to this one */
    weft_gossip_update *queue; /* those after it, in order */
    size_t count, capacity;
    size_t told;   /* so many of them are under way, */
    size_t window; /* and so many may be: more as they are heard, fewer as they are lost */
    size_t told_bytes, waiting_bytes; /* of those that are under way, and of the others, */
    size_t room;                      /* and how many either may be before updates are added up, */
    weft_dtype dtype;                 /* which are of so many numbers of this type */
    int64_t numbers;
    double moved; /* when something was last seen to go on */
    weft_rto trip;
    int64_t come; /* from the other one, all up to this one */
    /* Where peers come and go each direction begins anew with a greeting of who receives: */
    int64_t round;  /* the last one of the other, which rumours to it follow, */
    bool open;      /* and whether that was in this view; else nothing is told yet */
    int64_t asked;  /* and its own, which those from the other one follow, */
    bool answered;  /* which the other one has heard, */
    double greeted; /* and when it said so */
    double since;   /* when what is not told yet begins */
    bool lacks;     /* the other one lacks what is known only as part of a sum */
    double behind;  /* since when this one does, of the other; 0: it does not */
    bool skips;     /* something was left out on the way from the other one */
    bool summed;    /* the other one is to greet, since this one has taken over a sum */
} weft_link;

void weft_link_free(weft_link *edge);
/* The other one has greeted: nothing is under way to it any more, and rumours begin with 1. */
void weft_link_open(weft_link *edge, int64_t round);
/* What somebody holds who keeps the payload of a rumour that has come or is to go: who sent it
 * takes the rest to be still on its way. */
weft_buffer *weft_link_inside(weft_buffer *payload);
/* Queues a rumour, and sends it when there is room on the way; the payload is shared. Where too
 * many wait, it is added to the last one of its origin that does. */
weft_status weft_link_send(weft_actor *from, weft_link *edge,
                           const weft_gossip_update *rumour) WEFT_NODISCARD;
/* Sends again what has not been heard for so many seconds at least, and for longer than that takes,
 * unless its first copy is still on its way out of here or others are being heard: who is slow, or
 * behind a slow link, is not helped by more messages. */
weft_status weft_link_resend(weft_actor *from, weft_link *edge, double patience) WEFT_NODISCARD;
/* A message that came over the edge: *rumour is what is new (its payload the message's), or has
 * sequence 0. Says to the other one what has been heard. */
weft_status weft_link_message(weft_actor *me, weft_link *edge, const weft_message *message,
                              weft_gossip_update *rumour) WEFT_NODISCARD;

#endif
