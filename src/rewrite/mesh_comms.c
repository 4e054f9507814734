/* Creates the communicators of a rank of a mesh: one for each set of axes over which a transfer may
 * run. */
#include "rewrite/rewrite.h"

static int ranks_of(const weft_plan *plan, int mask)
{
    int ranks = 1;
    for (int a = 0; a < SHARD_AXES; a++)
        if (mask & 1 << a) ranks *= plan->size[a];
    return ranks;
}

int weft_plan_comms(const weft_plan *plan, int sizes[WEFT_MESH_MASKS])
{
    int count = 0;
    for (int mask = 1; mask < WEFT_MESH_MASKS; mask++)
        if (ranks_of(plan, mask) > 1) sizes[count++] = ranks_of(plan, mask);
    return count;
}

weft_status weft_plan_split(const weft_plan *plan, weft_comm *all, weft_comms *out)
{
    WEFT_NEED(plan, all, out);
    int rank = weft_comm_rank(all);
    *out = (weft_comms){.learner = all};
    for (int mask = 1; mask < WEFT_MESH_MASKS; mask++) {
        int color = 0;
        for (int a = 0; a < AXES; a++)
            if (a >= SHARD_AXES || !(mask & 1 << a))
                color = color * plan->size[a] + weft_plan_coordinate(plan, rank, a);
        if (ranks_of(plan, mask) == 1) continue; /* on all ranks, so no rank waits in a split */
        weft_status status = weft_comm_split(all, color, rank, &out->axes[mask]);
        if (status != WEFT_OK) {
            weft_plan_close_comms(out);
            return status;
        }
    }
    return WEFT_OK;
}

void weft_plan_close_comms(weft_comms *comms)
{
    WEFT_NEED_VOID(comms);
    for (int mask = 1; mask < WEFT_MESH_MASKS; mask++) weft_comm_close(&comms->axes[mask]);
}
