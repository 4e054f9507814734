/* Generates one kernel for a group of functions of each element: each work item reads an element of
 * every operand, computes the formulas of the nodes in the order of the graph, and writes the
 * results that are read outside. A product's epilogue is the same text behind its sum. */
#include <stdarg.h>
#include <stdio.h>

#include "device/gpu/elements.h"

/* Formulas of operators that have no element function in src/ops. sqrt(1/2) and 1/sqrt(2 pi) are
 * written out. along: operand b lies along adjacent axes from attribute `axis` on. */
static const struct {
    const char *op;
    weft_element element;
    bool along;
} own[] = {
    {"bias", {.count = 2, .text = "a + b"}, true},
    {"relu", {.count = 1, .text = "a < 0 ? real(0) : a"}, false},
    {"relu_grad", {.count = 2, .text = "a > 0 ? b : a < 0 ? real(0) : a"}, false},
    {"sigmoid", {.count = 1, .text = "real(1) / (real(1) + exp(-a))"}, false},
    {"sigmoid_grad", {.count = 2, .text = "b * a * (real(1) - a)"}, false},
    {"tanh", {.count = 1, .text = "tanh(a)"}, false},
    {"tanh_grad", {.count = 2, .text = "b * (real(1) - a * a)"}, false},
    {"gelu",
     {.count = 1, .text = "real(0.5) * a * (real(1) + erf(a * real(0.70710678118654752440)))"},
     false},
    {"gelu_grad",
     {.count = 2,
      .text = "b * (real(0.5) * (real(1) + erf(a * real(0.70710678118654752440))) + a * "
              "real(0.39894228040143267794) * exp(real(-0.5) * a * a))"},
     false},
    {"silu", {.count = 1, .text = "a / (real(1) + exp(-a))"}, false},
    {"silu_grad",
     {.count = 2,
      .text = "b / (real(1) + exp(-a)) * (real(1) + a * (real(1) - real(1) / (real(1) + "
              "exp(-a))))"},
     false},
    {"accumulate", {.count = 3, .text = "c == 0 ? b : a + b"}, false},
};

/* The row of a node's operator; -1: its formula is in src/ops, or it has none. */
static int row_of(const weft_node *node)
{
    for (size_t i = 0; i < WEFT_COUNT(own); i++)
        if (strcmp(weft->node_op(node), own[i].op) == 0) return (int)i;
    return -1;
}

const weft_element *gpu_element_of(const weft_node *node, double *parameters)
{
    int row = row_of(node);
    parameters[0] = parameters[1] = 0;
    const weft_element *e = weft->node_element(node, parameters);
    if (!e && row >= 0) e = &own[row].element;
    return e && e->text ? e : NULL;
}

/* The distance between the elements of operand i of a node that neighbours of the result read along
 * each dimension; 0: the same element. */
static void strides_of(const weft_node *node, int i, const weft_shape *operand,
                       const weft_shape *full, int64_t *stride)
{
    int lacks = full->rank - operand->rank, row = row_of(node);
    if (i == 1 && row >= 0 && own[row].along)
        lacks = (int)gpu_node_int(node, "axis", 0, full->rank > 1 ? 1 : 0);
    int64_t each = 1;
    for (int d = full->rank - 1; d >= 0; d--) {
        bool has = d >= lacks && d - lacks < operand->rank;
        int64_t size = has ? operand->dim[d - lacks] : 1;
        stride[d] = size == 1 ? 0 : each;
        each *= size;
    }
}

static bool same_strides(const gpu_operand *o, const int64_t *stride, int rank)
{
    for (int d = 0; d < rank; d++)
        if (o->stride[d] != stride[d]) return false;
    return true;
}

/* Adds what a node reads; false: a value is read in two ways. */
static bool add_operand(gpu_elements *e, const weft_group *group, const weft_node *node, int i,
                        weft_value v)
{
    int at = weft->group_in(group, v);
    const weft_shape *shape = &weft->value_type(group->graph, v)->shape;
    int64_t stride[WEFT_MAX_RANK] = {0};
    if (at < 0) return true;
    strides_of(node, i, shape, &e->full, stride);
    gpu_operand *o = &e->operand[at];
    if (o->used) return same_strides(o, stride, e->full.rank);
    o->used = true;
    memcpy(o->stride, stride, sizeof(stride));
    o->scalar = weft->elements(shape) == 1;
    o->direct = weft->elements(shape) == weft->elements(&e->full);
    return true;
}

/* The type in C of a value, if kernels of elements have it: real numbers, and in comparisons and
 * choices also integers and truth values, which are bytes. NULL: they do not. */
static const char *type_of(const weft_graph *g, weft_value v)
{
    switch (weft->value_type(g, v)->dtype) {
    case WEFT_F32:
    case WEFT_F64: return "real_t";
    case WEFT_I32: return "int";
    case WEFT_I64: return "i64";
    case WEFT_U8:
    case WEFT_BOOL: return "u8";
    default: return NULL;
    }
}

static int out_of(const weft_node *node)
{
    weft_value first;
    (void)weft->node_outputs(node, &first);
    return first;
}

bool gpu_elements_read(const weft_group *group, int first, gpu_elements *out)
{
    gpu_elements e = {.count = 0};
    const weft_graph *g = group->graph;
    if (first >= group->count) return false;
    e.full = weft->value_type(g, out_of(group->node[first]))->shape;
    for (int n = first; n < group->count; n++) { /* sorted by their results: the graph's order */
        const weft_node *node = group->node[n];
        double parameters[2];
        int at = e.count++;
        if (!gpu_element_of(node, parameters)) return false;
        const weft_shape *shape = &weft->value_type(g, out_of(node))->shape;
        if (weft->elements(shape) != weft->elements(&e.full) || shape->rank != e.full.rank ||
            memcmp(shape->dim, e.full.dim, sizeof(shape->dim[0]) * (size_t)shape->rank) != 0)
            return false;
        for (; at > 0 && out_of(e.node[at - 1]) > out_of(node); at--) e.node[at] = e.node[at - 1];
        e.node[at] = node;
    }
    for (int n = 0; n < e.count; n++) {
        const weft_value *in;
        int count = weft->node_inputs(e.node[n], &in);
        if (!type_of(g, out_of(e.node[n]))) return false;
        for (int i = 0; i < count; i++)
            if (!type_of(g, in[i]) || !add_operand(&e, group, e.node[n], i, in[i])) return false;
        /* A real condition would make real numbers of integers that it chooses. */
        if (count == 3 && type_of(g, in[0])[0] == 'r' && type_of(g, in[1])[0] != 'r') return false;
    }
    *out = e;
    return true;
}

bool gpu_elements_supports(const weft_group *group)
{
    gpu_elements e;
    return gpu_elements_read(group, 0, &e);
}

void gpu_text_add(gpu_plan *plan, gpu_body *body, const char *format, ...)
{
    if (plan->status != WEFT_OK) return;
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (body->size + (size_t)size + 1 > body->room) {
        char *more;
        size_t room = 2 * (body->size + (size_t)size) + 1024;
        plan->status = weft->allocate(room, &more);
        if (plan->status == WEFT_OK) {
            if (body->text) memcpy(more, body->text, body->size);
            free(body->text);
            body->text = more;
            body->room = room;
        }
    }
    if (plan->status == WEFT_OK) {
        (void)vsnprintf(body->text + body->size, body->room - body->size, format, list);
        body->size += (size_t)size;
    }
    va_end(list);
}

/* Whether operand i of the group needs the coordinates of an element. */
static bool is_spread(const gpu_operand *o)
{
    return o->used && !o->direct && !o->scalar;
}

int gpu_elements_parameters(gpu_plan *plan, const gpu_elements *e, gpu_body *body)
{
    bool spread = false;
    for (int i = 0; i < plan->group->in_count; i++) {
        if (!e->operand[i].used) continue;
        gpu_text_add(plan, body, ", BUFFER(i%d)", i);
        spread = spread || is_spread(&e->operand[i]);
    }
    for (int o = 0; o < plan->group->out_count; o++) gpu_text_add(plan, body, ", BUFFER(o%d)", o);
    for (int d = 0; spread && d < e->full.rank; d++)
        gpu_text_add(plan, body, ", const int full%d", d);
    for (int i = 0; i < plan->group->in_count; i++)
        for (int d = 0; is_spread(&e->operand[i]) && d < e->full.rank; d++)
            gpu_text_add(plan, body, ", const int step%d_%d", i, d);
    for (int n = 0; n < e->count; n++) {
        double parameters[2];
        const weft_element *f = gpu_element_of(e->node[n], parameters);
        if (f->attrs[0]) gpu_text_add(plan, body, ", const real_t p%d", n);
        if (f->attrs[1]) gpu_text_add(plan, body, ", const real_t q%d", n);
    }
    return spread;
}

void gpu_elements_arguments(gpu_plan *plan, const gpu_elements *e)
{
    bool spread = false;
    for (int i = 0; i < plan->group->in_count; i++) {
        if (!e->operand[i].used) continue;
        gpu_group_in(plan, i);
        spread = spread || is_spread(&e->operand[i]);
    }
    for (int o = 0; o < plan->group->out_count; o++) gpu_group_out(plan, o);
    if (spread) gpu_ints(plan, e->full.rank, e->full.dim);
    for (int i = 0; i < plan->group->in_count; i++)
        if (is_spread(&e->operand[i])) gpu_ints(plan, e->full.rank, e->operand[i].stride);
    for (int n = 0; n < e->count; n++) {
        double parameters[2];
        const weft_element *f = gpu_element_of(e->node[n], parameters);
        for (int p = 0; p < 2; p++)
            if (f->attrs[p]) gpu_real(plan, parameters[p]);
    }
}

/* The name of what a node reads: an operand of the group, or the result of a node before it. */
static void add_source(gpu_plan *plan, const gpu_elements *e, gpu_body *body, weft_value v,
                       weft_value main_value)
{
    int at = weft->group_in(plan->group, v);
    if (v == main_value) {
        gpu_text_add(plan, body, "value");
        return;
    }
    for (int n = 0; n < e->count && at < 0; n++)
        if (out_of(e->node[n]) == v) {
            gpu_text_add(plan, body, "t%d", n);
            return;
        }
    gpu_text_add(plan, body, "x%d", at);
}

/* Loads of all operands of element `at`, which come before all stores, so that a result may overlie
 * an operand. */
static void add_loads(gpu_plan *plan, const gpu_elements *e, gpu_body *body, bool spread)
{
    if (spread) {
        gpu_text_add(plan, body, "        int rest = at;\n");
        for (int d = e->full.rank - 1; d >= 0; d--)
            gpu_text_add(plan, body,
                         "        const int along%d = rest %% full%d; rest /= full%d;\n", d, d, d);
    }
    for (int i = 0; i < plan->group->in_count; i++) {
        const gpu_operand *o = &e->operand[i];
        if (!o->used) continue;
        const char *type = type_of(plan->group->graph, plan->group->in[i]);
        gpu_text_add(plan, body, "        const %s x%d = AT(i%d, const %s)[", type, i, i, type);
        if (o->direct)
            gpu_text_add(plan, body, "at");
        else if (o->scalar)
            gpu_text_add(plan, body, "0");
        for (int d = 0; is_spread(o) && d < e->full.rank; d++)
            gpu_text_add(plan, body, "%salong%d * step%d_%d", d ? " + " : "", d, i, d);
        gpu_text_add(plan, body, "];\n");
    }
}

void gpu_elements_statements(gpu_plan *plan, const gpu_elements *e, gpu_body *body, bool spread,
                             weft_value main_value)
{
    static const char names[] = "abc";
    add_loads(plan, e, body, spread);
    for (int n = 0; n < e->count; n++) {
        double parameters[2];
        const weft_element *f = gpu_element_of(e->node[n], parameters);
        const weft_value *in;
        int count = weft->node_inputs(e->node[n], &in);
        const weft_graph *g = plan->group->graph;
        const char *type = type_of(g, out_of(e->node[n]));
        bool truth = weft->value_type(g, out_of(e->node[n]))->dtype == WEFT_BOOL;
        gpu_text_add(plan, body, "        %s t%d; {", type, n);
        for (int i = 0; i < count && i < 3; i++) {
            gpu_text_add(plan, body, " const %s %c = ", type_of(g, in[i]), names[i]);
            add_source(plan, e, body, in[i], main_value);
            gpu_text_add(plan, body, ";");
        }
        if (f->attrs[0]) gpu_text_add(plan, body, " const real_t p = p%d;", n);
        if (f->attrs[1]) gpu_text_add(plan, body, " const real_t q = q%d;", n);
        gpu_text_add(plan, body, truth ? " t%d = (%s)((%s) != 0); }\n" : " t%d = (%s)(%s); }\n", n,
                     type, f->text);
    }
    for (int o = 0; o < plan->group->out_count; o++) {
        gpu_text_add(plan, body, "        AT(o%d, %s)[at] = ", o,
                     type_of(plan->group->graph, plan->group->out[o]));
        add_source(plan, e, body, plan->group->out[o], main_value);
        gpu_text_add(plan, body, ";\n");
    }
}

bool gpu_elements_overlies(const weft_group *group, const gpu_elements *e, int out, int in)
{
    const weft_type *a = weft->value_type(group->graph, group->in[in]);
    const weft_type *b = weft->value_type(group->graph, group->out[out]);
    return in < 32 && e->operand[in].direct && weft->type_bytes(a) == weft->type_bytes(b);
}

static void elements_make(gpu_plan *plan)
{
    gpu_elements e;
    gpu_body body = {0};
    (void)gpu_elements_read(plan->group, 0, &e);
    int64_t size = weft->elements(&e.full);
    gpu_text_add(plan, &body, "KERNEL(elements, 256, 1)(const int count");
    bool spread = gpu_elements_parameters(plan, &e, &body);
    gpu_text_add(plan, &body,
                 ", GUARD)\n{\n    if (STOPPED) return;\n    for (int at = GROUP_X * 256 + ITEM_X; "
                 "at < count; at += GROUPS_X * "
                 "256) {\n");
    gpu_elements_statements(plan, &e, &body, spread, WEFT_NO_VALUE);
    gpu_text_add(plan, &body, "    }\n}\n");
    gpu_launch_add(plan, &gpu_text_elements, "elements", gpu_line(size, 2048), "%s", "");
    if (plan->status != WEFT_OK) {
        free(body.text);
        return;
    }
    plan->now->body = body.text;
    gpu_int(plan, size);
    gpu_elements_arguments(plan, &e);
    gpu_guard(plan);
    weft_kernel *head = &plan->kernel->head;
    for (int o = 0; o < plan->group->out_count; o++) {
        head->in_place[o] = 0;
        for (int i = 0; i < plan->group->in_count; i++)
            if (gpu_elements_overlies(plan->group, &e, o, i)) head->in_place[o] |= 1u << i;
    }
}

const gpu_entry gpu_elements_entries[] = {
    {NULL, "elements", gpu_elements_supports, elements_make, false},
    {NULL, NULL, NULL, NULL, false},
};
