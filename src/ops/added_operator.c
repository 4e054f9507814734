/* Makes operators of those that programs and plug-ins add (weft/operator_ops.h). */
#include "base/registry.h"
#include "ops/elementwise.h"

/* The operator of an entry, and the rules that it was made of. */
typedef struct added_op {
    weft_op op;
    const weft_operator_ops *rules;
} added_op;

static const weft_operator_ops *rules_of(const weft_node *node)
{
    return ((const added_op *)(const void *)node->op)->rules;
}

static weft_status shape(const weft_graph *graph, weft_node *node, weft_type *out)
{
    int count = 1;
    uint64_t before = weft_failures();
    weft_status status = rules_of(node)->shape(graph, node, out, &count);
    WEFT_TRY(weft_ensure_message(status, before, "operator", node->op->name, "shape"));
    if (count < 1 || count > WEFT_MAX_OUTPUTS)
        return weft_node_fail(node, "its function 'shape' gives %d outputs, must be 1 to %d", count,
                              WEFT_MAX_OUTPUTS);
    node->out_count = count;
    return WEFT_OK;
}

/* Each dimension has a label of its own, which stays whole. */
static void labels_whole(const weft_graph *graph, const weft_node *node, weft_text *text)
{
    for (int i = 0, label = 0; i < node->in_count + node->out_count; i++) {
        int o = i - node->in_count;
        weft_text_add(text, "%s", i == 0 ? "" : o == 0 ? " -> " : ", ");
        const weft_type *t = o < 0 ? weft_in(graph, node, i) : weft_out(graph, node, o);
        for (int d = 0; d < t->shape.rank; d++)
            weft_text_add(text, "%sd%d!", d > 0 ? " " : "", label++);
    }
}

static void labels(const weft_graph *graph, const weft_node *node, weft_text *text)
{
    char written[512] = "";
    if (!rules_of(node)->labels)
        labels_whole(graph, node, text);
    else if (rules_of(node)->labels(graph, node, written, sizeof(written)) == WEFT_OK)
        weft_text_add(text, "%s", written);
}

static weft_status accept_element(const weft_entry *entry, const weft_element *e, weft_op *op)
{
    WEFT_TRY(weft_entry_need(entry, "element.f32", e->f32));
    WEFT_TRY(weft_entry_need(entry, "element.f64", e->f64));
    if (e->count < 1 || e->count > 3)
        return weft_fail(WEFT_ERR_ARGUMENT, "its element has %d operands, must be 1 to 3",
                         e->count);
    op->element = e;
    op->min_inputs = op->max_inputs = e->count;
    op->shape = weft_element_shape;
    op->labels = weft_element_labels;
    op->in_place[0] = (1U << e->count) - 1;
    return WEFT_OK;
}

static weft_status accept_kernel(const weft_entry *entry, const weft_operator_ops *rules,
                                 weft_op *op)
{
    WEFT_TRY(weft_entry_need(entry, "shape", rules->shape));
    WEFT_TRY(weft_entry_need(entry, "compute", rules->compute));
    if (rules->min_inputs < 0 || (rules->max_inputs >= 0 && rules->max_inputs < rules->min_inputs))
        return weft_fail(WEFT_ERR_ARGUMENT, "it takes %d to %d inputs, which no node has",
                         rules->min_inputs, rules->max_inputs);
    op->min_inputs = rules->min_inputs;
    op->max_inputs = rules->max_inputs;
    op->attrs = rules->attrs;
    op->shape = shape;
    op->labels = labels;
    op->flops = rules->flops;
    op->compute = rules->compute;
    return WEFT_OK;
}

static weft_status accept(weft_context *context, const weft_entry *entry, const void *ops,
                          void **made)
{
    const weft_operator_ops *rules = ops;
    added_op *added;
    (void)context;
    WEFT_TRY(WEFT_NEW(&added, 1));
    *made = added;
    added->rules = rules;
    added->op.name = entry->name;
    added->op.before = entry->before;
    added->op.summary = entry->summary;
    added->op.gradient = rules->gradient;
    return rules->element ? accept_element(entry, rules->element, &added->op)
                          : accept_kernel(entry, rules, &added->op);
}

const weft_extension weft_operators_extension = {.kind = WEFT_KIND_OPERATOR,
                                                 .type = "weft_operator_ops",
                                                 .size = sizeof(weft_operator_ops),
                                                 .least = sizeof(weft_operator_ops),
                                                 .accept = accept};
