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
/* This value from a histogram, for latencies that are measured one by one. */
typedef struct weft_measured {
    int64_t count, cells[WEFT_LATENCY_CELLS];
    double sum;
} weft_measured;
void weft_goal_clear(weft_measured *m);
void weft_goal_count(weft_measured *m, double latency);
double weft_goal_measured(const weft_goal *goal, const weft_measured *m);
/* The seconds that a value of these functions stands for: p99, where p99 exceeds the bound. */
double weft_goal_seconds(const weft_goal *goal, double value);

/* --- interarrival.c: inter-arrival times --- */
enum { WEFT_GAPS = 2048 };
enum { WEFT_GAPS_RECENT = 48 };
typedef struct weft_gap_sums {
    double sum, squares;
} weft_gap_sums;
typedef struct weft_gaps {
    double last; /* time of the last arrival; below 0: none yet */
    double gap[WEFT_GAPS];
    int64_t rows[WEFT_GAPS];
    int64_t count; /* arrivals since the load has changed; the last WEFT_GAPS are kept */
    weft_gap_sums all,
        recent; /* sums over the gaps that are kept, and over the last WEFT_GAPS_RECENT */
} weft_gaps;
/* Returns true if the load has changed; only the arrivals since then are kept. */
bool weft_gaps_add(weft_gaps *gaps, double now, int64_t rows);
double weft_gaps_rate(const weft_gaps *gaps);       /* requests a second; 0: unknown */
double weft_gaps_burstiness(const weft_gaps *gaps); /* squared coefficient of variation */
/* Generates `n` arrivals like the recorded ones; different ones for each seed. */
void weft_gaps_play(const weft_gaps *gaps, int n, uint64_t seed, double *at, int64_t *rows);

/* --- closed_loop.c: how many requests closed-loop clients can have in the line --- */
enum { WEFT_CROWD_PARTS = 4 };
typedef struct weft_crowd_part {
    int64_t came, most,
        visits;  /* requests; most in the line at once; arrivals that reached that number */
    double full; /* seconds with `most` requests in the line */
} weft_crowd_part;
typedef struct weft_crowd {
    weft_crowd_part part[WEFT_CROWD_PARTS]; /* ring of the last parts */
    int64_t parts, there;
    double since; /* when the number in the line last changed */
    double answered[WEFT_CROWD], pause[WEFT_CROWD];
    int64_t answers, pauses; /* totals; the last WEFT_CROWD of each are kept */
} weft_crowd;
/* A request arrived, or was answered; `there` requests are in the line now. */
void weft_crowd_came(weft_crowd *crowd, double now, int64_t there);
void weft_crowd_left(weft_crowd *crowd, double now, int64_t there);
/* The number of requests that clients can have in the line at most, given the rate and burstiness
 * of all arrivals; 0: no bound. */
int64_t weft_crowd_all(const weft_crowd *crowd, double rate, double burstiness);

/* --- tune.c --- */
/* Finds the best setting for the arrivals of `r`. The promised latency, and that of the greedy
 * setting, are measured on `other`, which has arrivals of the same kind: a setting that is best by
 * chance for one is not best for both. */
typedef struct weft_tuned {
    weft_batching best;
    double promise, greedy;
} weft_tuned;
void weft_tune(const weft_rehearsal *r, const weft_rehearsal *other, double rate,
               const weft_curve *curve, int64_t limit, const weft_goal *goal, weft_tuned *out);

/* --- ab_trial.c: checks the promise against measured latencies --- */
typedef struct weft_trust {
    enum { WEFT_TRUST_BELIEVES, WEFT_TRUST_TRIES, WEFT_TRUST_DENIES } phase;
    int broken;          /* consecutive windows that were worse than promised */
    int turn, settle;    /* turn of a trial; answers to skip at its start */
    double of[2];        /* measured in the last turns of the choice and of greedy */
    double sum, squares; /* of the logarithms of their ratios */
    int64_t look, denies,
        left;     /* answers between trials, during the next denial, and until the next step */
    int64_t rest; /* answers during which broken promises are ignored */
    bool obvious; /* the greedy policy must be far worse if the model is right at all */
    weft_measured measured;
} weft_trust;
/* Whether the choice is in use now, and not the greedy policy. */
bool weft_trust_follows(const weft_trust *trust);
bool weft_trust_answered(weft_trust *trust, const weft_goal *goal, double promise, bool differs,
                         double latency);

#endif
