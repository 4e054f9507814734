/* Measures the costs of a graph's nodes on this machine, by which pipeline stages are balanced
 * (--profile). */
#include "learner/learner_internal.h"

enum { PROFILED_PASSES = 5 };

/* Stores the costs in k->profile, or returns the stored ones. A dry run (weft plan) plans the ranks
 * one after the other, and ranks after rank 0 use the costs that were measured for rank 0. */
static weft_status share_costs(weft_run_spec *k, double *costs, int n)
{
    if (k->profile) {
        memcpy(costs, k->profile, (size_t)n * sizeof(*costs));
        return WEFT_OK;
    }
    WEFT_TRY(WEFT_NEW(&k->profile, n));
    memcpy(k->profile, costs, (size_t)n * sizeof(*costs));
    return WEFT_OK;
}

/* Only rank 0 measures, since all ranks must use the same costs. */
weft_status weft_rank_measure(weft_rank *r, double *costs)
{
    int n = weft_graph_node_count(r->graph);
    weft_store *store = NULL;
    weft_instance *instance = NULL;
    if (r->rank == 0) {
        WEFT_TRY(weft_rank_store(r, NULL, &store));
        weft_value loss = weft_rank_loss(r);
        weft_status status = weft_instance_build(store, r->graph, &loss, 1, &instance);
        if (status == WEFT_OK) status = weft_instance_profile(instance, PROFILED_PASSES, costs);
        weft_instance_destroy(&instance);
        weft_store_destroy(&store);
        WEFT_TRY(status);
    }
    if (!r->world) return share_costs(r->run_spec, costs, n);
    return weft_comm_run(r->world,
                         WEFT_TRANSFER(.kind = WEFT_BROADCAST, .dtype = WEFT_F64,
                                       .what = "the profile", .receive = costs, .count = n));
}
