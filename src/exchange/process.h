/* Processes of an elastic run: the main loops of coordinator and server, and queries to the
 * coordinator. */
#ifndef WEFT_EXCHANGE_PROCESS_H
#define WEFT_EXCHANGE_PROCESS_H

#include "actor/net.h"
#include "exchange/exchange.h"
#include "weft/members.h"

/* The coordinator's answer to a query. */
typedef struct weft_invitation {
    weft_cluster_status status;
    int slot;            /* of a learner; reserved */
    uint64_t run;        /* drawn by the first coordinator of the run */
    char *configuration; /* run configuration */
    size_t bytes;
} weft_invitation;
void weft_invitation_free(weft_invitation *invitation);

/* How a process waits: until a stop is requested, or the other side was silent for the timeout.
 * Notes in the log say what it waits for, and for how long. */
typedef struct weft_waiting {
    weft_context *context;
    const weft_stop *stop; /* may be NULL */
    double timeout;        /* seconds */
} weft_waiting;

typedef enum weft_asking { WEFT_ASK_WHO, WEFT_ASK_TERMS, WEFT_ASK_SLOT } weft_asking;
/* Queries the coordinator at an address: the view, with the run configuration, too, or also with
 * the slot of a learner; or requests that a member leaves (`other`; 0: none). slot: that of a
 * member that has ended, whose place the caller takes; below 0: any. PEER: no answer, with the
 * reason as far as known, or a rejection; INTERRUPTED: stopped. */
weft_status weft_cluster_ask(const weft_waiting *waiting, weft_net_context *world,
                             const char *address, weft_asking what, uint32_t other, int slot,
                             weft_invitation *out) WEFT_NODISCARD;

/* A coordinator, until the run is over or a stop is requested (INTERRUPTED). */
typedef struct weft_coordinating {
    const char *listen;    /* an address */
    int learners, servers; /* members with which the run begins */
    weft_dtype dtype;      /* of the parameters on the servers */
    int64_t count;
    bool replicas;
    bool job;               /* all members are of one job, which ends when the run has a fault */
    double failure_timeout; /* failure timeout, in seconds */
    const char *model, *data;
    int64_t steps;        /* of each learner, in all */
    int64_t done;         /* replaces another coordinator: see coordinator.h */
    const char *exchange; /* as in the options */
    const char *advice;   /* how to go on after a fault, see coordinator.h */
    uint64_t parameters;  /* their layout */
    uint64_t checkpoint;  /* checksum of the one that the run goes on from; 0: none */
    int64_t step;         /* of that checkpoint */
    const char *configuration;
    size_t bytes;
    weft_cluster_fn tell; /* receives the address and the status when it changes */
    void *user;
} weft_coordinating;
weft_status weft_coordinator_process(const weft_waiting *waiting, weft_net_context *world,
                                     const weft_coordinating *what) WEFT_NODISCARD;

/* The address at which a member of the run of that coordinator listens: for other machines, unless
 * the coordinator is on this machine or other machines may not connect. */
const char *weft_listen_beside(weft_net_context *world, const char *coordinator);

/* A server of an exchange, until the run ends. PEER: it is rejected or removed, or the run has a
 * fault. */
weft_status weft_server_process(const weft_waiting *waiting, weft_net_context *world,
                                const char *exchange, const char *coordinator, const char *listen,
                                weft_serving *serving) WEFT_NODISCARD;

#endif
