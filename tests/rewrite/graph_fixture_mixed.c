/* Models that no layer type makes. The mixed ones mix the samples of a batch, so the rewrite
 * gathers the batch in the middle of the model and splits it before and after; along the tensor
 * axis their weights are split by different dimensions. The others have a weight that two stages
 * read. */
#include "graph_fixture.h"

static weft_value node(weft_graph *g, const char *op, const char *name, const weft_value *in,
                       int count, const weft_attr *attrs, int attr_count)
{
    return weft_graph_node(g, op, name, in, count, attrs, attr_count);
}

static weft_value weight(weft_graph *g, const char *name, const char *what, weft_shape shape)
{
    char full[64];
    (void)snprintf(full, sizeof(full), "%s/%s", name, what);
    return weft_graph_leaf(g, WEFT_VALUE_PARAM, full, weft_graph_real(g), &shape,
                           (weft_init){WEFT_INIT_UNIFORM, 0.4});
}

static weft_value dense(weft_graph *g, const char *name, weft_value x, int64_t in, int64_t out)
{
    weft_value w = weight(g, name, "weight", weft_shape_of(2, (int64_t[]){in, out}));
    return node(g, "dense", name, (weft_value[]){x, w}, 2, NULL, 0);
}

static weft_value shifted(weft_graph *g, const char *name, weft_value x, int64_t n)
{
    weft_attr axis = WEFT_ATTR_INT("axis", 1);
    weft_value b = weight(g, name, "bias", weft_shape_of(1, &n));
    return node(g, "bias", name, (weft_value[]){x, b}, 2, &axis, 1);
}

/* Softmax over the batch dimension, which is transposed to the end and back. */
static weft_value mix(weft_graph *g, weft_value x, int rank)
{
    weft_attr forth = {.name = "perm", .count = rank}, back = forth;
    for (int i = 0; i < rank; i++) {
        forth.ints[i] = (i + 1) % rank;
        back.ints[i] = (i + rank - 1) % rank;
    }
    weft_value y = node(g, "transpose", "forth", &x, 1, &forth, 1);
    y = node(g, "softmax", "mix", &y, 1, NULL, 0);
    return node(g, "transpose", "back", &y, 1, &back, 1);
}

/* Adds the outputs of two dense layers. Tensor parallelism splits one by columns and the other by
 * rows. */
weft_value mixed_rows(weft_graph *g, weft_value x)
{
    enum { UNITS = 6 };
    int64_t in = weft_graph_value_type(g, x).shape.dim[1];
    weft_value a = shifted(g, "a", dense(g, "a", x, in, UNITS), UNITS);
    weft_value b = shifted(g, "b", dense(g, "b", a, UNITS, UNITS), UNITS);
    weft_value y = node(g, "add", "sum2", (weft_value[]){b, a}, 2, NULL, 0);
    return dense(g, "out1", mix(g, y, 2), UNITS, 5);
}

/* A max-pool whose gradient arrives split; its index of maxima cannot be resharded. */
weft_value mixed_pool(weft_graph *g, weft_value x)
{
    const weft_shape s = weft_graph_value_type(g, x).shape;
    int64_t n = s.dim[1] * (s.dim[2] / 2) * (s.dim[3] / 2);
    weft_attr square = WEFT_ATTR_PAIR("kernel", 2, 2);
    weft_attr rows = {.name = "shape", .count = 2, .ints = {s.dim[0], n}};
    weft_value y = mix(g, shifted(g, "shift2", x, s.dim[1]), 4);
    y = node(g, "maxpool", "pool1", &y, 1, &square, 1);
    y = node(g, "reshape", "conversion", &y, 1, &rows, 1);
    return dense(g, "out", y, n, 5);
}

/* Pools to one pixel of three channels, which two ranks of the tensor axis share as one and two,
 * while the value before the pool is whole along that axis. */
weft_value mixed_units(weft_graph *g, weft_value x)
{
    const weft_shape s = weft_graph_value_type(g, x).shape;
    int64_t c = s.dim[1];
    weft_attr window[] = {WEFT_ATTR_PAIR("kernel", 4, 4), WEFT_ATTR_PAIR("stride", 3, 3),
                          WEFT_ATTR_PAIR("padding", 2, 2)};
    weft_attr rows = {.name = "shape", .count = 2, .ints = {s.dim[0], c}};
    weft_value filters = weight(g, "conv1", "weight", weft_shape_of(4, (int64_t[]){c, c, 4, 4}));
    weft_value y = mix(g, shifted(g, "shift2", x, c), 4);
    y = node(g, "avgpool", "pool1", &y, 1, window, 2);
    weft_value z = node(g, "conv", "conv1", (weft_value[]){y, filters}, 2, window + 1, 2);
    y = node(g, "add", "sum", (weft_value[]){y, z}, 2, NULL, 0);
    y = node(g, "reshape", "rows", &y, 1, &rows, 1);
    return dense(g, "out", y, c, 5);
}

/* Four convolutions with one weight, so that both of two stages read it; with so many channels the
 * cpu device chooses a blocked layout for the weight. */
weft_value shared_weight(weft_graph *g, weft_value x)
{
    const weft_shape s = weft_graph_value_type(g, x).shape;
    int64_t c = s.dim[1], n = c * s.dim[2] * s.dim[3];
    weft_attr padding = WEFT_ATTR_PAIR("padding", 1, 1);
    weft_attr rows = {.name = "shape", .count = 2, .ints = {s.dim[0], n}};
    weft_shape square = weft_shape_of(4, (int64_t[]){c, c, 3, 3});
    weft_value w = weft_graph_leaf(g, WEFT_VALUE_PARAM, "conv/weight", weft_graph_real(g), &square,
                                   (weft_init){WEFT_INIT_UNIFORM, 0.1});
    for (int i = 0; i < 4; i++) {
        x = node(g, "conv", "conv", (weft_value[]){x, w}, 2, &padding, 1);
        x = node(g, "relu", "relu", &x, 1, NULL, 0);
    }
    x = node(g, "reshape", "rows", &x, 1, &rows, 1);
    return dense(g, "out", x, n, 5);
}

/* The first stage of two is the first to read the weight "side", for a value that the loss does not
 * depend on; so the gradient is made in the second stage alone. */
weft_value side_reader(weft_graph *g, weft_value x)
{
    enum { FEW = 6, MOST = 90, MANY = 60 };
    weft_value w = weight(g, "side", "weight", weft_shape_of(2, (int64_t[]){FEW, FEW}));
    (void)node(g, "dense", "unused", (weft_value[]){x, w}, 2, NULL, 0);
    x = dense(g, "b", dense(g, "a", x, FEW, MOST), MOST, FEW);
    x = node(g, "dense", "side", (weft_value[]){x, w}, 2, NULL, 0);
    return dense(g, "d", dense(g, "c", x, FEW, MANY), MANY, 5);
}
