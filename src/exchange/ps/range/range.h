/* A range of the parameters on a server: values, a version, and pending updates of learners, stale
 * or early. A deterministic state machine without messages or time: the same order of pushes, joins
 * and leaves gives the same bits.
 *
 * A learner's clock is the number of steps it has finished. The staleness of an update is the
 * version to which it is applied minus the version it was computed on. */
#ifndef WEFT_EXCHANGE_PS_RANGE_H
#define WEFT_EXCHANGE_PS_RANGE_H

#include "actor/actor.h"
#include "base/base.h"

/* Weight of a stale update (Zhang et al. 2016): 1, 1/t, exp(-beta t). */
typedef enum weft_scale { WEFT_SCALE_NONE, WEFT_SCALE_INVERSE, WEFT_SCALE_EXP } weft_scale;

/* bsp: one update of each learner makes a version, and no learner is ahead. async: each update
 * makes one. softsync: each `count` updates, of any learners. ssp: as async, but no learner begins
 * a step while it is more than `bound` ahead of the slowest; with bound 0 it is bsp. */
typedef struct weft_policy {
    int count;     /* updates that make a version; 0: one update of each learner */
    int64_t bound; /* steps that a learner may be ahead; -1: any number */
    weft_scale scale;
    double beta;
} weft_policy;
enum { WEFT_NO_BOUND = -1 };

/* From the options; missing ones are NULL, or below 0. ARGUMENT: no such policy or scale, or an
 * option that it does not have, or lacks. */
weft_status weft_policy_make(const char *name, double count, double bound, const char *scale,
                             double beta, weft_policy *out) WEFT_NODISCARD;
double weft_policy_weight(const weft_policy *policy, int64_t staleness);

/* Updates the parameters by a mean, which lies at any multiple of 8 bytes: the mean of a single
 * update may be read in its message. */
typedef weft_status (*weft_range_update_fn)(void *user, void *parameters, const void *gradient);

typedef struct weft_range_options {
    size_t struct_size; /* sizeof(weft_range_options) */
    weft_policy policy;
    weft_dtype dtype; /* F32 or F64 */
    int64_t count;    /* numbers in the range */
    weft_range_update_fn update;
    /* Called before: the latest step of the run among the updates. NULL: not needed. */
    void (*at)(void *user, int64_t step);
    void *user;
    /* [count] each: the parameters of the update, and room for a mean; the caller's, aligned to 64
     * bytes. NULL: the range allocates them. */
    void *parameters, *gradient;
} weft_range_options;

typedef struct weft_range weft_range;
/* Version 0, no learners; parameters of its own are zero. */
weft_status weft_range_create(const weft_range_options *options, weft_range **out) WEFT_NODISCARD;
void weft_range_destroy(weft_range **range);

/* [count]; the range's, until its version changes. */
void *weft_range_parameters(weft_range *range);
size_t weft_range_bytes(const weft_range *range);
int64_t weft_range_version(const weft_range *range);

/* A learner joins at the clock of the slowest, or at `clock` if that is more. Updates of one
 * version are summed in the order of the slots. ARGUMENT: it has joined before (a learner that
 * returns has another id). */
weft_status weft_range_join(weft_range *range, weft_actor_id learner, int slot,
                            int64_t clock) WEFT_NODISCARD;
/* Raises the clock of a learner that has not pushed yet to `clock`. ARGUMENT: it is not here, or
 * has pushed. */
weft_status weft_range_advance(weft_range *range, weft_actor_id learner,
                               int64_t clock) WEFT_NODISCARD;
/* A learner leaves: its pushed updates count, and no learner waits for it. ARGUMENT: it is not
 * here. */
weft_status weft_range_leave(weft_range *range, weft_actor_id learner) WEFT_NODISCARD;
/* Sets the end clock, that of the first learner to leave. Where a version is made of one update of
 * each learner, updates of later clocks are dropped, so the final parameters are those of the end
 * clock. */
void weft_range_halt(weft_range *range, int64_t clock);
int weft_range_learners(const weft_range *range);
/* The learner is here, or was here before. */
bool weft_range_knows(const weft_range *range, weft_actor_id learner);
/* Finished steps, as far as its updates have arrived; -1: it is not here. */
int64_t weft_range_clock(const weft_range *range, weft_actor_id learner);
/* Number of its updates in versions, and the sum of their staleness; 0 of an unknown learner. */
void weft_range_met(const weft_range *range, weft_actor_id learner, int64_t *met, int64_t *stale);
/* Learner i of those that are here, in the order of joining; false past the last. */
bool weft_range_learner_at(const weft_range *range, int i, weft_actor_id *out);
/* Steps that all learners have finished; without learners, that number before the last leave. */
int64_t weft_range_slowest(const weft_range *range);
/* Whether a learner that has finished so many steps may begin the next: all updates that it must
 * see have been applied. */
bool weft_range_may_begin(const weft_range *range, int64_t clock);

typedef struct weft_push {
    weft_actor_id learner;
    int64_t sequence;    /* of its updates, from 1 without gaps */
    int64_t clock;       /* steps it has finished with this one */
    int64_t version;     /* of the parameters that it was computed on */
    weft_buffer *update; /* encoded as in compress/compress.h */
    int64_t step;        /* of the run, for schedules; 0: not known */
    double weight;       /* of its samples, in the mean; equal weights are not applied */
} weft_push;
typedef enum weft_push_result {
    WEFT_PUSH_ACCEPTED,      /* it counts, now or with later updates */
    WEFT_PUSH_DUPLICATE,     /* it has come before, and is not counted again */
    WEFT_PUSH_OUT_OF_ORDER,  /* an earlier one is missing; resend it after that */
    WEFT_PUSH_UNKNOWN_CLIENT /* no learner of that id is here */
} weft_push_result;
/* FORMAT: the update is damaged, or not of this range, or version or clock is impossible. Nothing
 * has changed then. */
weft_status weft_range_push(weft_range *range, const weft_push *push,
                            weft_push_result *result) WEFT_NODISCARD;

/* range_snapshot.c: the state as bytes, without that of the update. */
weft_status weft_range_save(const weft_range *range, weft_buffer **out) WEFT_NODISCARD;
/* Replaces the state; used: bytes read. FORMAT: not the state of such a range, which is
 * unchanged. */
weft_status weft_range_load(weft_range *range, const void *data, size_t bytes,
                            size_t *used) WEFT_NODISCARD;

/* Histogram of the staleness of updates; *size is one more than the largest. The last bin,
 * WEFT_MOST_STALE, counts larger ones, too. */
enum { WEFT_MOST_STALE = 1 << 16 };
const int64_t *weft_range_staleness(const weft_range *range, size_t *size);

#endif
