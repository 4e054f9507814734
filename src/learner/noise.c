/* The noise scale of gradients (McCandlish et al. 2018, appendix A.1): the trace of the covariance
 * of a sample's gradient over the squared length of the mean gradient. A step's gradient is the sum
 * of those of the parts of its batch, which micro-batches and ranks compute, so the lengths of
 * these and of their sum tell both. The norms are in a program of its own, which shares the store
 * of the rank's program and which only some steps run. */
#include <math.h>

#include "graph/graph.h"
#include "learner/learner_internal.h"

/* A measurement counts less by this factor with each later one. */
static const double KEEP = 0.9;

struct weft_noise {
    weft_rank rank; /* a copy of the rank, with a graph and a program of its own */
    int64_t step;   /* the last that it ran */
};

weft_status weft_noise_open(weft_rank *r)
{
    if (r->run_spec->noise_every == 0) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&r->noise, 1));
    weft_rank *p = &r->noise->rank;
    *p = *r;
    p->measures_noise = true;
    p->noise = NULL;
    p->averages = NULL;
    p->graphs = NULL;
    p->graph = NULL;
    p->plan = NULL;
    p->mine = NULL;
    p->instance = NULL;
    p->evaluator = NULL;
    p->shares = NULL;
    p->schedule = (weft_schedule){.count = 0};
    p->runs_ahead = false;
    WEFT_TRY(weft_rank_rewrite(p));
    return weft_rank_add_program(p);
}

void weft_noise_close(weft_rank *r)
{
    if (!r->noise) return;
    weft_rank *p = &r->noise->rank;
    p->store = NULL; /* the rank's */
    weft_rank_drop_programs(p);
    free(p->shares);
    free(r->noise);
    r->noise = NULL;
}

/* Parts are compared that have equally many samples, all of one weight. */
bool weft_noise_due(const weft_rank *r, const weft_batch *b)
{
    const weft_run_spec *k = r->run_spec;
    if (!r->noise || (r->position.step + r->queued + 1) % k->noise_every != 0) return false;
    return b->valid == k->slots && b->weight == (double)b->valid;
}

const weft_rank *weft_noise_last(const weft_rank *r)
{
    return r->noise && r->noise->step == r->position.step ? &r->noise->rank : r;
}

/* The square of a norm, which one rank of the learner counts. */
static double square_of(const weft_rank *p, weft_value norm)
{
    weft_value local = weft_rewritten_value(p->mine, norm);
    if (local == WEFT_NO_VALUE || !weft_rewritten_counts(p->mine, norm)) return 0;
    double x = weft_fetch(weft_rewritten_graph(p->mine), p->instance, local, 0);
    return x * x;
}

double weft_noise_scale(const weft_noise_sums *n)
{
    return n->squared > 0 && n->trace > 0 ? n->trace / n->squared : 0;
}

/* parts: the sum over P parts of the squared length of each part's share of the gradient; whole:
 * that of the gradient. With equal parts of a batch of B samples, whole is in the mean |G|^2 +
 * tr/B, and parts |G|^2 / P + tr/B. */
static void add(weft_noise_sums *n, double samples, double count, double parts, double whole)
{
    double squared = (whole - parts) * count / (count - 1), trace = (whole - squared) * samples;
    n->squared = KEEP * n->squared + (1 - KEEP) * squared;
    n->trace = KEEP * n->trace + (1 - KEEP) * trace;
}

weft_status weft_noise_step(weft_rank *r, const weft_batch *b, weft_step_consensus *consensus,
                            weft_noise_sums *noise)
{
    weft_noise *n = r->noise;
    weft_rank *p = &n->rank;
    p->position = r->position;
    p->exchange = r->exchange;
    p->leaves = r->leaves;
    p->dismissed = r->dismissed;
    p->exchange_waited = r->exchange_waited;
    WEFT_TRY(weft_rank_step(p, b, consensus));
    n->step = r->position.step + 1;
    r->used = p->used;
    r->bubble = p->bubble;
    r->passes = p->passes;
    r->host = p->host;
    r->exchange_waited = p->exchange_waited;
    double sums[] = {square_of(p, p->graph->part_norm), square_of(p, p->graph->whole_norm)};
    WEFT_TRY(weft_sum_over(r->learner, "norms of gradients", sums, WEFT_COUNT(sums)));
    add(noise, (double)b->valid, (double)r->run_spec->parts, sums[0], sums[1]);
    return WEFT_OK;
}
