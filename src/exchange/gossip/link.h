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
    double arrived; /* when it arrived */
    double sent;    /* when the link last sent it */
} weft_gossip_update;

typedef struct weft_link {
    weft_actor_id to;
    int64_t acked;             /* the neighbour has acknowledged all up to this number */
    weft_gossip_update *queue; /* the updates after it, in order */
    size_t count, capacity;
    size_t in_flight; /* this many of them are in flight, */
    size_t window;    /* and this many may be: more with acknowledgements, fewer with losses */
    size_t in_flight_bytes, waiting_bytes; /* bytes in flight, and bytes that wait, */
    size_t byte_limit;                     /* and the bound on either before updates are summed, */
    weft_dtype dtype;                      /* which have `elements` elements of this type */
    int64_t elements;
    double last_progress; /* time of the last progress */
    weft_rto rto;
    int64_t received; /* all up to this number have arrived from the neighbour */
    /* Elastic peers: each direction starts anew with a SyncRequest of its receiver: */
    int64_t send_epoch; /* epoch of the neighbour's last SyncRequest, which updates to it carry, */
    bool open;          /* and whether that came in this view; else no update is sent */
    int64_t receive_epoch;  /* epoch of the own last SyncRequest; incoming updates must carry it, */
    bool sync_replied;      /* whether the neighbour has answered it, */
    double sync_replied_at; /* and when */
    double unsent_since;    /* arrival time of the first update that has not been sent */
    bool needs_snapshot;    /* the neighbour lacks updates that the log cannot supply */
    double behind_since;    /* time since which it cannot supply what this peer lacks; 0: it can */
    bool gap_seen;          /* a gap was seen in the updates from the neighbour */
    bool needs_resync;      /* after a snapshot: the neighbour is to send a SyncRequest */
} weft_link;

void weft_link_free(weft_link *link);
/* The neighbour has sent a SyncRequest: no update is in flight to it, and numbers begin with 1. */
void weft_link_open(weft_link *link, int64_t epoch);
/* The buffer inside the wrapper of an update. Hold this one to keep a payload: a link takes an
 * update to be in transit as long as its wrapper is shared. */
weft_buffer *weft_link_unwrap(weft_buffer *payload);
/* Queues an update, and sends it if the window permits; the payload is shared. If too many wait, it
 * is added to the last waiting one of its origin. */
weft_status weft_link_send(weft_actor *from, weft_link *link,
                           const weft_gossip_update *update) WEFT_NODISCARD;
/* Retransmits updates without an acknowledgement within the retransmission timeout (at least
 * `min_rto` seconds), unless the first one is still leaving the process or acknowledgements
 * arrive: more messages do not help a slow neighbour or a slow connection. */
weft_status weft_link_resend(weft_actor *from, weft_link *link, double min_rto) WEFT_NODISCARD;
/* Takes the content of an Update, and acknowledges it: *update is a new one, or has sequence 0; and
 * of an UpdateAck. */
weft_status weft_link_take_update(weft_actor *me, weft_link *link, const void *content,
                                  weft_buffer *payload, weft_gossip_update *update) WEFT_NODISCARD;
weft_status weft_link_take_ack(weft_actor *me, weft_link *link, const void *content) WEFT_NODISCARD;

#endif
