/* Chooses the nodes that run, their order, and which of them are fused.
 *
 * Fusion is one rule: a group grows by a neighbour (a node that reads one of its results, or shares
 * an operand with it, or in the update makes an operand) as long as the device has a kernel for the
 * larger group that costs no more than the group and the neighbour apart, and no result is read
 * outside the group before its last node can run. */
#include <math.h>

#include "program/program.h"

typedef struct grouper {
    const weft_program *program;
    const weft_graph *graph;
    int *order;    /* nodes in order of execution */
    int *position; /* of each node in that order; -1: not needed */
    int count;
    int *of; /* group number of each node, from 1; 0: none */
    bool *taken;
    bool *kept;           /* values that are read after the run */
    int *read_at, *reads; /* read_at[v]: where the positions of the readers of v begin in reads */
    int *near;            /* positions of a group's neighbours, with duplicates */
    size_t near_count, near_capacity;
    double seconds; /* cost of the current group; below 0: not estimated yet */
    weft_status status;
} grouper;

static void need(grouper *g, weft_value v)
{
    int node = g->graph->values[v].node;
    if (node < 0 || g->position[node] >= 0) return;
    g->position[node] = 0;
    for (int i = 0; i < g->graph->nodes[node]->in_count; i++) need(g, g->graph->nodes[node]->in[i]);
}

/* Finds the nodes that must run, because fetched values, assignments, exported gradients or sends
 * need them, and orders them by phase, and within a phase as they were built. */
static void find_order(grouper *g)
{
    const weft_graph *graph = g->graph;
    for (size_t n = 0; n < graph->node_count; n++) g->position[n] = -1;
    for (int i = 0; i < g->program->fetch_count; i++) {
        need(g, g->program->fetch[i]);
        g->kept[g->program->fetch[i]] = true;
    }
    for (size_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n]->op->transfer && graph->nodes[n]->op->transfer->message)
            need(g, graph->nodes[n]->out);
    for (size_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].assigned != WEFT_NO_VALUE) {
            need(g, graph->values[v].assigned);
            g->kept[graph->values[v].assigned] = true;
        }
    for (size_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].exported != WEFT_NO_VALUE) {
            need(g, graph->values[v].exported);
            g->kept[graph->values[v].exported] = true;
        }
    for (int phase = 0; phase <= WEFT_PHASE_UPDATE; phase++)
        for (size_t n = 0; n < graph->node_count; n++)
            if (g->position[n] >= 0 && (int)graph->nodes[n]->phase == phase)
                g->order[g->count++] = (int)n;
    for (int i = 0; i < g->count; i++) g->position[g->order[i]] = i;
}

/* Lists the positions of the readers of each value, in order, so that the first one outside a group
 * is found without looking at all. */
static weft_status find_reads(grouper *g)
{
    const weft_graph *graph = g->graph;
    size_t values = graph->value_count;
    WEFT_TRY(WEFT_NEW(&g->read_at, values + 2));
    int *end = g->read_at + 1; /* of each value, while its readers are listed */
    for (int i = 0; i < g->count; i++) {
        const weft_node *node = graph->nodes[g->order[i]];
        for (int k = 0; k < node->in_count; k++) g->read_at[node->in[k] + 2]++;
    }
    for (size_t v = 0; v < values; v++) g->read_at[v + 2] += g->read_at[v + 1];
    WEFT_TRY(WEFT_NEW(&g->reads, g->read_at[values + 1]));
    for (int i = 0; i < g->count; i++) {
        const weft_node *node = graph->nodes[g->order[i]];
        for (int k = 0; k < node->in_count; k++) g->reads[end[node->in[k]]++] = i;
    }
    return WEFT_OK;
}

static bool member(const weft_group *group, const weft_node *node)
{
    for (int i = 0; i < group->count; i++)
        if (group->node[i] == node) return true;
    return false;
}

/* The position of the first reader of v outside the group; g->count if there is none. */
static int first_reader(const grouper *g, const weft_group *group, weft_value v)
{
    for (int i = g->read_at[v]; i < g->read_at[v + 1]; i++)
        if (!member(group, g->graph->nodes[g->order[g->reads[i]]])) return g->reads[i];
    return g->count;
}

static bool reads(const weft_node *node, weft_value v)
{
    for (int i = 0; i < node->in_count; i++)
        if (node->in[i] == v) return true;
    return false;
}

/* Whether a node of the group reads v. */
static bool reads_inside(const weft_group *group, weft_value v)
{
    for (int m = 0; m < group->count; m++)
        if (reads(group->node[m], v)) return true;
    return false;
}

/* Fills the inputs and outputs of a group from its nodes. False: the group has too many values, or
 * a result would be made after its first reader runs. */
static bool complete(const grouper *g, weft_group *group)
{
    int last = 0, first_use = g->count;
    group->in_count = group->out_count = 0;
    for (int m = 0; m < group->count; m++) {
        const weft_node *node = group->node[m];
        last = WEFT_MAX(last, g->position[g->graph->values[node->out].node]);
        for (int i = 0; i < node->in_count; i++) {
            int producer = g->graph->values[node->in[i]].node;
            if (producer >= 0 && member(group, g->graph->nodes[producer])) continue;
            if (weft_group_in(group, node->in[i]) >= 0) continue;
            if (group->in_count == WEFT_GROUP_VALUES) return false;
            group->in[group->in_count++] = node->in[i];
        }
        for (int i = 0; i < node->out_count; i++) {
            weft_value v = node->out + i;
            int first = first_reader(g, group, v);
            first_use = WEFT_MIN(first_use, first);
            /* The first result of an operator with several results is made even if nothing reads
             * it. */
            bool made =
                node->op->transfer || (i == 0 && node->out_count > 1 && !reads_inside(group, v));
            if (first == g->count && !g->kept[v] && !made) continue;
            if (group->out_count == WEFT_GROUP_VALUES) return false;
            group->out[group->out_count++] = v;
        }
    }
    return last < first_use;
}

static void take_neighbour(void *user, int node)
{
    grouper *g = user;
    if (g->position[node] < 0 || g->taken[node] || g->status != WEFT_OK) return;
    g->status = WEFT_GROW(&g->near, &g->near_capacity, g->near_count);
    if (g->status == WEFT_OK) g->near[g->near_count++] = g->position[node];
}

/* In the update, whose operands are leaves and gradients, which are in memory in any case, a group
 * that takes in what makes its operands needs no memory for these. */
static void take_neighbours(grouper *g, const weft_node *node)
{
    weft_readers_adjoining(g->graph, &g->program->readers, node, take_neighbour, g);
    for (int i = 0; i < node->in_count && node->phase == WEFT_PHASE_UPDATE; i++)
        if (g->graph->values[node->in[i]].node >= 0)
            take_neighbour(g, g->graph->values[node->in[i]].node);
}

static int ascending(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The estimated seconds of the node as a group of its own. */
static double alone(const grouper *g, const weft_node *node)
{
    weft_group group = {.graph = g->graph, .node = {node}, .count = 1};
    if (!complete(g, &group)) return INFINITY;
    return weft_group_estimate(g->program->schema, &group);
}

/* Whether a node may join a group. A node that recomputes is fused only with nodes that recompute
 * members of the same forward group, since another fusion might give different bits. */
static bool may_join(const grouper *g, const weft_group *group, const weft_node *node)
{
    const weft_node *first = group->node[0];
    if (node->recomputed != first->recomputed) return false;
    return !node->recomputed ||
           (g->of[node->origin] > 0 && g->of[node->origin] == g->of[first->origin]);
}

/* Adds the first neighbour that fits to the group; false if none does. */
static bool take_one(grouper *g, weft_group *group)
{
    g->near_count = 0;
    for (int m = 0; m < group->count; m++) take_neighbours(g, group->node[m]);
    if (g->status != WEFT_OK || g->near_count == 0) return false;
    qsort(g->near, g->near_count, sizeof(*g->near), ascending);
    for (size_t i = 0; i < g->near_count; i++) {
        const weft_node *node = g->graph->nodes[g->order[g->near[i]]];
        if ((i > 0 && g->near[i] == g->near[i - 1]) || member(group, node) ||
            node->phase != group->node[0]->phase || node->op->view == WEFT_VIEW_WHOLE ||
            !may_join(g, group, node))
            continue;
        weft_group trial = *group;
        trial.node[trial.count++] = node;
        if (!complete(g, &trial)) continue;
        double seconds = weft_group_estimate(g->program->schema, &trial);
        if (isinf(seconds)) continue;
        if (g->seconds < 0) g->seconds = weft_group_estimate(g->program->schema, group);
        if (seconds > g->seconds + alone(g, node)) continue;
        *group = trial;
        g->seconds = seconds;
        return true;
    }
    return false;
}

static void grow(grouper *g, weft_group *group)
{
    g->seconds = -1;
    while (group->count < WEFT_GROUP_NODES && take_one(g, group)) continue;
}

void weft_grouping_free(grouping *groups)
{
    free(groups->groups);
    free(groups->of_node);
    *groups = (grouping){0};
}

/* A group, and the position of its last node, at which the group runs. */
typedef struct timed {
    weft_group group;
    int end;
} timed;

static int by_end(const void *a, const void *b)
{
    return ascending(&((const timed *)a)->end, &((const timed *)b)->end);
}

static weft_status take_group(grouper *g, const weft_group *group, int number, timed *out)
{
    *out = (timed){.group = *group};
    for (int m = 0; m < group->count; m++) {
        int node = g->graph->values[group->node[m]->out].node;
        g->taken[node] = true;
        g->of[node] = group->count > 1 ? number : 0;
        out->end = WEFT_MAX(out->end, g->position[node]);
    }
    return g->status;
}

/* Finds all groups: in the first pass groups of several nodes, and in the second pass the remaining
 * single nodes, since a node may join the group of a later node. */
static weft_status find_groups(grouper *g, timed *found, int *count)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < g->count; i++) {
            int n = g->order[i];
            if (g->taken[n]) continue;
            weft_group group = {.graph = g->graph, .node = {g->graph->nodes[n]}, .count = 1};
            if (!complete(g, &group))
                return weft_node_fail(group.node[0],
                                      "has more than %d inputs or results that are read; a kernel "
                                      "has no more",
                                      WEFT_GROUP_VALUES);
            const weft_op *op = group.node[0]->op;
            if (pass == 0 && op->view != WEFT_VIEW_WHOLE && !op->transfer) grow(g, &group);
            if (pass == 0 && group.count == 1) continue;
            WEFT_TRY(take_group(g, &group, *count + 1, &found[*count]));
            ++*count;
        }
    return WEFT_OK;
}

static weft_status collect(grouper *g, grouping *out)
{
    timed *found = NULL;
    weft_status status = WEFT_OK;
    WEFT_TRY_GOTO(WEFT_NEW(&found, g->count + 1), done);
    WEFT_TRY_GOTO(find_groups(g, found, &out->count), done);
    qsort(found, (size_t)out->count, sizeof(*found), by_end);
    WEFT_TRY_GOTO(WEFT_NEW(&out->groups, out->count), done);
    WEFT_TRY_GOTO(WEFT_NEW(&out->of_node, g->graph->node_count), done);
    for (size_t n = 0; n < g->graph->node_count; n++) out->of_node[n] = -1;
    for (int i = 0; i < out->count; i++) {
        out->groups[i] = found[i].group;
        for (int m = 0; m < found[i].group.count; m++)
            out->of_node[g->graph->values[found[i].group.node[m]->out].node] = i;
    }
done:
    free(found);
    return status;
}

weft_status weft_group_nodes(const weft_program *program, grouping *out)
{
    const weft_graph *graph = program->graph;
    grouper g = {.program = program, .graph = graph};
    weft_status status = WEFT_OK;
    *out = (grouping){0};
    WEFT_TRY_GOTO(WEFT_NEW(&g.order, graph->node_count), done);
    WEFT_TRY_GOTO(WEFT_NEW(&g.position, graph->node_count), done);
    WEFT_TRY_GOTO(WEFT_NEW(&g.taken, graph->node_count), done);
    WEFT_TRY_GOTO(WEFT_NEW(&g.of, graph->node_count), done);
    WEFT_TRY_GOTO(WEFT_NEW(&g.kept, graph->value_count), done);
    find_order(&g);
    WEFT_TRY_GOTO(find_reads(&g), done);
    WEFT_TRY_GOTO(collect(&g, out), done);
done:
    if (status != WEFT_OK) weft_grouping_free(out);
    free(g.order);
    free(g.position);
    free(g.taken);
    free(g.of);
    free(g.kept);
    free(g.near);
    free(g.read_at);
    free(g.reads);
    return status;
}
