/* Finds the dimensions of parameters along which the features and the outputs of a model stand, by
 * the labels of operators: from the features onwards, and from the outputs back. */
#include "checkpoint/initial_names.h"
#include "graph/graph.h"
#include "models/models.h"

static void set(weft_initial_names *n, bool *flag)
{
    n->changed |= !*flag;
    *flag = true;
}

static weft_value operand(const weft_node *node, int o)
{
    return o < node->in_count ? node->in[o] : node->out + o - node->in_count;
}

/* Whether an operand other than `but`, from `begin` to before `end`, has the label. weights: if
 * given, only those that are, or are not, made of weights count. */
static bool has_label(const weft_initial_names *n, const weft_node *node, const weft_signature *s,
                      const char *label, int but, int begin, int end, const bool *weights)
{
    for (int o = begin; o < end; o++)
        for (int d = 0; d < s->operand[o].rank && o != but; d++)
            if (strcmp(s->operand[o].label[d].name, label) == 0 &&
                (!weights || n->weight[operand(node, o)] == *weights))
                return true;
    return false;
}

/* Dimensions of one label are along one axis. */
static void spread(weft_initial_names *n, const weft_node *node, const weft_signature *s, int o,
                   int d)
{
    const weft_label *label = &s->operand[o].label[d];
    int which = n->along[operand(node, o)][d];
    int64_t size = weft_value_type(n->graph, operand(node, o))->shape.dim[d];
    for (int other = 0; other < s->inputs + s->outputs; other++)
        for (int e = 0; e < s->operand[other].rank; e++) {
            weft_value v = operand(node, other);
            if (strcmp(s->operand[other].label[e].name, label->name) != 0 || n->along[v][e] ||
                weft_value_type(n->graph, v)->shape.dim[e] != size)
                continue;
            n->along[v][e] = which;
            n->changed = true;
        }
}

/* Rows that the features select by their numbers are along their axis. */
static void select_rows(weft_initial_names *n, const weft_node *node, const weft_signature *s,
                        weft_value features)
{
    bool reads = false;
    for (int i = 0; i < node->in_count; i++) reads |= node->in[i] == features;
    for (int o = 0; o < node->in_count && reads; o++)
        for (int d = 0; d < s->operand[o].rank; d++) {
            weft_value v = node->in[o];
            if (n->weight[v] && !n->along[v][d] &&
                weft_value_type(n->graph, v)->shape.dim[d] == n->of[WEFT_NAMED_INPUTS].count &&
                !has_label(n, node, s, s->operand[o].label[d].name, o, 0, s->inputs + s->outputs,
                           NULL)) {
                n->along[v][d] = WEFT_NAMED_INPUTS + 1;
                n->changed = true;
            }
        }
}

/* Whether an operand has an axis along a label that mixes it: one that no other operand has. */
static bool is_mixed(const weft_initial_names *n, const weft_node *node, const weft_signature *s,
                     int o)
{
    for (int d = 0; d < s->operand[o].rank; d++) {
        const weft_label *l = &s->operand[o].label[d];
        if (n->along[operand(node, o)][d] && (l->whole || l->scaled || l->windowed) &&
            !has_label(n, node, s, l->name, o, 0, s->inputs + s->outputs, NULL))
            return true;
    }
    return false;
}

/* Weights that read what has been mixed, or make what is mixed behind them, begin anew. Beyond a
 * product with weights nothing is mixed any more. */
static void mix(weft_initial_names *n, const weft_node *node, const weft_signature *s, int o)
{
    const bool weights = true, others = false;
    int all = s->inputs + s->outputs;
    bool forward = o < s->inputs, product = false, *flags = forward ? n->mixed : n->mixes;
    for (int i = 0; i < s->inputs; i++)
        if (n->weight[node->in[i]]) set(n, &n->anew[node->in[i]]);
    for (int d = 0; d < s->operand[o].rank; d++) {
        const char *label = s->operand[o].label[d].name;
        bool weighted = has_label(n, node, s, label, o, 0, s->inputs, &weights);
        product |= weighted && !(forward ? has_label(n, node, s, label, o, s->inputs, all, NULL)
                                         : has_label(n, node, s, label, o, 0, s->inputs, &others));
    }
    for (int to = forward ? s->inputs : 0; to < (forward ? all : s->inputs) && !product; to++)
        if (!n->weight[operand(node, to)]) set(n, &flags[operand(node, to)]);
}

static void visit(weft_initial_names *n, const weft_node *node, const weft_signature *s,
                  weft_value features)
{
    int all = s->inputs + s->outputs;
    if (features != WEFT_NO_VALUE) select_rows(n, node, s, features);
    for (int o = 0; o < all; o++) {
        weft_value v = operand(node, o);
        for (int d = 0; d < s->operand[o].rank; d++)
            if (n->along[v][d]) spread(n, node, s, o, d);
        bool flag = o < s->inputs ? n->mixed[v] : n->mixes[v];
        if (!n->weight[v] && node->phase == WEFT_PHASE_FORWARD && (flag || is_mixed(n, node, s, o)))
            mix(n, node, s, o);
        for (int i = 0; o >= s->inputs && n->anew[v] && i < s->inputs; i++)
            set(n, &n->anew[node->in[i]]);
    }
}

/* Goes over the nodes from `first` on, onwards and back, until nothing changes. */
static weft_status trace(weft_initial_names *n, int first, weft_value features)
{
    int count = (int)n->graph->node_count - first;
    weft_signature *all;
    WEFT_TRY(WEFT_NEW(&all, 1));
    weft_status status = WEFT_OK;
    do {
        n->changed = false;
        for (int k = 0; k < 2 * count && status == WEFT_OK; k++) {
            const weft_node *node = n->graph->nodes[first + (k < count ? k : 2 * count - 1 - k)];
            if (node->phase == WEFT_PHASE_BACKWARD) continue;
            status = weft_node_signature(n->graph, node, all);
            if (status == WEFT_OK) visit(n, node, all, features);
        }
    } while (n->changed && status == WEFT_OK);
    free(all);
    return status;
}

static void find_weights(weft_initial_names *n)
{
    for (weft_value v = 0; v < weft_graph_value_count(n->graph); v++) {
        const weft_value_info *info = &n->graph->values[v];
        const weft_node *node = info->node < 0 ? NULL : n->graph->nodes[info->node];
        n->weight[v] = node ? node->in_count > 0 : info->kind != WEFT_VALUE_INPUT;
        for (int i = 0; node && i < node->in_count; i++) n->weight[v] &= n->weight[node->in[i]];
    }
}

weft_status weft_named_dimensions_find(const weft_data_stats *here, weft_initial_names *n,
                                       const weft_model_values *values)
{
    int node;
    weft_value in = weft_model_embedded(n->graph, here->table, &node);
    if (in == WEFT_NO_VALUE) in = weft_model_value(values, WEFT_PORT_FEATURES);
    weft_value out = weft_model_value(values, WEFT_PORT_LOGITS);
    const weft_type *type = weft_value_type(n->graph, in);
    int all = weft_graph_value_count(n->graph);
    bool selects = type->dtype == WEFT_I32, other = n->of[WEFT_NAMED_INPUTS].from != NULL;
    WEFT_TRY(WEFT_NEW(&n->weight, all));
    WEFT_TRY(WEFT_NEW(&n->anew, all));
    WEFT_TRY(WEFT_NEW(&n->mixed, all));
    WEFT_TRY(WEFT_NEW(&n->mixes, all));
    WEFT_TRY(WEFT_NEW(&n->along, all));
    find_weights(n);
    if (other && !selects && type->shape.rank == 2) n->along[in][1] = WEFT_NAMED_INPUTS + 1;
    type = weft_value_type(n->graph, out);
    int last = type->shape.rank - 1;
    if (n->outputs->from && last > 0 && type->shape.dim[last] == n->outputs->count)
        n->along[out][last] = (int)(n->outputs - n->of) + 1;
    for (int i = WEFT_NAMED_AXES; i < n->axes; i++)
        if (n->of[i].leaf != WEFT_NO_VALUE && n->of[i].from) n->along[n->of[i].leaf][0] = i + 1;
    return trace(n, node + 1, other && selects ? in : WEFT_NO_VALUE);
}
