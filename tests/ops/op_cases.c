/* The graphs of test_ops.c: every operator on odd sizes, and in combinations that a device may fuse
 * or give a memory layout of its own. */
#include "op_build.h"

static void dense(fixture *f)
{
    out(f, node(f, "dense", IN(X(f, 3, 7), X(f, 7, 5)), NONE));
}
static void dense_one(fixture *f)
{
    out(f, node(f, "dense", IN(X(f, 1, 33), X(f, 33, 17)), NONE));
}
static void dense_rows(fixture *f)
{
    out(f, node(f, "dense", IN(X(f, 2, 3, 6), X(f, 6, 4)), NONE));
}
static void dense_chain(fixture *f)
{
    weft_value x = X(f, 3, 20), w = X(f, 20, 18), b = X(f, 18);
    weft_value y =
        node(f, "bias", IN(node(f, "dense", IN(x, w), NONE), b), ATTRS(WEFT_ATTR_INT("axis", 1)));
    out(f, node(f, "gelu", IN(y), NONE));
}
static void dense_residual(fixture *f)
{
    weft_value x = X(f, 4, 9), w = X(f, 9, 9);
    out(f, node(f, "add", IN(x, node(f, "dense", IN(x, w), NONE)), NONE));
}

#define MATMUL(name, A, B, ta, tb)                                                                 \
    static void name(fixture *f)                                                                   \
    {                                                                                              \
        const int64_t a[] = A, b[] = B;                                                            \
        weft_value x = fixture_input(f, 3, a, true, 1, 0), y = fixture_input(f, 3, b, true, 1, 0); \
        out(f,                                                                                     \
            node(f, "matmul", IN(x, y), ATTRS(WEFT_ATTR_INT("ta", ta), WEFT_ATTR_INT("tb", tb)))); \
    }
MATMUL(matmul_nn, D3(2, 3, 5), D3(2, 5, 4), 0, 0)
MATMUL(matmul_tn, D3(2, 5, 3), D3(2, 5, 4), 1, 0)
MATMUL(matmul_nt, D3(2, 3, 5), D3(2, 4, 5), 0, 1)
MATMUL(matmul_tt, D3(1, 5, 3), D3(1, 4, 5), 1, 1)
static void matmul_deep(fixture *f)
{
    out(f, node(f, "matmul", IN(X(f, 2, 3, 4, 5), X(f, 2, 3, 5, 2)), NONE));
}
/* Sums so long that a device may cut them into slices: of products and of convolutions, and of the
 * gradients of these. */
static void matmul_long(fixture *f)
{
    out(f, node(f, "matmul", IN(X(f, 1, 2, 1030), X(f, 1, 1030, 3)), NONE));
}
static void conv_long(fixture *f)
{
    out(f, node(f, "conv", IN(X(f, 1, 115, 3, 3), X(f, 2, 115, 3, 3)), NONE));
}
static void conv_long_dx(fixture *f)
{
    out(f, node(f, "conv", IN(X(f, 1, 2, 3, 3), X(f, 115, 2, 3, 3)), NONE));
}
static void conv_long_dw(fixture *f)
{
    out(f, node(f, "conv", IN(X(f, 1, 1, 33, 33), X(f, 2, 1, 1, 1)), NONE));
}
static void matmul_square(fixture *f)
{
    weft_value x = X(f, 4, 4);
    out(f, node(f, "matmul", IN(x, x), ATTRS(WEFT_ATTR_INT("tb", 1))));
}

#define UNARY(op)                                                                                  \
    static void op##_case(fixture *f)                                                              \
    {                                                                                              \
        out(f, node(f, #op, IN(X(f, 3, 5, 2)), NONE));                                             \
    }                                                                                              \
    static void op##_blocks(fixture *f)                                                            \
    {                                                                                              \
        weft_value x = node(f, "conv", IN(X(f, 1, 3, 5, 5), X(f, 5, 3, 3, 3)), NONE);              \
        out(f, node(f, #op, IN(x), NONE));                                                         \
    }
UNARY(relu)
UNARY(gelu)
UNARY(silu)
UNARY(sigmoid)
UNARY(tanh)

static void softmax(fixture *f)
{
    out(f, node(f, "softmax", IN(X(f, 3, 4, 5)), NONE));
}
static void add(fixture *f)
{
    out(f, node(f, "add", IN(X(f, 3, 5), X(f, 3, 5)), NONE));
}
static void mul(fixture *f)
{
    out(f, node(f, "mul", IN(X(f, 3, 5), X(f, 3, 5)), NONE));
}
static void square(fixture *f)
{
    weft_value x = X(f, 3, 5);
    out(f, node(f, "mul", IN(x, x), NONE));
}
/* Casts to f64 and back to the type of the graph. The cast to f64 comes first and loses nothing, so
 * finite differences can check the gradient. */
static void cast(fixture *f)
{
    weft_value wide = node(f, "cast", IN(X(f, 3, 5)), ATTRS(WEFT_ATTR_INT("dtype", WEFT_F64)));
    weft_value back =
        node(f, "cast", IN(wide), ATTRS(WEFT_ATTR_INT("dtype", weft_graph_real(f->graph))));
    out(f, node(f, "tanh", IN(back), NONE));
}
static void cast_short(fixture *f)
{
    weft_value half = node(f, "cast", IN(X(f, 7, 3)), ATTRS(WEFT_ATTR_INT("dtype", WEFT_BF16)));
    out(f, node(f, "cast", IN(half), ATTRS(WEFT_ATTR_INT("dtype", weft_graph_real(f->graph)))));
}
static void scale(fixture *f)
{
    out(f, node(f, "scale", IN(X(f, 7)), ATTRS(WEFT_ATTR_REAL("factor", -1.5))));
}
static void scale_by(fixture *f)
{
    out(f, node(f, "scale_by", IN(X(f, 7), SCALAR(f, 0.3)), NONE));
}
static void bias(fixture *f)
{
    out(f, node(f, "bias", IN(X(f, 2, 3, 4), X(f, 4)), ATTRS(WEFT_ATTR_INT("axis", 2))));
}
static void bias_vector(fixture *f)
{
    out(f, node(f, "bias", IN(X(f, 4), X(f, 4)), ATTRS(WEFT_ATTR_INT("axis", 0))));
}
static void dropout(fixture *f)
{
    weft_value step = fixture_ints(f, 0, NULL, 5), first = fixture_ints(f, 0, NULL, 7);
    out(f, node(f, "dropout", IN(X(f, 5, 7), step, first),
                ATTRS(WEFT_ATTR_REAL("rate", 0.4), WEFT_ATTR_INT("seed", 3))));
}
/* Samples of several segments, and a part of a larger tensor, whose rows begin anywhere in a block
 * of random numbers. */
static void dropout_long(fixture *f)
{
    weft_value step = fixture_ints(f, 0, NULL, 5), first = fixture_ints(f, 0, NULL, 7);
    out(f, node(f, "dropout", IN(X(f, 3, 2501), step, first),
                ATTRS(WEFT_ATTR_REAL("rate", 0.25), WEFT_ATTR_INT("stream", 2))));
}
static void dropout_part(fixture *f)
{
    const weft_attr start = {.name = "start", .count = 4, .ints = {1, 2, 0, 5}};
    const weft_attr whole = {.name = "whole", .count = 4, .ints = {9, 7, 3, 23}};
    weft_value step = fixture_ints(f, 0, NULL, 5), first = fixture_ints(f, 0, NULL, 7);
    out(f, node(f, "dropout", IN(X(f, 2, 3, 2, 13), step, first),
                ATTRS(WEFT_ATTR_REAL("rate", 0.5), start, whole)));
}
static void concat(fixture *f)
{
    out(f, node(f, "concat", IN(X(f, 2, 3, 2), X(f, 2, 1, 2), X(f, 2, 4, 2)),
                ATTRS(WEFT_ATTR_INT("axis", 1))));
}
static void concat_blocks(fixture *f)
{
    weft_value x = X(f, 2, 3, 5, 5);
    weft_value a = node(f, "conv", IN(x, X(f, 16, 3, 3, 3)), NONE);
    weft_value b = node(f, "conv", IN(x, X(f, 32, 3, 3, 3)), NONE);
    out(f, node(f, "concat", IN(a, b), ATTRS(WEFT_ATTR_INT("axis", 1))));
}
static void concat_odd(fixture *f)
{
    weft_value x = X(f, 2, 3, 5, 5);
    weft_value a = node(f, "conv", IN(x, X(f, 8, 3, 3, 3)), NONE);
    weft_value b = node(f, "conv", IN(x, X(f, 24, 3, 3, 3)), NONE);
    out(f, node(f, "concat", IN(a, b), ATTRS(WEFT_ATTR_INT("axis", 1))));
}
static void split(fixture *f)
{
    weft_attr sizes = {.name = "sizes", .count = 3, .ints = {2, 1, 3}};
    weft_value y = node(f, "split", IN(X(f, 2, 6, 3)), ATTRS(WEFT_ATTR_INT("axis", 1), sizes));
    out(f, y);
    out(f, y == WEFT_NO_VALUE ? y : y + 2); /* the middle of the three outputs is not read */
}
static void slice(fixture *f)
{
    out(f,
        node(f, "slice", IN(X(f, 2, 6, 3)),
             ATTRS(WEFT_ATTR_INT("axis", 1), WEFT_ATTR_INT("start", 1), WEFT_ATTR_INT("stop", 4))));
}
static void pad(fixture *f)
{
    out(f, node(f, "pad", IN(X(f, 2, 3)),
                ATTRS(WEFT_ATTR_INT("axis", 1), WEFT_ATTR_INT("before", 2),
                      WEFT_ATTR_INT("after", 1))));
}
static void reshape(fixture *f)
{
    weft_value x = node(f, "scale", IN(X(f, 2, 6)), ATTRS(WEFT_ATTR_REAL("factor", 2)));
    out(f, node(f, "reshape", IN(x), ATTRS({.name = "shape", .count = 3, .ints = {2, 2, 3}})));
}
/* Views a value in a blocked layout as a flat vector in memory order, and turns it back. */
static void flat(fixture *f)
{
    weft_value y = node(f, "conv", IN(X(f, 2, 16, 6, 5), X(f, 16, 16, 3, 3)),
                        ATTRS(WEFT_ATTR_PAIR("padding", 1, 1)));
    weft_value v = node(f, "flat", IN(y), ATTRS(WEFT_ATTR_INT("like", y)));
    v = node(f, "scale", IN(v), ATTRS(WEFT_ATTR_REAL("factor", 2)));
    out(f, node(f, "unflat", IN(v),
                ATTRS(WEFT_ATTR_INT("like", y),
                      {.name = "shape", .count = 4, .ints = {2, 16, 6, 5}})));
}
static void transpose(fixture *f)
{
    out(f, node(f, "transpose", IN(X(f, 2, 3, 4)),
                ATTRS({.name = "perm", .count = 3, .ints = {2, 0, 1}})));
}
static void transpose_matrices(fixture *f)
{
    out(f, node(f, "transpose", IN(X(f, 2, 19, 17)),
                ATTRS({.name = "perm", .count = 3, .ints = {0, 2, 1}})));
}
static void reduce_long(fixture *f)
{
    out(f, node(f, "reduce_sum", IN(X(f, 2, 4099)), ATTRS(WEFT_ATTR_INT("axes", 1))));
}
#define REDUCE(name, op, keep, ...)                                                                \
    static void name(fixture *f)                                                                   \
    {                                                                                              \
        out(f, node(f, op, IN(X(f, 2, 3, 4)), ATTRS(__VA_ARGS__, WEFT_ATTR_INT("keep", keep))));   \
    }
REDUCE(reduce_sum, "reduce_sum", 0, WEFT_ATTR_PAIR("axes", 0, 2))
REDUCE(reduce_keep, "reduce_sum", 1, WEFT_ATTR_INT("axes", 1))
REDUCE(reduce_mean, "reduce_mean", 0, WEFT_ATTR_PAIR("axes", 1, 2))
static void broadcast(fixture *f)
{
    out(f, node(f, "broadcast", IN(X(f, 3)),
                ATTRS(WEFT_ATTR_PAIR("axes", 0, 2),
                      {.name = "shape", .count = 3, .ints = {2, 3, 4}})));
}
static void embedding(fixture *f)
{
    out(f, node(f, "embedding", IN(fixture_ints(f, DIMS(2, 5), 7), X(f, 7, 3)), NONE));
}
static void softmax_xent(fixture *f)
{
    weft_value x = X(f, 5, 4), labels = fixture_ints(f, DIMS(5), 4), weights = POSITIVE(f, 5);
    f->data[f->input_count - 1][2] = 0;
    out(f, node(f, "softmax_xent", IN(x, labels, weights), NONE));
}

/* The graph also reads the probabilities, or these alone. */
static void softmax_xent_read(fixture *f)
{
    softmax_xent(f);
    out(f, node(f, "tanh", IN(f->outputs[0] + 1), NONE));
}
static void softmax_xent_alone(fixture *f)
{
    softmax_xent(f);
    f->outputs[0]++;
}
static void mse(fixture *f)
{
    out(f, node(f, "mse", IN(X(f, 3, 4), X(f, 3, 4), POSITIVE(f, 3)), NONE));
}

/* The graph also reads the loss operator's second output, the prediction. One sample has weight
 * 0. */
static void mse_read(fixture *f)
{
    weft_value x = X(f, 5, 2, 3), target = X(f, 5, 2, 3), weights = POSITIVE(f, 5);
    f->data[f->input_count - 1][3] = 0;
    weft_value loss = node(f, "mse", IN(x, target, weights), NONE);
    out(f, loss);
    out(f, node(f, "tanh", IN(loss + 1), NONE));
}

static void sgd(fixture *f)
{
    out(f,
        node(f, "sgd", IN(X(f, 9), X(f, 9), SCALAR(f, 0.1)), ATTRS(WEFT_ATTR_REAL("decay", 0.01))));
}
static void adam(fixture *f)
{
    weft_value w = X(f, 9), g = X(f, 9), m = X(f, 9), v = POSITIVE(f, 9);
    out(f, node(f, "adam", IN(w, g, m, v, SCALAR(f, 0.1), fixture_ints(f, 0, NULL, 5)), NONE));
}
static void stochastic_round(fixture *f)
{
    weft_value wide = node(f, "cast", IN(X(f, 3, 77)), ATTRS(WEFT_ATTR_INT("dtype", WEFT_F32)));
    weft_value y = node(f, "stochastic_round", IN(wide, fixture_ints(f, 0, NULL, 5)),
                        ATTRS(WEFT_ATTR_INT("seed", 3), WEFT_ATTR_INT("stream", 2)));
    out(f, node(f, "cast", IN(y), ATTRS(WEFT_ATTR_INT("dtype", weft_graph_real(f->graph)))));
}
static void schedule(fixture *f)
{
    out(f, node(f, "schedule", IN(fixture_ints(f, 0, NULL, 5)),
                ATTRS(WEFT_ATTR_REAL("base", 0.5), WEFT_ATTR_INT("warmup", 9))));
}
static void schedule_measured(fixture *f)
{
    weft_value wide = node(f, "cast", IN(POSITIVE(f, 7)), ATTRS(WEFT_ATTR_INT("dtype", WEFT_F64)));
    weft_optimizer_options o;
    weft_optimizer_options_init(&o);
    assert_ok(weft_optimizer_set_schedule(f->context, "plateau", &o));
    weft_value rate = node(f, "schedule", IN(fixture_ints(f, 0, NULL, 5), wide),
                           ATTRS(WEFT_ATTR_INT("kind", o.schedule), WEFT_ATTR_REAL("base", 0.5)));
    out(f, node(f, "cast", IN(rate), ATTRS(WEFT_ATTR_INT("dtype", weft_graph_real(f->graph)))));
}
static void counter(fixture *f)
{
    weft_value next = node(f, "counter", IN(fixture_ints(f, 0, NULL, 5)), NONE);
    out(f, node(f, "schedule", IN(next),
                ATTRS(WEFT_ATTR_REAL("base", 0.5), WEFT_ATTR_INT("warmup", 9))));
}
static void accumulate(fixture *f)
{
    out(f, node(f, "accumulate", IN(X(f, 9), X(f, 9), SCALAR(f, 1)), NONE));
}
static void accumulate_anew(fixture *f)
{
    out(f, node(f, "accumulate", IN(X(f, 9), X(f, 9), SCALAR(f, 0)), NONE));
}
/* Adds leaf 3 of a tree sum over 6 leaves, on a stack that begins with leaf 2; so leaf 3 is merged
 * with its sibling, leaf 2. */
static void accumulate_tree(fixture *f)
{
    weft_value first = node(f, "accumulate_tree", IN(X(f, 9), X(f, 9), X(f, 9), SCALAR(f, 1)),
                            ATTRS(WEFT_ATTR_INT("leaves", 6), WEFT_ATTR_INT("first", 2)));
    out(f, first);
    out(f, first + 1);
}
/* Every activation behind a product and its bias, with which it is fused where it can be. */
static void activations(fixture *f)
{
    static const char *const names[] = {"relu", "gelu", "silu", "sigmoid", "tanh"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        weft_value y = node(f, "dense", IN(X(f, 3, 7), X(f, 7, 5)), NONE);
        out(f, node(f, names[i],
                    IN(node(f, "bias", IN(y, X(f, 5)), ATTRS(WEFT_ATTR_INT("axis", 1)))), NONE));
    }
}

static void clip(fixture *f)
{
    weft_value total = node(
        f, "add_exact",
        IN(node(f, "sum_squares", IN(X(f, 9, 5)), NONE), node(f, "sum_squares", IN(X(f, 3)), NONE)),
        NONE);
    out(f, node(f, "clip_factor", IN(total), ATTRS(WEFT_ATTR_REAL("max_norm", 0.5))));
    out(f, node(f, "exact_sqrt", IN(total), NONE));
    out(f, node(f, "exact_sqrt", IN(node(f, "addend_squares", IN(X(f, 7, 3)), NONE)), NONE));
}
static void constant(fixture *f)
{
    weft_value c =
        node(f, "constant", NONE,
             ATTRS(WEFT_ATTR_REAL("value", 1.5), {.name = "shape", .count = 2, .ints = {2, 3}}));
    out(f, node(f, "mul", IN(c, X(f, 2, 3)), NONE));
}

#define CASE(fn)                                                                                   \
    {                                                                                              \
#fn, fn, false, 0                                                                          \
    }
#define FORWARD(fn)                                                                                \
    {                                                                                              \
#fn, fn, true, 0                                                                           \
    }
#define ENTRY(fn) CASE(fn),
const op_case op_cases[] = {
    WINDOW_CASES(ENTRY) SEQUENCE_CASES(ENTRY) RECURRENCE_CASES(ENTRY) ELEMENT_CASES(ENTRY)
        CASE(dense),
    CASE(dense_one),
    CASE(dense_rows),
    CASE(dense_chain),
    CASE(dense_residual),
    CASE(matmul_nn),
    CASE(matmul_tn),
    CASE(matmul_nt),
    CASE(matmul_tt),
    CASE(matmul_deep),
    CASE(matmul_long),
    CASE(conv_long),
    CASE(conv_long_dx),
    CASE(conv_long_dw),
    CASE(matmul_square),
    CASE(batch_norm),
    CASE(batch_norm_flat),
    {"batch_norm_blocks", batch_norm_blocks, false, 2e-4},
    FORWARD(batch_norm_state),
    FORWARD(batch_norm_infer),
    FORWARD(batch_norm_folded),
    FORWARD(batch_norm_folded_odd),
    FORWARD(batch_norm_folded_dense),
    CASE(layer_norm),
    CASE(relu_case),
    CASE(activations),
    CASE(relu_blocks),
    CASE(gelu_case),
    CASE(gelu_blocks),
    CASE(silu_case),
    CASE(silu_blocks),
    CASE(sigmoid_case),
    CASE(sigmoid_blocks),
    CASE(tanh_case),
    CASE(tanh_blocks),
    CASE(softmax),
    ATTENTION_CASES(ENTRY) FORWARD(attention_large),
    FORWARD(attention_large_causal),
    CASE(add),
    CASE(mul),
    CASE(square),
    CASE(cast),
    {.name = "cast_short", .build = cast_short, .no_gradient = true},
    CASE(scale),
    FORWARD(scale_by),
    CASE(bias),
    CASE(bias_vector),
    CASE(dropout),
    CASE(dropout_long),
    CASE(dropout_part),
    CASE(concat),
    CASE(concat_blocks),
    CASE(concat_odd),
    CASE(split),
    CASE(slice),
    CASE(pad),
    CASE(reshape),
    FORWARD(flat),
    CASE(transpose),
    CASE(transpose_matrices),
    CASE(reduce_long),
    CASE(reduce_sum),
    CASE(reduce_keep),
    CASE(reduce_mean),
    CASE(broadcast),
    CASE(embedding),
    CASE(softmax_xent),
    CASE(softmax_xent_read),
    CASE(softmax_xent_alone),
    CASE(mse),
    CASE(mse_read),
    FORWARD(sgd),
    FORWARD(adam),
    FORWARD(stochastic_round),
    FORWARD(schedule),
    FORWARD(schedule_measured),
    FORWARD(counter),
    FORWARD(accumulate),
    FORWARD(accumulate_anew),
    FORWARD(accumulate_tree),
    FORWARD(clip),
    FORWARD(write_rows),
    CASE(constant),
};
const int op_case_count = sizeof(op_cases) / sizeof(op_cases[0]);
