/* A link is one direction of the channel between two peers: reliable and in order, with cumulative
 * acknowledgements, a congestion window and retransmission by an RTO estimator (RFC 6298). A window
 * of updates is in flight, and the other updates wait in the queue. A slow neighbour delays no
 * peer: beyond a bound in messages or bytes, waiting updates of one origin are summed, so a queue
 * holds at most the bound in flight, the bound waiting, and a sum for each origin. */
#ifndef WEFT_EXCHANGE_GOSSIP_LINK_H
#define WEFT_EXCHANGE_GOSSIP_LINK_H

#include "compress/compress.h"
#include "actor/actor.h"
#include "actor/rto.h"

typedef struct weft_gossip_update {
    weft_actor_id origin;
    int64_t first, sequence; /* the payload sums up the origin's updates `first` to `sequence` */
    /* NULL: the origin has ended. In a link's queue: a wrapper that only this queue holds. */
    weft_buffer *payload;
    bool sum;       /* in a queue: the payload is a sum that this link has made */
    bool halt;      /* the origin requests that all peers end */
    double arrived; /* time of its arrival at this peer */
    double sent;    /* when the link last sent it */
} weft_gossip_update;

typedef struct weft_link {
    weft_actor_id to;
    int64_t acked; /* the neighbour has all updates up to this number of the link */
    /* The updates after `acked`, in order; the first `in_flight` are sent. */
    weft_gossip_update *queue;
    size_t count, capacity;
    size_t in_flight; /* updates that are sent and not acknowledged */
    size_t window;    /* bound on `in_flight`: grows with acks, halves with a timeout */
    /* Bytes of the updates in flight, and of the waiting updates. */
    size_t in_flight_bytes, waiting_bytes;
    size_t byte_limit; /* bound on in_flight_bytes, and on waiting_bytes */
    weft_dtype dtype;  /* of the parameters, which have `elements` elements */
    int64_t elements;
    const weft_codec_ops *codec; /* of the updates; NULL: none */
    /* Time of the last acknowledgement, or when the first update was in transit. */
    double last_progress;
    weft_rto rto;
    int64_t received; /* updates up to this number have arrived from the neighbour */
    /* Elastic peers: a SyncRequest of the receiver starts a direction anew, under a new epoch. */
    int64_t send_epoch;    /* of the neighbour's last SyncRequest; updates to it carry this epoch */
    bool open;             /* that SyncRequest came in this view; else no update is sent */
    int64_t receive_epoch; /* of this peer's last SyncRequest; other incoming updates are dropped */
    bool sync_replied;     /* the neighbour has answered this peer's last SyncRequest */
    double sync_replied_at; /* time of that answer */
    double unsent_since; /* closed link: the neighbour may lack updates that arrived since then */
    bool needs_snapshot; /* the neighbour lacks updates that the log cannot supply */
    /* Since when the neighbour cannot supply what this peer lacks; 0: it can. */
    double behind_since;
    bool gap_seen; /* the neighbour's updates had a gap, so another SyncRequest is due */
    /* This peer has installed a snapshot: the neighbour must send a SyncRequest. */
    bool needs_resync;
} weft_link;

void weft_link_free(weft_link *link);
/* Called for a SyncRequest of the neighbour: empties the queue, and numbers the link's updates anew
 * from 1. */
void weft_link_open(weft_link *link, int64_t epoch);
/* Returns the buffer inside a payload's wrapper. A caller that keeps a payload must reference this
 * buffer and not the wrapper: a link takes an update to be in transit while its wrapper is
 * shared. */
weft_buffer *weft_link_unwrap(weft_buffer *payload);
/* Queues an update, whose payload is shared and not copied, and sends it if the window permits. If
 * too many updates wait, the new one is added to the last waiting update of its origin. */
weft_status weft_link_send(weft_actor *from, weft_link *link,
                           const weft_gossip_update *update) WEFT_NODISCARD;
/* Retransmits updates without an acknowledgement within the retransmission timeout (at least
 * `min_rto` seconds), unless the first one is still leaving the process or acknowledgements
 * arrive: more messages do not help a slow neighbour or a slow connection. */
weft_status weft_link_resend(weft_actor *from, weft_link *link, double min_rto) WEFT_NODISCARD;
/* Handles an Update from the neighbour and acknowledges it: *update is the new update, or has
 * sequence 0 if the message is a repetition, out of order, or of another epoch. */
weft_status weft_link_take_update(weft_actor *me, weft_link *link, const void *content,
                                  weft_buffer *payload, weft_gossip_update *update) WEFT_NODISCARD;
/* Handles an UpdateAck: drops acknowledged updates from the queue, and sends waiting ones. */
weft_status weft_link_take_ack(weft_actor *me, weft_link *link, const void *content) WEFT_NODISCARD;

#endif
