/* adaptive: chooses the batching setting by simulating recent arrivals with the batch times
 * measured on this machine. (The best policy of one executor is a threshold on the queue length:
 * Deb and Serfozo 1973; Xu et al. 2023, arXiv 2301.12865. A wait pays for bursty arrivals, and
 * where executors share cores.) */
#include <math.h>

#include "serve/batch/adaptive_internal.h"

enum { REHEARSED = 4000, SKIPPED = 200, FIRST = 32 };
static const double DRIFT = 0.1;

typedef struct adaptive {
    weft_policy head;
    weft_policy_about about;
    weft_goal goal;
    weft_gaps gaps;
    weft_crowd crowd;
    int64_t all; /* upper bound of the requests in the line, learned from closed-loop clients; 0: no
                    bound */
    weft_trust trust;
    weft_batching found;
    double promise;
    int64_t decisions;
    /* The load on which the last decision was based. */
    double rate, single, full;
    int64_t counted,
        looked; /* requests of this load at the last decision, and at the last comparison */
    int64_t counted_all;
    /* The decision in progress. */
    weft_curve curve;
    weft_gaps taken;
    double slack, pause[WEFT_CROWD];
    int pauses;
    weft_tuned tuned;
    double at[2][REHEARSED], latency[REHEARSED];
    int64_t rows[2][REHEARSED];
} adaptive;

static void close_adaptive(weft_policy *policy)
{
    adaptive *a = (adaptive *)policy;
    weft_curve_free(&a->curve);
    free(a);
}

static weft_status open_adaptive(const char *arguments, const weft_policy_about *about,
                                 weft_policy **out)
{
    adaptive *a;
    char *goal = NULL;
    double slo = 0;
    weft_spec_key keys[] = {{.name = "goal", .text = &goal},
                            {.name = "slo", .number = &slo, .low = 0.001, .high = 1e6},
                            {.name = NULL}};
    WEFT_TRY(WEFT_NEW(&a, 1));
    weft_status status = weft_policy_parse("adaptive", arguments, keys);
    if (status == WEFT_OK) status = weft_goal_parse(goal ? goal : "mean", slo / 1e3, &a->goal);
    free(goal);
    a->about = *about;
    a->gaps.last = -1;
    a->head.now = a->found = (weft_batching){.need = 1, .limit = about->limit};
    a->curve.executors = about->curve->executors;
    if (status == WEFT_OK) status = WEFT_NEW(&a->curve.slower, about->curve->executors);
    if (status == WEFT_OK)
        *out = &a->head;
    else
        close_adaptive(&a->head);
    return status;
}

/* Uses the setting that was found, or the greedy one while the trial distrusts it. */
static void apply(adaptive *a)
{
    a->head.now = weft_trust_follows(&a->trust)
                      ? a->found
                      : (weft_batching){.need = 1, .limit = a->about.limit};
    a->head.now.all = a->all;
}

static void arrived(weft_policy *policy, double now, int64_t rows, int64_t there)
{
    adaptive *a = (adaptive *)policy;
    int64_t all = a->all;
    /* The load has changed, so the last decision does not apply to it. */
    if (weft_gaps_add(&a->gaps, now, rows)) a->counted = a->looked = 0;
    weft_crowd_came(&a->crowd, now, there);
    if (there > a->all) a->all = 0;
    if (a->gaps.count % 32 == 0)
        a->all =
            weft_crowd_all(&a->crowd, weft_gaps_rate(&a->gaps), weft_gaps_burstiness(&a->gaps));
    if (a->all != all) apply(a);
}

static bool differs(const adaptive *a)
{
    return a->found.need > 1 || a->found.limit < a->about.limit;
}

static void answered(weft_policy *policy, double now, double latency, int64_t there)
{
    adaptive *a = (adaptive *)policy;
    weft_crowd_left(&a->crowd, now, there);
    if (weft_trust_answered(&a->trust, &a->goal, a->promise, differs(a), latency)) apply(a);
}

static bool is_off(double a, double b, double by)
{
    return fabs(a - b) > by * b;
}

/* A new decision is due soon after the load has changed, when there are four times as many requests
 * to learn from, and whenever the rate or the batch times have drifted further than chance
 * explains. */
static bool wants(weft_policy *policy, double now)
{
    adaptive *a = (adaptive *)policy;
    const weft_gaps *g = &a->gaps;
    (void)now;
    if (a->about.curve->sizes == 0 || a->about.limit == 1 || g->count < FIRST) return false;
    if (a->counted == 0) return true;
    if (a->counted < WEFT_GAPS && g->count >= 4 * a->counted) return true;
    if (g->count - a->looked < 64) return false;
    if (a->all != a->counted_all) return true;
    double chance = 4 / sqrt((double)WEFT_MIN(g->count, WEFT_GAPS));
    bool drifted =
        is_off(weft_gaps_rate(g), a->rate, WEFT_MAX(DRIFT, chance)) ||
        is_off(weft_curve_time(a->about.curve, 1), a->single, 2 * DRIFT) ||
        is_off(weft_curve_time(a->about.curve, (double)a->about.limit), a->full, 2 * DRIFT);
    if (!drifted) a->looked = g->count;
    return drifted;
}

static void take(weft_policy *policy, double now)
{
    adaptive *a = (adaptive *)policy;
    const weft_curve *curve = a->about.curve;
    (void)now;
    a->counted = a->looked = a->gaps.count;
    a->rate = weft_gaps_rate(&a->gaps);
    a->single = weft_curve_time(curve, 1);
    a->full = weft_curve_time(curve, (double)a->about.limit);
    a->taken = a->gaps;
    a->slack = *a->about.slack;
    a->counted_all = a->all;
    a->pauses = (int)WEFT_MIN(a->crowd.pauses, WEFT_CROWD);
    memcpy(a->pause, a->crowd.pause, sizeof(a->pause));
    weft_curve_copy(curve, &a->curve);
}

static void think(weft_policy *policy)
{
    adaptive *a = (adaptive *)policy;
    weft_rehearsal r[2];
    int64_t rows = 0;
    for (int i = 0; i < 2; i++) {
        weft_gaps_play(&a->taken, REHEARSED, (uint64_t)i, a->at[i], a->rows[i]);
        r[i] = (weft_rehearsal){.at = a->at[i],
                                .rows = a->rows[i],
                                .count = REHEARSED,
                                .skip = SKIPPED,
                                .latency = a->latency,
                                .slack = a->slack,
                                .most = a->about.limit};
        if (a->counted_all == 0) continue;
        r[i].clients = (int)a->counted_all;
        r[i].pause = a->pause;
        r[i].pauses = a->pauses - i; /* so the second simulation assigns them to other clients */
    }
    for (int i = 0; i < REHEARSED; i++) rows += a->rows[0][i];
    double rate = (double)rows / WEFT_MAX(a->at[0][REHEARSED - 1], 1e-9);
    weft_tune(&r[0], &r[1], rate, &a->curve, a->about.limit, &a->goal, &a->tuned);
}

static void use(weft_policy *policy)
{
    adaptive *a = (adaptive *)policy;
    a->found = a->tuned.best;
    a->promise = a->tuned.promise;
    a->trust.obvious = a->tuned.greedy > 1.3 * a->promise;
    a->decisions++;
    apply(a);
}

static void describe(const weft_policy *policy, weft_line_stats *out)
{
    const adaptive *a = (const adaptive *)policy;
    out->rate = weft_gaps_rate(&a->gaps);
    out->burstiness = weft_gaps_burstiness(&a->gaps);
    out->predicted = weft_goal_seconds(&a->goal, a->promise);
    out->decisions = a->decisions;
}

const weft_policy_ops weft_policy_adaptive = {
    .name = "adaptive",
    .form = "adaptive[:goal=mean|p50|p95|p99][,slo=MS]",
    .help = "what is best for the load of the moment, found by measurement",
    .open = open_adaptive,
    .close = close_adaptive,
    .arrived = arrived,
    .answered = answered,
    .wants = wants,
    .take = take,
    .think = think,
    .use = use,
    .describe = describe,
};
