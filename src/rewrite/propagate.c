/* Decides which labels of a node are split over which axis (sharding propagation).
 *
 * A label is a candidate for an axis if an input is already split along it. If no input is split,
 * tensor parallelism begins at a weight: its output label is split (column parallel), and the next
 * layer follows along its split input (row parallel; Megatron-LM). A node uses a candidate wherever
 * possible, since otherwise every rank would compute the same. If there are several candidates, the
 * node uses the one whose inputs are cheapest to convert. If no output has the label, the outputs
 * are partial. */
#include "rewrite/rewrite.h"

int weft_label_dim(const decision *d, int operand, const char *label)
{
    const weft_operand_labels *o = &d->labels.operand[operand];
    for (int i = 0; label && i < o->rank; i++)
        if (strcmp(o->label[i].name, label) == 0) return i;
    return -1;
}

static const weft_shape *shape_of(const rewriter *r, const weft_node *node, int operand)
{
    return operand < node->in_count ? &weft_in(r->from, node, operand)->shape
                                    : &weft_out(r->from, node, operand - node->in_count)->shape;
}

static bool in_outputs(const decision *d, const char *label)
{
    for (int o = 0; o < d->labels.outputs; o++)
        if (weft_label_dim(d, d->labels.inputs + o, label) >= 0) return true;
    return false;
}

static bool is_windowed(const weft_node *node, const decision *d, const char *label)
{
    for (int i = 0; i < node->in_count + node->out_count; i++) {
        int dim = weft_label_dim(d, i, label);
        if (dim >= 0 && d->labels.operand[i].label[dim].windowed) return true;
    }
    return false;
}

/* Whether operand i is an input that is not real, such as labels, and is not split along the
 * dimension yet: conversions take real values only. */
static bool is_unsplit_integer(const rewriter *r, const weft_node *node, int i, int axis, int dim)
{
    if (i >= node->in_count) return false;
    const value_state *v = &r->values[node->in[i]];
    return !weft_dtype_is_float(r->from->values[node->in[i]].type.dtype) && v->known &&
           v->split.at[axis] != dim;
}

/* Whether the label can be split over the axis: no other axis splits it, and each operand permits
 * it and is large enough. A node has a halo along one dimension only, so the windows of one label
 * only are split. */
static bool legal(const rewriter *r, const weft_node *node, const decision *d, int axis,
                  const char *label)
{
    int n = r->plan->size[axis];
    for (int a = 0; a < SHARD_AXES; a++)
        if (a != axis && d->label[a] &&
            (strcmp(d->label[a], label) == 0 ||
             (is_windowed(node, d, d->label[a]) && is_windowed(node, d, label))))
            return false;
    for (int i = 0; i < node->in_count + node->out_count; i++) {
        int dim = weft_label_dim(d, i, label);
        if (dim < 0) continue;
        const weft_label *l = &d->labels.operand[i].label[dim];
        int64_t size = shape_of(r, node, i)->dim[dim];
        if (l->whole || size < n || (l->scaled && size % n)) return false;
        if (l->windowed && !node->op->window) return false;
        if (is_unsplit_integer(r, node, i, axis, dim)) return false;
    }
    return true;
}

static bool is_weight(const rewriter *r, weft_value v)
{
    return r->from->values[v].kind == WEFT_VALUE_PARAM;
}

/* The cost factor of moving a weight, which is so high that a weight is never moved: the user may
 * have chosen its sharding. */
enum { WEIGHT_MOVES = 1000000 };

/* The value that decides for operand i of a node: itself, or for a recomputed value the one that it
 * repeats. Gradients then choose the same splits with and without recomputation, so that their bits
 * are the same. */
static weft_value decider(const rewriter *r, const weft_node *node, int i)
{
    weft_value v = node->in[i];
    int n = r->from->values[v].node;
    const weft_node *maker = n < 0 ? NULL : r->from->nodes[n];
    return maker && maker->recomputed ? r->from->nodes[maker->origin]->out + (v - maker->out) : v;
}

static const value_state *state_of(const rewriter *r, const weft_node *node, int i)
{
    return &r->values[decider(r, node, i)];
}

/* Whether operand i has been converted to a sharding at a place. */
static bool has_form(const rewriter *r, const weft_node *node, int i, int place, sharding split)
{
    weft_value v = decider(r, node, i);
    return weft_rewrite_form(r, v, place, split, node->phase) ||
           (v != node->in[i] && weft_rewrite_form(r, node->in[i], place, split, node->phase));
}

/* The cost of converting the inputs to a split along this label: the number of elements that must
 * move. */
static double cost_of(const rewriter *r, const weft_node *node, const decision *d, int axis,
                      const char *label)
{
    double cost = 0;
    int place = r->node_place[r->from->values[node->out].node];
    for (int i = 0; i < node->in_count; i++) {
        const value_state *v = state_of(r, node, i);
        int want = weft_label_dim(d, i, label), have = v->split.at[axis];
        if (!v->known || have == want || have == WHOLE) continue;
        sharding there = v->split;
        there.at[axis] = (int16_t)want;
        if (!has_form(r, node, i, place, there))
            cost += (double)weft_shape_elements(shape_of(r, node, i)) *
                    (axis == AXIS_TENSOR && is_weight(r, node->in[i]) ? WEIGHT_MOVES : 1);
    }
    return cost;
}

/* The output label of a weight, or NULL. A weight is a parameter with a label that is summed over
 * and a label that only it and the output have. */
static const char *column_of(const rewriter *r, const weft_node *node, const decision *d)
{
    for (int i = 1; i < node->in_count; i++) {
        const weft_operand_labels *o = &d->labels.operand[i];
        const char *column = NULL;
        bool summed = false;
        if (!is_weight(r, node->in[i]) || r->values[node->in[i]].known || o->rank < 2) continue;
        for (int k = 0; k < o->rank; k++) {
            const char *label = o->label[k].name;
            bool other = weft_label_dim(d, 0, label) >= 0, out = in_outputs(d, label);
            summed = summed || (other && !out);
            if (!other && out) column = label;
        }
        if (summed && column) return column;
    }
    return NULL;
}

/* Whether a legal label may be chosen. The tensor axis splits convolutions by output channels only,
 * since partial sums would be as large as the inputs, unless the weight is already split
 * otherwise. */
static bool wanted(const rewriter *r, const weft_node *node, const decision *d, int axis,
                   const char *label)
{
    if (axis != AXIS_TENSOR || !node->op->window || node->phase != WEFT_PHASE_FORWARD) return true;
    if (in_outputs(d, label)) return true;
    const value_state *weight = node->in_count > 1 ? &r->values[node->in[1]] : NULL;
    return weight && weight->known && weight->split.at[axis] == weft_label_dim(d, 1, label);
}

/* If the node computes the gradient of a parameter: the label along which that parameter is split
 * over the axis; else NULL. */
static const char *gradient_label(const rewriter *r, const weft_node *node, const decision *d,
                                  int axis)
{
    for (int o = 0; o < node->out_count; o++) {
        weft_value param = r->from->values[node->out + o].gradient_of;
        if (param == WEFT_NO_VALUE || !r->values[param].known || axis == AXIS_DATA) continue;
        int dim = r->values[param].split.at[axis];
        if (dim >= 0) return d->labels.operand[d->labels.inputs + o].label[dim].name;
    }
    return NULL;
}

/* The input that cannot be converted to another sharding: a real result of another type than the
 * graph's, or one that only its device can read, such as the index of maxpool. -1: none. */
static int fixed_input(const rewriter *r, const weft_node *node)
{
    for (int i = 0; i < node->in_count; i++) {
        const weft_value_info *info = &r->from->values[node->in[i]];
        if (info->kind != WEFT_VALUE_RESULT || info->type.shape.rank == 0) continue;
        const weft_node *maker = r->from->nodes[info->node];
        weft_dtype dtype = info->type.dtype;
        bool other = weft_dtype_is_float(dtype) && dtype != r->from->real && dtype != WEFT_BF16;
        if (other || maker->op->opaque >> (node->in[i] - maker->out) & 1) return i;
    }
    return -1;
}

/* The label of operand i that is split over the axis; NULL: none. */
static const char *label_of(const rewriter *r, const weft_node *node, const decision *d, int i,
                            int axis)
{
    int dim = state_of(r, node, i)->split.at[axis];
    return dim < 0 ? NULL : d->labels.operand[i].label[dim].name;
}

static void choose(const rewriter *r, const weft_node *node, decision *d, int axis)
{
    int fixed = fixed_input(r, node);
    if (fixed >= 0) {
        d->label[axis] = label_of(r, node, d, fixed, axis);
        return;
    }
    const char *best = gradient_label(r, node, d, axis);
    if (best && !legal(r, node, d, axis, best)) best = NULL;
    double best_cost = best ? cost_of(r, node, d, axis, best) : 0;
    for (int i = 0; i < node->in_count; i++) {
        const value_state *v = state_of(r, node, i);
        bool stored = v->weak && axis == AXIS_DATA && node->phase != WEFT_PHASE_UPDATE;
        const char *label = label_of(r, node, d, i, axis);
        if (!v->known || !label || stored) continue;
        if (!legal(r, node, d, axis, label) || !wanted(r, node, d, axis, label)) continue;
        double cost = cost_of(r, node, d, axis, label);
        if (best && cost >= best_cost) continue;
        best = label;
        best_cost = cost;
    }
    if (!best && axis == AXIS_TENSOR && node->phase == WEFT_PHASE_FORWARD) {
        const char *column = column_of(r, node, d);
        if (column && legal(r, node, d, axis, column)) best = column;
    }
    d->label[axis] = best;
}

/* The inputs that may be partial over an axis, and whose outputs are then. */
static unsigned partial_inputs(const weft_node *node, int axis)
{
    return node->op->linear | (axis == AXIS_DATA ? node->op->addends : 0);
}

/* Whether the node takes partial inputs and gives partial outputs, since its operator is linear in
 * them. A sum over micro-batches without a decision then becomes partial, too; other leaves hold
 * whole values. */
static bool carries(const rewriter *r, const weft_node *node, int axis)
{
    bool any = false;
    for (int i = 0; i < node->in_count; i++) {
        const value_state *v = state_of(r, node, i);
        bool linear = partial_inputs(node, axis) & 1u << i,
             partial = v->known && v->split.at[axis] == PARTIAL;
        if (!linear && partial) return false;
        bool sum = !v->known && weft_graph_role(r->from, node->in[i], NULL) == WEFT_ROLE_SUM;
        if (linear && !partial && !sum) return false;
        any = any || partial;
    }
    return any;
}

static bool same_labels(const weft_operand_labels *a, const weft_operand_labels *b)
{
    for (int i = 0; i < a->rank && a->rank == b->rank; i++)
        if (strcmp(a->label[i].name, b->label[i].name) != 0) return false;
    return a->rank == b->rank;
}

static bool all_whole_labels(const weft_operand_labels *o)
{
    for (int i = 0; i < o->rank; i++)
        if (!o->label[i].whole) return false;
    return true;
}

/* Whether the node treats each element independently, so that a range of the elements can be
 * computed alone: all tensors have the same labels without marks. Results without dimensions, or
 * with whole ones, are sums over the elements. */
static bool by_element(const decision *d)
{
    const weft_operand_labels *tensor = NULL;
    for (int i = 0; i < d->labels.inputs + d->labels.outputs; i++) {
        const weft_operand_labels *o = &d->labels.operand[i];
        if (o->rank == 0 || (i >= d->labels.inputs && all_whole_labels(o))) continue;
        for (int k = 0; k < o->rank; k++)
            if (o->label[k].whole || o->label[k].windowed || o->label[k].scaled) return false;
        if (tensor && !same_labels(tensor, o)) return false;
        tensor = o;
    }
    return tensor != NULL;
}

/* The operand of an elementwise node that is a FLAT range, or -1. The node then computes that
 * range, and needs the same range of its other operands. */
static int flat_operand(const rewriter *r, const weft_node *node, const decision *d)
{
    int flat = -1;
    if (!by_element(d)) return -1;
    for (int i = 0; i < node->in_count && flat < 0; i++) {
        const value_state *v = &r->values[node->in[i]];
        bool stored = v->weak && node->phase != WEFT_PHASE_UPDATE;
        if (v->known && !stored && v->split.at[AXIS_DATA] == FLAT) flat = i;
    }
    for (int i = 0; i < node->in_count && flat >= 0; i++) {
        const weft_shape *other = shape_of(r, node, i);
        if (other->rank > 0 && !weft_shape_equal(other, shape_of(r, node, flat))) return -1;
    }
    return flat;
}

/* Whether a node reads batch statistics that must not be summed over ranks, since each virtual
 * worker has its own batch. */
static bool reads_own(const rewriter *r, const weft_node *node)
{
    if (r->workers == 0 || r->plan->size[AXIS_DATA] == 1) return false;
    for (int i = 0; i < node->in_count; i++)
        if (node->op->statistics & 1u << i && r->values[node->in[i]].split.at[AXIS_DATA] != WHOLE)
            return true;
    return false;
}

/* Records the split of a node. The node that recomputes it must use the same split, or its bits
 * would differ. */
static void remember(rewriter *r, const weft_node *node, const decision *d, int axis)
{
    int *at = &r->chosen[r->from->values[node->out].node][axis];
    *at = -1;
    if (d->label[axis]) r->plan->splits[axis] = true;
    for (int i = 0; i < d->labels.inputs + d->labels.outputs && *at < 0; i++) {
        int dim = weft_label_dim(d, i, d->label[axis]);
        if (dim >= 0) *at = i * WEFT_MAX_RANK + dim;
    }
}

static const char *remembered(const rewriter *r, const weft_node *node, const decision *d, int axis)
{
    int at = r->chosen[node->origin][axis];
    return at < 0 ? NULL : d->labels.operand[at / WEFT_MAX_RANK].label[at % WEFT_MAX_RANK].name;
}

/* Fails if the domain axis, which is meant to split positions, splits those of a recurrence: every
 * rank would gather them and compute the same. */
static weft_status check_ordered(const rewriter *r, const weft_node *node, const decision *d)
{
    for (int i = 0; i < node->in_count; i++) {
        int dim = r->values[node->in[i]].split.at[AXIS_DOMAIN];
        if (dim < 0 || !d->labels.operand[i].label[dim].ordered) continue;
        return weft_node_fail(
            node,
            "mesh domain=%d would split the %lld positions of a recurrence, each of "
            "which needs the one before it; use the axis data, which splits the "
            "batch, or pipeline, which splits the layers",
            r->plan->size[AXIS_DOMAIN], (long long)shape_of(r, node, i)->dim[dim]);
    }
    return WEFT_OK;
}

weft_status weft_rewrite_decide(rewriter *r, const weft_node *node, decision *out)
{
    memset((void *)out->label, 0, sizeof(out->label));
    memset(out->carried, 0, sizeof(out->carried));
    WEFT_TRY(weft_node_signature(r->from, node, &out->labels));
    WEFT_TRY(check_ordered(r, node, out));
    int flat = flat_operand(r, node, out);
    out->flat = flat < 0 ? NULL : shape_of(r, node, flat);
    out->own = reads_own(r, node);
    for (int a = 0; a < SHARD_AXES; a++) {
        if (r->plan->size[a] == 1 || (a == AXIS_DATA && out->flat)) continue;
        /* A FLAT range is a range of the part that the other axes leave, so those axes are split as
         * in the FLAT operand. */
        if (flat >= 0)
            out->label[a] = label_of(r, node, out, flat, a);
        else if (node->recomputed)
            out->label[a] = remembered(r, node, out, a);
        else
            choose(r, node, out, a);
        remember(r, node, out, a);
        out->carried[a] = !out->label[a] && carries(r, node, a);
    }
    return WEFT_OK;
}

sharding weft_decision_split(const decision *d, const weft_node *node, int operand)
{
    sharding s = all_whole;
    for (int a = 0; a < SHARD_AXES; a++) {
        bool out = operand >= node->in_count;
        bool linear = out || partial_inputs(node, a) & 1u << operand;
        int dim = weft_label_dim(d, operand, d->label[a]);
        if (dim >= 0) s.at[a] = (int16_t)dim;
        if ((d->label[a] && dim < 0 && out) || (d->carried[a] && linear)) s.at[a] = PARTIAL;
    }
    const weft_operand_labels *labels = &d->labels.operand[operand];
    if (operand >= node->in_count && d->own && s.at[AXIS_DATA] == WHOLE) s.at[AXIS_DATA] = OWN;
    if (d->flat && labels->rank > 0 && !labels->label[0].whole)
        s.at[AXIS_DATA] = FLAT;
    else if (d->flat && operand >= node->in_count)
        s.at[AXIS_DATA] = PARTIAL; /* a sum over the elements */
    return s;
}
