/* Every operator with every type that it says it takes besides real ones, on every device, against
 * plain formulas: what moves elements keeps their bits, comparisons are exact, casts follow
 * weft_numbers_cast, and gradients pass by what is not real. */
#include <math.h>

#include "context.h"
#include "graph/graph.h"

enum { MOST = 512, OPERANDS = 3 };

typedef struct operands {
    weft_type type[OPERANDS];
    char data[OPERANDS][MOST * 8];
} operands;

/* The operand and element that element i of output o is a copy of; element -1: it is zero, -2: it
 * is out of range. */
typedef struct source {
    int operand;
    int64_t at;
} source;

typedef struct op_type_case {
    const char *op;
    int count;
    int64_t dim[OPERANDS][4]; /* ended by 0 */
    weft_attr attrs[2];
    int attr_count;
    int typed; /* the first operand of the type under test; those before it: `first` */
    weft_dtype first;
    source (*from)(const operands *x, int o, int64_t i);
} op_type_case;

/* --- formulas --- */

static source of_concat(const operands *x, int o, int64_t i)
{
    int64_t row = i / 30, at = i % 30;
    (void)x;
    (void)o;
    return at < 10 ? (source){0, row * 10 + at} : (source){1, row * 20 + at - 10};
}

static source of_split(const operands *x, int o, int64_t i)
{
    int64_t part = o ? 8 : 2, before = o ? 2 : 0;
    (void)x;
    return (source){0, i / part * 10 + before + i % part};
}

static source of_slice(const operands *x, int o, int64_t i)
{
    (void)x;
    (void)o;
    return (source){0, i / 6 * 14 + 4 + i % 6};
}

static source of_pad(const operands *x, int o, int64_t i)
{
    int64_t at = i % 10 - 1;
    (void)x;
    (void)o;
    return (source){0, at < 0 || at >= 7 ? -1 : i / 10 * 7 + at};
}

static source of_reshape(const operands *x, int o, int64_t i)
{
    (void)x;
    (void)o;
    return (source){0, i};
}

/* [3, 5, 7] -> [7, 3, 5] */
static source of_transpose(const operands *x, int o, int64_t i)
{
    (void)x;
    (void)o;
    return (source){0, (i / 5 % 3 * 5 + i % 5) * 7 + i / 15};
}

/* (indices [4], [3, 5, 2]) -> [3, 4, 2] */
static source of_gather(const operands *x, int o, int64_t i)
{
    int64_t id = (int64_t)weft_number_get(x->type[0].dtype, x->data[0], i / 2 % 4);
    (void)o;
    return (source){1, id < 0 || id >= 5 ? -2 : (i / 8 * 5 + id) * 2 + i % 2};
}

/* (indices [4], [5, 3]) -> [4, 3] */
static source of_embedding(const operands *x, int o, int64_t i)
{
    int64_t id = (int64_t)weft_number_get(x->type[0].dtype, x->data[0], i / 3);
    (void)o;
    return (source){1, id < 0 || id >= 5 ? -2 : id * 3 + i % 3};
}

/* (condition [3, 1], [5], [3, 5]) -> [3, 5] */
static source of_where(const operands *x, int o, int64_t i)
{
    bool holds = weft_number_get(x->type[0].dtype, x->data[0], i / 5) != 0;
    (void)o;
    return holds ? (source){1, i % 5} : (source){2, i};
}

#define INTS(...) .ints = {__VA_ARGS__}
static const op_type_case cases[] = {
    {"concat", 2, {{3, 2, 5}, {3, 4, 5}}, {WEFT_ATTR_INT("axis", 1)}, 1, .from = of_concat},
    {"split",
     1,
     {{3, 5, 2}},
     {WEFT_ATTR_INT("axis", 1), {.name = "sizes", .count = 2, INTS(1, 4)}},
     2,
     .from = of_split},
    {"reshape", 1, {{5, 9}}, {{.name = "shape", .count = 3, INTS(3, 5, 3)}}, 1, .from = of_reshape},
    {"flat", 1, {{5, 9}}, {{0}}, 0, .from = of_reshape},
    {"unflat", 1, {{45}}, {{.name = "shape", .count = 2, INTS(5, 9)}}, 1, .from = of_reshape},
    {"transpose",
     1,
     {{3, 5, 7}},
     {{.name = "perm", .count = 3, INTS(2, 0, 1)}},
     1,
     .from = of_transpose},
    {"gather", 2, {{4}, {3, 5, 2}}, {WEFT_ATTR_INT("axis", 1)}, 1, 1, WEFT_I32, of_gather},
    {"gather", 2, {{4}, {3, 5, 2}}, {WEFT_ATTR_INT("axis", 1)}, 1, 1, WEFT_I64, of_gather},
    {"embedding", 2, {{4}, {5, 3}}, {{0}}, 0, 1, WEFT_I32, of_embedding},
    {"embedding", 2, {{4}, {5, 3}}, {{0}}, 0, 1, WEFT_I64, of_embedding},
    {"where", 3, {{3, 1}, {5}, {3, 5}}, {{0}}, 0, 1, WEFT_BOOL, of_where},
    {"where", 3, {{3, 1}, {5}, {3, 5}}, {{0}}, 0, 1, WEFT_F32, of_where},
    {"greater", 2, {{3, 1}, {1, 41}}, {{0}}, 0, .from = NULL},
    {"less", 2, {{3, 1}, {1, 41}}, {{0}}, 0, .from = NULL},
    {"equal", 2, {{3, 1}, {1, 41}}, {{0}}, 0, .from = NULL},
};

/* Three attributes. */
static const weft_attr slice_attrs[] = {WEFT_ATTR_INT("axis", 1), WEFT_ATTR_INT("start", 2),
                                        WEFT_ATTR_INT("stop", 5)},
                       pad_attrs[] = {WEFT_ATTR_INT("axis", 1), WEFT_ATTR_INT("before", 1),
                                      WEFT_ATTR_INT("after", 2)};
static const op_type_case slice_case = {"slice", 1, {{3, 7, 2}}, {{0}}, 0, .from = of_slice},
                          pad_case = {"pad", 1, {{3, 7}}, {{0}}, 0, .from = of_pad};

/* --- running --- */

/* Numbers that each type holds, and no wider one: beyond 2^53 for i64, 0 and 1 for bool. */
static void fill(operands *x, int k, bool indices)
{
    static const int64_t ids[] = {4, 0, 7, -1};
    weft_dtype dtype = x->type[k].dtype;
    int64_t n = weft_shape_elements(&x->type[k].shape);
    assert_true(n <= MOST);
    for (int64_t i = 0; i < n; i++)
        if (indices)
            weft_number_put(dtype, x->data[k], i, (double)ids[i % 4]);
        else if (dtype == WEFT_I64)
            ((int64_t *)(void *)x->data[k])[i] =
                (INT64_C(1) << 60) * (i % 3 - 1) + (i * 7 + k) % 5 - 2;
        else if (dtype == WEFT_BOOL)
            weft_number_put(dtype, x->data[k], i, (double)((i + k) % 2));
        else if (dtype == WEFT_U8)
            weft_number_put(dtype, x->data[k], i, (double)((i * 67 + k) % 256));
        else
            weft_number_put(dtype, x->data[k], i, (double)((i * 11 + k) % 23 - 9));
}

static int order_of(weft_dtype dtype, const void *a, int64_t i, const void *b, int64_t j)
{
    if (dtype == WEFT_I64)
        return (((const int64_t *)a)[i] > ((const int64_t *)b)[j]) -
               (((const int64_t *)a)[i] < ((const int64_t *)b)[j]);
    double x = weft_number_get(dtype, a, i), y = weft_number_get(dtype, b, j);
    return (x > y) - (x < y);
}

/* Device d, the built-in ones first, then the argument of the program; NULL past the last. */
static const char *more_device;
static const char *device_at(int d)
{
    const char *name = built_in(WEFT_KIND_DEVICE, d);
    return name || (d > 0 && !built_in(WEFT_KIND_DEVICE, d - 1)) ? name : more_device;
}

static void check_output(const op_type_case *c, const operands *x, const char *device, int o,
                         const weft_type *type, const char *got)
{
    size_t size = weft_dtype_size(type->dtype);
    for (int64_t i = 0; i < weft_shape_elements(&type->shape); i++) {
        char want[8] = {0};
        if (c->from) {
            source s = c->from(x, o, i);
            if (s.at >= 0)
                memcpy(want, x->data[s.operand] + (size_t)s.at * size, size);
            else if (s.at == -2 && weft_dtype_is_float(type->dtype))
                weft_number_put(type->dtype, want, 0, NAN);
            if (s.at == -2 && isnan(weft_number_get(type->dtype, want, 0)) &&
                isnan(weft_number_get(type->dtype, got, i)))
                continue;
        } else {
            int order = order_of(x->type[0].dtype, x->data[0], i / 41, x->data[1], i % 41);
            want[0] = c->op[0] == 'g' ? order > 0 : c->op[0] == 'l' ? order < 0 : order == 0;
            assert_int_equal(type->dtype, WEFT_BOOL);
        }
        if (memcmp(want, got + (size_t)i * size, size) != 0)
            fail_msg("%s of %s on %s: element %lld of output %d is %g, must be %g", c->op,
                     weft_dtype_name(x->type[c->typed].dtype), device, (long long)i, o,
                     weft_number_get(type->dtype, got, i), weft_number_get(type->dtype, want, 0));
    }
}

static void run_case(const op_type_case *c, const weft_attr *attrs, int attr_count,
                     weft_dtype dtype, const char *device)
{
    static operands x;
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    weft_value leaf[OPERANDS], first, fetch[2];
    const weft_init none = {WEFT_INIT_CONSTANT, 0};
    assert_ok(weft_graph_create(context, dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32, &g));
    for (int k = 0; k < c->count; k++) {
        char name[8];
        int rank = 0;
        while (rank < 4 && c->dim[k][rank]) rank++;
        x.type[k] = (weft_type){k < c->typed ? c->first : dtype, weft_shape_of(rank, c->dim[k])};
        (void)snprintf(name, sizeof(name), "x%d", k);
        fill(&x, k, k < c->typed && c->first != WEFT_BOOL && c->first != WEFT_F32);
        leaf[k] =
            weft_graph_leaf(g, WEFT_VALUE_INPUT, name, x.type[k].dtype, &x.type[k].shape, none);
    }
    (void)weft_graph_node(g, c->op, c->op, leaf, c->count, attrs, attr_count);
    assert_ok(weft_graph_status(g));
    int outputs = weft_graph_node_outputs(g, 0, &first);
    assert_true(outputs <= 2);
    for (int o = 0; o < outputs; o++) fetch[o] = first + o;
    assert_ok(weft_store_create(context, device, 1, &store));
    assert_ok(weft_instance_build(store, g, fetch, outputs, &p));
    for (int k = 0; k < c->count; k++)
        memcpy(weft_instance_input(p, leaf[k]), x.data[k], weft_type_bytes(&x.type[k]));
    assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
    for (int o = 0; o < outputs; o++) {
        weft_type type = weft_graph_value_type(g, fetch[o]);
        check_output(c, &x, device, o, &type, weft_instance_output(p, fetch[o]));
    }
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
}

static int run_types(const op_type_case *c, const weft_op *op, const weft_attr *attrs, int count)
{
    int runs = 0;
    for (int t = 0; t < WEFT_DTYPE_COUNT; t++) {
        if (!(weft_operator_takes(op, c->typed) >> t & 1)) continue;
        for (int d = 0; device_at(d); d++, runs++)
            run_case(c, attrs, count, (weft_dtype)t, device_at(d));
    }
    return runs;
}

/* Casts, the gradient of embedding and random rounding have tests of their own. */
static bool has_own_test(const char *op)
{
    return strcmp(op, "cast") == 0 || strcmp(op, "embedding_grad") == 0 ||
           strcmp(op, "stochastic_round") == 0;
}

static void test_operators(void **state)
{
    (void)state;
    const weft_entry *e;
    for (int i = 0; (e = weft_context_entry(context, WEFT_KIND_OPERATOR, i)); i++) {
        const weft_op *op = e->ops;
        int runs = 0;
        if (!op->takes[0] || has_own_test(op->name)) continue;
        for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++)
            if (strcmp(cases[c].op, op->name) == 0)
                runs += run_types(&cases[c], op, cases[c].attrs, cases[c].attr_count);
        if (strcmp(op->name, "slice") == 0) runs += run_types(&slice_case, op, slice_attrs, 3);
        if (strcmp(op->name, "pad") == 0) runs += run_types(&pad_case, op, pad_attrs, 3);
        if (runs == 0) fail_msg("operator %s has no case", op->name);
    }
}

/* --- states --- */

/* A state of any type begins with its number, and has the next value that nodes give it. */
static void check_state(weft_dtype dtype, const char *device)
{
    static operands x;
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    char kept[MOST * 8];
    const weft_shape s = weft_shape_of(2, (int64_t[]){3, 5});
    const weft_attr joined = WEFT_ATTR_INT("axis", 0);
    const weft_attr part[] = {WEFT_ATTR_INT("axis", 0), WEFT_ATTR_INT("start", 3),
                              WEFT_ATTR_INT("stop", 6)};
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    weft_value old =
        weft_graph_leaf(g, WEFT_VALUE_STATE, "s", dtype, &s, (weft_init){WEFT_INIT_CONSTANT, 1});
    weft_value in = weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", dtype, &s, (weft_init){0});
    weft_value both = weft_graph_node(g, "concat", "both", (weft_value[]){old, in}, 2, &joined, 1);
    weft_graph_assign(g, old, weft_graph_node(g, "slice", "next", &both, 1, part, 3));
    assert_ok(weft_graph_status(g));
    assert_ok(weft_store_create(context, device, 1, &store));
    assert_ok(weft_instance_build(store, g, &both, 1, &p));
    x.type[0] = (weft_type){dtype, s};
    fill(&x, 0, false);
    memcpy(weft_instance_input(p, in), x.data[0], weft_type_bytes(&x.type[0]));
    for (int run = 0; run < 2; run++) {
        int state = weft_store_find(store, "s");
        assert_ok(weft_store_read(store, state, kept));
        for (int i = 0; i < 15 && run == 0; i++) assert_true(weft_number_get(dtype, kept, i) == 1);
        if (run == 1) assert_memory_equal(kept, x.data[0], weft_type_bytes(&x.type[0]));
        assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
        const char *said_both = weft_instance_output(p, both);
        assert_memory_equal(said_both, kept, weft_type_bytes(&x.type[0]));
    }
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
}

static void test_states(void **state)
{
    (void)state;
    for (int t = 0; t < WEFT_DTYPE_COUNT; t++)
        for (int d = 0; device_at(d); d++) check_state((weft_dtype)t, device_at(d));
}

/* --- refusals --- */

/* A type that an operator does not take is refused with those that it takes; also two types. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        weft_dtype a, b;
        const char *words;
    } wrong[] = {
        {"gather", WEFT_F32, WEFT_F32, "operand 0 is f32, must be of type i32, i64"},
        {"gather", WEFT_BOOL, WEFT_F32, "operand 0 is bool, must be of type i32, i64"},
        {"embedding", WEFT_I64, WEFT_I32, "operand 1 is i32, must be of type f32, f64, bf16"},
        {"greater", WEFT_I64, WEFT_I32, "operand 0 is i64 and operand 1 is i32; cast one of them"},
        {"add", WEFT_I64, WEFT_I64, "i64"},
        {"concat", WEFT_I64, WEFT_I32, "must be i64"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        weft_graph *g;
        weft_value leaf[2];
        const weft_shape s = weft_shape_of(2, (int64_t[]){3, 5});
        const weft_attr axis = WEFT_ATTR_INT("axis", 0);
        bool takes_axis = wrong[i].op[0] == 'g' && wrong[i].op[1] == 'a';
        assert_ok(weft_graph_create(context, WEFT_F32, &g));
        for (int k = 0; k < 2; k++)
            leaf[k] = weft_graph_leaf(g, WEFT_VALUE_INPUT, k ? "b" : "a",
                                      k ? wrong[i].b : wrong[i].a, &s, (weft_init){0});
        (void)weft_graph_node(g, wrong[i].op, "n", leaf, 2, &axis,
                              takes_axis || wrong[i].op[0] == 'c');
        assert_refused(weft_graph_status(g), WEFT_ERR_ARGUMENT, wrong[i].words);
        weft_graph_destroy(&g);
    }
}

/* --- casts --- */

static const double numbers[] = {0,   1,    -1,   0.5,   -0.5, 2.5,           -3.99,
                                 255, 256,  300,  -129,  1e9,  -2147483648.0, 2147483647.0,
                                 3e9, -3e9, 1e18, -9e18, 1e30, -1e30,         NAN};
enum { NUMBERS = sizeof(numbers) / sizeof(*numbers) };

/* The number that a real one becomes as a type of integers. */
static double whole(weft_dtype to, double x)
{
    double low = to == WEFT_I64 ? -0x1p63 : to == WEFT_I32 ? -2147483648.0 : 0;
    double high = to == WEFT_I64 ? 0x1p63 : to == WEFT_I32 ? 2147483647.0 : 255;
    if (to == WEFT_BOOL) return isnan(x) || x != 0;
    return isnan(x) ? 0 : fmin(fmax(trunc(x), low), high);
}

/* The bits of an integer of fewer bits. */
static double narrow(weft_dtype to, int64_t x)
{
    if (to == WEFT_BOOL) return x != 0;
    if (to == WEFT_U8) return (double)(uint8_t)x;
    return to == WEFT_I32 ? (double)(int32_t)(uint32_t)x : (double)x;
}

static int64_t integer_at(weft_dtype dtype, const void *data, int64_t i)
{
    return dtype == WEFT_I64 ? ((const int64_t *)data)[i]
                             : (int64_t)weft_number_get(dtype, data, i);
}

static void check_cast(weft_dtype from, weft_dtype to, const char *device)
{
    weft_graph *g;
    weft_store *store;
    weft_instance *p;
    const weft_shape s = weft_shape_of(1, (int64_t[]){NUMBERS});
    weft_attr dtype = WEFT_ATTR_INT("dtype", to);
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    weft_value x = weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", from, &s, (weft_init){0});
    weft_value y = weft_graph_node(g, "cast", "y", &x, 1, &dtype, 1);
    assert_ok(weft_store_create(context, device, 1, &store));
    assert_ok(weft_instance_build(store, g, &y, 1, &p));
    void *in = weft_instance_input(p, x);
    for (int i = 0; i < NUMBERS; i++) {
        double number = weft_dtype_is_float(from) ? numbers[i] : whole(from, numbers[i]);
        if (from == WEFT_I64 && number >= 0x1p63)
            ((int64_t *)in)[i] = INT64_MAX;
        else
            weft_number_put(from, in, i, number);
    }
    assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
    const void *out = weft_instance_output(p, y);
    for (int i = 0; i < NUMBERS; i++) {
        char want[8];
        double number = weft_number_get(from, in, i), got = weft_number_get(to, out, i);
        if (weft_dtype_is_float(to))
            weft_number_put(to, want, 0, number);
        else if (!weft_dtype_is_float(from))
            number = narrow(to, integer_at(from, in, i));
        else
            number = whole(to, number);
        if (weft_dtype_is_float(to)) number = weft_number_get(to, want, 0);
        if (got != number && !(isnan(got) && isnan(number)))
            fail_msg("%s to %s on %s: %g becomes %.17g, must be %.17g", weft_dtype_name(from),
                     weft_dtype_name(to), device, weft_number_get(from, in, i), got, number);
    }
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
}

static void test_casts(void **state)
{
    (void)state;
    for (int from = 0; from < WEFT_DTYPE_COUNT; from++)
        for (int to = 0; to < WEFT_DTYPE_COUNT; to++)
            for (int d = 0; device_at(d); d++)
                check_cast((weft_dtype)from, (weft_dtype)to, device_at(d));
}

/* --- gradients --- */

/* y = sum of where(x > 0, x, 0) times the table's rows of i64 tokens; what is compared, cast to
 * integers and used as an index has no gradient. */
static void test_gradients(void **state)
{
    (void)state;
    enum { ROWS = 7, WIDE = 3 };
    for (int d = 0; device_at(d); d++) {
        weft_graph *g;
        weft_store *store;
        weft_instance *p;
        const weft_shape vector = weft_shape_of(1, (int64_t[]){ROWS}),
                         table = weft_shape_of(2, (int64_t[]){ROWS, WIDE});
        weft_attr whole = WEFT_ATTR_INT("dtype", WEFT_I64), real = WEFT_ATTR_INT("dtype", WEFT_F32),
                  axes = {.name = "axes", .count = 2, .ints = {0, 1}};
        assert_ok(weft_graph_create(context, WEFT_F32, &g));
        weft_value x = weft_graph_leaf(g, WEFT_VALUE_PARAM, "x", WEFT_F32, &vector, (weft_init){0});
        weft_value t = weft_graph_leaf(g, WEFT_VALUE_PARAM, "t", WEFT_F32, &table, (weft_init){0});
        weft_value zero = weft_graph_node(g, "constant", "zero", NULL, 0, NULL, 0);
        weft_value larger =
            weft_graph_node(g, "greater", "larger", (weft_value[]){x, zero}, 2, NULL, 0);
        weft_value id = weft_graph_node(g, "cast", "id", &x, 1, &whole, 1);
        weft_value rows =
            weft_graph_node(g, "embedding", "rows", (weft_value[]){id, t}, 2, NULL, 0);
        weft_value kept =
            weft_graph_node(g, "where", "kept", (weft_value[]){larger, x, zero}, 3, NULL, 0);
        weft_value back = weft_graph_node(g, "cast", "back", &id, 1, &real, 1);
        weft_value both = weft_graph_node(g, "mul", "both", (weft_value[]){kept, back}, 2, NULL, 0);
        weft_attr column = {.name = "shape", .count = 2, .ints = {ROWS, 1}};
        weft_value tall = weft_graph_node(g, "reshape", "tall", &both, 1, &column, 1);
        weft_value all = weft_graph_node(g, "mul", "all", (weft_value[]){tall, rows}, 2, NULL, 0);
        weft_value loss = weft_graph_node(g, "reduce_sum", "loss", &all, 1, &axes, 1);
        assert_ok(weft_graph_differentiate(g, loss));
        weft_value fetch[] = {weft_graph_gradient(g, x), weft_graph_gradient(g, t)};
        assert_true(fetch[0] != WEFT_NO_VALUE && fetch[1] != WEFT_NO_VALUE);
        assert_ok(weft_store_create(context, device_at(d), 1, &store));
        assert_ok(weft_instance_build(store, g, fetch, 2, &p));
        const float values[ROWS] = {0.5f, 3.25f, -1, 6, 2, 0, 4.75f};
        float weights[ROWS * WIDE];
        for (int i = 0; i < ROWS * WIDE; i++) weights[i] = (float)(i % 5) - 1.5f;
        assert_ok(weft_store_write(store, weft_store_find(store, "x"), values));
        assert_ok(weft_store_write(store, weft_store_find(store, "t"), weights));
        assert_ok(weft_instance_run(p, WEFT_PHASE_MICRO));
        const float *dx = weft_instance_output(p, fetch[0]),
                    *dt = weft_instance_output(p, fetch[1]);
        for (int i = 0; i < ROWS; i++) {
            float id_at = truncf(values[i]), sum = 0;
            for (int j = 0; j < WIDE && id_at >= 0; j++) sum += weights[(int)id_at * WIDE + j];
            float want = values[i] > 0 ? sum * id_at : 0;
            if (id_at >= 0) assert_true(fabsf(dx[i] - want) < 1e-5f);
            float reached = 0;
            for (int k = 0; k < ROWS; k++)
                if ((int)truncf(values[k]) == i && values[k] > 0)
                    reached += values[k] * truncf(values[k]);
            for (int j = 0; j < WIDE; j++) assert_true(fabsf(dt[i * WIDE + j] - reached) < 1e-4f);
        }
        weft_instance_destroy(&p);
        weft_store_destroy(&store);
        weft_graph_destroy(&g);
    }
}

/* An argument names a device that is tested besides the built-in ones. */
int main(int count, char **arguments)
{
    if (count > 1) more_device = arguments[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators), cmocka_unit_test(test_states),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_casts),
        cmocka_unit_test(test_gradients),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
