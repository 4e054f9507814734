/* Parses label signatures, such as "b c h~ w~, o c i j -> b o h w" (as in einsum). An operand is a
 * list of labels, one for each dimension. A comma separates operands, and the arrow separates
 * inputs from outputs. A mark precedes or follows its label: ! whole, > ordered (and so whole),
 * ~ windowed, * scaled. An operand without labels is a scalar. */
#include <ctype.h>

#include "graph/graph.h"

typedef struct parser {
    const char *text, *next;
    weft_signature *out;
    int operand; /* current operand */
} parser;

static weft_status parse_error(const parser *p, const char *what)
{
    return weft_fail(WEFT_ERR_FORMAT, "label signature \"%.80s\", column %d: %s", p->text,
                     (int)(p->next - p->text) + 1, what);
}

static weft_status parse_marks(parser *p, weft_label *label)
{
    for (; *p->next && strchr("!>~*", *p->next); p->next++) {
        bool *mark = *p->next == '!'   ? &label->whole
                     : *p->next == '>' ? &label->ordered
                     : *p->next == '~' ? &label->windowed
                                       : &label->scaled;
        if (*mark) return parse_error(p, "the same mark twice");
        *mark = true;
    }
    if (label->whole + label->ordered + label->windowed + label->scaled > 1)
        return parse_error(
            p, "a label is whole (!), ordered (>), windowed (~) or scaled (*), one of them");
    return WEFT_OK;
}

static weft_status parse_label(parser *p)
{
    weft_operand_labels *operand = &p->out->operand[p->operand];
    weft_label label = {.name = ""};
    WEFT_TRY(parse_marks(p, &label));
    size_t size = 0;
    if (!islower((unsigned char)*p->next))
        return parse_error(p,
                           "a label (lower-case letter, then letters or digits) must stand here");
    for (; islower((unsigned char)*p->next) || isdigit((unsigned char)*p->next); p->next++) {
        if (size + 1 >= sizeof(label.name)) return parse_error(p, "a label has at most 11 letters");
        label.name[size++] = *p->next;
    }
    WEFT_TRY(parse_marks(p, &label));
    for (int i = 0; i < operand->rank; i++)
        if (strcmp(operand->label[i].name, label.name) == 0)
            return parse_error(p, "the same label twice in one operand");
    if (operand->rank == WEFT_MAX_RANK) return parse_error(p, "an operand has at most 6 labels");
    label.whole = label.whole || label.ordered;
    operand->label[operand->rank++] = label;
    return WEFT_OK;
}

static weft_status parse_operands(parser *p, int *count)
{
    for (;;) {
        if (p->operand == WEFT_MAX_LABELS) return parse_error(p, "more than 32 operands");
        p->out->operand[p->operand].rank = 0;
        for (;;) {
            while (*p->next == ' ') p->next++;
            if (*p->next == ',' || *p->next == '-' || *p->next == '\0') break;
            WEFT_TRY(parse_label(p));
        }
        p->operand++;
        (*count)++;
        if (*p->next != ',') return WEFT_OK;
        p->next++;
    }
}

weft_status weft_labels_parse(const char *text, weft_signature *out)
{
    parser p = {.text = text, .next = text, .out = out};
    out->inputs = out->outputs = 0;
    for (int i = 0; i < WEFT_MAX_LABELS; i++) out->operand[i].rank = 0;
    WEFT_TRY(parse_operands(&p, &out->inputs));
    if (p.next[0] != '-' || p.next[1] != '>') return parse_error(&p, "'->' must stand here");
    p.next += 2;
    WEFT_TRY(parse_operands(&p, &out->outputs));
    if (*p.next) return parse_error(&p, "nothing may follow the outputs");
    return WEFT_OK;
}

/* The signature of a node; the empty left side of operators without inputs is removed. */
weft_status weft_node_signature(const weft_graph *graph, const weft_node *node, weft_signature *out)
{
    weft_text text = {0};
    char *labels;
    node->op->labels(graph, node, &text);
    WEFT_TRY(weft_text_take(&text, &labels));
    weft_status status = weft_labels_parse(labels, out);
    free(labels);
    if (node->in_count == 0 && out->inputs == 1) {
        memmove(&out->operand[0], &out->operand[1], (size_t)out->outputs * sizeof(out->operand[0]));
        out->inputs = 0;
    }
    return status;
}

/* Checks that the operands have as many dimensions as labels, and that a label has the same size in
 * all operands. Sizes of windowed and scaled labels may differ. */
weft_status weft_labels_check(const char *text, const weft_shape *shapes, int inputs, int outputs)
{
    WEFT_NEED_AS("signature, shapes", text, shapes);
    if (inputs < 0 || outputs < 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d inputs and %d outputs, must be from 0", inputs,
                         outputs);
    weft_signature s;
    WEFT_TRY(weft_labels_parse(text, &s));
    /* An empty left side means one scalar, or no operand if the operator has no inputs. */
    if (inputs == 0 && s.inputs == 1 && s.operand[0].rank == 0) {
        memmove(&s.operand[0], &s.operand[1], (size_t)s.outputs * sizeof(s.operand[0]));
        s.inputs = 0;
    }
    if (s.inputs != inputs || s.outputs != outputs)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "label signature \"%s\" has %d inputs and %d outputs, the operator %d and "
                         "%d",
                         text, s.inputs, s.outputs, inputs, outputs);
    int total = inputs + outputs;
    for (int a = 0; a < total; a++) {
        if (s.operand[a].rank != shapes[a].rank)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "label signature \"%s\": operand %d has %d labels for %d dimensions",
                             text, a, s.operand[a].rank, shapes[a].rank);
        for (int i = 0; i < s.operand[a].rank; i++)
            for (int b = 0; b < a; b++)
                for (int j = 0; j < s.operand[b].rank; j++) {
                    const weft_label *x = &s.operand[a].label[i], *y = &s.operand[b].label[j];
                    if (strcmp(x->name, y->name) != 0 || x->windowed || y->windowed || x->scaled)
                        continue;
                    if (shapes[a].dim[i] != shapes[b].dim[j])
                        return weft_fail(WEFT_ERR_ARGUMENT,
                                         "label signature \"%s\": %s is %lld in operand %d and "
                                         "%lld in operand %d",
                                         text, x->name, (long long)shapes[b].dim[j], b,
                                         (long long)shapes[a].dim[i], a);
                }
    }
    return WEFT_OK;
}

weft_status weft_graph_node_labels(const weft_graph *graph, int index, char **out)
{
    WEFT_NEED(graph, out);
    WEFT_CHECK_INDEX(index, graph->node_count);
    const weft_node *node = graph->nodes[index];
    weft_text text = {0};
    node->op->labels(graph, node, &text);
    return weft_text_take(&text, out);
}
