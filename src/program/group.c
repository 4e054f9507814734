/* Which nodes run, in which order, and which of them together.
 *
 * Fusion is one rule: a group grows by a neighbour (a node that reads one of its results, or
 * another node's result that it reads too) as long as the device supports the larger group and
 * nothing outside needs a result before the last member could have run. */
#include "program/program.h"

typedef struct grouper {
    const weft_program *program;
    const weft_graph *graph;
    int *order;    /* nodes in order of execution */
    int *position; /* of a node in that order; -1: not needed */
    int count;
    bool *taken;
    bool *kept; /* values that are read after the run */
} grouper;

static void need(grouper *g, weft_value v)
{
    int node = g->graph->values[v].node;
    if (node < 0 || g->position[node] >= 0) return;
    g->position[node] = 0;
    for (int i = 0; i < g->graph->nodes[node]->in_count; i++) need(g, g->graph->nodes[node]->in[i]);
}

/* Marks what fetches and assignments need, then orders it by phase, otherwise as built. */
static void find_order(grouper *g)
{
    const weft_graph *graph = g->graph;
    for (size_t n = 0; n < graph->node_count; n++) g->position[n] = -1;
    for (int i = 0; i < g->program->fetch_count; i++) {
        need(g, g->program->fetch[i]);
        g->kept[g->program->fetch[i]] = true;
    }
    for (size_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n]->op->effect) need(g, graph->nodes[n]->out);
    for (size_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].assigned != WEFT_NO_VALUE) {
            need(g, graph->values[v].assigned);
            g->kept[graph->values[v].assigned] = true;
        }
    for (int phase = 0; phase <= WEFT_PHASE_UPDATE; phase++)
        for (size_t n = 0; n < graph->node_count; n++)
            if (g->position[n] >= 0 && (int)graph->nodes[n]->phase == phase)
                g->order[g->count++] = (int)n;
    for (int i = 0; i < g->count; i++) g->position[g->order[i]] = i;
}

static bool member(const weft_group *group, const weft_node *node)
{
    for (int i = 0; i < group->count; i++)
        if (group->node[i] == node) return true;
    return false;
}

/* Where the first reader of v outside of the group stands; count if there is none. */
static int first_reader(const grouper *g, const weft_group *group, weft_value v, int *readers)
{
    int first = g->count;
    for (int i = 0; i < g->count; i++) {
        const weft_node *node = g->graph->nodes[g->order[i]];
        if (member(group, node)) continue;
        for (int j = 0; j < node->in_count; j++)
            if (node->in[j] == v) {
                first = WEFT_MIN(first, i);
                (*readers)++;
                break;
            }
    }
    return first;
}

/* Fills inputs and outputs from the members; false if the group is too large or some result
 * would come too late. */
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
            int readers = 0;
            first_use = WEFT_MIN(first_use, first_reader(g, group, node->out + i, &readers));
            /* The main result of an operator with several is made in any case. */
            bool made = node->op->transfer || (i == 0 && node->out_count > 1);
            if (readers == 0 && !g->kept[node->out + i] && !made) continue;
            if (group->out_count == WEFT_GROUP_VALUES) return false;
            group->out[group->out_count++] = node->out + i;
        }
    }
    return last < first_use;
}

/* The order of the two does not matter: a group grows to both sides. */
static bool neighbour(const weft_group *group, const weft_node *node)
{
    for (int m = 0; m < group->count; m++)
        if (weft_nodes_adjoin(group->graph, group->node[m], node)) return true;
    return false;
}

static void grow(grouper *g, weft_group *group)
{
    weft_device *device = g->program->store->device;
    for (int i = 0; i < g->count && group->count < WEFT_GROUP_NODES; i++) {
        const weft_node *node = g->graph->nodes[g->order[i]];
        if (g->taken[g->order[i]] || member(group, node) || node->phase != group->node[0]->phase ||
            node->op->view || !neighbour(group, node))
            continue;
        weft_group trial = *group;
        trial.node[trial.count++] = node;
        if (complete(g, &trial) && device->ops->supports(device, &trial)) {
            *group = trial;
            i = -1; /* the larger group has other neighbours */
        }
    }
}

static weft_status collect(grouper *g, grouping *out)
{
    weft_group *groups;
    int *last;
    WEFT_TRY(WEFT_NEW(&groups, g->count + 1));
    weft_status status = WEFT_NEW(&last, g->count + 1);
    if (status != WEFT_OK) {
        free(groups);
        return status;
    }
    /* Groups of several nodes first, since a later node may take an earlier neighbour. */
    int count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < g->count; i++) {
            int n = g->order[i];
            if (g->taken[n]) continue;
            weft_group group = {.graph = g->graph, .node = {g->graph->nodes[n]}, .count = 1};
            if (!complete(g, &group)) {
                free(groups);
                free(last);
                return weft_node_fail(group.node[0],
                                      "has more than %d inputs or results that are read; a kernel "
                                      "has no more",
                                      WEFT_GROUP_VALUES);
            }
            if (pass == 0 && !group.node[0]->op->view) grow(g, &group);
            if (pass == 0 && group.count == 1) continue;
            int at = count++, end = 0;
            for (int m = 0; m < group.count; m++) {
                int node = g->graph->values[group.node[m]->out].node;
                g->taken[node] = true;
                end = WEFT_MAX(end, g->position[node]);
            }
            for (; at > 0 && last[at - 1] > end; at--) {
                groups[at] = groups[at - 1];
                last[at] = last[at - 1];
            }
            groups[at] = group;
            last[at] = end;
        }
    free(last);
    *out = (grouping){groups, count};
    return WEFT_OK;
}

weft_status weft_group_nodes(const weft_program *program, grouping *out)
{
    const weft_graph *graph = program->graph;
    grouper g = {.program = program, .graph = graph};
    weft_status status = WEFT_OK;
    WEFT_TRY_GOTO(WEFT_NEW(&g.order, graph->node_count), done);
    WEFT_TRY_GOTO(WEFT_NEW(&g.position, graph->node_count), done);
    WEFT_TRY_GOTO(WEFT_NEW(&g.taken, graph->node_count), done);
    WEFT_TRY_GOTO(WEFT_NEW(&g.kept, graph->value_count), done);
    find_order(&g);
    WEFT_TRY_GOTO(collect(&g, out), done);
done:
    free(g.order);
    free(g.position);
    free(g.taken);
    free(g.kept);
    return status;
}
