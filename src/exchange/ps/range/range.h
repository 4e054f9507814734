/*
 * A range of the parameters as a server keeps it: their values, a version, and what to do with
 * updates that come from learners, late or early. No messages and no time: it is told of pushes and
 * of who comes and goes, in whichever order that happens, and the same order gives the same bits.
 *
 * A learner's clock is the number of steps it has finished. The staleness of an update is the
 * version that it meets minus the version it was computed on.
 */
#ifndef WEFT_EXCHANGE_PS_RANGE_H
#define WEFT_EXCHANGE_PS_RANGE_H

#include "actor/actor.h"
#include "base/base.h"

/* How much less a stale update counts (Zhang et al. 2016): all the same, 1/t, exp(-beta t). */
typedef enum weft_scale { WEFT_SCALE_NONE, WEFT_SCALE_INVERSE, WEFT_SCALE_EXP } weft_scale;

/* bsp: one update of each learner makes a version, and nobody is ahead. async: each update makes
 * one. softsync: each `count` of them, whosever they are. ssp: as async, but nobody begins a step
 * while it is more than `bound` ahead of the slowest; with bound 0 it is bsp. */
typedef struct weft_policy {
    int count;     /* updates of which a version is made; 0: one of each learner, of one clock */
    int64_t bound; /* steps that a learner may be ahead; -1: any number */
    weft_scale scale;
    double beta;
} weft_policy;
enum { WEFT_NO_BOUND = -1 };

/* As the options say; what is not given is NULL, or below 0. ARGUMENT: there is no such policy or
 * scale, or something is given that it does not have, or not given that it needs. */
weft_status weft_policy_make(const char *name, double count, double bound, const char *scale,
                             double beta, weft_policy *out) WEFT_NODISCARD;
double weft_policy_weight(const weft_policy *policy, int64_t staleness);

/* Gives parameters their next values, from the mean of updates, which is anywhere at a multiple of
 * 8 bytes: that of a single one may be read where it came. */
typedef weft_status (*weft_range_update_fn)(void *user, void *parameters, const void *gradient);

typedef struct weft_range_options {
    size_t struct_size; /* sizeof(weft_range_options) */
    weft_policy policy;
    weft_dtype dtype; /* F32 or F64 */
    int64_t count;    /* numbers in the range */
    weft_range_update_fn update;
    /* Before it: the step of the run that the updates are of, the last of theirs. NULL: nobody
     * needs to know. */
    void (*at)(void *user, int64_t step);
    void *user;
    /* [count] each, where the update reads and writes parameters, and where there is room for a
     * mean; the caller's, aligned to 64 bytes. NULL: the range has its own. */
    void *parameters, *gradient;
} weft_range_options;

typedef struct weft_range weft_range;
/* Version 0, nobody there; parameters of its own are all zeros. */
weft_status weft_range_create(const weft_range_options *options, weft_range **out) WEFT_NODISCARD;
void weft_range_destroy(weft_range **range);

/* [count]; the range's, until its version changes. */
void *weft_range_parameters(weft_range *range);
size_t weft_range_bytes(const weft_range *range);
int64_t weft_range_version(const weft_range *range);

/* A learner begins, as far as the slowest is, or at `clock` if that is more. Updates of which one
 * version is made are added up in the order of the slots. ARGUMENT: it was here before (learners
 * that come again have another number). */
weft_status weft_range_join(weft_range *range, weft_actor_id learner, int slot,
                            int64_t clock) WEFT_NODISCARD;
/* One that has not pushed anything yet begins at `clock`, if that is more. ARGUMENT: it is not
 * here, or has pushed. */
weft_status weft_range_advance(weft_range *range, weft_actor_id learner,
                               int64_t clock) WEFT_NODISCARD;
/* A learner is gone: what it has pushed counts, and nobody waits for it any more. ARGUMENT: it is
 * not here. */
weft_status weft_range_leave(weft_range *range, weft_actor_id learner) WEFT_NODISCARD;
/* All are to leave, the first after so many steps: where a version is made of one update of each
 * learner, those of later steps, to which it adds nothing, make none. So what is left is what all
 * had come to then, whoever was ahead. */
void weft_range_halt(weft_range *range, int64_t clock);
int weft_range_learners(const weft_range *range);
/* It is here, or was. */
bool weft_range_knows(const weft_range *range, weft_actor_id learner);
/* Steps it has finished, as far as its updates are in; -1: it is not here. */
int64_t weft_range_clock(const weft_range *range, weft_actor_id learner);
/* Of its updates: of how many versions have been made, and how stale they were, added up; 0 of one
 * that was never here. */
void weft_range_met(const weft_range *range, weft_actor_id learner, int64_t *met, int64_t *stale);
/* Learner number i of those that are here, in the order in which they came; false past the last. */
bool weft_range_learner_at(const weft_range *range, int i, weft_actor_id *out);
/* Steps that everybody has finished; those that all had finished who were here, if nobody is. */
int64_t weft_range_slowest(const weft_range *range);
/* Whether a learner that has finished so many steps may begin the next: of what it must see,
 * nothing is missing. */
bool weft_range_may_begin(const weft_range *range, int64_t clock);

typedef struct weft_push {
    weft_actor_id learner;
    int64_t sequence;    /* of its updates, from 1 without gaps */
    int64_t clock;       /* steps it has finished with this one */
    int64_t version;     /* of the parameters that it was computed on */
    weft_buffer *update; /* a message as in compress/compress.h */
    int64_t step;        /* of the run, by which rates are scheduled; 0: not known */
    double weight;       /* of its samples; a mean goes by these, unless all are alike */
} weft_push;
typedef enum weft_push_result {
    WEFT_PUSH_ACCEPTED,      /* it counts, now or with others that are still to come */
    WEFT_PUSH_DUPLICATE,     /* it came before; it is not counted again */
    WEFT_PUSH_OUT_OF_ORDER,  /* one before it has not come; it has to be sent again after that */
    WEFT_PUSH_UNKNOWN_CLIENT /* nobody of that number is here */
} weft_push_result;
/* FORMAT: the update is damaged, or not of this range; a version or clock that cannot be. Nothing
 * has changed then. */
weft_status weft_range_push(weft_range *range, const weft_push *push,
                            weft_push_result *fate) WEFT_NODISCARD;

/* range_snapshot.c: all of it, as bytes; what its update keeps is for others to add. */
weft_status weft_range_save(const weft_range *range, weft_buffer **out) WEFT_NODISCARD;
/* In the place of what it has; used: of the bytes. FORMAT: it is not of such a range; it stays as
 * it was. */
weft_status weft_range_load(weft_range *range, const void *data, size_t bytes,
                            size_t *used) WEFT_NODISCARD;

/* How many updates met the parameters with each staleness; *size is one more than the largest. So
 * stale counts as well what is more. */
enum { WEFT_MOST_STALE = 1 << 16 };
const int64_t *weft_range_staleness(const weft_range *range, size_t *size);

#endif
