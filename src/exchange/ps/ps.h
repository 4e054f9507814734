/* Parameter servers and the learners that train with them, as actors (Dean et al. 2012; Li et al.
 * 2014).
 *
 * The flat parameters are divided into ranges. The coordinator assigns each range a primary server
 * and, with --replicas 1, a replica. The first learner with the state of the run initializes the
 * ranges. A learner pushes the update of a range as soon as its gradients are ready, and pulls the
 * newest parameters after its step; the policy decides when a pull is answered. Unacknowledged
 * messages are retransmitted, and each update counts once. */
#ifndef WEFT_EXCHANGE_PS_H
#define WEFT_EXCHANGE_PS_H

#include <sys/uio.h>

#include "compress/compress.h"
#include "membership/member.h"
#include "exchange/ps/range/downlink.h"
#include "exchange/ps/range/range.h"

/* --- servers --- */

/* A range that a server hosts. */
typedef struct weft_served {
    int number;        /* filled in by the server */
    weft_range *range; /* the server's, with no learners yet */
    /* State of its update, sent with the parameters where a pull asks for it; the caller's, until
     * `close`. */
    const struct iovec *states;
    int state_count;
    weft_downlink *published; /* the server's; NULL: parameters go back uncompressed */
} weft_served;

typedef struct weft_server_options {
    size_t struct_size;         /* sizeof(weft_server_options) */
    weft_member_options member; /* its role is filled in */
    double first_timeout;       /* first retransmission timeout, in seconds */
    /* Opens range `number` for this server, as primary or replica; called in the server's thread
     * after a view has arrived. */
    weft_status (*open)(void *user, int number, weft_served *out);
    void (*close)(void *user, int number); /* after the range is destroyed; may be NULL */
    void *user;
} weft_server_options;

/* Joins the run and hosts the ranges that the coordinator assigns to it. The actor is done when the
 * run is over or has failed, or the coordinator has asked it to leave. */
weft_status weft_server_create(const weft_server_options *options, weft_actor **out) WEFT_NODISCARD;
enum { WEFT_SERVER_AGAIN = 0 }; /* retransmission timer */

/* The hosted range of that number, or NULL; the server's. primary: only as its primary. */
weft_range *weft_server_range_of(const weft_actor *actor, int number, bool primary);
/* A view has arrived, and all hosted ranges are initialized. */
bool weft_server_is_initialized(const weft_actor *actor);
const weft_member *weft_server_member(const weft_actor *actor);

/* --- ranges --- */

/* Number of ranges for so many parameters and servers: a multiple of the servers. A range of much
 * more than this is divided, so that one piece is computed on while another is in transit, and a
 * push leaves before all gradients are ready. */
enum { WEFT_RANGE_BYTES = 4 << 20 };
int weft_server_ranges(int64_t count, weft_dtype dtype, int servers);
/* Queued messages for one receiver: a push and a pull of each range, and a retransmission of
 * both. */
size_t weft_server_messages(int ranges);

/* --- options --- */

/* The arguments of an exchange with servers. */
typedef struct weft_ps_options weft_ps_options;
struct weft_ps_options {
    weft_policy policy;
    bool adds;           /* servers add updates, without an optimizer */
    int64_t push, fetch; /* in steps; fetch with `draw`: between two elastic updates */
    /* Elastic update of a learner with parameters of its own: changes `own`, and sets `force` to
     * what the servers add. All are [count]. NULL: learners have the servers' parameters. */
    void (*draw)(const weft_ps_options *options, int learners, weft_dtype dtype, int64_t count,
                 void *own, const void *served, void *force);
    double alpha, beta; /* of `draw`: alpha, or NAN: beta over the number of learners */
};

/* --- learners --- */

/* A range as a learner sees it. */
typedef struct weft_server_range {
    int64_t begin, count; /* in the flat parameters */
    weft_codec *codec;    /* of its updates; stays the caller's */
} weft_server_range;

typedef struct weft_ps_client_options {
    size_t struct_size;         /* sizeof(weft_ps_client_options) */
    weft_member_options member; /* its role is filled in */
    weft_dtype dtype;
    const weft_server_range *ranges; /* of all ranges of the run; stay the caller's */
    int range_count;
    int64_t steps; /* the clock at which it is done; a learner that joins later begins at the clock
                      of the others */
    void *parameters; /* flat input of a computation. A range is written between two computations,
                         and while a running one misses it */
    const void *gradients; /* flat output */
    double first_timeout;  /* first retransmission timeout, in seconds */
    /* Step in the run of the running computation, and weight of its samples. NULL: the
     * computation's number, and 1. */
    const int64_t *step;
    const double *weight;
    /* Gradients of `push` steps are accumulated before a push, and parameters are pulled every
     * `fetch` steps; 0: one. Both also after the last step. */
    int64_t push, fetch;
    /* After a step without a pull: updates `parameters`. NULL: no update. */
    struct weft_local_sgd *descent;
    /* Elastic averaging with parameters of the learner's own: after every `fetch` steps the
     * servers' parameters are pulled, `draw` makes gradients of both, and they are pushed while the
     * next step is computed. `parameters` holds only what was pulled. push: 1. options: NULL:
     * gradients are those of the step, pushed before a pull. */
    struct weft_elastic {
        const weft_ps_options *options;
        int learners;      /* of the run; more may join */
        void *own, *force; /* [count]; force: the same as `gradients` */
    } elastic;
    /* Initial update state of range `range`, sent behind the parameters where this learner
     * initializes it; may be NULL. */
    weft_status (*give_state)(void *user, int range, void *data, size_t bytes);
    size_t (*state_bytes)(void *user, int range); /* with give_state */
    /* Receives the update state of range `range`, where a pull has asked for it. FORMAT: it does
     * not fit. */
    weft_status (*take_state)(void *user, int range, const void *data, size_t bytes);
    void *user;
} weft_ps_client_options;

/* Computation t is step t. Part k is range k, as input and as gradient. A part that was not
 * reported is complete when the computation ends, and no part may be missing by then. The actor is
 * done when it has the parameters after its last step and has left. PEER: a server does not know
 * it, or finds an update damaged. */
weft_status weft_ps_client_create(const weft_ps_client_options *options,
                                  weft_actor **out) WEFT_NODISCARD;
/* Whether the learner waits for servers; then no computation may end. */
bool weft_ps_client_is_waiting(const weft_actor *actor);
/* Whether the running computation must wait before it reads that range, or WEFT_ANY_PART. */
bool weft_ps_client_is_missing(const weft_actor *actor, int range);
/* Updates of a range that its server has acknowledged. */
int64_t weft_ps_client_acknowledged(const weft_actor *actor, int range);
/* Writes n elements of a range's gradient, from element `at` on, into the next push before the part
 * is reported. Elements not written keep their value, at first zero. laid: false: nothing was
 * written, and the elements belong into `gradients`. */
weft_status weft_ps_client_write_gradient(weft_actor *actor, int range, const void *gradient,
                                          int64_t at, int64_t n, bool *laid) WEFT_NODISCARD;
/* Number of replies from servers. */
uint64_t weft_ps_client_replies(const weft_actor *actor);
/* Pulls all ranges with the state of their updates; between computations. */
weft_status weft_ps_client_pull_with_state(weft_actor *actor) WEFT_NODISCARD;
/* The client begins no further step, and is done when it has the final parameters, which servers
 * send after all learners have left. halt: all are to leave now. with_state: with the update state.
 */
weft_status weft_ps_client_leave(weft_actor *actor, bool halt, bool with_state) WEFT_NODISCARD;
/* After it has left the servers the client remains a member until weft_ps_client_release, so that
 * the servers keep the final parameters. */
void weft_ps_client_hold(weft_actor *actor);
weft_status weft_ps_client_release(weft_actor *actor) WEFT_NODISCARD;
/* Leaves at once; the other learners go on. */
weft_status weft_ps_client_leave_now(weft_actor *actor) WEFT_NODISCARD;
/* PEER: fails with the reason why the client has waited for this many seconds. */
weft_status weft_ps_client_timeout_error(const weft_actor *actor, double seconds) WEFT_NODISCARD;
/* Loss and rate that its next heartbeats carry besides its clock. */
void weft_ps_client_set_stats(weft_actor *actor, double loss, double rate);
/* The coordinator has asked it to leave: it begins no further step. */
bool weft_ps_client_dismissed(const weft_actor *actor);
const weft_member *weft_ps_client_member(const weft_actor *actor);
/* Sets the end clock of all learners, which pushes carry from now on, so that no learner begins a
 * step that would not count. Only with a policy by which no learner begins a step before all have
 * ended the one before, and at least two steps ahead. */
void weft_ps_client_set_end_clock(weft_actor *actor, int64_t clock);
/* A server has reported that all learners are to leave, after the next step at the latest. */
bool weft_ps_client_halted(const weft_actor *actor);
/* Histogram of the staleness of its updates, as reported by servers; the last: that or more. If a
 * reply reports several updates, all of them count with their mean. */
enum { WEFT_STALENESS = 256 };
const double *weft_ps_client_staleness(const weft_actor *actor);
/* Finished steps. */
int64_t weft_ps_client_clock(const weft_actor *actor);

#endif
