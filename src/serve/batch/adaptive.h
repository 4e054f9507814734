/* Inside of the adaptive policy: its goal, what it knows of arrivals, its search, and its doubts.
 */
#ifndef WEFT_SERVE_BATCH_ADAPTIVE_H
#define WEFT_SERVE_BATCH_ADAPTIVE_H

#include "serve/batch/line.h"

/* --- goal.c --- */
typedef struct weft_goal {
    double quantile; /* 0: the mean */
    double slo;      /* seconds that p99 must not be above, whatever else is the goal; 0: none */
} weft_goal;
weft_status weft_goal_parse(const char *name, double slo, weft_goal *out) WEFT_NODISCARD;
/* Of so many latencies, which it reorders. */
double weft_goal_of(const weft_goal *goal, double *latency, int n);
/* The same of what is measured one by one. */
typedef struct weft_measured {
    int64_t count, cells[WEFT_LATENCY_CELLS];
    double sum;
} weft_measured;
void weft_goal_clear(weft_measured *m);
void weft_goal_count(weft_measured *m, double latency);
double weft_goal_measured(const weft_goal *goal, const weft_measured *m);
/* The seconds that a value of these functions stands for: of p99 where it is above the bound. */
double weft_goal_seconds(const weft_goal *goal, double value);

/* --- gaps.c: how requests come --- */
enum { WEFT_GAPS = 2048 };
enum { WEFT_GAPS_RECENT = 48 };
typedef struct weft_gap_sums {
    double sum, squares;
} weft_gap_sums;
typedef struct weft_gaps {
    double last; /* when the last one came; below 0: none has */
    double gap[WEFT_GAPS];
    int64_t rows[WEFT_GAPS];
    int64_t count; /* since the load has changed; of these the last WEFT_GAPS are kept */
    weft_gap_sums all, recent; /* of those that are kept, and of the last WEFT_GAPS_RECENT */
} weft_gaps;
/* true: the load is another one now, and only what came since then is kept. */
bool weft_gaps_add(weft_gaps *gaps, double now, int64_t rows);
double weft_gaps_rate(const weft_gaps *gaps);       /* requests a second; 0: not known */
double weft_gaps_burstiness(const weft_gaps *gaps); /* squared coefficient of variation */
/* Arrivals like these, n of them; others for another seed. */
void weft_gaps_play(const weft_gaps *gaps, int n, uint64_t seed, double *at, int64_t *rows);

/* --- crowd.c: how many can be in the line --- */
enum { WEFT_CROWD_PARTS = 4 };
typedef struct weft_crowd_part {
    int64_t came, most,
        visits;  /* requests; the most in the line at once, and how often these were */
    double full; /* seconds in which these were there */
} weft_crowd_part;
typedef struct weft_crowd {
    weft_crowd_part part[WEFT_CROWD_PARTS]; /* the last ones */
    int64_t parts, there;
    double since; /* when there were last more or fewer */
    double answered[WEFT_CROWD], pause[WEFT_CROWD];
    int64_t answers, pauses; /* of these the last ones are kept */
} weft_crowd;
/* A request came, or was answered, and so many are there now. */
void weft_crowd_came(weft_crowd *crowd, double now, int64_t there);
void weft_crowd_left(weft_crowd *crowd, double now, int64_t there);
/* How many there can be, at this rate and burstiness of all; 0: any number. */
int64_t weft_crowd_all(const weft_crowd *crowd, double rate, double burstiness);

/* --- tune.c --- */
/* The best setting for arrivals, found with `r`; what it promises, and what the greedy one does, as
 * `other` has it, which are arrivals of the same kind: what is best by chance in one is not in
 * both.
 */
typedef struct weft_tuned {
    weft_batching best;
    double promise, greedy;
} weft_tuned;
void weft_tune(const weft_rehearsal *r, const weft_rehearsal *other, double rate,
               const weft_curve *curve, int64_t limit, const weft_goal *goal, weft_tuned *out);

/* --- trust.c: whether what was promised is kept --- */
typedef struct weft_trust {
    enum { WEFT_TRUST_BELIEVES, WEFT_TRUST_TRIES, WEFT_TRUST_DENIES } phase;
    int broken;          /* windows that were worse than promised, one after the other */
    int turn, settle;    /* of a trial; answers that do not count */
    double of[2];        /* what was measured in the last turns of what was found and of greedy */
    double sum, squares; /* of the logarithms of their ratios */
    int64_t look, denies, left; /* answers until a trial, the next time and now */
    int64_t rest;               /* until doubts are heard again */
    bool obvious; /* greedy must be far worse, if anything that was foreseen is true */
    weft_measured measured;
} weft_trust;
/* Whether what was found is done now, and not the greedy policy. */
bool weft_trust_follows(const weft_trust *trust);
bool weft_trust_answered(weft_trust *trust, const weft_goal *goal, double promise, bool differs,
                         double latency);

#endif
