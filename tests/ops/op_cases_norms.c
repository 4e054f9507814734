/* Graphs of the normalization operators: batch norm with the batch's statistics and with given
 * (running) ones, and layer norm. */
#include "op_build.h"

/* Adds a batch norm with the statistics of the batch. what[0..3] receives the batch's mean and
 * variance, and the new running mean and variance. */
static weft_value by_batch(fixture *f, weft_value x, weft_value gamma, weft_value beta,
                           weft_value weights, weft_value what[4])
{
    weft_type type = weft_graph_value_type(f->graph, x);
    int64_t c = type.shape.dim[1], positions = weft_shape_elements(&type.shape) / c;
    weft_attr attr = WEFT_ATTR_INT("positions", positions / type.shape.dim[0]);
    weft_value old_mean = fixture_input(f, 1, &c, false, 1, 0),
               old_variance = fixture_input(f, 1, &c, false, 0.3, 0.6);
    weft_value counts = node(f, "batch_count", IN(weights), NONE);
    what[0] = node(f, "batch_mean", IN(x, weights, counts), NONE);
    what[1] = node(f, "batch_variance", IN(x, weights, counts, what[0]), NONE);
    what[2] =
        node(f, "batch_running", IN(what[0], what[1], counts, old_mean, old_variance), ATTRS(attr));
    what[3] = what[2] + 1;
    return node(f, "batch_norm", IN(x, gamma, beta, weights, counts, what[0], what[1]), NONE);
}

static void batch_norm_on(fixture *f, weft_value x, int64_t batch, int64_t channels)
{
    weft_value gamma = fixture_input(f, 1, &channels, true, 1, 0),
               beta = fixture_input(f, 1, &channels, true, 1, 0);
    weft_value weights = fixture_input(f, 1, &batch, false, 0.3, 0.6), unused[4];
    f->data[f->input_count - 1][batch - 1] = 0; /* the weight of a padding sample */
    out(f, by_batch(f, x, gamma, beta, weights, unused));
}

void batch_norm(fixture *f)
{
    batch_norm_on(f, X(f, 3, 5, 2, 3), 3, 5);
}

void batch_norm_flat(fixture *f)
{
    batch_norm_on(f, X(f, 5, 3), 5, 3);
}

void batch_norm_blocks(fixture *f)
{
    weft_value x = node(f, "conv", IN(X(f, 3, 3, 5, 5), X(f, 32, 3, 3, 3)), NONE);
    batch_norm_on(f, x, 3, 32);
}

void batch_norm_state(fixture *f)
{
    weft_value x = X(f, 3, 5, 2, 3), g = X(f, 5), b = X(f, 5), w = POSITIVE(f, 3);
    weft_value what[4], y = by_batch(f, x, g, b, w, what);
    out(f, y);
    for (int i = 0; i < 4; i++) out(f, what[i]);
}

void batch_norm_infer(fixture *f)
{
    weft_value x = X(f, 2, 5, 2, 3), g = X(f, 5), b = X(f, 5), m = X(f, 5);
    out(f, node(f, "batch_norm_infer", IN(x, g, b, m, POSITIVE(f, 5)), NONE));
}

/* Convolution and batch norm with given statistics, which a device may fold into one kernel. */
void batch_norm_folded(fixture *f)
{
    weft_value x = X(f, 2, 3, 6, 6), w = X(f, 32, 3, 3, 3), b = X(f, 32), g = X(f, 32),
               t = X(f, 32);
    weft_value y = node(f, "bias", IN(node(f, "conv", IN(x, w), NONE), b), NONE);
    y = node(f, "batch_norm_infer", IN(y, g, t, X(f, 32), POSITIVE(f, 32)), NONE);
    out(f, node(f, "relu", IN(y), NONE));
}

void batch_norm_folded_odd(fixture *f)
{
    weft_value x = X(f, 1, 3, 5, 5), w = X(f, 5, 3, 3, 3), v = X(f, 5, 3, 3, 3), g = X(f, 5);
    weft_value t = X(f, 5), m = X(f, 5), a = node(f, "conv", IN(x, v), NONE);
    weft_value y = node(f, "conv", IN(x, w), NONE);
    y = node(f, "batch_norm_infer", IN(y, g, t, m, POSITIVE(f, 5)), NONE);
    out(f, node(f, "add", IN(a, y), NONE));
}

void batch_norm_folded_dense(fixture *f)
{
    weft_value y = node(f, "dense", IN(X(f, 3, 7), X(f, 7, 5)), NONE);
    weft_value g = X(f, 5), t = X(f, 5), m = X(f, 5);
    out(f, node(f, "batch_norm_infer", IN(y, g, t, m, POSITIVE(f, 5)), NONE));
}

void layer_norm(fixture *f)
{
    out(f, node(f, "layer_norm", IN(X(f, 2, 3, 7), X(f, 7), X(f, 7)), NONE));
}
