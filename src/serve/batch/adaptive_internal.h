/* Internals of the adaptive policy: its goal, its model of the arrivals, the search for a setting,
 * and the A/B trial of the choice against the greedy policy. */
#ifndef WEFT_SERVE_BATCH_ADAPTIVE_INTERNAL_H
#define WEFT_SERVE_BATCH_ADAPTIVE_INTERNAL_H

#include "serve/batch/batch_internal.h"

/* --- goal.c --- */
typedef struct weft_goal {
    double quantile; /* quantile of latency to minimize; 0: the mean */
    /* bound on p99 in seconds; a setting that keeps it is better than any that does not; 0: none */
    double slo;
} weft_goal;
weft_status weft_goal_parse(const char *name, double slo, weft_goal *out) WEFT_NODISCARD;
/* The goal's value for `n` latencies; lower is better. Reorders the latencies. */
double weft_goal_of(const weft_goal *goal, double *latency, int n);
/* Histogram of the latencies since it was cleared, from which the goal's value is estimated. */
typedef struct weft_latency_window {
    int64_t count, cells[WEFT_LATENCY_CELLS];
    double sum;
} weft_latency_window;
void weft_latency_window_clear(weft_latency_window *m);
void weft_latency_window_add(weft_latency_window *m, double latency);
double weft_goal_measured(const weft_goal *goal, const weft_latency_window *m);
/* The seconds of latency behind a value of weft_goal_of or weft_goal_measured: the mean or quantile
 * of the goal, or p99 if p99 exceeds the bound. */
double weft_goal_seconds(const weft_goal *goal, double value);

/* --- interarrival.c: inter-arrival times --- */
enum { WEFT_INTERARRIVALS = 2048, WEFT_INTERARRIVAL_SCALES = 3 };
typedef struct weft_interarrival_sums {
    double sum, squares, logs, log_squares;
} weft_interarrival_sums;
typedef struct weft_interarrivals {
    double last; /* time of the last arrival (weft_seconds); below 0: none yet */
    double gap[WEFT_INTERARRIVALS], log_gap[WEFT_INTERARRIVALS];
    int64_t rows[WEFT_INTERARRIVALS];
    /* recorded gaps since the load last changed, of which the last WEFT_INTERARRIVALS are stored in
     * a ring; index of the first one of them all in this ring */
    int64_t count, first;
    weft_interarrival_sums all;                              /* over the stored gaps */
    weft_interarrival_sums recent[WEFT_INTERARRIVAL_SCALES]; /* over the last 48, 192, 768 gaps */
} weft_interarrivals;
/* Records an arrival. Returns true if the load has changed; then only the newest gaps are kept. */
bool weft_interarrivals_add(weft_interarrivals *gaps, double now, int64_t rows);
double weft_interarrivals_rate(const weft_interarrivals *gaps); /* requests a second; 0: unknown */
double weft_interarrivals_burstiness(
    const weft_interarrivals *gaps); /* squared coefficient of variation of the gaps; 0: unknown */
/* Generates `n` arrival times and row counts that resemble the recorded ones. Each seed gives other
 * arrivals. */
void weft_interarrivals_replay(const weft_interarrivals *gaps, int n, uint64_t seed, double *at,
                               int64_t *rows);

/* --- closed_loop.c: how many requests closed-loop clients can have in the queue --- */
enum { WEFT_CLOSED_LOOP_WINDOWS = 4 };
typedef struct weft_closed_loop_window {
    /* in this window: its arrivals; the most requests in the system at once (queued or running);
     * and the arrivals that reached this number */
    int64_t arrivals, max_in_system, visits;
    double seconds_at_max; /* seconds with `max_in_system` requests in the system */
} weft_closed_loop_window;
typedef struct weft_closed_loop {
    weft_closed_loop_window window[WEFT_CLOSED_LOOP_WINDOWS]; /* ring of the last windows */
    int64_t windows, in_system;
    double since; /* when `in_system` last changed */
    double answered_at[WEFT_MOST_CLOSED_CLIENTS], think_time[WEFT_MOST_CLOSED_CLIENTS];
    /* totals; the last WEFT_MOST_CLOSED_CLIENTS answer times and think times are stored */
    int64_t answers, think_times;
} weft_closed_loop;
/* Record that a request arrived, or that one was answered; `in_system` requests are queued or
 * running now. An arrival returns true if that is more than the recent windows have seen: then the
 * think times are forgotten, and an earlier bound does not hold any more. */
bool weft_closed_loop_arrived(weft_closed_loop *crowd, double now, int64_t in_system);
void weft_closed_loop_answered(weft_closed_loop *crowd, double now, int64_t in_system);
/* The largest number of requests that closed-loop clients can have queued or running, given the
 * rate and burstiness of all arrivals; 0: no bound was detected. */
int64_t weft_closed_loop_bound(const weft_closed_loop *crowd, double rate, double burstiness);

/* --- tune.c --- */
/* Finds the best setting for the arrivals of `r`. Its latency (the promise) and that of the greedy
 * setting are then simulated on `other`, which has other arrivals of the same load, since a setting
 * may be best for `r` only by chance. */
typedef struct weft_tuned {
    weft_batch_setting best;
    double promise, greedy;
} weft_tuned;
void weft_tune(const weft_queue_sim *r, const weft_queue_sim *other, double rate,
               const weft_curve *curve, int64_t limit, const weft_goal *goal, weft_tuned *out);

/* --- ab_trial.c: checks the promise against measured latencies --- */
typedef struct weft_ab_trial {
    enum { WEFT_TRIAL_ACCEPTED, WEFT_TRIAL_RUNNING, WEFT_TRIAL_REJECTED } phase;
    int misses;        /* windows in turn whose latency was worse than promised */
    int round, warmup; /* number of the round in the trial; answers still to be skipped in it */
    double latency[2]; /* goal's value in the last round of the choice [0] and of greedy [1] */
    /* sums over the pairs of rounds: of log(latency[0] / latency[1]), and of its square */
    double sum, squares;
    /* numbers of answers: between two trials while the choice is accepted, with greedy after the
     * choice was rejected, and from now until the next trial */
    int64_t accepted_span, rejected_span, left;
    int64_t rest; /* answers from now on during which missed promises are ignored */
    bool obvious; /* greedy is predicted to be far worse, so there is no trial without a miss */
    weft_latency_window measured;
} weft_ab_trial;
/* Whether the choice is in use now, and not the greedy setting. */
bool weft_ab_trial_uses_choice(const weft_ab_trial *trust);
bool weft_ab_trial_answered(weft_ab_trial *trust, const weft_goal *goal, double promise,
                            bool differs, double latency);

#endif
