/* The inside of a peer. */
#ifndef WEFT_EXCHANGE_GOSSIP_PEER_H
#define WEFT_EXCHANGE_GOSSIP_PEER_H

#include "exchange/gossip/edge.h"
#include "exchange/gossip/gossip.h"

typedef struct weft_peer weft_peer;

/* What the two modes do in their own ways. */
typedef struct weft_peer_mode {
    weft_status (*open)(weft_peer *peer);
    void (*close)(weft_peer *peer);
    /* A computation has ended; `change` is what it made of the parameters. */
    weft_status (*computed)(weft_peer *peer, void *change);
    weft_status (*letter)(weft_peer *peer, const weft_letter *letter);
    /* Sends again what is not answered; whether there was something. */
    weft_status (*repeat)(weft_peer *peer, bool *more);
    /* The last computation has ended. */
    weft_status (*ended)(weft_peer *peer);
    bool (*has_room)(const weft_peer *peer);
    bool (*finished)(const weft_peer *peer);
} weft_peer_mode;

struct weft_peer {
    weft_actor head;
    const weft_peer_mode *mode;
    weft_peer_options options;
    size_t bytes; /* of the parameters */
    void *now;    /* what it has */
    void *before; /* what the computation that goes on began with */
    int64_t clock;
    bool computing, listens; /* the timer is set */
    int *neighbours;
    void *state; /* the mode's */
};

extern const weft_peer_mode weft_peer_updates, weft_peer_average;

/* Sends again, some time from now, unless nothing is open then. */
weft_status weft_peer_listen(weft_peer *peer) WEFT_NODISCARD;
/* Begins the next computation if there is one, and room. */
weft_status weft_peer_go_on(weft_peer *peer) WEFT_NODISCARD;
/* to += scale * (a - b); b NULL: zeros. */
void weft_peer_move(const weft_peer *peer, void *to, double scale, const void *a, const void *b);

#endif
