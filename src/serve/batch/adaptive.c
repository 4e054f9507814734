/* The batching policy `adaptive`: simulates the recent arrivals with the measured batch times, and
 * chooses the setting with the best predicted latency. (The best policy of one executor is a
 * threshold on the queue length: Deb and Serfozo 1973; Xu et al. 2023, arXiv 2301.12865. Waiting
 * for more rows pays if arrivals are bursty, or if executors share cores.) */
#include <math.h>

#include "serve/batch/adaptive_internal.h"

enum { SIMULATED = 4000, SKIPPED = 200, FIRST = 32, VARIATIONS = 509 };
static const double DRIFT = 0.1;

typedef struct adaptive {
    weft_policy head;
    weft_policy_input about;
    weft_goal goal;
    weft_interarrivals arrivals;
    weft_closed_loop clients;
    /* largest number of requests that can be queued or running at once, learned from closed-loop
     * clients; 0: no bound */
    int64_t max_in_system;
    weft_ab_trial trial;
    weft_batch_setting choice;
    double promise;
    int64_t decisions;
    /* The load on which the last decision was based: requests a second, and the seconds of a batch
     * of one row and of a full batch. */
    double rate, single, full;
    /* arrivals of the current load at the last decision, and at the last check for drift */
    int64_t counted, looked;
    int64_t decided_max_in_system;
    /* The copied inputs, the workspace and the result of the search in progress. */
    weft_curve curve;
    weft_interarrivals arrivals_copy;
    double timer_slack, think_time[WEFT_MOST_CLOSED_CLIENTS];
    int think_times;
    weft_tuned tuned;
    double at[2][SIMULATED], latency[SIMULATED], variation[VARIATIONS];
    int64_t rows[2][SIMULATED];
} adaptive;

static void close_adaptive(weft_policy *policy)
{
    adaptive *a = (adaptive *)policy;
    weft_curve_free(&a->curve);
    free(a);
}

static weft_status open_adaptive(const char *arguments, const weft_policy_input *input,
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
    a->about = *input;
    a->arrivals.last = -1;
    a->head.setting = a->choice = (weft_batch_setting){.min_rows = 1, .max_rows = input->limit};
    a->curve.executors = input->curve->executors;
    if (status == WEFT_OK) status = WEFT_NEW(&a->curve.slowdown, input->curve->executors);
    if (status == WEFT_OK)
        *out = &a->head;
    else
        close_adaptive(&a->head);
    return status;
}

/* Installs the choice of the search, or the greedy setting while an A/B trial runs greedy or has
 * rejected the choice. */
static void update_setting(adaptive *a)
{
    a->head.setting = weft_ab_trial_uses_choice(&a->trial)
                          ? a->choice
                          : (weft_batch_setting){.min_rows = 1, .max_rows = a->about.limit};
    a->head.setting.max_in_system = a->max_in_system;
}

static void arrived(weft_policy *policy, double now, int64_t rows, int64_t in_system)
{
    adaptive *a = (adaptive *)policy;
    int64_t previous = a->max_in_system;
    /* A changed load makes the last decision void, so a new one is due soon. */
    if (weft_interarrivals_add(&a->arrivals, now, rows)) a->counted = a->looked = 0;
    bool more = weft_closed_loop_arrived(&a->clients, now, in_system);
    if (more || in_system > a->max_in_system) a->max_in_system = 0;
    if (a->arrivals.count % 32 == 0)
        a->max_in_system =
            weft_closed_loop_bound(&a->clients, weft_interarrivals_rate(&a->arrivals),
                                   weft_interarrivals_burstiness(&a->arrivals));
    if (a->max_in_system != previous) update_setting(a);
}

static bool differs(const adaptive *a)
{
    return a->choice.min_rows > 1 || a->choice.max_rows < a->about.limit;
}

static void answered(weft_policy *policy, double now, double latency, int64_t in_system)
{
    adaptive *a = (adaptive *)policy;
    weft_closed_loop_answered(&a->clients, now, in_system);
    if (weft_ab_trial_answered(&a->trial, &a->goal, a->promise, differs(a), latency))
        update_setting(a);
}

static bool is_off(double a, double b, double by)
{
    return fabs(a - b) > by * b;
}

/* Whether a new decision is due: after a change of the load; when four times as many arrivals are
 * recorded as at the last decision; when the bound on the requests of closed-loop clients has
 * changed; or when the rate or the batch times have drifted further than chance explains. */
static bool wants_search(weft_policy *policy, double now)
{
    adaptive *a = (adaptive *)policy;
    const weft_interarrivals *g = &a->arrivals;
    (void)now;
    if (a->about.curve->sizes == 0 || a->about.limit == 1 || g->count < FIRST) return false;
    if (a->counted == 0) return true;
    if (a->counted < WEFT_INTERARRIVALS && g->count >= 4 * a->counted) return true;
    if (g->count - a->looked < 64) return false;
    if (a->max_in_system != a->decided_max_in_system) return true;
    double chance = 4 / sqrt((double)WEFT_MIN(g->count, WEFT_INTERARRIVALS));
    bool drifted =
        is_off(weft_interarrivals_rate(g), a->rate, WEFT_MAX(DRIFT, chance)) ||
        is_off(weft_curve_time(a->about.curve, 1), a->single, 2 * DRIFT) ||
        is_off(weft_curve_time(a->about.curve, (double)a->about.limit), a->full, 2 * DRIFT);
    if (!drifted) a->looked = g->count;
    return drifted;
}

static void copy_input(weft_policy *policy, double now)
{
    adaptive *a = (adaptive *)policy;
    const weft_curve *curve = a->about.curve;
    (void)now;
    a->counted = a->looked = a->arrivals.count;
    a->rate = weft_interarrivals_rate(&a->arrivals);
    a->single = weft_curve_time(curve, 1);
    a->full = weft_curve_time(curve, (double)a->about.limit);
    a->arrivals_copy = a->arrivals;
    a->timer_slack = *a->about.timer_slack;
    a->decided_max_in_system = a->max_in_system;
    a->think_times = (int)WEFT_MIN(a->clients.think_times, WEFT_MOST_CLOSED_CLIENTS);
    memcpy(a->think_time, a->clients.think_time, sizeof(a->think_time));
    weft_curve_copy(curve, &a->curve);
}

/* Draws the factors by which the times of batches differ from the curve: log-normal, with mean 1
 * and the measured coefficient of variation. */
static void draw_variations(adaptive *a)
{
    double spread = log(1 + a->curve.noise);
    weft_random random;
    weft_random_start(&random, 1, 0);
    for (int i = 0; i < VARIATIONS; i++) {
        double radius = sqrt(-2 * log(1 - weft_random_unit(&random)));
        double normal = radius * cos(2 * 3.14159265358979323846 * weft_random_unit(&random));
        a->variation[i] = exp(sqrt(spread) * normal - spread / 2);
    }
}

static void search(weft_policy *policy)
{
    adaptive *a = (adaptive *)policy;
    weft_queue_sim r[2];
    int64_t rows = 0;
    draw_variations(a);
    for (int i = 0; i < 2; i++) {
        weft_interarrivals_replay(&a->arrivals_copy, SIMULATED, (uint64_t)i, a->at[i], a->rows[i]);
        r[i] = (weft_queue_sim){.at = a->at[i],
                                .rows = a->rows[i],
                                .count = SIMULATED,
                                .skip = SKIPPED,
                                .latency = a->latency,
                                .timer_slack = a->timer_slack,
                                .row_limit = a->about.limit,
                                .variation = a->variation,
                                .variations = a->curve.noise > 0 ? VARIATIONS : 0};
        if (a->decided_max_in_system == 0) continue;
        r[i].clients = (int)a->decided_max_in_system;
        r[i].think_time = a->think_time;
        /* shifted, so that in the second simulation other clients get them */
        r[i].think_times = a->think_times - i;
    }
    for (int i = 0; i < SIMULATED; i++) rows += a->rows[0][i];
    double rate = (double)rows / WEFT_MAX(a->at[0][SIMULATED - 1], 1e-9);
    weft_tune(&r[0], &r[1], rate, &a->curve, a->about.limit, &a->goal, &a->tuned);
}

static void apply(weft_policy *policy)
{
    adaptive *a = (adaptive *)policy;
    a->choice = a->tuned.best;
    a->promise = a->tuned.promise;
    a->trial.obvious = a->tuned.greedy > 1.3 * a->promise;
    a->decisions++;
    update_setting(a);
}

static void describe(const weft_policy *policy, weft_batch_queue_stats *out)
{
    const adaptive *a = (const adaptive *)policy;
    out->rate = weft_interarrivals_rate(&a->arrivals);
    out->burstiness = weft_interarrivals_burstiness(&a->arrivals);
    out->predicted = weft_goal_seconds(&a->goal, a->promise);
    out->decisions = a->decisions;
}

const weft_policy_ops weft_policy_adaptive = {
    .name = "adaptive",
    .form = "adaptive[:goal=mean|p50|p95|p99][,slo=MS]",
    .help = "chooses the rows and the delay with the best predicted latency for the "
            "measured load",
    .open = open_adaptive,
    .close = close_adaptive,
    .arrived = arrived,
    .answered = answered,
    .wants_search = wants_search,
    .copy_input = copy_input,
    .search = search,
    .apply = apply,
    .describe = describe,
};
