/* One direction of the channel between two peers: reliable and in order, with cumulative
 * acknowledgements, a congestion window and retransmission by an RTO estimator (RFC 6298). A window
 * of updates is in flight, the rest waits in the queue. A slow neighbour delays no peer: beyond a
 * bound in messages or bytes, waiting updates of one origin are summed, so a queue holds at most
 * the bound in flight, the bound waiting, and a sum for each origin. */
#ifndef WEFT_EXCHANGE_GOSSIP_LINK_H
#define WEFT_EXCHANGE_GOSSIP_LINK_H

#include "actor/actor.h"
#include "actor/rto.h"

typedef struct weft_gossip_update {
    weft_actor_id origin;
    int64_t first, sequence; /* range of the origin's updates that the payload sums up */
    weft_buffer
        *payload; /* NULL: the origin has ended; in a queue, a wrapper that the queue alone holds */
    bool sum;     /* the payload is a sum that the link has made */
    bool halt;    /* the origin requests that all peers end */
    double began; /* when it arrived */
    double sent;  /* when the link last sent it */
} weft_gossip_update;

typedef struct weft_link {
    weft_actor_id to;
    int64_t heard;             /* the neighbour has acknowledged all up to this number */
    weft_gossip_update *queue; /* the updates after it, in order */
    size_t count, capacity;
    size_t told;   /* this many of them are in flight, */
    size_t window; /* and this many may be: more with acknowledgements, fewer with losses */
    size_t told_bytes, waiting_bytes; /* bytes in flight, and bytes that wait, */
    size_t room;                      /* and the bound on either before updates are summed, */
    weft_dtype dtype;                 /* which have `numbers` elements of this type */
    int64_t numbers;
    double moved; /* time of the last progress */
    weft_rto trip;
    int64_t come; /* all up to this number have arrived from the neighbour */
    /* Elastic peers: each direction starts anew with a SyncRequest of its receiver: */
    int64_t round;  /* epoch of the neighbour's last SyncRequest, which updates to it carry, */
    bool open;      /* and whether that came in this view; else no update is sent */
    int64_t asked;  /* epoch of the own last SyncRequest, which incoming updates must carry, */
    bool answered;  /* whether the neighbour has answered it, */
    double greeted; /* and when */
    double since;   /* arrival time of the first update that has not been sent */
    bool lacks;     /* the neighbour lacks updates that the log cannot supply */
    double behind;  /* since when the neighbour cannot supply what this peer lacks; 0: it can */
    bool skips;     /* a gap was seen in the updates from the neighbour */
    bool summed;    /* this peer has installed a snapshot: the neighbour is to send a SyncRequest */
} weft_link;

void weft_link_free(weft_link *edge);
/* The neighbour has sent a SyncRequest: no update is in flight to it, and numbers begin with 1. */
void weft_link_open(weft_link *edge, int64_t round);
/* The buffer inside the wrapper of an update. Hold this one to keep a payload: a link takes an
 * update to be in transit as long as its wrapper is shared. */
weft_buffer *weft_link_inside(weft_buffer *payload);
/* Queues an update, and sends it if the window permits; the payload is shared. If too many wait, it
 * is added to the last waiting one of its origin. */
weft_status weft_link_send(weft_actor *from, weft_link *edge,
                           const weft_gossip_update *rumour) WEFT_NODISCARD;
/* Retransmits updates without an acknowledgement within the retransmission timeout (at least
 * `patience` seconds), unless the first one is still leaving the process or acknowledgements
 * arrive: more messages do not help a slow neighbour or a slow connection. */
weft_status weft_link_resend(weft_actor *from, weft_link *edge, double patience) WEFT_NODISCARD;
/* Handles a message of the link and acknowledges it: *rumour is a new update (its payload is the
 * message's), or has sequence 0. */
weft_status weft_link_message(weft_actor *me, weft_link *edge, const weft_message *message,
                              weft_gossip_update *rumour) WEFT_NODISCARD;

#endif
