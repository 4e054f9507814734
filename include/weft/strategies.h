/*
 * The search for the fastest strategy, which is a mesh with its schedule, micro-batches, ZeRO stage
 * and recomputation, and an exchange with its codec and servers: weft_strategies_search compares
 * strategies on the cluster of a file by their estimates (weft/estimate.h).
 *
 * The candidates are the combinations of these options with up to a rank for each core of the
 * cluster. Their values come from tables: the axes of meshes, and the entries of the registry with
 * the arguments that they offer (weft_exchange_life.offered). An option that has another value than
 * its default when the search begins, or is named in `given`, keeps it. A combination that a run
 * would refuse is refused by the checks of the run. Every learner takes --batch samples a step, as
 * in a run, and candidates are compared by the samples that all learners take in a second.
 *
 * A bound, which is cheap, says how many samples a second a candidate takes at most. The candidates
 * of the greatest bounds are estimated first, and the search ends when no bound is above what it
 * has found: without a limit of time it finds what estimates of all candidates would find.
 */
#ifndef WEFT_STRATEGIES_H
#define WEFT_STRATEGIES_H

#include "weft/estimate.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_search_options {
    size_t struct_size; /* sizeof(weft_search_options) */
    /* Most strategies that fit, 1 or more. Each is the fastest of those that update parameters in
     * the same way: by the same exchange, arguments and codec, or as one learner. */
    int64_t top;
    bool all;         /* every candidate is estimated and is a row; no bound is used */
    bool one_learner; /* candidates without an exchange alone; ARGUMENT if one is given */
    /* The search ends after so many, with what it has found. 0: no limit. */
    double seconds;
    /* Names of options, separated by commas, which each candidate keeps as they are, though they
     * have their defaults; NULL: none. */
    const char *given;
    uint64_t room[6]; /* of later versions: 0 */
} weft_search_options;

/* Sets struct_size and the defaults: the ten best, without a limit of time. */
WEFT_API void weft_search_options_init_size(weft_search_options *options, size_t size);
#define weft_search_options_init(options) weft_search_options_init_size(options, sizeof(*(options)))

/* A strategy. Its texts belong to the result. */
typedef struct weft_strategy {
    size_t struct_size;
    char *words;             /* options of a run, as "ranks=2 mesh=data=2", beside those given */
    weft_step_estimate step; /* zeros where there is no estimate */
    double most;             /* samples a second, at most: the bound */
    bool one_learner;        /* has no exchange: steps are those of one learner */
    char *reason;            /* why it does not fit, or cannot be estimated; NULL: it fits */
    uint64_t room[8];        /* of later versions: 0 */
} weft_strategy;

typedef struct weft_strategies {
    size_t struct_size;
    /* First `fitting` strategies that fit, the fastest first; then some that do not fit, though
     * they would be faster; then one for each reason for which candidates cannot be estimated. */
    weft_strategy *at;
    int count, fitting;
    /* Candidates in all; those that were estimated; those that a run refuses; those that bounds
     * left out. */
    int64_t candidates, estimated, refused, bounded;
    int64_t ranks;    /* room of the cluster: a rank for each core of its smallest machine */
    bool interrupted; /* the search was asked to stop, and has what it had found */
    char *remedy;     /* nothing fits: what would help; else NULL */
    bool timed_out;   /* as interrupted, by the limit of time */
    int64_t idle;     /* candidates with a mesh axis that splits nothing of the model: left out */
    /* The best strategy has no rank on some machines of the file, which are of several kinds: its
     * ranks are on this many, the first ones. 0: on all, or machines are alike. */
    int64_t first_machines;
    uint64_t room[5]; /* of later versions: 0 */
} weft_strategies;

/* The progress of a search: the numbers of candidates, and the best rate (0: none yet). */
typedef void (*weft_search_fn)(void *user, const weft_strategies *so_far, double best);

/* Searches. options: those of a run, as above. cluster: as for weft_estimate_step. stop and fn may
 * be NULL. weft_dataset_keep before spares reading the data for each candidate. That nothing fits
 * is no failure: out->fitting is 0 then. weft_strategies_free frees *out. ARGUMENT: as
 * weft_estimate_step; every candidate is refused, the simplest one for the reason in the message;
 * or a number of `search` is out of range. */
WEFT_API WEFT_NODISCARD weft_status weft_strategies_search(weft_context *context,
                                                           const weft_train_options *options,
                                                           const char *cluster,
                                                           const weft_search_options *search,
                                                           const weft_stop *stop, weft_search_fn fn,
                                                           void *user, weft_strategies *out);
WEFT_API void weft_strategies_free(weft_strategies *strategies);

#ifdef __cplusplus
}
#endif
#endif
