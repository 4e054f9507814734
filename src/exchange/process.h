/* Processes of an elastic run: main loops of the coordinator process and of a server process, and
 * queries to the coordinator. */
#ifndef WEFT_EXCHANGE_PROCESS_H
#define WEFT_EXCHANGE_PROCESS_H

#include "actor/net.h"
#include "exchange/exchange.h"
#include "weft/members.h"

/* The coordinator's answer to a query. */
typedef struct weft_invitation {
    weft_cluster_status status;
    int slot;            /* the slot that is reserved for the caller, a learner (WEFT_ASK_SLOT) */
    uint64_t run;        /* run id, which the first coordinator of the run has drawn */
    char *configuration; /* run configuration; NULL with WEFT_ASK_WHO */
    size_t bytes;        /* size of the configuration */
} weft_invitation;
void weft_invitation_free(weft_invitation *invitation);

/* The limits on the waiting of a process: it ends when a stop is requested, or the other side has
 * been silent for the timeout. Meanwhile notes in the log tell for which answer the process waits,
 * and how long yet. */
typedef struct weft_waiting {
    weft_context *context;
    const weft_stop *stop; /* may be NULL */
    double timeout;        /* seconds */
} weft_waiting;

/* The parts of an answer: the view; also the run configuration; also a reserved slot for a
 * learner. */
typedef enum weft_asking { WEFT_ASK_WHO, WEFT_ASK_TERMS, WEFT_ASK_SLOT } weft_asking;
/* Queries the coordinator at an address. other: id of a member that the coordinator is to ask to
 * leave; 0: none. slot: the slot of a member that has ended, which the caller takes over; below 0:
 * any. run: id of the run that the caller was a member of, for which a restarted coordinator looks
 * before it answers; 0: none. PEER: the coordinator has rejected the query, or has not answered
 * (the message has the reason as far as known); INTERRUPTED: a stop was requested. */
weft_status weft_cluster_ask(const weft_waiting *waiting, weft_net_context *world,
                             const char *address, weft_asking what, uint32_t other, int slot,
                             uint64_t run, weft_invitation *out) WEFT_NODISCARD;

/* Options of a coordinator process. */
typedef struct weft_coordinating {
    const char *listen;         /* the address that it binds */
    int learners, servers;      /* numbers of members with which the run begins */
    weft_dtype dtype;           /* type of the parameters on the servers */
    int64_t count;              /* number of the parameters on the servers */
    weft_segment_list segments; /* of these */
    bool replicas;
    bool job; /* all members are of one job, which ends when the run has a fault */
    /* The number of processes that were started for a slot of a job, see coordinator.h. */
    int64_t (*starts)(void *line, bool server, int slot);
    void *line;
    double failure_timeout; /* in seconds */
    const char *model, *data;
    int64_t steps; /* number of steps of each learner */
    int64_t done;  /* step that the run had reached with a former coordinator; 0: a new run */
    const char *exchange; /* specification of the exchange */
    const char *advice;   /* how to go on after a fault, see coordinator.h */
    uint64_t parameters;  /* hash of the memory layout of the parameters */
    uint64_t checkpoint;  /* checksum of the checkpoint from which the run goes on; 0: none */
    int64_t step;         /* step of that checkpoint */
    const char *configuration;
    size_t bytes;
    weft_cluster_fn tell; /* receives the address and the status whenever the view changes */
    void *user;
} weft_coordinating;
/* Runs a coordinator until the run is over or a stop is requested (INTERRUPTED). PEER: the run has
 * a fault. */
weft_status weft_coordinator_process(const weft_waiting *waiting, weft_net_context *world,
                                     const weft_coordinating *what) WEFT_NODISCARD;

/* Writes the address that a member of a coordinator's run binds, and returns `out`. Beside an ipc
 * address it is a socket in the same folder, which other users can enter no more than the
 * coordinator's. Otherwise, if other machines may connect, it is one for them, too: a member beside
 * the coordinator may have that one's loopback address, and other members come from other
 * machines. */
const char *weft_member_listens_at(weft_net_context *world, const char *coordinator,
                                   char out[WEFT_ADDRESS]);

/* Runs a server of an exchange until the run ends. PEER: the server is rejected or removed, the run
 * has a fault, or no message has arrived for the timeout. */
weft_status weft_server_process(const weft_waiting *waiting, weft_net_context *world,
                                const char *exchange, const char *coordinator, const char *listen,
                                weft_serving *serving) WEFT_NODISCARD;

#endif
