/* Types of nodes in mixed precision, and the pass that puts in casts. */
#include "graph/map.h"

/* --- types of a node --- */

bool weft_operator_computes(const weft_op *op)
{
    return !op->transfer && weft_operator_takes(op, 0) != WEFT_ALL_TYPES &&
           weft_operator_takes(op, 1) != WEFT_ALL_TYPES;
}

static bool is_narrow(const weft_graph *g, weft_value v)
{
    return g->values[v].type.dtype == WEFT_BF16;
}

/* Whether operand i may be bf16: it is real, and no scalar. */
static bool may_be_narrow(const weft_graph *g, const weft_node *node, int i)
{
    const weft_type *t = weft_in(g, node, i);
    return i < 32 && node->op->narrow >> i & 1 && weft_dtype_is_float(t->dtype) &&
           t->shape.rank > 0;
}

static bool any_narrow(const weft_graph *g, const weft_node *node)
{
    bool any = false;
    for (int i = 0; i < node->in_count; i++) any = any || is_narrow(g, node->in[i]);
    return any;
}

/* Whether the operands are bf16 that decide over the results. */
static bool all_narrow(const weft_graph *g, const weft_node *node)
{
    bool all = any_narrow(g, node);
    for (int i = 0; i < node->in_count; i++)
        all = all && (!may_be_narrow(g, node, i) || g->values[node->in[i]].weight ||
                      is_narrow(g, node->in[i]));
    return all;
}

bool weft_node_rounds(const weft_graph *g, const weft_node *node, int i)
{
    return node->op->narrows && may_be_narrow(g, node, i) && g->values[node->in[i]].weight &&
           all_narrow(g, node);
}

weft_status weft_node_types(weft_graph *g, weft_node *node, weft_type *out)
{
    bool narrow[WEFT_MAX_LABELS] = {false};
    if (!weft_operator_computes(node->op) || !any_narrow(g, node) ||
        node->in_count > WEFT_MAX_LABELS)
        return node->op->shape(g, node, out);
    bool outputs = node->phase != WEFT_PHASE_UPDATE && all_narrow(g, node);
    for (int i = 0; i < node->in_count; i++) narrow[i] = is_narrow(g, node->in[i]);
    for (int i = 0; i < node->in_count; i++)
        if (narrow[i]) g->values[node->in[i]].type.dtype = WEFT_F32;
    weft_status status = node->op->shape(g, node, out);
    for (int i = 0; i < node->in_count; i++)
        if (narrow[i]) g->values[node->in[i]].type.dtype = WEFT_BF16;
    for (int o = 0; o < node->out_count && status == WEFT_OK; o++)
        if (outputs && out[o].dtype == WEFT_F32 && node->op->narrow_out >> o & 1)
            out[o].dtype = WEFT_BF16;
    return status;
}

/* --- the pass --- */

enum { MOST_WANTED = 1024 }; /* values that are read outside */

/* The casts that were made: for each value of the new graph the one in the other type, or
 * WEFT_NO_VALUE. */
typedef struct precision {
    weft_value *other;
    size_t capacity;
    const bool *kept; /* of each value of the old graph: it is read outside */
    /* The rounded next values, in the new graph, of leaves of the old one; or WEFT_NO_VALUE. */
    weft_value *rounded;
    int streams; /* of random numbers, one for each tensor that is rounded */
} precision;

/* The cast of a value that was made before. A parameter is cast again for the update, so that no
 * copy is kept until then. */
static weft_value earlier(const weft_graph_mapper *m, weft_value v)
{
    const precision *p = m->user;
    const weft_graph *g = m->to;
    weft_value had = (size_t)v < p->capacity ? p->other[v] : WEFT_NO_VALUE;
    if (had == WEFT_NO_VALUE || g->values[v].kind != WEFT_VALUE_PARAM) return had;
    return g->nodes[g->values[had].node]->phase == g->phase ? had : WEFT_NO_VALUE;
}

static weft_status cast(weft_graph_mapper *m, weft_value v, weft_dtype dtype, weft_value *out)
{
    precision *p = m->user;
    weft_graph *g = m->to;
    *out = g->values[v].type.dtype == dtype ? v : earlier(m, v);
    if (*out != WEFT_NO_VALUE) return WEFT_OK;
    weft_attr attr = WEFT_ATTR_INT("dtype", dtype);
    char *name = weft_graph_format(g, "%s/%s", g->values[v].name, weft_dtype_name(dtype));
    *out = weft_graph_node(g, "cast", name, &v, 1, &attr, 1);
    free(name);
    WEFT_TRY(weft_graph_status(g));
    g->values[*out].weight = g->values[v].weight;
    for (size_t from = p->capacity; (size_t)*out >= p->capacity;) {
        WEFT_TRY(WEFT_GROW(&p->other, &p->capacity, p->capacity));
        for (; from < p->capacity; from++) p->other[from] = WEFT_NO_VALUE;
    }
    p->other[v] = *out;
    p->other[*out] = v;
    return WEFT_OK;
}

/* Whether the next values of a leaf are rounded to bf16: of a parameter, or of the optimizer's
 * state for each of its elements. */
static bool is_rounded(const weft_graph *g, weft_value v)
{
    weft_value param = v;
    const weft_value_info *info = &g->values[v];
    if (!g->bf16_weights || info->type.dtype != WEFT_F32) return false;
    if (info->kind == WEFT_VALUE_PARAM) return true;
    if (info->kind != WEFT_VALUE_STATE || weft_graph_role(g, v, &param) != WEFT_ROLE_OPTIMIZER)
        return false;
    return param != WEFT_NO_VALUE &&
           weft_shape_equal(&info->type.shape, &g->values[param].type.shape);
}

/* Whether a leaf becomes bf16. */
static bool becomes_narrow(const weft_graph *g, weft_value v)
{
    return is_rounded(g, v) && !(g->wide_weights && g->values[v].kind == WEFT_VALUE_PARAM);
}

/* Whether a node reads such leaves as they are: a product, which would round them; in the update,
 * whose results are f32, an operator of that kind, or a function of each element. */
static bool takes_narrow(const weft_node *node)
{
    return node->phase == WEFT_PHASE_UPDATE ? node->op->narrow_out == 0 || node->op->element
                                            : node->op->narrows;
}

/* The type that operand i of a node gets; `narrow`: its operands are cast to bf16. */
static weft_dtype wanted_type(const weft_graph_mapper *m, const weft_node *node, int i, bool narrow)
{
    const weft_type *now = weft_value_type(m->to, m->value[node->in[i]]);
    if (!weft_dtype_is_float(now->dtype) || now->dtype == WEFT_F64) return now->dtype;
    bool may = may_be_narrow(m->from, node, i), own = m->from->values[node->in[i]].weight;
    if (now->dtype == WEFT_BF16 && may && becomes_narrow(m->from, node->in[i]) &&
        takes_narrow(node))
        return WEFT_BF16;
    return narrow && may && !own ? WEFT_BF16 : WEFT_F32;
}

/* Whether some operand that may be bf16 is. */
static bool meets_narrow(const weft_graph_mapper *m, const weft_node *node)
{
    bool any = false;
    for (int i = 0; i < node->in_count; i++)
        any = any || (may_be_narrow(m->from, node, i) && !becomes_narrow(m->from, node->in[i]) &&
                      is_narrow(m->to, m->value[node->in[i]]));
    return any;
}

/* Values that are moved together have one type: bf16 if all of them are. */
static bool moves_narrow(const weft_graph_mapper *m, const weft_node *node)
{
    bool all = node->in_count > 0;
    for (int i = 0; i < node->in_count; i++) {
        const weft_type *t = weft_value_type(m->to, m->value[node->in[i]]);
        if (weft_dtype_is_float(t->dtype)) all = all && t->dtype == WEFT_BF16;
    }
    return all;
}

/* Whether the operands of a node get the type bf16. The format of an opaque operand depends on the
 * type of what it was made from, so a node that reads one has the same type. */
static bool gets_narrow(const weft_graph_mapper *m, const weft_node *node)
{
    const weft_graph *g = m->from;
    for (int i = 0; i < node->in_count; i++) {
        int by = g->values[node->in[i]].node;
        const weft_node *maker = by < 0 ? NULL : g->nodes[by];
        if (maker && maker->op->opaque >> (node->in[i] - maker->out) & 1)
            return is_narrow(m->to, m->to->nodes[m->node[by]]->out);
    }
    return node->phase != WEFT_PHASE_UPDATE && (node->op->narrows || meets_narrow(m, node));
}

static weft_status gather_inputs(weft_graph_mapper *m, const weft_node *node, weft_value *in)
{
    bool moves = !weft_operator_computes(node->op),
         narrow = moves ? moves_narrow(m, node) : gets_narrow(m, node);
    for (int i = 0; i < node->in_count; i++) {
        weft_value v = m->value[node->in[i]];
        weft_dtype dtype = m->to->values[v].type.dtype;
        if (!moves)
            dtype = wanted_type(m, node, i, narrow);
        else if (dtype == WEFT_BF16 && !narrow)
            dtype = WEFT_F32;
        WEFT_TRY(cast(m, v, dtype, &in[i]));
    }
    return WEFT_OK;
}

/* A gradient of a leaf, and a value that is assigned to one or read outside, has the leaf's type.
 */
static bool stays_wide(const weft_graph_mapper *m, weft_value v)
{
    const weft_value_info *info = &m->from->values[v];
    const precision *p = m->user;
    return info->gradient_of != WEFT_NO_VALUE || info->next_of != WEFT_NO_VALUE || p->kept[v];
}

/* Rounds the next values of leaves, which a node has made. */
static weft_status round_next(weft_graph_mapper *m, const weft_node *node, const weft_value *made)
{
    precision *p = m->user;
    for (int o = 0; o < node->out_count; o++) {
        weft_value leaf = m->from->values[node->out + o].next_of;
        if (leaf == WEFT_NO_VALUE || !is_rounded(m->from, leaf)) continue;
        weft_value in[] = {made[o], m->value[m->from->step]};
        weft_attr attrs[] = {WEFT_ATTR_INT("seed", (int64_t)m->from->seed),
                             WEFT_ATTR_INT("stream", p->streams++)};
        char *name = weft_graph_format(m->to, "%s/rounded", m->from->values[leaf].name);
        p->rounded[leaf] = weft_graph_node(m->to, "stochastic_round", name, in, 2, attrs, 2);
        free(name);
        WEFT_TRY(weft_graph_status(m->to));
        if (!becomes_narrow(m->from, leaf))
            WEFT_TRY(cast(m, p->rounded[leaf], WEFT_F32, &p->rounded[leaf]));
    }
    return WEFT_OK;
}

static weft_status begin(weft_graph_mapper *m)
{
    const precision *p = m->user;
    m->next = p->rounded;
    return WEFT_OK;
}

static weft_status map_leaf(weft_graph_mapper *m, weft_value v, weft_value *out)
{
    const weft_value_info *info = &m->from->values[v];
    WEFT_TRY(weft_graph_map_leaf(m, v, info->name, &info->type.shape, out));
    if (becomes_narrow(m->from, v)) m->to->values[*out].type.dtype = WEFT_BF16;
    return WEFT_OK;
}

static weft_status map_node(weft_graph_mapper *m, int n, weft_value *out)
{
    const weft_node *node = m->from->nodes[n];
    weft_value *in, first = WEFT_NO_VALUE;
    WEFT_TRY(WEFT_NEW(&in, node->in_count));
    weft_status status = gather_inputs(m, node, in);
    if (status == WEFT_OK)
        status =
            weft_graph_map_node(m, node, in, node->attrs, node->attr_count, node->phase, &first);
    free(in);
    WEFT_TRY(status);
    m->node[n] = m->to->values[first].node;
    for (int o = 0; o < node->out_count; o++) {
        bool begins = node->op->narrows && node->op->narrow == 0 && node->op->narrow_out >> o & 1;
        out[o] = first + o;
        if (stays_wide(m, node->out + o) && weft_dtype_is_float(m->to->values[out[o]].type.dtype))
            WEFT_TRY(cast(m, first + o, m->from->values[node->out + o].type.dtype, &out[o]));
        else if (begins && m->to->values[out[o]].type.dtype == WEFT_F32)
            WEFT_TRY(cast(m, first + o, WEFT_BF16, &out[o]));
    }
    return round_next(m, node, out);
}

static weft_status narrow(weft_graph *graph, precision *p, weft_value *const *wanted, int count,
                          weft_value *map)
{
    static const weft_graph_pass pass = {.begin = begin, .leaf = map_leaf, .node = map_node};
    weft_graph *mixed;
    WEFT_TRY(weft_graph_map(graph, &pass, p, NULL, -1, &mixed, map));
    for (int i = 0; i < count; i++)
        if (*wanted[i] != WEFT_NO_VALUE) *wanted[i] = map[*wanted[i]];
    mixed->mixed = false;
    weft_graph_swap(graph, mixed);
    weft_graph_destroy(&mixed);
    return WEFT_OK;
}

weft_status weft_graph_narrow(weft_graph *graph, weft_value *const *wanted, int count)
{
    bool *kept = NULL;
    weft_value *map = NULL;
    WEFT_NEED_AS("graph", graph);
    WEFT_TRY(weft_graph_status(graph));
    if (count < 0 || count > MOST_WANTED || (count > 0 && !wanted))
        return weft_fail(WEFT_ERR_ARGUMENT, "%d wanted values at %p: there may be 0 to %d", count,
                         (const void *)wanted, MOST_WANTED);
    if (!graph->mixed) return WEFT_OK;
    precision p = {0};
    weft_status status = WEFT_NEW(&kept, graph->value_count);
    if (status == WEFT_OK) status = WEFT_NEW(&map, graph->value_count);
    if (status == WEFT_OK) status = WEFT_NEW(&p.rounded, graph->value_count);
    for (size_t v = 0; v < graph->value_count && status == WEFT_OK; v++)
        p.rounded[v] = WEFT_NO_VALUE;
    for (int i = 0; i < count && status == WEFT_OK; i++)
        if (*wanted[i] != WEFT_NO_VALUE) kept[*wanted[i]] = true;
    p.kept = kept;
    if (status == WEFT_OK) status = narrow(graph, &p, wanted, count, map);
    free(p.other);
    free(p.rounded);
    free(kept);
    free(map);
    return status;
}

weft_status weft_graph_keep_weights_narrow(weft_graph *graph, uint64_t seed, bool wide)
{
    WEFT_NEED_AS("graph", graph);
    WEFT_TRY(weft_graph_status(graph));
    if (!graph->mixed)
        return weft_fail(WEFT_ERR_ARGUMENT, "parameters can be bf16 in a graph of type bf16, to "
                                            "which weft_graph_narrow is still to be applied");
    graph->bf16_weights = true;
    graph->wide_weights = wide;
    graph->seed = seed;
    return WEFT_OK;
}
