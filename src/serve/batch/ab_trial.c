/* Compares the promised latency with the measured one, since the model of the machine or of the
 * arrivals may be wrong. Where it is much worse, and from time to time in any case (unless greedy
 * is predicted to be far worse), an A/B trial decides between the choice and the greedy policy.
 * Both run in alternating turns, so that a change of the load affects both. */
#include <math.h>

#include "serve/batch/adaptive_internal.h"

enum {
    GLANCE = 128,  /* answers after which a gross miss is noticed */
    WINDOW = 1024, /* answers after which any other miss is */
    SETTLE = 32,   /* answers to requests from before the turn */
    TURN = 96,     /* answers that count in a turn */
    PAIRS = 3,     /* of turns, at least */
    MOST_PAIRS = 12,
    FIRST_LOOK = 8192, /* answers until an unprovoked trial; doubles each time */
    LAST_LOOK = 1 << 18,
    DENIES = 16384, /* answers during which greedy is used after a lost trial; doubles each time */
    MOST_DENIES = 1 << 20
};
static const double FAR_OFF = 4, OFF = 2, CLEAR = 2;
/* The choice wins after one pair of turns if it is faster by so much, as a logarithm. */
static const double FAR_BETTER = 0.4;
/* A turn of greedy ends early if it is so many times slower: it may not even keep up with the
 * load. */
static const double HOPELESS = 2;
enum { ENOUGH = 24 };

/* Rare events need more answers to be seen. */
static int times(const weft_goal *goal)
{
    double quantile = goal->slo > 0 ? 0.99 : goal->quantile;
    return (int)WEFT_MAX(0.16 / (1 - quantile) + 0.5, 1);
}

static void begin_trial(weft_trust *t)
{
    t->phase = WEFT_TRUST_TRIES;
    t->turn = 0;
    t->sum = t->squares = 0;
    t->broken = 0;
    t->settle = SETTLE;
    weft_goal_clear(&t->measured);
}

static void believe(weft_trust *t)
{
    t->phase = WEFT_TRUST_BELIEVES;
    t->look = WEFT_MIN(WEFT_MAX(2 * t->look, FIRST_LOOK), LAST_LOOK);
    t->denies = 0;
    t->left = t->look;
    t->rest = t->look / 4;
}

static void deny(weft_trust *t)
{
    t->phase = WEFT_TRUST_DENIES;
    t->denies = WEFT_MIN(WEFT_MAX(2 * t->denies, DENIES), MOST_DENIES);
    t->look = t->rest = 0;
    t->left = t->denies;
}

/* The turns are choice, greedy, greedy, choice, and so on. */
bool weft_trust_follows(const weft_trust *t)
{
    return t->phase == WEFT_TRUST_BELIEVES ||
           (t->phase == WEFT_TRUST_TRIES && (t->turn % 4 == 0 || t->turn % 4 == 3));
}

/* Adds a pair of turns. off: logarithm of the factor by which the choice is slower. */
static void weigh(weft_trust *t, double off)
{
    int pairs = t->turn / 2;
    t->sum += off;
    t->squares += off * off;
    double mean = t->sum / pairs;
    double spread = sqrt(WEFT_MAX(t->squares / pairs - mean * mean, 0) / pairs);
    bool clear = mean < -FAR_BETTER || (pairs >= PAIRS && fabs(mean) > CLEAR * spread);
    if (!clear && pairs < MOST_PAIRS) return;
    if (mean > 0)
        deny(t);
    else
        believe(t);
}

static void end_turn(weft_trust *t, double measured)
{
    bool found = weft_trust_follows(t);
    t->of[found ? 0 : 1] = measured;
    if (++t->turn % 2 == 0) weigh(t, log(t->of[0] / t->of[1]));
    t->settle = SETTLE;
    weft_goal_clear(&t->measured);
}

static bool ends_turn(const weft_trust *t, const weft_goal *goal)
{
    int64_t count = t->measured.count, rare = times(goal);
    if (count >= TURN * rare) return true;
    return !weft_trust_follows(t) && count == ENOUGH * rare &&
           weft_goal_measured(goal, &t->measured) > HOPELESS * t->of[0];
}

/* Whether the measured latency is so much worse than the promise that a trial is due. */
static bool is_broken(weft_trust *t, const weft_goal *goal, double promise)
{
    bool whole = t->measured.count >= WINDOW * times(goal);
    double measured = weft_goal_measured(goal, &t->measured);
    bool broken = promise > 0 && measured > (whole ? OFF : FAR_OFF) * promise;
    if (broken) {
        t->broken++;
    } else if (whole) {
        t->broken = 0;
    }
    if (broken || whole) weft_goal_clear(&t->measured);
    return t->broken >= 2;
}

bool weft_trust_answered(weft_trust *t, const weft_goal *goal, double promise, bool differs,
                         double latency)
{
    bool before = weft_trust_follows(t);
    if (t->settle > 0) {
        t->settle--;
        return false;
    }
    weft_goal_count(&t->measured, latency);
    if (t->left > 0) t->left--;
    if (t->rest > 0) t->rest--;
    if (!differs) { /* the choice is the greedy policy */
        if (t->phase == WEFT_TRUST_TRIES || t->measured.count >= WINDOW)
            weft_goal_clear(&t->measured);
        if (t->phase == WEFT_TRUST_TRIES) t->phase = WEFT_TRUST_BELIEVES;
        t->broken = 0;
    } else if (t->phase == WEFT_TRUST_TRIES) {
        if (ends_turn(t, goal)) end_turn(t, weft_goal_measured(goal, &t->measured));
    } else if (t->phase == WEFT_TRUST_DENIES) {
        if (t->left <= 0) begin_trial(t);
    } else {
        if (t->look == 0) t->look = t->left = FIRST_LOOK * times(goal);
        bool doubts =
            t->measured.count % (GLANCE * times(goal)) == 0 && is_broken(t, goal, promise);
        if ((doubts && t->rest <= 0) || (t->left <= 0 && !t->obvious)) begin_trial(t);
    }
    return weft_trust_follows(t) != before;
}
