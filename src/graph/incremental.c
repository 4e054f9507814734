/* The pass of incremental decoding: from a graph that computes all positions of a sequence, it
 * makes one that computes a single position in a run. The inputs say along which dimension their
 * positions are, and label signatures carry that dimension from operand to operand: a node whose
 * label of positions has no mark computes each position alone. Operators that read other positions
 * say themselves which states replace them (weft_op.one_position). */
#include "graph/incremental.h"

#include "graph/map.h"

enum { NONE = -1 }; /* the value has no dimension of positions */

typedef struct decoding {
    weft_incremental *out;
    int *dim; /* of each value of the original graph: its dimension of positions, or NONE */
} decoding;

weft_status weft_incremental_refuse(const weft_node *node, const char *why)
{
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "node '%s' (%s) %s, so the model cannot generate one token after the other",
                     node->name, node->op->name, why);
}

weft_value weft_incremental_state(weft_incremental *s, const weft_node *node, const char *what,
                                  const weft_type *type)
{
    weft_status status = WEFT_GROW(&s->states, &s->capacity, s->count);
    if (status != WEFT_OK) return weft_graph_stick(s->graph, status);
    char *name = weft_graph_format(s->graph, "%s/%s", node->name, what);
    weft_value state =
        weft_graph_own_leaf(s->graph, NULL, name, type, WEFT_ROLE_SEQUENCE, WEFT_NO_VALUE);
    free(name);
    if (state != WEFT_NO_VALUE) s->states[s->count++] = state;
    return state;
}

/* An input of one position has a name of its own, since a plan splits leaves of the same name in
 * the same way, and one position is not split. */
static weft_status map_leaf(weft_graph_mapper *m, weft_value v, weft_value *out)
{
    const decoding *d = m->user;
    const weft_value_info *info = &m->from->values[v];
    weft_shape shape = info->type.shape;
    if (info->kind != WEFT_VALUE_INPUT) return weft_graph_map_leaf(m, v, info->name, &shape, out);
    if (d->dim[v] != NONE) shape.dim[d->dim[v]] = 1;
    char *name = weft_graph_format(m->to, "%s/step", info->name);
    weft_status status = weft_graph_map_leaf(m, v, name ? name : info->name, &shape, out);
    free(name);
    if (status == WEFT_OK) weft_graph_set_domain(m->to, *out, 0);
    return status;
}

/* The dimension of an operand that has this label, or NONE. */
static int labelled(const weft_operand_labels *operand, const char *label)
{
    for (int i = 0; i < operand->rank; i++)
        if (strcmp(operand->label[i].name, label) == 0) return i;
    return NONE;
}

/* Finds the label of the dimension of positions, and the dimensions of outputs that have it.
 * UNSUPPORTED: the node does not compute each position alone. */
static weft_status follow_label(const decoding *d, const weft_graph *g, const weft_node *node,
                                int *outputs)
{
    static const char *const several = "reads several positions of a sequence";
    const char *label = NULL;
    weft_signature s;
    WEFT_TRY(weft_node_signature(g, node, &s));
    for (int i = 0; i < node->in_count && !label; i++) {
        int dim = d->dim[node->in[i]];
        if (dim == NONE) continue;
        const weft_label *l = &s.operand[i].label[dim];
        if (l->whole || l->windowed || l->scaled) return weft_incremental_refuse(node, several);
        label = l->name;
    }
    for (int i = 0; i < node->in_count; i++)
        if (labelled(&s.operand[i], label) != d->dim[node->in[i]])
            return weft_incremental_refuse(node, several);
    for (int o = 0; o < node->out_count; o++) {
        outputs[o] = labelled(&s.operand[s.inputs + o], label);
        if (outputs[o] == NONE) return weft_incremental_refuse(node, several);
    }
    return WEFT_OK;
}

/* Copies a node for one position. An attribute that holds dimensions gets those of the part. */
static weft_status copy_node(weft_graph_mapper *m, const weft_node *node, const int *outputs,
                             weft_value *out)
{
    weft_value in[WEFT_MAX_LABELS], first = WEFT_NO_VALUE;
    weft_node part;
    weft_status status = weft_graph_map_attrs(node, &part);
    for (int i = 0; i < node->in_count; i++) in[i] = m->value[node->in[i]];
    for (int i = 0; i < part.attr_count; i++) {
        weft_attr *attr = &part.attrs[i];
        bool dims = node->op->dims && strcmp(attr->name, node->op->dims) == 0;
        int at = dims ? outputs[0] - node->op->dims_from : NONE;
        if (at >= 0 && at < attr->count) attr->ints[at] = 1;
    }
    if (status == WEFT_OK)
        status = weft_graph_map_node(m, node, in, part.attrs, part.attr_count, node->phase, &first);
    free(part.attrs);
    for (int o = 0; o < node->out_count && status == WEFT_OK; o++) out[o] = first + o;
    return status;
}

static weft_status map_node(weft_graph_mapper *m, int n, weft_value *out)
{
    const decoding *d = m->user;
    const weft_node *node = m->from->nodes[n];
    weft_value in[WEFT_MAX_LABELS];
    int outputs[WEFT_MAX_OUTPUTS];
    bool any = false;
    if (node->in_count > WEFT_MAX_LABELS)
        return weft_node_fail(node, "has more than %d inputs", WEFT_MAX_LABELS);
    for (int i = 0; i < node->in_count; i++) {
        any = any || d->dim[node->in[i]] != NONE;
        in[i] = m->value[node->in[i]];
    }
    for (int o = 0; o < node->out_count; o++) outputs[o] = NONE;
    if (any && node->op->one_position) {
        WEFT_TRY(node->op->one_position(d->out, m->from, node, in, out));
        outputs[0] = d->dim[node->in[0]];
    } else {
        if (any) WEFT_TRY(follow_label(d, m->from, node, outputs));
        WEFT_TRY(copy_node(m, node, outputs, out));
    }
    for (int o = 0; o < node->out_count; o++) d->dim[node->out + o] = outputs[o];
    return WEFT_OK;
}

/* Adds the inputs that say which position of each row is computed. */
static weft_status begin(weft_graph_mapper *m)
{
    const decoding *d = m->user;
    weft_incremental *s = d->out;
    const struct {
        const char *name;
        weft_value *value;
        int rank;
    } inputs[] = {{"position", &s->position, 1},
                  {"positions", &s->positions, 2},
                  {"lengths", &s->lengths, 1},
                  {"active", &s->active, 1}};
    s->graph = m->to;
    for (size_t i = 0; i < WEFT_COUNT(inputs); i++) {
        weft_type type = {WEFT_I32, weft_shape_of(inputs[i].rank, (int64_t[]){s->batch, 1})};
        *inputs[i].value = weft_graph_own_leaf(m->to, m->from, inputs[i].name, &type,
                                               WEFT_ROLE_DATA, WEFT_NO_VALUE);
    }
    return weft_graph_status(m->to);
}

weft_status weft_graph_incremental(const weft_graph *graph, weft_value tokens, weft_value logits,
                                   weft_incremental *out, weft_value *map)
{
    static const weft_graph_pass pass = {.begin = begin, .leaf = map_leaf, .node = map_node};
    decoding d = {.out = out};
    *out = (weft_incremental){.count = 0};
    WEFT_TRY(WEFT_NEW(&d.dim, graph->value_count));
    for (size_t v = 0; v < graph->value_count; v++) {
        const weft_value_info *info = &graph->values[v];
        bool sequence = info->kind == WEFT_VALUE_INPUT && info->domain > 0;
        d.dim[v] = sequence ? info->domain : NONE;
    }
    out->batch = graph->values[tokens].type.shape.dim[0];
    out->window = graph->values[tokens].type.shape.dim[1];
    weft_status status = weft_graph_map(graph, &pass, &d, &logits, 1, &out->graph, map);
    free(d.dim);
    if (status != WEFT_OK) out->graph = NULL; /* the map has destroyed it */
    return status;
}

void weft_incremental_free(weft_incremental *s)
{
    weft_graph_destroy(&s->graph);
    free(s->states);
    *s = (weft_incremental){.count = 0};
}
