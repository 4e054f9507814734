/* Internals of the adaptive policy: its goal, its model of the arrivals, its search, and the trial
 * of its choice against the greedy policy. */
#ifndef WEFT_SERVE_BATCH_ADAPTIVE_INTERNAL_H
#define WEFT_SERVE_BATCH_ADAPTIVE_INTERNAL_H

#include "serve/batch/batch_internal.h"

/* --- goal.c --- */
typedef struct weft_goal {
    double quantile; /* 0: the mean */
    double slo;      /* bound on p99 in seconds, which takes precedence over the goal; 0: none */
} weft_goal;
weft_status weft_goal_parse(const char *name, double slo, weft_goal *out) WEFT_NODISCARD;
/* The goal's value for `n` latencies, which it reorders. */
double weft_goal_of(const weft_goal *goal, double *latency, int n);
/* Histogram of latencies, from which the value of a goal is estimated while they arrive. */
typedef struct weft_latency_window {
    int64_t count, cells[WEFT_LATENCY_CELLS];
    double sum;
} weft_latency_window;
void weft_latency_window_clear(weft_latency_window *m);
void weft_latency_window_add(weft_latency_window *m, double latency);
double weft_goal_measured(const weft_goal *goal, const weft_latency_window *m);
/* The seconds that a value of these functions stands for: p99, where p99 exceeds the bound. */
double weft_goal_seconds(const weft_goal *goal, double value);

/* --- interarrival.c: inter-arrival times --- */
enum { WEFT_INTERARRIVALS = 2048 };
enum { WEFT_INTERARRIVALS_RECENT = 48 };
typedef struct weft_interarrival_sums {
    double sum, squares;
} weft_interarrival_sums;
typedef struct weft_interarrivals {
    double last; /* time of the last arrival; below 0: none yet */
    double gap[WEFT_INTERARRIVALS];
    int64_t rows[WEFT_INTERARRIVALS];
    int64_t count; /* arrivals since the load has changed; the last WEFT_INTERARRIVALS are kept */
    weft_interarrival_sums all,
        recent; /* sums over the gaps that are kept, and over the last WEFT_INTERARRIVALS_RECENT */
} weft_interarrivals;
/* Returns true if the load has changed; only the arrivals since then are kept. */
bool weft_interarrivals_add(weft_interarrivals *gaps, double now, int64_t rows);
double weft_interarrivals_rate(const weft_interarrivals *gaps); /* requests a second; 0: unknown */
double weft_interarrivals_burstiness(
    const weft_interarrivals *gaps); /* squared coefficient of variation */
/* Generates `n` arrivals like the recorded ones; different ones for each seed. */
void weft_interarrivals_replay(const weft_interarrivals *gaps, int n, uint64_t seed, double *at,
                               int64_t *rows);

/* --- closed_loop.c: how many requests closed-loop clients can have in the queue --- */
enum { WEFT_CLOSED_LOOP_WINDOWS = 4 };
typedef struct weft_closed_loop_window {
    int64_t arrivals, max_in_system,
        visits; /* requests; most in the queue at once; arrivals that reached that number */
    double seconds_at_max; /* seconds with `max_in_system` requests in the queue */
} weft_closed_loop_window;
typedef struct weft_closed_loop {
    weft_closed_loop_window window[WEFT_CLOSED_LOOP_WINDOWS]; /* ring of the last parts */
    int64_t windows, in_system;
    double since; /* when the number in the queue last changed */
    double answered_at[WEFT_MOST_CLOSED_CLIENTS], think_time[WEFT_MOST_CLOSED_CLIENTS];
    int64_t answers, think_times; /* totals; the last WEFT_MOST_CLOSED_CLIENTS of each are kept */
} weft_closed_loop;
/* A request arrived, or was answered; `in_system` requests are in the queue now. */
void weft_closed_loop_arrived(weft_closed_loop *crowd, double now, int64_t in_system);
void weft_closed_loop_answered(weft_closed_loop *crowd, double now, int64_t in_system);
/* The number of requests that clients can have in the queue at most, given the rate and burstiness
 * of all arrivals; 0: no bound. */
int64_t weft_closed_loop_bound(const weft_closed_loop *crowd, double rate, double burstiness);

/* --- tune.c --- */
/* Finds the best setting for the arrivals of `r`. The promised latency, and that of the greedy
 * setting, are measured on `other`, which has arrivals of the same kind: a setting that is best by
 * chance for one is not best for both. */
typedef struct weft_tuned {
    weft_batch_setting best;
    double promise, greedy;
} weft_tuned;
void weft_tune(const weft_queue_sim *r, const weft_queue_sim *other, double rate,
               const weft_curve *curve, int64_t limit, const weft_goal *goal, weft_tuned *out);

/* --- ab_trial.c: checks the promise against measured latencies --- */
typedef struct weft_ab_trial {
    enum { WEFT_TRIAL_ACCEPTED, WEFT_TRIAL_RUNNING, WEFT_TRIAL_REJECTED } phase;
    int misses;          /* consecutive windows that were worse than promised */
    int turn, warmup;    /* turn of a trial; answers to skip at its start */
    double latency[2];   /* measured: the last turn of the choice, and of greedy */
    double sum, squares; /* of log(latency[0] / latency[1]) in all turns, and of its squares */
    int64_t accepted_span, rejected_span,
        left;     /* answers between trials, during the next denial, and until the next step */
    int64_t rest; /* answers during which broken promises are ignored */
    bool obvious; /* the greedy policy must be far worse if the model is right at all */
    weft_latency_window measured;
} weft_ab_trial;
/* Whether the choice is in use now, and not the greedy policy. */
bool weft_ab_trial_uses_choice(const weft_ab_trial *trust);
bool weft_ab_trial_answered(weft_ab_trial *trust, const weft_goal *goal, double promise,
                            bool differs, double latency);

#endif
