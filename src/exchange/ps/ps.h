/* Parameter servers and the learners that train with them, as actors (Dean et al. 2012; Li et al.
 * 2014).
 *
 * The flat parameters are divided into ranges. The coordinator assigns each range to a primary
 * server and, with --replicas 1, to a replica on another server. The learner of the lowest slot
 * that has the state of the run initializes the ranges. A learner pushes the update of a range as
 * soon as its gradients are ready, and pulls the newest parameters after its step; the policy
 * decides when the server answers the pull. Senders retransmit messages that are not acknowledged;
 * a server counts each update once. */
#ifndef WEFT_EXCHANGE_PS_H
#define WEFT_EXCHANGE_PS_H

#include <sys/uio.h>

#include "compress/compress.h"
#include "membership/member.h"
#include "exchange/ps/range/downlink.h"
#include "exchange/ps/range/range.h"
#include "weft/exchange_ops.h"

/* --- servers --- */

/* A range that a server hosts. */
typedef struct weft_served {
    int number;        /* number of the range, which the server fills in */
    weft_range *range; /* belongs to the server; has no learners yet */
    /* The optimizer state of the range, which the server sends with the parameters if a pull asks
     * for it; stays the caller's until `close`. */
    const struct iovec *states;
    int state_count;
    weft_downlink *published; /* belongs to the server; NULL: learners get exact parameters */
    bool frozen;              /* as of weft_server_range */
    /* The codec of its updates, and bytes of memory that an update of the parameters reads and
     * writes, for weft_actor_work. */
    const char *codec;
    double update_bytes;
} weft_served;

typedef struct weft_server_options {
    size_t struct_size;         /* sizeof(weft_server_options) */
    weft_member_options member; /* weft_server_create fills in the role */
    double first_timeout;       /* first retransmission timeout, in seconds */
    /* Learners come and go, as outside a job: a learner that ends, ends alone, and no word of one
     * learner makes the others end. */
    bool goes_on;
    /* Opens range `number` for this server, as primary or replica; called in the server's thread
     * when a view assigns the range to it. */
    weft_status (*open)(void *user, int number, weft_served *out);
    void (*close)(void *user, int number); /* called after the range is destroyed; may be NULL */
    void *user;
} weft_server_options;

/* Creates a server, which joins the run and hosts the ranges that the coordinator assigns to it.
 * The actor is done when it has left: after the run is over or has a fault, or the coordinator has
 * asked it to leave. */
weft_status weft_server_create(const weft_server_options *options, weft_actor **out) WEFT_NODISCARD;
enum { WEFT_PS_RESEND_TIMER = 0 }; /* retransmission timer */
/* For a server whose process is to end: requests its removal from the run. The server goes on until
 * the coordinator hands its ranges over and removes it. */
weft_status weft_server_sign_off(weft_actor *actor) WEFT_NODISCARD;
/* For a server that has failed: signs it off as well. From now on the server handles no message of
 * a learner or another server, so it acknowledges nothing, and only the coordinator, which knows
 * the copies of its ranges, may remove it. */
weft_status weft_server_give_up(weft_actor *actor) WEFT_NODISCARD;

/* The hosted range of that number, which stays the server's; NULL: the server does not host it.
 * primary: only if the server is its primary. */
weft_range *weft_server_range_of(const weft_actor *actor, int number, bool primary);
const weft_member *weft_server_member(const weft_actor *actor);

/* --- ranges --- */

/* Number of ranges for so many parameters and servers: a multiple of the servers. With
 * several ranges of about WEFT_RANGE_BYTES on each server, a server computes one range while
 * another is in transit, and a learner pushes the first ranges before all gradients are ready. */
enum { WEFT_RANGE_BYTES = 4 << 20 };
int weft_server_ranges(int64_t count, weft_dtype dtype, int servers);
/* Bound on the queued messages for one receiver: a push and a pull of each range, and a
 * retransmission of each. */
size_t weft_server_messages(int ranges);
/* Bound on the bytes of a message of a server. The largest is the snapshot for a new replica: a
 * range, which is at most half of the `count` parameters, twice, and its optimizer state. */
size_t weft_server_message_bytes(int64_t count, weft_dtype dtype);

/* --- options --- */

/* The arguments of an exchange with servers (`server`, `easgd`). */
typedef struct weft_ps_options weft_ps_options;
struct weft_ps_options {
    weft_policy policy;
    bool adds;           /* servers add pushed updates to the parameters, without an optimizer */
    int64_t push, fetch; /* steps between two pushes; between two pulls or elastic updates */
    /* The elastic update (EASGD) of a learner that has parameters of its own: moves `own` towards
     * the centre `served`, and sets `force` to the difference that the servers add to the centre.
     * All are [count]. NULL: learners have no parameters but the servers'. */
    void (*draw)(const weft_ps_options *options, int learners, weft_dtype dtype, int64_t count,
                 void *own, const void *served, void *force);
    double alpha, beta; /* `draw` moves by alpha; if that is NAN, by beta / learners */
};

/* --- learners --- */

/* A range as a learner sees it. */
typedef struct weft_server_range {
    int64_t begin, count; /* its elements in the flat parameters */
    weft_codec *codec;    /* of the updates of this range; stays the caller's */
    bool frozen;          /* no update changes it: it is pushed without numbers, and pulled once */
} weft_server_range;

typedef struct weft_ps_client_options {
    size_t struct_size;         /* sizeof(weft_ps_client_options) */
    weft_member_options member; /* weft_ps_client_create fills in the role */
    weft_dtype dtype;
    const weft_codec_ops *back; /* the downlink codec; NULL: its messages have shared forms alone */
    const weft_server_range *ranges; /* [range_count]: all ranges of the run; stay the caller's */
    int range_count;
    /* The clock at which the client is done. A learner that joins later begins at the clock of the
     * slowest learner. */
    int64_t steps;
    /* The flat parameters that a computation reads. The client writes a range between two
     * computations, or while the running one waits for this range (weft_ps_client_lacks_range). */
    void *parameters;
    const void *gradients; /* the flat gradients that a computation writes */
    double first_timeout;  /* first retransmission timeout, in seconds */
    /* The step of the run that the running computation is, the sum of its sample weights, and
     * whether it has no samples. NULL: the number of the computation, 1, and false. An elastic
     * update without samples since the one before moves the learner, but not the centre. */
    const int64_t *step;
    const double *weight;
    const bool *empty;
    /* The client adds up the gradients of `push` steps before a push, and pulls parameters every
     * `fetch` steps; 0: one. Push and pull are also made after the last step. */
    int64_t push, fetch;
    /* The steps of a learner for which one computation, and so one tick of its clock, stands; 0:
     * one. */
    int64_t clock_steps;
    /* Updates `parameters` after a step without a pull (local SGD). NULL: no update. */
    struct weft_local_sgd *descent;
    /* Elastic averaging: the learner has parameters of its own, `own`. After every `fetch` steps
     * the client pulls the centre from the servers into `parameters`, `draw` computes the elastic
     * difference of both, and the client pushes it while the next step is computed. push is 1 then.
     * options NULL: no elastic averaging; the client pushes the gradients of a step before it
     * pulls. */
    struct weft_elastic {
        const weft_ps_options *options;
        int learners;      /* number of learners with which the run begins; more may join */
        void *own, *force; /* [count]; force: elastic difference, in the memory of `gradients` */
    } elastic;
    /* Writes the initial optimizer state of range `range`, which the client sends behind the
     * parameters if it initializes the range; may be NULL. */
    weft_status (*give_state)(void *user, int range, void *data, size_t bytes);
    size_t (*state_bytes)(void *user, int range); /* size of that state; required with give_state */
    /* Receives the optimizer state of range `range` from a server, if a pull has asked for it.
     * FORMAT: its size is wrong. */
    weft_status (*take_state)(void *user, int range, const void *data, size_t bytes);
    void *user;
} weft_ps_client_options;

/* Creates the client of a learner. Its computation t is step t; part k of the computation's input
 * and output is range k, with its parameters and its gradients. The gradients of a range that was
 * not reported are complete when the computation ends; by then no parameters may be missing. The
 * actor is done when it has the parameters after its last step and has left the run. The actor
 * fails with PEER if a server does not know this learner, or rejects an update as damaged. */
weft_status weft_ps_client_create(const weft_ps_client_options *options,
                                  weft_actor **out) WEFT_NODISCARD;
/* Whether the client waits for replies of servers; no computation may end before they have
 * arrived. */
bool weft_ps_client_is_waiting(const weft_actor *actor);
/* Whether the running computation must wait before it reads that range (WEFT_ANY_PART: all
 * ranges). */
bool weft_ps_client_lacks_range(const weft_actor *actor, int range);
/* Number of updates of a range that its server has acknowledged. */
int64_t weft_ps_client_acknowledged(const weft_actor *actor, int range);
/* Writes n elements of a range's gradient, from element `at` on, into the message of the next push,
 * before the range is reported as ready. Elements that are not written keep their value, at first
 * zero. *laid is false if nothing was written, since the push cannot be written in parts (codec,
 * accumulation) or local SGD reads the gradients; the caller then writes the elements into
 * `gradients`. */
weft_status weft_ps_client_write_gradient(weft_actor *actor, int range, const void *gradient,
                                          int64_t at, int64_t n, bool *laid) WEFT_NODISCARD;
/* Number of replies that have arrived from servers. */
uint64_t weft_ps_client_replies(const weft_actor *actor);
/* Pushes the gradients that are added up since the last push, between two computations. */
weft_status weft_ps_client_flush_accumulated(weft_actor *actor) WEFT_NODISCARD;
/* Pushes these gradients, and pulls all ranges with their optimizer state. */
weft_status weft_ps_client_pull_with_state(weft_actor *actor) WEFT_NODISCARD;
/* The client begins no further step, and pulls the final parameters, which a server sends after all
 * learners have left it; then it leaves the run and is done. halt: all learners are to leave now.
 * with_state: also pulls the optimizer state. */
weft_status weft_ps_client_leave(weft_actor *actor, bool halt, bool with_state) WEFT_NODISCARD;
/* Keeps the client in the view after it has left the servers, until weft_ps_client_release, so that
 * the run is not over and the servers keep the final parameters. */
void weft_ps_client_hold(weft_actor *actor);
weft_status weft_ps_client_release(weft_actor *actor) WEFT_NODISCARD;
/* Leaves the run at once, without the final parameters; the other learners go on. */
weft_status weft_ps_client_leave_now(weft_actor *actor) WEFT_NODISCARD;
/* Fails with PEER, and with the reason why the client has waited for this many seconds. */
weft_status weft_ps_client_timeout_error(const weft_actor *actor, double seconds) WEFT_NODISCARD;
/* Sets the loss and the rate (samples per second) that the client's next heartbeats carry besides
 * its clock. */
void weft_ps_client_set_stats(weft_actor *actor, const weft_step_result *result);
/* Whether the coordinator has asked the client to leave, for which its host calls
 * weft_ps_client_leave_now. */
bool weft_ps_client_dismissed(const weft_actor *actor);
const weft_member *weft_ps_client_member(const weft_actor *actor);
/* Sets the end clock of all learners, which this client's pushes carry to the servers from now on,
 * so that no learner begins a step that would not count. The end clock must be at least two steps
 * ahead, and the policy one by which no learner begins a step before all have finished the one
 * before. */
void weft_ps_client_set_end_clock(weft_actor *actor, int64_t clock);
/* Whether a server has reported that all learners are to leave: now, or after the next step. */
bool weft_ps_client_halted(const weft_actor *actor);
/* Histogram of the staleness of this learner's updates, as servers report it; the last bin counts
 * larger ones, too. After a failover several updates may count with their mean. */
enum { WEFT_STALENESS = 256 };
const double *weft_ps_client_staleness(const weft_actor *actor);
/* The number of computations that the client has finished: steps, or elastic updates. */
int64_t weft_ps_client_clock(const weft_actor *actor);

#endif
