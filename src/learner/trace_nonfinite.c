/* Finds the instruction and the rank that made the first NaN or infinity, after a step whose loss
 * is not finite. */
#include <stdio.h>

#include "graph/graph.h"
#include "learner/learner_internal.h"
#include "program/program.h"

/* The result of a rank's search: its first value that is not finite. */
typedef struct finding {
    /* The micro-batch of the value (-1: all values are finite); whether the value was received from
     * another rank rather than made here. */
    int32_t micro, brought;
    int32_t order; /* index of the value in the learner's graph, which all ranks share */
    int32_t few;   /* the operator needs more values that count */
    char where[400];
} finding;

/* The index of a value in the learner's graph. Values that only the rank's own graph has, such as
 * results of transfers, come last. */
static int32_t order_of(const weft_rank *r, weft_value value)
{
    if (value == WEFT_NO_VALUE) return INT32_MAX;
    const char *name = weft_graph_value_name(weft_rewritten_graph(r->mine), value);
    for (weft_value v = 0; v < weft_graph_value_count(r->graph); v++)
        if (strcmp(weft_graph_value_name(r->graph, v), name) == 0) return v;
    return INT32_MAX;
}

/* Whether the value is the result of an operator that needs a number of values, such as a variance.
 */
static bool needs_values(const weft_rank *r, weft_value value)
{
    const weft_graph *graph = weft_rewritten_graph(r->mine);
    int node = value == WEFT_NO_VALUE ? -1 : graph->values[value].node;
    return node >= 0 && graph->nodes[node]->op->least_values > 0;
}

/* Whether finding a is nearer to the cause than b: an earlier micro-batch counts first, then a
 * value that the rank made over one that it received, then the place in the learner's graph, which
 * orders the stages of a pipeline. */
static bool before(const finding *a, const finding *b)
{
    if (a->micro != b->micro) return a->micro < b->micro;
    if (a->brought != b->brought) return a->brought < b->brought;
    return a->order < b->order;
}

/* Runs all micro-batches of the step again, since any of them may be the cause, and records the
 * first value that is not finite. */
static weft_status find_where(weft_rank *r, const weft_batch *b, finding *out)
{
    out->micro = -1;
    for (int m = 0; m < (int)r->run_spec->microbatches; m++) {
        char *where;
        bool made;
        weft_value value;
        WEFT_TRY(weft_instance_micro(r->instance, m));
        if (b) WEFT_TRY(weft_rank_feed(r, b, m));
        WEFT_TRY(weft_instance_diagnose(r->instance, &where, &made, &value));
        if (where && out->micro < 0) {
            out->micro = m;
            out->brought = !made;
            out->order = order_of(r, value);
            out->few = made && needs_values(r, value);
            (void)snprintf(out->where, sizeof(out->where), "%s", where);
        }
        weft_free(where);
    }
    return WEFT_OK;
}

/* All ranks search and gather their findings. The message names the one nearest to the cause: in
 * the first affected micro-batch, on the rank that made the value rather than one that received it.
 */
weft_status weft_rank_explain(weft_rank *r, const weft_batch *b, double loss)
{
    finding mine = {0}, *all;
    int n = weft_comm_size(r->learner), first = -1;
    if (r->exchange) WEFT_TRY(weft_exchange_wait(r->exchange));
    WEFT_TRY(find_where(r, b, &mine));
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status =
        weft_comm_run(r->learner, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                                .what = "what went wrong", .send = &mine,
                                                .receive = all, .count = (int64_t)sizeof(mine)));
    for (int i = 0; i < n; i++) {
        if (all[i].micro >= 0 && (first < 0 || before(&all[i], &all[first]))) first = i;
    }
    char rank[32] = "";
    if (n > 1 && first >= 0) (void)snprintf(rank, sizeof(rank), "on rank %d, ", first);
    if (status == WEFT_OK)
        status =
            weft_fail(WEFT_ERR_NUMERIC,
                      "step %lld: the loss is %g; %s%s. Nothing was updated in this step. %s",
                      (long long)r->position.step + 1, loss, rank,
                      first >= 0 ? all[first].where : "running the step again gave finite numbers",
                      first >= 0 && all[first].few
                          ? "A larger --batch, or more samples with a weight above 0, would help"
                          : "A smaller --lr, --clip-norm or --warmup may help");
    free(all);
    return status;
}
