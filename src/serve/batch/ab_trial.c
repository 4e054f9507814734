/* The A/B trial of the adaptive policy. The search promises a latency for the setting that it has
 * found, the choice; its model of the machine or of the arrivals may be wrong. So a trial compares
 * the choice with the greedy policy if the measured latency is much worse than promised, and also
 * from time to time, unless greedy is predicted to be far worse. The two run in alternating rounds,
 * so that a change of the load affects both. */
#include <math.h>

#include "serve/batch/adaptive_internal.h"

enum {
    GLANCE = 128,  /* answers between two looks for a gross miss (FAR_OFF) */
    WINDOW = 1024, /* answers of a full window, after which a smaller miss counts (OFF) */
    WARMUP = 32,   /* answers skipped at the start of a round: their requests came before it */
    TURN = 96,     /* answers after the warm-up, times times(goal), with which a round ends */
    PAIRS = 3,     /* pairs of rounds before a trial is decided, unless FAR_BETTER */
    MOST_PAIRS = 12,
    /* answers until a trial without a miss; doubled after each trial that the choice wins */
    FIRST_ACCEPTED_SPAN = 8192,
    MOST_ACCEPTED_SPAN = 1 << 18,
    /* answers with the greedy policy after a trial that the choice lost; doubled after each one */
    REJECTED_SPAN = 16384,
    MOST_REJECTED_SPAN = 1 << 20
};
static const double FAR_OFF = 4, OFF = 2, CLEAR = 2;
/* The choice wins after any pair of rounds if the mean logarithm of its latency divided by that of
 * greedy is below minus this number. */
static const double FAR_BETTER = 0.4;
/* A round of greedy ends after ENOUGH answers if its latency is so many times that of the choice,
 * since greedy may not even keep up with the load. */
static const double HOPELESS = 2;
enum { ENOUGH = 24 };

/* The factor by which numbers of answers are multiplied for this goal: a high quantile needs more
 * answers to be measured. */
static int times(const weft_goal *goal)
{
    double quantile = goal->slo > 0 ? 0.99 : goal->quantile;
    return (int)WEFT_MAX(0.16 / (1 - quantile) + 0.5, 1);
}

static void begin_trial(weft_ab_trial *t)
{
    t->phase = WEFT_TRIAL_RUNNING;
    t->round = 0;
    t->sum = t->squares = 0;
    t->misses = 0;
    t->warmup = WARMUP;
    weft_latency_window_clear(&t->measured);
}

static void accept(weft_ab_trial *t)
{
    t->phase = WEFT_TRIAL_ACCEPTED;
    t->accepted_span =
        WEFT_MIN(WEFT_MAX(2 * t->accepted_span, FIRST_ACCEPTED_SPAN), MOST_ACCEPTED_SPAN);
    t->rejected_span = 0;
    t->left = t->accepted_span;
    t->rest = t->accepted_span / 4;
}

static void reject(weft_ab_trial *t)
{
    t->phase = WEFT_TRIAL_REJECTED;
    t->rejected_span = WEFT_MIN(WEFT_MAX(2 * t->rejected_span, REJECTED_SPAN), MOST_REJECTED_SPAN);
    t->accepted_span = t->rest = 0;
    t->left = t->rejected_span;
}

/* In a trial the rounds are choice, greedy, greedy, choice, and so on. */
bool weft_ab_trial_uses_choice(const weft_ab_trial *t)
{
    return t->phase == WEFT_TRIAL_ACCEPTED ||
           (t->phase == WEFT_TRIAL_RUNNING && (t->round % 4 == 0 || t->round % 4 == 3));
}

/* Judges the trial after a pair of rounds. log_ratio: logarithm of the choice's latency divided by
 * that of greedy in this pair. A trial ends when the mean over the pairs differs clearly from 0, or
 * after MOST_PAIRS pairs. */
static void judge(weft_ab_trial *t, double log_ratio)
{
    int pairs = t->round / 2;
    t->sum += log_ratio;
    t->squares += log_ratio * log_ratio;
    double mean = t->sum / pairs;
    double spread = sqrt(WEFT_MAX(t->squares / pairs - mean * mean, 0) / pairs);
    bool clear = mean < -FAR_BETTER || (pairs >= PAIRS && fabs(mean) > CLEAR * spread);
    if (!clear && pairs < MOST_PAIRS) return;
    if (mean > 0)
        reject(t);
    else
        accept(t);
}

static void end_round(weft_ab_trial *t, double measured)
{
    bool uses_choice = weft_ab_trial_uses_choice(t);
    t->latency[uses_choice ? 0 : 1] = measured;
    if (++t->round % 2 == 0) judge(t, log(t->latency[0] / t->latency[1]));
    t->warmup = WARMUP;
    weft_latency_window_clear(&t->measured);
}

static bool ends_round(const weft_ab_trial *t, const weft_goal *goal)
{
    int64_t count = t->measured.count, rare = times(goal);
    if (count >= TURN * rare) return true;
    return !weft_ab_trial_uses_choice(t) && count == ENOUGH * rare &&
           weft_goal_measured(goal, &t->measured) > HOPELESS * t->latency[0];
}

/* Checks the answers measured since the last window; two misses in round make a trial due. A miss
 * is a latency above FAR_OFF times the promise, or in a full window above OFF times. */
static bool is_missed(weft_ab_trial *t, const weft_goal *goal, double promise)
{
    bool whole = t->measured.count >= WINDOW * times(goal);
    double measured = weft_goal_measured(goal, &t->measured);
    bool missed = promise > 0 && measured > (whole ? OFF : FAR_OFF) * promise;
    if (missed) {
        t->misses++;
    } else if (whole) {
        t->misses = 0;
    }
    if (missed || whole) weft_latency_window_clear(&t->measured);
    return t->misses >= 2;
}

bool weft_ab_trial_answered(weft_ab_trial *t, const weft_goal *goal, double promise, bool differs,
                            double latency)
{
    bool before = weft_ab_trial_uses_choice(t);
    if (t->warmup > 0) {
        t->warmup--;
        return false;
    }
    weft_latency_window_add(&t->measured, latency);
    if (t->left > 0) t->left--;
    if (t->rest > 0) t->rest--;
    if (!differs) { /* the choice equals greedy: nothing to compare */
        if (t->phase == WEFT_TRIAL_RUNNING || t->measured.count >= WINDOW)
            weft_latency_window_clear(&t->measured);
        if (t->phase == WEFT_TRIAL_RUNNING) t->phase = WEFT_TRIAL_ACCEPTED;
        t->misses = 0;
    } else if (t->phase == WEFT_TRIAL_RUNNING) {
        if (ends_round(t, goal)) end_round(t, weft_goal_measured(goal, &t->measured));
    } else if (t->phase == WEFT_TRIAL_REJECTED) {
        if (t->left <= 0) begin_trial(t);
    } else {
        if (t->accepted_span == 0) t->accepted_span = t->left = FIRST_ACCEPTED_SPAN * times(goal);
        bool doubts =
            t->measured.count % (GLANCE * times(goal)) == 0 && is_missed(t, goal, promise);
        if ((doubts && t->rest <= 0) || (t->left <= 0 && !t->obvious)) begin_trial(t);
    }
    return weft_ab_trial_uses_choice(t) != before;
}
