/* Processes that come together by a coordinator: how one of them runs, and what it asks before. */
#ifndef WEFT_EXCHANGE_PROCESS_H
#define WEFT_EXCHANGE_PROCESS_H

#include "actor/net.h"
#include "exchange/exchange.h"
#include "weft/members.h"

/* What somebody has asked the coordinator for. */
typedef struct weft_invitation {
    weft_cluster_status status;
    int slot;            /* of a learner, that nobody has */
    uint64_t run;        /* drawn by the first coordinator of it */
    char *configuration; /* what the coordinator was given */
    size_t bytes;
} weft_invitation;
void weft_invitation_free(weft_invitation *invitation);

/* How a process waits: until somebody wants it to end, and as long as the other side may be silent.
 * Its notes say what it waits for, and for how long still. */
typedef struct weft_waiting {
    weft_context *context;
    const weft_stop *stop; /* may be NULL */
    double timeout;        /* seconds */
} weft_waiting;

typedef enum weft_asking { WEFT_ASK_WHO, WEFT_ASK_TERMS, WEFT_ASK_SLOT } weft_asking;
/* Asks the coordinator at an address: who is there, for the configuration, too, or also for the
 * slot of a learner; or that a member goes (`other`; 0: nobody). slot: that of a member that has
 * ended, whose place who asks is to have; below 0: any. PEER: it does not answer, and why as far as
 * is known, or it refuses; INTERRUPTED: stopped. */
weft_status weft_cluster_ask(const weft_waiting *waiting, weft_net_context *world,
                             const char *address, weft_asking what, uint32_t other, int slot,
                             weft_invitation *out) WEFT_NODISCARD;

/* A coordinator, until the run is over or it is stopped (INTERRUPTED). */
typedef struct weft_coordinating {
    const char *listen;    /* an address */
    int learners, servers; /* that the run is to begin with */
    weft_dtype dtype;      /* of the parameters that servers share */
    int64_t count;
    bool replicas;
    bool job; /* all members are of one job, which ends when the run has come to a fault */
    double failure_timeout; /* seconds after which a member is gone */
    const char *model, *data;
    int64_t steps;        /* of each learner, in all */
    int64_t done;         /* in the place of another coordinator: see coordinator.h */
    const char *exchange; /* as the options say it */
    const char *advice;   /* how to go on where the run's state is lost, see coordinator.h */
    uint64_t parameters;  /* how they lie */
    uint64_t checkpoint;  /* checksum of the one that the run goes on from; 0: none */
    int64_t step;         /* of that checkpoint */
    const char *configuration;
    size_t bytes;
    weft_cluster_fn tell; /* where it listens, and who is there, when that changes */
    void *user;
} weft_coordinating;
weft_status weft_coordinator_process(const weft_waiting *waiting, weft_net_context *world,
                                     const weft_coordinating *what) WEFT_NODISCARD;

/* Where somebody listens who comes to a coordinator at that address: for other machines, unless
 * that one is of this machine or they may not come. */
const char *weft_listen_beside(weft_net_context *world, const char *coordinator);

/* A server of an exchange, until it is not needed any more. PEER: it is refused, dropped, or the
 * run has come to a fault. */
weft_status weft_server_process(const weft_waiting *waiting, weft_net_context *world,
                                const char *exchange, const char *coordinator, const char *listen,
                                weft_serving *serving) WEFT_NODISCARD;

#endif
