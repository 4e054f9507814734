/* Measures the times of a graph's nodes, by which pipeline stages are balanced. */
#include "base/sort.h"
#include "program/instance.h"

weft_status weft_instance_profile(weft_instance *x, int passes, double *costs)
{
    WEFT_NEED_AS("instance, costs", x, costs);
    const weft_program *p = x->program;
    double *times;
    const weft_graph *g = p->graph;
    if (passes < 1 || passes > 1 << 20)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d passes, must be from 1 to %d", passes, 1 << 20);
    for (size_t n = 0; n < g->node_count; n++) costs[n] = 0;
    WEFT_TRY(weft_instance_run(x, WEFT_PHASE_MICRO)); /* warms up caches and clocks */
    WEFT_TRY(WEFT_NEW(&times, (size_t)passes * p->code_count));
    weft_status status = WEFT_OK;
    for (int k = 0; k < passes; k++)
        for (size_t i = 0; i < p->code_count && status == WEFT_OK; i++) {
            if (p->code[i].phase == WEFT_PHASE_UPDATE) continue;
            double start = weft_seconds();
            status = weft_instance_run_one(x, (int)i);
            if (status == WEFT_OK) status = weft_instance_synchronize(x);
            times[i * (size_t)passes + (size_t)k] = weft_seconds() - start;
        }
    for (size_t i = 0; i < p->code_count && status == WEFT_OK; i++) {
        const instruction *code = &p->code[i];
        double *mine = &times[i * (size_t)passes];
        int node = g->values[code->group.out[0]].node;
        if (code->phase == WEFT_PHASE_UPDATE || node < 0) continue;
        weft_sort_doubles(mine, (size_t)passes);
        if (code->group.count > 0) node = g->values[code->group.node[0]->out].node;
        if (g->nodes[node]->origin >= 0) node = g->nodes[node]->origin;
        costs[node] += mine[passes / 2];
    }
    free(times);
    return status;
}
