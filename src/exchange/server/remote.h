/* Inside of the exchange `server`: a learner whose updates are made by servers. */
#ifndef WEFT_EXCHANGE_SERVER_REMOTE_H
#define WEFT_EXCHANGE_SERVER_REMOTE_H

#include "exchange/exchange.h"
#include "exchange/server/hosted.h"
#include "exchange/server/server.h"

/* A server that this learner's process runs for all. */
typedef struct weft_own_server {
    weft_hosted *hosted;
    weft_flat_optimizer *optimizer;
    weft_range *range; /* the server's */
} weft_own_server;

typedef struct weft_remote {
    weft_exchange head;
    weft_policy policy;
    char *codec;
    int servers;
    bool leads;           /* of the ranks of a learner, that which speaks to servers */
    weft_own_server *own; /* [servers]; empty where another learner runs it */
    weft_hosted_place *places;
    weft_server_range *ranges;
    int64_t *missing; /* of each range: elements of gradients that are not there yet */
    int64_t *whole;   /* the same, before a step */
    weft_net_world *world;
    weft_net *net; /* of the learner; NULL: not begun */
    weft_dtype dtype;
    int64_t count;                /* of all parameters as they lie */
    void *parameters, *gradients; /* [count]: what came last, what goes next */
    int64_t step;                 /* that is going on */
    bool last;                    /* the run's last step is over */
} weft_remote;

/* places.c: the servers are started, and all learners know where. Collective between learners. */
weft_status weft_remote_place(weft_remote *remote) WEFT_NODISCARD;
/* Stops those that run here. */
weft_status weft_remote_unplace(weft_remote *remote) WEFT_NODISCARD;

#endif
