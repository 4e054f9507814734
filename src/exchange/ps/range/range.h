/* A range of the parameters on a server: its values, its version, and pushed updates that wait for
 * their version. A range is a deterministic state machine without messages or time: the same order
 * of pushes, joins and leaves gives the same bits.
 *
 * A learner's clock is the number of steps that it has finished. The staleness of an update is the
 * version to which it is applied minus the version on which it was computed. */
#ifndef WEFT_EXCHANGE_PS_RANGE_H
#define WEFT_EXCHANGE_PS_RANGE_H

#include "actor/actor.h"
#include "base/base.h"
#include "compress/compress.h"
#include "weft/server_policy_ops.h"

/* The policy says which updates make a version, when a learner may begin a step, and what becomes
 * of late updates. bsp: one update of each learner makes a version, and no learner is ahead. async:
 * each update makes a version. softsync: each `count` updates, of any learners, make a version.
 * ssp: as async, but no learner begins a step while it is more than `bound` steps ahead of the
 * slowest learner; with bound 0 it is bsp. */
typedef struct weft_policy {
    const weft_server_policy_ops *rule;
    int count;     /* updates that make a version; 0: one update of each learner */
    int64_t bound; /* steps that a learner may be ahead of the slowest; -1: any number */
    /* The factor of the learning rate for an update of staleness t, at least 1 (Zhang et al. 2016):
     * 1/t, or exp(-beta t); NULL: 1. */
    double (*scale)(double beta, double staleness);
    double beta; /* of scale=exp */
} weft_policy;
enum { WEFT_NO_BOUND = -1 };

/* Makes the policy of a name from the options; an option that is not given is NULL, or below 0.
 * ARGUMENT: there is no such policy or scale, it does not take an option that is given, or it needs
 * one that is not. */
weft_status weft_policy_make(const weft_context *context, const char *name, double count,
                             double bound, const char *scale, double beta,
                             weft_policy *out) WEFT_NODISCARD;
/* Whether a learner that is ahead of others has to wait for them. */
bool weft_policy_waits(const weft_policy *policy);
/* The versions that updates of `learners`, one of each, make, at least; 0: it is not known. *has:
 * and the next version that a learner gets has its own update. */
double weft_policy_versions(const weft_policy *policy, int learners, bool *has);
/* Registers the built-in policies with a context. */
weft_status weft_server_policies_register(weft_context *context) WEFT_NODISCARD;
/* The factor of the learning rate for an update of that staleness. */
double weft_policy_rate(const weft_policy *policy, int64_t staleness);

/* Applies the mean of a version's updates to the parameters, with the learning rate multiplied by
 * `rate`, the mean of their factors. The updates are weighted by factor / mean, so that plain
 * gradient descent moves by the mean of the updates, each with a learning rate of its own, and
 * other optimizers, which may cancel the size of a gradient, take smaller steps as well. The
 * address of the mean is a multiple of 8 bytes only, since that of a single update may be read in
 * its message. */
typedef weft_status (*weft_range_update_fn)(void *user, void *parameters, const void *gradient,
                                            double rate);

typedef struct weft_range_options {
    size_t struct_size; /* sizeof(weft_range_options) */
    weft_policy policy;
    weft_dtype dtype;            /* F32 or F64 */
    int64_t count;               /* numbers in the range */
    const weft_codec_ops *codec; /* of the updates; NULL: they have shared forms alone */
    weft_range_update_fn update;
    /* Called before `update`, with the latest step of the run among the updates of the version.
     * NULL: not needed. */
    void (*at)(void *user, int64_t step);
    void *user;
    /* [count] each: memory for the parameters, and for the mean of a version; stays the caller's,
     * aligned to 64 bytes. NULL: the range allocates it. */
    void *parameters, *gradient;
} weft_range_options;

typedef struct weft_range weft_range;
/* Creates a range of version 0 without learners. Parameters that the range allocates are zero. */
weft_status weft_range_create(const weft_range_options *options, weft_range **out) WEFT_NODISCARD;
void weft_range_destroy(weft_range **range);

/* The parameters, [count], in the range's memory; they change with each version. */
void *weft_range_parameters(weft_range *range);
size_t weft_range_bytes(const weft_range *range);
int64_t weft_range_version(const weft_range *range);

/* A learner joins at the clock of the slowest learner (policies without a bound: of the fastest),
 * or at `clock` if that is more. The range sums the updates of one version in the order of the
 * learners' slots. ARGUMENT: this learner has joined before (a learner that returns has another
 * id). */
weft_status weft_range_join(weft_range *range, weft_actor_id learner, int slot,
                            int64_t clock) WEFT_NODISCARD;
/* Raises the clock of a learner that has not pushed yet to `clock`. ARGUMENT: the learner has not
 * joined, has left, or has pushed. */
weft_status weft_range_advance(weft_range *range, weft_actor_id learner,
                               int64_t clock) WEFT_NODISCARD;
/* A learner leaves: its pushed updates still count, and no learner waits for it any longer. With a
 * policy of rounds, an update that waits for its version is
 * replaced if another learner joins in the same slot and pushes the same step. ARGUMENT: it has not
 * joined, or has left before. */
weft_status weft_range_leave(weft_range *range, weft_actor_id learner) WEFT_NODISCARD;
/* Lowers the end clock, at which all learners of a run end. With a policy of rounds, updates of
 * later clocks are dropped, so the final parameters are those of the end clock. */
void weft_range_halt(weft_range *range, int64_t clock);
/* Number of learners that have joined and not left. */
int weft_range_learners(const weft_range *range);
/* Whether the learner has joined, even if it has left since. */
bool weft_range_knows(const weft_range *range, weft_actor_id learner);
/* Steps that the learner has finished, as far as its updates have arrived; -1: it has not joined,
 * or has left. */
int64_t weft_range_clock(const weft_range *range, weft_actor_id learner);
/* *met: number of the learner's updates that are in versions; *stale: the sum of their staleness.
 * Both are 0 for an unknown learner. */
void weft_range_met(const weft_range *range, weft_actor_id learner, int64_t *met, int64_t *stale);
/* The staleness of each of the learner's updates in versions behind the first `after` of them.
 * Returns their number; 0: there is none, or it is not known of each. */
enum { WEFT_RECENT = 32 };
int weft_range_staleness_of_each(const weft_range *range, weft_actor_id learner, int64_t after,
                                 int64_t out[WEFT_RECENT]);
/* Learner i among those that have joined and not left, in the order of joining; false past the
 * last. */
bool weft_range_learner_at(const weft_range *range, int i, weft_actor_id *out);
/* The clock of the slowest learner; without learners, that clock before the last learner left. */
int64_t weft_range_slowest(const weft_range *range);
/* Whether a learner with this clock may begin its next step by the policy, where the clock of the
 * slowest learner is `slowest`. */
bool weft_range_may_begin(const weft_range *range, int64_t slowest, int64_t clock);

typedef struct weft_push {
    weft_actor_id learner;
    int64_t sequence;    /* number of the update among the learner's, from 1 without gaps */
    int64_t clock;       /* steps that the learner has finished, including that of this update */
    int64_t version;     /* version of the parameters on which the update was computed */
    weft_buffer *update; /* encoded as in compress/compress.h */
    int64_t step;        /* step of the run, for the learning-rate schedule; 0: not known */
    double weight;       /* weight of its samples in the mean; equal weights have no effect */
    bool empty;          /* it has no samples: updates of such pushes alone change nothing */
} weft_push;
typedef enum weft_push_result {
    WEFT_PUSH_ACCEPTED,     /* the update makes a version now, or together with later updates, or is
                             * late for its version and has the effect that the policy gives it */
    WEFT_PUSH_DUPLICATE,    /* the update has arrived before, and is not counted again; also of a
                             * learner that has left since */
    WEFT_PUSH_OUT_OF_ORDER, /* an earlier update of the learner is missing; resend this one later */
    WEFT_PUSH_UNKNOWN_CLIENT /* the learner has not joined, or has left before this update */
} weft_push_result;
/* Takes a pushed update, and makes the versions that are complete with it. FORMAT: the update is
 * damaged, is not of this range, or has a version, clock, step or weight that is not valid; the
 * range is unchanged then. */
weft_status weft_range_push(weft_range *range, const weft_push *push,
                            weft_push_result *result) WEFT_NODISCARD;

/* The number of pending updates. */
size_t weft_range_pending(const weft_range *range);

/* range_snapshot.c: serializes the range: parameters, learners and statistics, but no optimizer
 * state. No update may be pending. */
weft_status weft_range_save(const weft_range *range, weft_buffer **out) WEFT_NODISCARD;
/* Replaces the contents of the range by those of such bytes. *used: number of bytes read. FORMAT:
 * the bytes are damaged or of another range; this range is unchanged. */
weft_status weft_range_load(weft_range *range, const void *data, size_t bytes,
                            size_t *used) WEFT_NODISCARD;

/* Histogram of the staleness of updates. *size: number of bins, one more than the largest staleness
 * so far. Bin WEFT_MOST_STALE counts larger ones, too. */
enum { WEFT_MOST_STALE = 1 << 16 };
const int64_t *weft_range_staleness(const weft_range *range, size_t *size);

#endif
