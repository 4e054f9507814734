/* The search for the run that reaches a target first: its finalists, the runs that they share, and
 * what is seen of them at a virtual time. */
#ifndef WEFT_TRAIN_SIM_TARGET_SEARCH_H
#define WEFT_TRAIN_SIM_TARGET_SEARCH_H

#include "train/sim/target.h"

/* A finalist at a virtual time, over its seeds. */
typedef struct weft_search_seen {
    bool reached, failed, ended;
    bool met; /* its learners have exchanged what they learnt, and its warm-up has ended */
    double seconds, low, high; /* when it reached the target, or else until when it ran */
    double samples, loss;      /* loss: mean training loss; INFINITY: no step was taken */
    double held_out, metric;   /* of an evaluation; NaN: there was none */
    double best;               /* of the metric so far */
} weft_search_seen;

typedef struct weft_search_entry {
    const weft_finalist *given;
    int number;                 /* in the caller's list */
    weft_train_options options; /* with the learning rate of the rule */
    bool has_options;
    int learners;
    bool waits;     /* its ranks wait for each other, and `step` was estimated */
    double step;    /* virtual seconds; 0: not known yet */
    double meets;   /* virtual seconds until ranks that wait have met; INFINITY: at the end alone */
    double planned; /* seconds of a step, as estimated; 0: they cannot be */
    double batch;   /* samples of an update */
    int source;     /* the entry whose runs it shares; its own number: none */
    weft_paused_run *run[WEFT_MOST_SEEDS]; /* of a source */
    bool runs, refused;
    int round; /* after which it was left out; 0: it was not */
    char *why;
    weft_search_seen seen; /* when it was left out, or at the end */
} weft_search_entry;

typedef struct weft_search {
    weft_context *context;
    weft_target_options asked;
    bool rises;             /* greater values of the metric are better */
    bool evaluates, trains; /* it is of evaluations; it is WEFT_TRAIN_LOSS */
    const weft_stop *stop;
    weft_target_fn fn;
    void *user;
    weft_search_entry *entry; /* [count], by the number of ranks, then by name */
    int count, round, rounds;
    bool over; /* the target has been reached */
    int now;   /* the entry that runs */
    double until;
} weft_search;

/* Checks the finalists, and starts their runs, which take no step that counts yet. */
weft_status weft_search_open(weft_search *s, const weft_finalist *finalists,
                             int count) WEFT_NODISCARD;
void weft_search_close(weft_search *s);
/* Ends the runs of an entry, whose points stay. */
void weft_search_end_runs(weft_search_entry *e);

/* How many times as long a step of an entry takes as one of the runs that it shares. */
double weft_search_pace(const weft_search *s, const weft_search_entry *e);
/* The virtual time of its whole run. */
double weft_search_length(const weft_search *s, const weft_search_entry *e);
/* The order of two finalists, the better first: by the times at which they have reached the target,
 * then by the metric of the target, by the loss of evaluations, and by the training loss. Below 0:
 * a is the better. */
int weft_search_order(const weft_search *s, const weft_search_seen *a, const weft_search_seen *b);
weft_search_seen weft_search_look(const weft_search *s, const weft_search_entry *e, double until);
weft_status weft_search_results(weft_search *s, weft_target_result **out) WEFT_NODISCARD;

#endif
