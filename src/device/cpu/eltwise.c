/* Implements elementwise operators. Simple functions with f(0) = 0 are loops over the memory of any
 * layout, including its padding, which stays zero. Functions such as sigmoid, tanh, gelu and silu
 * are oneDNN's, which keeps padding zero. */
#include "base/tree_sum.h"
#include "device/cpu/cpu.h"
#include "device/cpu/simd.h"

enum { GRAIN = 8192 };

typedef struct span {
    const float *a, *b;
    float *out, factor;
} span;

WEFT_CLONES static void add_span(const span *s, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) s->out[i] = s->a[i] + s->b[i];
}

WEFT_CLONES static void relu_span(const span *s, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) s->out[i] = s->a[i] < 0 ? 0 : s->a[i];
}

WEFT_CLONES static void relu_grad_span(const span *s, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        float dy = s->b[i]; /* loaded unconditionally, to avoid a branch */
        s->out[i] = s->a[i] > 0 ? dy : s->a[i] < 0 ? 0 : s->a[i];
    }
}

WEFT_CLONES static void accumulate_span(const span *s, int64_t begin, int64_t end)
{
    /* Factor 0 replaces the sum by the addend, also if the old sum is NaN. */
    if (s->factor == 0)
        for (int64_t i = begin; i < end; i++) s->out[i] = s->b[i];
    else
        for (int64_t i = begin; i < end; i++) s->out[i] = s->a[i] + s->b[i];
}

static void add_part(void *user, int64_t begin, int64_t end)
{
    add_span(user, begin, end);
}

#define SPAN_LOOP(name, set_factor)                                                                \
    static void name##_part(void *user, int64_t begin, int64_t end)                                \
    {                                                                                              \
        name##_span(user, begin, end);                                                             \
    }                                                                                              \
    static void name##_loop(const cpu_loop *k)                                                     \
    {                                                                                              \
        span s = {k->in[0], k->in[1], k->out[0], 0};                                               \
        set_factor;                                                                                \
        weft_parallel(k->threads, k->size, GRAIN, name##_part, &s);                                \
    }
SPAN_LOOP(relu, (void)0)
SPAN_LOOP(relu_grad, (void)0)
SPAN_LOOP(accumulate, s.factor = *(const float *)k->in[2])

typedef struct narrow_span {
    const uint16_t *a, *b;
    uint16_t *out;
} narrow_span;

static void narrow_relu_part(void *user, int64_t begin, int64_t end)
{
    const narrow_span *s = user;
    cpu_narrow_relu(s->a + begin, s->out + begin, end - begin);
}

static void narrow_relu_grad_part(void *user, int64_t begin, int64_t end)
{
    const narrow_span *s = user;
    cpu_narrow_relu_grad(s->a + begin, s->b + begin, s->out + begin, end - begin);
}

static void narrow_relu_loop(const cpu_loop *k)
{
    narrow_span s = {k->in[0], NULL, k->out[0]};
    weft_parallel(k->threads, k->size, GRAIN, narrow_relu_part, &s);
}

static void narrow_relu_grad_loop(const cpu_loop *k)
{
    narrow_span s = {k->in[0], k->in[1], k->out[0]};
    weft_parallel(k->threads, k->size, GRAIN, narrow_relu_grad_part, &s);
}

void cpu_relu(int threads, weft_dtype dtype, void *y, size_t bytes)
{
    span s = {.a = y, .out = y};
    narrow_span narrow = {.a = y, .out = y};
    int64_t size = (int64_t)(bytes / weft_dtype_size(dtype));
    if (dtype == WEFT_BF16)
        weft_parallel(threads, size, GRAIN, narrow_relu_part, &narrow);
    else
        weft_parallel(threads, size, GRAIN, relu_part, &s);
}

/* Adds a micro-batch to the stack of subtree sums, see weft_tree_push. Places that the addition
 * does not change are kept, or copied if the output is in other memory. */
static void accumulate_tree_loop(const cpu_loop *k)
{
    const weft_node *node = k->group.node[0];
    int places = node->out_count, place, merges, first = (int)weft_node_int(node, "first", 0, 0);
    int v = first + (int)*(const float *)k->in[places + 1];
    weft_tree_push((int)weft_node_int(node, "leaves", 0, 1), first, v, &place, &merges, NULL);
    size_t bytes = (size_t)k->size * sizeof(float);
    for (int p = 0; p < places; p++)
        if (k->out[p] != k->in[p]) memcpy(k->out[p], k->in[p], bytes);
    if (merges == 0) memcpy(k->out[place], k->in[places], bytes);
    const float *right = k->in[places];
    for (; merges > 0; merges--) {
        float *left = k->out[--place];
        span s = {left, right, left, 0};
        weft_parallel(k->threads, k->size, GRAIN, add_part, &s);
        right = left;
    }
}

weft_status cpu_flat_make(weft_device *device, const weft_group *group, cpu_loop_fn fn,
                          const weft_layout *const *in, weft_kernel **out)
{
    cpu_loop *k;
    const weft_graph *g = group->graph;
    WEFT_TRY(cpu_loop_make(device, group, fn, &k));
    const weft_type *first = weft_in(g, group->node[0], 0);
    const weft_layout *layout = NULL;
    weft_status status = WEFT_OK;
    /* The layout is that of the first operand that has one, among operands with the shape of
     * operand 0. */
    for (int i = 0; i < group->node[0]->in_count && !layout; i++) {
        const weft_type *type = weft_in(g, group->node[0], i);
        if (type->dtype == first->dtype && weft_shape_equal(&type->shape, &first->shape))
            layout = in[weft_group_in(group, group->node[0]->in[i])];
    }
    if (!layout || layout->opaque) status = weft_layout_plain(device, first, &layout);
    /* Operands with the shape and type of operand 0 get this layout; all others are plain. */
    for (int i = 0; i < group->in_count && status == WEFT_OK; i++) {
        const weft_type *type = weft_value_type(g, group->in[i]);
        k->head.in[i] = layout;
        if (type->dtype != first->dtype || !weft_shape_equal(&type->shape, &first->shape))
            status = weft_layout_plain(device, type, &k->head.in[i]);
    }
    for (int o = 0; o < group->out_count && status == WEFT_OK; o++) {
        const weft_type *type = weft_value_type(g, group->out[o]);
        k->head.out[o] = layout;
        if (type->dtype != first->dtype || !weft_shape_equal(&type->shape, &first->shape))
            status = weft_layout_plain(device, type, &k->head.out[o]);
    }
    if (status != WEFT_OK) {
        k->head.ops->destroy(&k->head);
        return status;
    }
    k->size = (int64_t)(layout->bytes / weft_dtype_size(first->dtype));
    weft_kernel_unread_size(group, &k->head);
    *out = &k->head;
    return WEFT_OK;
}

/* A loop that has a form for bf16. */
static weft_status flat_make(weft_device *device, const weft_group *group, cpu_loop_fn wide,
                             cpu_loop_fn narrow, const weft_layout *const *in, weft_kernel **out)
{
    bool is_narrow = weft_in(group->graph, group->node[0], 0)->dtype == WEFT_BF16;
    return cpu_flat_make(device, group, is_narrow ? narrow : wide, in, out);
}

#define FLAT(name, narrow)                                                                         \
    static weft_status name##_make(weft_device *device, const weft_group *group,                   \
                                   const weft_layout *const *in, weft_kernel **out)                \
    {                                                                                              \
        return flat_make(device, group, name##_loop, narrow, in, out);                             \
    }
FLAT(relu, narrow_relu_loop)
FLAT(relu_grad, narrow_relu_grad_loop)
FLAT(accumulate, NULL)
FLAT(accumulate_tree, NULL)

/* --- oneDNN's functions, where f(0) is not 0 or a special function is needed --- */

static const struct {
    const char *op;
    onednn_function function;
    onednn_pass pass;
} functions[] = {
    {"gelu", ONEDNN_GELU, ONEDNN_FORWARD},       {"gelu_grad", ONEDNN_GELU, ONEDNN_BACKWARD},
    {"silu", ONEDNN_SILU, ONEDNN_FORWARD},       {"silu_grad", ONEDNN_SILU, ONEDNN_BACKWARD},
    {"sigmoid", ONEDNN_SIGMOID, ONEDNN_FORWARD}, {"sigmoid_grad", ONEDNN_SIGMOID, ONEDNN_BACKWARD},
    {"tanh", ONEDNN_TANH, ONEDNN_FORWARD},       {"tanh_grad", ONEDNN_TANH, ONEDNN_BACKWARD},
};

static weft_status function_make(weft_device *device, const weft_group *group,
                                 const weft_layout *const *in, weft_kernel **out)
{
    const weft_node *node = group->node[0];
    const weft_layout *layout = in[weft_group_in(group, node->in[0])];
    bool own = layout && !layout->plain && !layout->opaque;
    size_t f = 0;
    cpu_md plain;
    if (own)
        plain = ((const cpu_layout *)layout)->plain;
    else
        WEFT_TRY(cpu_md_of_type(device, weft_in(group->graph, node, 0), &plain));
    cpu_md md = own ? ((const cpu_layout *)layout)->md : plain;
    while (strcmp(functions[f].op, node->op->name) != 0) f++;
    onednn_function function = functions[f].function;
    onednn_spec s = {
        .kind = ONEDNN_ELTWISE, .function = function, .pass = functions[f].pass, .x = md, .y = md};
    if (s.pass == ONEDNN_FORWARD) {
        cpu_arg args[] = {{ONEDNN_X, CPU_IN, 0, plain, false},
                          {ONEDNN_Y, CPU_OUT, 0, plain, false}};
        WEFT_TRY(cpu_spec_make(device, &s, args, 2, out));
    } else {
        cpu_arg args[] = {{onednn_by_result(function) ? ONEDNN_Y : ONEDNN_X, CPU_IN,
                           weft_group_in(group, node->in[0]), plain, false},
                          {ONEDNN_DY, CPU_IN, weft_group_in(group, node->in[1]), plain, false},
                          {ONEDNN_DX, CPU_OUT, 0, plain, false}};
        WEFT_TRY(cpu_spec_make(device, &s, args, 3, out));
    }
    weft_kernel_in_place(group, *out);
    return WEFT_OK;
}

static bool function_supports(const weft_group *group)
{
    const weft_node *node = group->node[0];
    return cpu_one_type(group) && weft_in(group->graph, node, 0)->shape.rank > 0 &&
           (node->in_count == 1 || node->in[0] != node->in[1]);
}

const cpu_entry cpu_eltwise_entries[] = {
    {"relu", "loop", cpu_one_type, relu_make, NULL, CPU_ANY},
    {"relu_grad", "loop", cpu_one_type, relu_grad_make, NULL, CPU_ANY},
    {"accumulate", "loop", cpu_single, accumulate_make, NULL, CPU_WIDE},
    {"accumulate_tree", "loop", cpu_single, accumulate_tree_make, NULL, CPU_WIDE},
    {"gelu", "onednn", function_supports, function_make, NULL, CPU_HARDWARE},
    {"gelu_grad", "onednn", function_supports, function_make, NULL, CPU_HARDWARE},
    {"silu", "onednn", function_supports, function_make, NULL, CPU_HARDWARE},
    {"silu_grad", "onednn", function_supports, function_make, NULL, CPU_HARDWARE},
    {"sigmoid", "onednn", function_supports, function_make, NULL, CPU_HARDWARE},
    {"sigmoid_grad", "onednn", function_supports, function_make, NULL, CPU_HARDWARE},
    {"tanh", "onednn", function_supports, function_make, NULL, CPU_HARDWARE},
    {"tanh_grad", "onednn", function_supports, function_make, NULL, CPU_HARDWARE},
    {.op = NULL},
};
