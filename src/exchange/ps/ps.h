/*
 * Servers and the learners that train with them, as actors.
 *
 * The flat parameters are cut into ranges. The coordinator says which server keeps which of them,
 * as its primary or, where there are replicas, in case that one is lost. The first learner
 * gives the parameters that the run begins with. A learner pushes the update of a range as soon as
 * its gradients are there, and pulls the newest parameters when its step is over; the policy says
 * when it gets them. Whatever is not answered is sent again, and each update counts once.
 */
#ifndef WEFT_EXCHANGE_PS_H
#define WEFT_EXCHANGE_PS_H

#include <sys/uio.h>

#include "compress/compress.h"
#include "membership/member.h"
#include "exchange/ps/range/downlink.h"
#include "exchange/ps/range/range.h"

/* --- servers --- */

/* A range that a server is to have. */
typedef struct weft_served {
    int number;        /* filled in by the server */
    weft_range *range; /* the server's, with no learners yet */
    /* What its update keeps, to be sent with the parameters to whoever asks for it; the caller's,
     * until `close`. */
    const struct iovec *states;
    int state_count;
    weft_downlink *published; /* the server's; NULL: what goes back is not compressed */
} weft_served;

typedef struct weft_server_options {
    size_t struct_size;         /* sizeof(weft_server_options) */
    weft_member_options member; /* its role is filled in */
    double patience;            /* seconds after which something is sent again, at first */
    /* A range of that number for this server, as primary or as replica of another one's; when it
     * knows who is there, in the thread that runs the server. */
    weft_status (*open)(void *user, int number, weft_served *out);
    void (*close)(void *user, int number); /* after the range is destroyed; may be NULL */
    void *user;
} weft_server_options;

/* Joins the cluster and keeps the ranges that the coordinator gives it. It is done when the run is
 * over, or has come to a fault. */
weft_status weft_server_create(const weft_server_options *options, weft_actor **out) WEFT_NODISCARD;
enum { WEFT_SERVER_AGAIN = 0 }; /* its timer */

/* Its range of that number, or NULL; the server's. primary: only if no other server has it. */
weft_range *weft_server_range_of(const weft_actor *actor, int number, bool primary);
/* The parameters of the run are there, and the learners in all of its own ranges. */
bool weft_server_is_ready(const weft_actor *actor);
const weft_member *weft_server_member(const weft_actor *actor);

/* --- ranges --- */

/* In how many ranges so many parameters are cut for so many servers: a multiple of those. A range
 * of much more than this is cut again, so that one side works on a piece while another piece is
 * under way, and an update leaves before all of its gradients are there. */
enum { WEFT_RANGE_BYTES = 4 << 20 };
int weft_server_ranges(int64_t count, weft_dtype dtype, int servers);
/* Messages that may wait for one receiver: of each range an update and a question, and both again.
 */
size_t weft_server_messages(int ranges);

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
    int64_t steps;    /* the clock at which it is done; who comes later begins where others are */
    void *parameters; /* flat; what a computation reads. A range of them is written between two
                       * computations, and while one that has begun lacks it */
    const void *gradients; /* flat; what it makes */
    double patience;       /* seconds after which something is sent again, at first */
    /* Of the step that is computed: its number in the run, and the weight of its samples. NULL: the
     * computation's number, and as much as everybody's. */
    const int64_t *step;
    const double *weight;
    /* Gradients of so many steps are added up before they are pushed, and parameters are pulled
     * after so many steps; 0: one. Both also after the last step. */
    int64_t push, fetch;
    /* After a step that parameters are not pulled after: what it makes of the learner's own. NULL:
     * nothing. */
    weft_status (*descend)(void *user, int64_t step);
    /* Parameters of its own, which draw and are drawn by the servers': after every `fetch` steps
     * those are pulled, this makes gradients of both, and they are pushed while the next step is
     * computed. `parameters` is what was pulled and nothing else. push: 1. NULL: gradients are
     * those of the step, and go before anything is pulled. */
    weft_status (*respond)(void *user);
    /* What the state of range number `range` is to begin with, which goes behind the parameters
     * where this learner gives them; may be NULL. */
    weft_status (*give_state)(void *user, int range, void *data, size_t bytes);
    size_t (*state_bytes)(void *user, int range); /* with give_state */
    /* Is given the state of range number `range`, where it was asked for. FORMAT: it cannot be. */
    weft_status (*take_state)(void *user, int range, const void *data, size_t bytes);
    void *user;
} weft_ps_client_options;

/* Computation number t is step t. It reads range k as part k, and makes its gradient as part k;
 * parts that were not told of are there when it has ended, and are lacked no more by then. The
 * actor is done when it has the parameters after its last step. It fails where a server does not
 * know it or finds its updates damaged. */
weft_status weft_ps_client_create(const weft_ps_client_options *options,
                                  weft_actor **out) WEFT_NODISCARD;
/* Whether it waits for servers: it can end no computation then. */
bool weft_ps_client_is_waiting(const weft_actor *actor);
/* Whether the computation that has begun must wait before it reads that range, or WEFT_ANY_PART. */
bool weft_ps_client_is_missing(const weft_actor *actor, int range);
/* Updates of a range that its server has taken, for good. */
int64_t weft_ps_client_acknowledged(const weft_actor *actor, int range);
/* n numbers of the gradient of a range, from its number `at` on, are there before its part is told
 * of: they are copied where they go from. Others stay what they were, zeros at first. laid: false:
 * nothing was done, and they belong among `gradients`. */
weft_status weft_ps_client_write_gradient(weft_actor *actor, int range, const void *gradient,
                                          int64_t at, int64_t n, bool *laid) WEFT_NODISCARD;
/* How often a server has answered it. */
uint64_t weft_ps_client_replies(const weft_actor *actor);
/* Asks for what the servers have, with the state of their updates; between computations. */
weft_status weft_ps_client_fetch(weft_actor *actor) WEFT_NODISCARD;
/* It begins no other step, and is done when it has the parameters that all learners have come to,
 * once they have left, too. halt: they are to do so now. whole: with the state. */
weft_status weft_ps_client_leave(weft_actor *actor, bool halt, bool whole) WEFT_NODISCARD;
/* When it has left the servers it stays a member, so that they keep what all have come to, until it
 * goes. */
void weft_ps_client_hold(weft_actor *actor);
weft_status weft_ps_client_release(weft_actor *actor) WEFT_NODISCARD;
/* It goes at once, and the others go on without it. */
weft_status weft_ps_client_leave_now(weft_actor *actor) WEFT_NODISCARD;
/* PEER: fails with what it has waited for so many seconds. */
weft_status weft_ps_client_timeout_error(const weft_actor *actor, double seconds) WEFT_NODISCARD;
/* What its next beats say besides its clock. */
void weft_ps_client_set_stats(weft_actor *actor, double loss, double rate);
/* The coordinator has told it to go: it begins no other step. */
bool weft_ps_client_dismissed(const weft_actor *actor);
const weft_member *weft_ps_client_member(const weft_actor *actor);
/* All are to end with this clock, so that no step is begun that does not count: its updates say so
 * from now on. Of a policy by which nobody begins a step before all have ended the one before, and
 * two steps ahead at the least, or they hear of it too late. */
void weft_ps_client_set_end_clock(weft_actor *actor, int64_t clock);
/* Somebody has said that all are to leave, after the next step at the latest. */
bool weft_ps_client_halted(const weft_actor *actor);
/* How many of its updates met the parameters with each staleness, as far as servers have said; the
 * last: so much, or more. Where versions are made of several updates, and an answer tells of more
 * than one of its own, all of these count as their mean. */
enum { WEFT_STALENESS = 256 };
const double *weft_ps_client_staleness(const weft_actor *actor);
/* Steps it has finished. */
int64_t weft_ps_client_clock(const weft_actor *actor);

#endif
