#include "floor.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <dnnl.h>
#if DNNL_VERSION_MAJOR < 3
#include "device/cpu/onednn/version2.h"
#endif

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), ascending);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

enum { MOST_ARGS = 8, MOST_REPEATS = 200, MOST_DESCS = 8 };

typedef struct floor_run {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    double (*clock)(void);
    dnnl_data_type_t type; /* of operands */
    int repeats;
    dnnl_memory_desc_t desc[MOST_DESCS]; /* descriptors of the node that is being timed */
    int descs;
} floor_run;

typedef struct operand {
    int arg;
    dnnl_query_t what;
    int index;
} operand;

/* A descriptor of a shape with this format; NULL if oneDNN refuses it, and then oneDNN refuses the
 * primitive too. */
static const_dnnl_memory_desc_t tagged(floor_run *f, const weft_shape *s, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t dims;
    for (int i = 0; i < s->rank; i++) dims[i] = s->dim[i];
    if (f->descs == MOST_DESCS ||
        dnnl_memory_desc_create_with_tag(&md, s->rank, dims, f->type, tag) != dnnl_success)
        return NULL;
    f->desc[f->descs++] = md;
    return md;
}

static const_dnnl_memory_desc_t any(floor_run *f, const weft_shape *s)
{
    return tagged(f, s, dnnl_format_tag_any);
}

static void *filled(size_t bytes)
{
    float *data = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    for (size_t i = 0; data && i < bytes / 4; i++) data[i] = (float)((i % 13) + 1) * 0.01f;
    return data;
}

/* Returns the median time of a primitive that runs alone, or -1 if oneDNN refuses it; destroys the
 * primitive descriptor `pd`. */
static double time_primitive(const floor_run *f, dnnl_primitive_desc_t pd, const operand *operands,
                             int count)
{
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[MOST_ARGS];
    void *data[MOST_ARGS];
    double times[MOST_REPEATS];
    if (dnnl_primitive_create(&primitive, pd) != dnnl_success) return -1;
    for (int i = 0; i < count; i++) {
        const_dnnl_memory_desc_t md =
            dnnl_primitive_desc_query_md(pd, operands[i].what, operands[i].index);
        data[i] = filled(dnnl_memory_desc_get_size(md));
        /* A maxpool must read a workspace that a maxpool has written; zeros are legal too. */
        if (operands[i].arg == DNNL_ARG_WORKSPACE)
            memset(data[i], 0, dnnl_memory_desc_get_size(md));
        args[i].arg = operands[i].arg;
        dnnl_memory_create(&args[i].memory, md, f->engine, data[i]);
    }
    for (int r = -3; r < f->repeats; r++) {
        double start = f->clock();
        dnnl_primitive_execute(primitive, f->stream, count, args);
        if (r >= 0) times[r] = f->clock() - start;
    }
    for (int i = 0; i < count; i++) {
        dnnl_memory_destroy(args[i].memory);
        free(data[i]);
    }
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(pd);
    return median(times, f->repeats);
}

typedef struct window {
    dnnl_dims_t stride, dilation, padding, kernel;
} window;

static void pair(const weft_graph *g, int node, const char *attr, int64_t otherwise,
                 dnnl_dims_t out)
{
    const int64_t *ints;
    int count = weft_graph_node_ints(g, node, attr, &ints);
    for (int i = 0; i < 2; i++) out[i] = i < count ? ints[i] : otherwise;
}

static window window_of(const weft_graph *g, int node)
{
    window w;
    pair(g, node, "stride", 1, w.stride);
    pair(g, node, "dilation", 1, w.dilation);
    pair(g, node, "padding", 0, w.padding);
    pair(g, node, "kernel", 1, w.kernel);
    for (int i = 0; i < 2; i++) w.dilation[i]--;
    return w;
}

static const operand forward_operands[] = {
    {DNNL_ARG_SRC, dnnl_query_src_md, 0},
    {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
    {DNNL_ARG_BIAS, dnnl_query_weights_md, 1},
    {DNNL_ARG_DST, dnnl_query_dst_md, 0},
};
static const operand dx_operands[] = {
    {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
    {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
    {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0},
};
static const operand dw_operands[] = {
    {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
    {DNNL_ARG_SRC, dnnl_query_src_md, 0},
    {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0},
    {DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md, 1},
};

static double conv(floor_run *f, const window *w, const weft_shape *xs, const weft_shape *ws,
                   const weft_shape *ys, char which)
{
    const weft_shape channels = {1, {ys->dim[1]}};
    const_dnnl_memory_desc_t x = any(f, xs), k = any(f, ws), y = any(f, ys);
    const_dnnl_memory_desc_t b = tagged(f, &channels, dnnl_a);
    const dnnl_alg_kind_t direct = dnnl_convolution_direct;
    dnnl_primitive_desc_t hint, pd;
    if (dnnl_convolution_forward_primitive_desc_create(
            &hint, f->engine, dnnl_forward_training, direct, x, k, b, y, w->stride, w->dilation,
            w->padding, w->padding, NULL) != dnnl_success)
        return -1;
    if (which == 'f') return time_primitive(f, hint, forward_operands, 4);
    dnnl_status_t made = which == 'd' ? dnnl_convolution_backward_data_primitive_desc_create(
                                            &pd, f->engine, direct, x, k, y, w->stride, w->dilation,
                                            w->padding, w->padding, hint, NULL)
                                      : dnnl_convolution_backward_weights_primitive_desc_create(
                                            &pd, f->engine, direct, x, k, b, y, w->stride,
                                            w->dilation, w->padding, w->padding, hint, NULL);
    dnnl_primitive_desc_destroy(hint);
    if (made != dnnl_success) return -1;
    return which == 'd' ? time_primitive(f, pd, dx_operands, 3)
                        : time_primitive(f, pd, dw_operands, 4);
}

/* Returns the time of an inner product with `rows` rows, `k` inputs and `n` outputs: forward ('f'),
 * its input gradient ('d') or its weight gradient ('w'). */
static double dense(floor_run *f, int64_t rows, int64_t k, int64_t n, char which)
{
    const_dnnl_memory_desc_t x = any(f, &(weft_shape){2, {rows, k}});
    const_dnnl_memory_desc_t w = any(f, &(weft_shape){2, {n, k}});
    const_dnnl_memory_desc_t y = any(f, &(weft_shape){2, {rows, n}});
    const_dnnl_memory_desc_t b = any(f, &(weft_shape){1, {n}});
    dnnl_primitive_desc_t hint, pd;
    if (dnnl_inner_product_forward_primitive_desc_create(&hint, f->engine, dnnl_forward_training, x,
                                                         w, b, y, NULL) != dnnl_success)
        return -1;
    if (which == 'f') return time_primitive(f, hint, forward_operands, 4);
    dnnl_status_t made = which == 'd' ? dnnl_inner_product_backward_data_primitive_desc_create(
                                            &pd, f->engine, x, w, y, hint, NULL)
                                      : dnnl_inner_product_backward_weights_primitive_desc_create(
                                            &pd, f->engine, x, w, b, y, hint, NULL);
    dnnl_primitive_desc_destroy(hint);
    if (made != dnnl_success) return -1;
    return which == 'd' ? time_primitive(f, pd, dx_operands, 3)
                        : time_primitive(f, pd, dw_operands, 4);
}

/* Returns the time of `batch` products [m, k] [k, n]. */
static double product(floor_run *f, int64_t batch, int64_t m, int64_t k, int64_t n)
{
    static const operand operands[] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                                       {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                                       {DNNL_ARG_DST, dnnl_query_dst_md, 0}};
    const_dnnl_memory_desc_t a = any(f, &(weft_shape){3, {batch, m, k}});
    const_dnnl_memory_desc_t b = any(f, &(weft_shape){3, {batch, k, n}});
    const_dnnl_memory_desc_t c = any(f, &(weft_shape){3, {batch, m, n}});
    dnnl_primitive_desc_t pd;
    if (dnnl_matmul_primitive_desc_create(&pd, f->engine, a, b, NULL, c, NULL) != dnnl_success)
        return -1;
    return time_primitive(f, pd, operands, 3);
}

/* The products of attention: two forward, and five backward, where the probabilities are computed
 * again. Under a causal mask half of each is needed. q [b, t, h, d], k [b, s, g, d]. */
static double attention(floor_run *f, const weft_graph *g, int node, const weft_shape *q,
                        const weft_shape *k, bool backward)
{
    const int64_t *causal;
    double share = weft_graph_node_ints(g, node, "causal", &causal) > 0 && *causal ? 0.5 : 1;
    int64_t batch = q->dim[0] * q->dim[2], t = q->dim[1], s = k->dim[1], d = q->dim[3];
    double wide = product(f, batch, t, d, s), narrow = product(f, batch, t, s, d);
    double transposed = backward ? product(f, batch, s, t, d) : 0;
    if (wide < 0 || narrow < 0 || transposed < 0) return -1;
    return share * (backward ? 2 * wide + narrow + 2 * transposed : wide + narrow);
}

static double pool(floor_run *f, const window *w, const weft_shape *xs, const weft_shape *ys,
                   char which)
{
    const_dnnl_memory_desc_t x = tagged(f, xs, dnnl_aBcd16b), y = any(f, ys);
    const dnnl_dims_t gaps = {0};
    dnnl_primitive_desc_t hint, pd;
    if (dnnl_pooling_forward_primitive_desc_create(
            &hint, f->engine, dnnl_forward_training, dnnl_pooling_max, x, y, w->stride, w->kernel,
            gaps, w->padding, w->padding, NULL) != dnnl_success)
        return -1;
    if (which == 'f') {
        const operand o[] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                             {DNNL_ARG_DST, dnnl_query_dst_md, 0},
                             {DNNL_ARG_WORKSPACE, dnnl_query_workspace_md, 0}};
        return time_primitive(f, hint, o, 3);
    }
    dnnl_status_t made = dnnl_pooling_backward_primitive_desc_create(
        &pd, f->engine, dnnl_pooling_max, x,
        dnnl_primitive_desc_query_md(hint, dnnl_query_dst_md, 0), w->stride, w->kernel, gaps,
        w->padding, w->padding, hint, NULL);
    dnnl_primitive_desc_destroy(hint);
    if (made != dnnl_success) return -1;
    const operand o[] = {{DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
                         {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0},
                         {DNNL_ARG_WORKSPACE, dnnl_query_workspace_md, 0}};
    return time_primitive(f, pd, o, 3);
}

static double relu_backward(floor_run *f, const weft_shape *s)
{
    const_dnnl_memory_desc_t x = tagged(f, s, s->rank == 4 ? dnnl_aBcd16b : dnnl_ab);
    const dnnl_alg_kind_t relu = dnnl_eltwise_relu_use_dst_for_bwd;
    dnnl_primitive_desc_t hint, pd;
    if (dnnl_eltwise_forward_primitive_desc_create(&hint, f->engine, dnnl_forward_training, relu, x,
                                                   x, 0, 0, NULL) != dnnl_success)
        return -1;
    dnnl_status_t made = dnnl_eltwise_backward_primitive_desc_create(&pd, f->engine, relu, x, x, x,
                                                                     0, 0, hint, NULL);
    dnnl_primitive_desc_destroy(hint);
    if (made != dnnl_success) return -1;
    const operand o[] = {{DNNL_ARG_DST, dnnl_query_dst_md, 0},
                         {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
                         {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0}};
    return time_primitive(f, pd, o, 3);
}

#if defined(__x86_64__) && !defined(__clang__)
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
static void
adam_part(float *restrict w, const float *restrict g, float *restrict m, float *restrict v,
          int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        m[i] = 0.9f * m[i] + 0.1f * g[i];
        v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
        w[i] -= 1e-3f * m[i] / (sqrtf(v[i]) + 1e-8f);
    }
}

static double adam(const floor_run *f, int64_t count)
{
    double times[MOST_REPEATS];
    float *data[4];
    for (int i = 0; i < 4; i++) data[i] = filled((size_t)count * sizeof(float));
    for (int r = -3; r < f->repeats; r++) {
        double start = seconds_now();
#pragma omp parallel
        {
            int64_t part = omp_get_thread_num(), all = omp_get_num_threads();
            int64_t begin = count * part / all, end = count * (part + 1) / all;
            adam_part(data[0] + begin, data[1] + begin, data[2] + begin, data[3] + begin,
                      end - begin);
        }
        if (r >= 0) times[r] = seconds_now() - start;
    }
    for (int i = 0; i < 4; i++) free(data[i]);
    return median(times, f->repeats);
}

/* Returns the floor of one node in seconds; 0 for operators that are no part of the floor; below 0:
 * oneDNN refused. */
static double floor_of_node(floor_run *f, const weft_graph *g, int node)
{
    const char *op = weft_graph_node_op(g, node);
    const weft_value *in;
    weft_value out;
    int inputs = weft_graph_node_inputs(g, node, &in);
    weft_graph_node_outputs(g, node, &out);
    weft_shape shape[4] = {{0}}, a, b, c = weft_graph_value_type(g, out).shape;
    for (int i = 0; i < 4 && i < inputs; i++) shape[i] = weft_graph_value_type(g, in[i]).shape;
    a = shape[0];
    b = shape[1];
    int64_t rows = a.rank ? weft_shape_elements(&a) / a.dim[a.rank - 1] : 0;
    window w = window_of(g, node);
    if (strcmp(op, "conv") == 0) return conv(f, &w, &a, &b, &c, 'f');
    if (strcmp(op, "conv_dx") == 0) return conv(f, &w, &c, &b, &a, 'd');
    if (strcmp(op, "conv_dw") == 0) return conv(f, &w, &a, &c, &b, 'w');
    if (strcmp(op, "dense") == 0) return dense(f, rows, b.dim[0], b.dim[1], 'f');
    if (strcmp(op, "dense_dx") == 0) return dense(f, rows, b.dim[0], b.dim[1], 'd');
    if (strcmp(op, "dense_dw") == 0) return dense(f, rows, c.dim[0], c.dim[1], 'w');
    if (strcmp(op, "attention") == 0) return attention(f, g, node, &a, &b, false);
    if (strcmp(op, "attention_grad") == 0) return attention(f, g, node, &b, &shape[2], true);
    /* a recurrence: a product with the recurrent weight for each position */
    if (strcmp(op, "lstm") == 0 || strcmp(op, "gru") == 0)
        return (double)a.dim[1] * dense(f, a.dim[0], b.dim[0], b.dim[1], 'f');
    if (strcmp(op, "lstm_grad") == 0 || strcmp(op, "gru_grad") == 0)
        return (double)a.dim[1] * dense(f, a.dim[0], shape[3].dim[0], shape[3].dim[1], 'd');
    if (strcmp(op, "maxpool") == 0) return pool(f, &w, &a, &c, 'f');
    if (strcmp(op, "maxpool_grad") == 0) return pool(f, &w, &c, &a, 'b');
    if (strcmp(op, "relu_grad") == 0) return relu_backward(f, &a);
    return 0;
}

static bool begin(floor_run *f, int threads)
{
    omp_set_num_threads(threads);
    return dnnl_engine_create(&f->engine, dnnl_cpu, 0) == dnnl_success &&
           dnnl_stream_create(&f->stream, f->engine, dnnl_stream_default_flags) == dnnl_success;
}

static void forget_descs(floor_run *f)
{
    while (f->descs > 0) dnnl_memory_desc_destroy(f->desc[--f->descs]);
}

static void end(floor_run *f)
{
    dnnl_stream_destroy(f->stream);
    dnnl_engine_destroy(f->engine);
}

double floor_of_product(int64_t size, bool bf16, double (*clock)(void))
{
    floor_run f = {.clock = clock, .type = bf16 ? dnnl_bf16 : dnnl_f32, .repeats = 1};
    if (!begin(&f, 1)) return -1;
    double seconds = product(&f, 1, size, size, size);
    forget_descs(&f);
    end(&f);
    return seconds;
}

double floor_of_graph(const weft_graph *graph, int threads, int repeats, int verbose)
{
    floor_run f = {.clock = seconds_now,
                   .type = dnnl_f32,
                   .repeats = repeats > MOST_REPEATS ? MOST_REPEATS : repeats};
    double total = 0;
    int64_t parameters = 0;
    if (!begin(&f, threads)) return -1;
    for (int n = 0; n < weft_graph_node_count(graph); n++) {
        double t = floor_of_node(&f, graph, n);
        forget_descs(&f);
        if (t < 0) fprintf(stderr, "oneDNN refused %s\n", weft_graph_node_name(graph, n));
        if (t > 0 && verbose)
            printf("    %-14s %-28s %8.3f ms\n", weft_graph_node_op(graph, n),
                   weft_graph_node_name(graph, n), t * 1e3);
        total += t > 0 ? t : 0;
    }
    for (weft_value v = 0; v < weft_graph_value_count(graph); v++) {
        weft_type type = weft_graph_value_type(graph, v);
        if (weft_graph_value_kind(graph, v) == WEFT_VALUE_PARAM)
            parameters += weft_shape_elements(&type.shape);
    }
    double t = adam(&f, parameters);
    if (verbose) printf("    %-14s %-28s %8.3f ms\n", "adam", "all parameters", t * 1e3);
    end(&f);
    return total + t;
}
