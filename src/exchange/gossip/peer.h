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
    /* What another peer has said to all, once. Where it fails that goes no further, as if nothing
     * had been said. NULL: nobody says anything. */
    weft_status (*heard)(weft_peer *peer, const weft_blob *payload);
    /* What a neighbour has said to this one. NULL, as those that follow: nothing is said so. */
    weft_status (*letter)(weft_peer *peer, const weft_letter *letter);
    /* Whether it waits for an answer; and asks again. */
    bool (*waits)(const weft_peer *peer);
    weft_status (*repeat)(weft_peer *peer);
} weft_peer_mode;

/* Rumours: what a peer says to all others, passed on along the edges. */
typedef struct weft_rumours {
    weft_edge *edges; /* [neighbours] */
    struct weft_origin {
        int64_t come; /* all up to this one */
        bool ended;
    } * origins;      /* [peers] */
    int64_t sequence; /* of one's own */
    bool halted;      /* somebody wants all to end */
} weft_rumours;

struct weft_peer {
    weft_actor head;
    const weft_peer_mode *mode;
    weft_peer_options options;
    size_t bytes; /* of the parameters */
    void *now;    /* what it has */
    void *before; /* what the computation that goes on began with */
    int64_t clock;
    bool computing, listens; /* the timer is set */
    int peers;
    const int *neighbours; /* the topology's */
    int neighbour_count;
    weft_rumours rumours;
    void *state; /* the mode's */
};

extern const weft_peer_mode weft_peer_updates, weft_peer_average;

/* Sends again, some time from now, unless nothing is open then. */
weft_status weft_peer_listen(weft_peer *peer) WEFT_NODISCARD;
/* Begins the next computation if there is one, and room. */
weft_status weft_peer_go_on(weft_peer *peer) WEFT_NODISCARD;

/* rumours.c */
weft_status weft_rumours_open(weft_peer *peer) WEFT_NODISCARD;
void weft_rumours_close(weft_peer *peer);
/* To all; payload NULL: this peer has ended, and with `halt` all others are to. */
weft_status weft_rumours_say(weft_peer *peer, weft_blob *payload, bool halt) WEFT_NODISCARD;
/* A letter over an edge: what is new is heard and passed on. */
weft_status weft_rumours_letter(weft_peer *peer, const weft_letter *letter) WEFT_NODISCARD;
/* Sends again what has not been heard; whether there was something. */
weft_status weft_rumours_repeat(weft_peer *peer, bool *more) WEFT_NODISCARD;
/* No edge is so far behind that it should hear no more; all peers have ended, as far as this one
 * knows. */
bool weft_rumours_have_room(const weft_peer *peer);
bool weft_rumours_all_ended(const weft_peer *peer);

/* to += scale * (a - b); b NULL: zeros. */
void weft_peer_move(const weft_peer *peer, void *to, double scale, const void *a, const void *b);

#endif
