/* Finds the shares of the ranks of the data axis in each batch (--shares): the user's numbers, or
 * the speeds of the ranks' devices, which are measured before the run begins. */
#include <math.h>
#include <stdio.h>

#include "learner/learner_internal.h"

enum { MEASURED_PASSES = 5 };

typedef struct reading {
    const char *text;
    double *shares;
    int count, most;
} reading;

static weft_status read_share(void *user, char *piece)
{
    reading *r = user;
    double share;
    if (!weft_parse_real(piece, &share))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "shares '%s': '%s' is no number; give one for each rank of the data axis, "
                         "or measured",
                         r->text, piece);
    if (r->count < r->most) r->shares[r->count] = share;
    r->count++;
    return WEFT_OK;
}

static weft_status read_shares(const char *text, double *shares, int n)
{
    reading r = {text, shares, 0, n};
    WEFT_TRY(weft_each_piece("shares", text, read_share, &r));
    if (r.count == n) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "shares '%s' has %d number%s, and the data axis has %d rank%s; give one for "
                     "each",
                     text, r.count, weft_plural(r.count), n, weft_plural(n));
}

/* The seconds in which the device of this rank computes a whole micro-batch, forward and
 * backward. */
static weft_status measure(weft_rank *r, double *seconds)
{
    int n = weft_graph_node_count(r->graph);
    double *costs;
    weft_store *store = NULL;
    weft_instance *instance = NULL;
    weft_value loss = weft_rank_loss(r);
    *seconds = 0;
    WEFT_TRY(WEFT_NEW(&costs, n));
    weft_status status = weft_rank_store(r, NULL, &store);
    if (status == WEFT_OK) status = weft_instance_build(store, r->graph, &loss, 1, &instance);
    if (status == WEFT_OK) status = weft_instance_profile(instance, MEASURED_PASSES, costs);
    for (int i = 0; i < n && status == WEFT_OK; i++) *seconds += costs[i];
    weft_instance_destroy(&instance);
    weft_store_destroy(&store);
    free(costs);
    return status;
}

/* The share of a coordinate is the speed of its slowest rank, since ranks with parts of the same
 * samples compute together. Collective over all ranks. */
static weft_status measure_shares(weft_rank *r, const weft_plan *plan, double *shares, int n)
{
    int ranks = r->run_spec->plan.ranks, first = r->rank - r->rank % ranks;
    double mine, *all;
    if (!r->world)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "shares are measured when training begins; for a plan give numbers, such "
                         "as those that a run has printed");
    WEFT_TRY(measure(r, &mine));
    WEFT_TRY(WEFT_NEW(&all, weft_comm_size(r->world)));
    weft_status status =
        weft_comm_run(r->world, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_F64,
                                              .what = "the speeds of the ranks", .send = &mine,
                                              .receive = all, .count = 1));
    for (int c = 0; c < n; c++) shares[c] = INFINITY;
    for (int i = 0; i < ranks && status == WEFT_OK; i++) {
        double *share = &shares[weft_plan_coordinate(plan, i, 0)];
        *share = WEFT_MIN(*share, 1 / WEFT_MAX(all[first + i], 1e-9));
    }
    free(all);
    return status;
}

static weft_status log_shares(const weft_rank *r, const double *shares, int n)
{
    weft_text text = {0};
    char *list, number[32];
    double sum = 0;
    for (int c = 0; c < n; c++) sum += shares[c];
    for (int c = 0; c < n; c++) {
        (void)snprintf(number, sizeof(number), "%.3g", shares[c] / sum);
        weft_text_add(&text, "%s%s", c ? "," : "", number);
    }
    WEFT_TRY(weft_text_take(&text, &list));
    weft_log(r->run_spec->context, WEFT_LOG_NOTE,
             "measured shares of the batch; another run has the same with --shares %s", list);
    free(list);
    return WEFT_OK;
}

weft_status weft_rank_shares(weft_rank *r, const weft_plan_options *options, const double **out)
{
    static const char measured[] = "measured";
    const char *text = r->run_spec->shares;
    weft_plan *plan;
    double *shares;
    *out = r->shares;
    if (!text || r->shares) return WEFT_OK;
    WEFT_TRY(weft_plan_create(r->graph, options, &plan));
    int n = weft_plan_axis(plan, 0);
    weft_status status = WEFT_NEW(&shares, n);
    if (status == WEFT_OK && n == 1 && strcmp(text, measured) == 0)
        shares[0] = 1;
    else if (status == WEFT_OK && strcmp(text, measured) == 0) {
        status = measure_shares(r, plan, shares, n);
        if (status == WEFT_OK && r->rank == 0) status = log_shares(r, shares, n);
    } else if (status == WEFT_OK) {
        status = read_shares(text, shares, n);
    }
    weft_plan_destroy(&plan);
    if (status == WEFT_OK)
        *out = r->shares = shares;
    else
        free(shares);
    return status;
}
