/* Describes, builds and runs oneDNN primitives, and tells the layouts that they require. */
#include <pthread.h>
#include <signal.h>

#include "device/cpu/onednn/internal.h"

static const struct {
    dnnl_alg_kind_t forward, backward;
    bool by_result;
    float alpha;
} functions[] = {
    [ONEDNN_NO_FUNCTION] = {dnnl_alg_kind_undef, dnnl_alg_kind_undef, false, 0},
    [ONEDNN_GELU] = {dnnl_eltwise_gelu_erf, dnnl_eltwise_gelu_erf, false, 0},
    [ONEDNN_SILU] = {dnnl_eltwise_swish, dnnl_eltwise_swish, false, 1},
    [ONEDNN_SIGMOID] = {dnnl_eltwise_logistic, dnnl_eltwise_logistic_use_dst_for_bwd, true, 0},
    [ONEDNN_TANH] = {dnnl_eltwise_tanh, dnnl_eltwise_tanh_use_dst_for_bwd, true, 0},
};

bool onednn_by_result(onednn_function function)
{
    return functions[function].by_result;
}

static weft_status append(dnnl_post_ops_t ops, const onednn_tail *tail)
{
    if (tail->vector) {
        DNNL_TRY(dnnl_post_ops_append_binary(ops, dnnl_binary_mul, onednn_theirs(tail->vector)));
        DNNL_TRY(dnnl_post_ops_append_binary(ops, dnnl_binary_add, onednn_theirs(tail->vector)));
    }
    if (tail->addend)
        DNNL_TRY(dnnl_post_ops_append_binary(ops, dnnl_binary_add, onednn_theirs(tail->addend)));
    if (tail->function != ONEDNN_NO_FUNCTION)
        DNNL_TRY(dnnl_post_ops_append_eltwise(ops, functions[tail->function].forward,
                                              functions[tail->function].alpha, 0));
    return WEFT_OK;
}

static weft_status tail_attr(const onednn_tail *tail, dnnl_primitive_attr_t *out)
{
    dnnl_post_ops_t ops;
    DNNL_TRY(dnnl_post_ops_create(&ops));
    weft_status status = append(ops, tail);
    if (status == WEFT_OK) status = onednn_attr(ops, out);
    dnnl_post_ops_destroy(ops);
    return status;
}

static weft_status concat(const onednn *o, const onednn_spec *s, dnnl_primitive_desc_t *out)
{
    const_dnnl_memory_desc_t *sources;
    WEFT_TRY(WEFT_NEW(&sources, s->source_count));
    for (int i = 0; i < s->source_count; i++) sources[i] = onednn_theirs(s->sources[i]);
    weft_status status = DNNL_CALL(dnnl_concat_primitive_desc_create(
        out, o->engine, onednn_theirs(s->y), s->source_count, s->axis, sources, o->attr));
    free(sources);
    return status;
}

static weft_status forward(const onednn *o, const onednn_spec *s, cpu_md bias,
                           const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *out)
{
    dnnl_engine_t e = o->engine;
    const_dnnl_memory_desc_t x = onednn_theirs(s->x), w = onednn_theirs(s->w),
                             b = onednn_theirs(bias), y = onednn_theirs(s->y);
    dnnl_prop_kind_t prop =
        s->pass == ONEDNN_INFERENCE ? dnnl_forward_inference : dnnl_forward_training;
    bool by_result = s->pass == ONEDNN_BACKWARD && functions[s->function].by_result;
    switch (s->kind) {
    case ONEDNN_CONV:
        return DNNL_CALL(dnnl_convolution_forward_primitive_desc_create(
            out, e, prop, dnnl_convolution_direct, x, w, b, y, s->stride, s->dilation, s->padding,
            s->padding_end, attr));
    case ONEDNN_INNER:
        return DNNL_CALL(
            dnnl_inner_product_forward_primitive_desc_create(out, e, prop, x, w, b, y, attr));
    case ONEDNN_MAXPOOL:
    case ONEDNN_AVGPOOL:
        return DNNL_CALL(dnnl_pooling_forward_primitive_desc_create(
            out, e, prop,
            s->kind == ONEDNN_MAXPOOL ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding, x, y,
            s->stride, s->kernel, s->dilation, s->padding, s->padding_end, attr));
    case ONEDNN_ELTWISE:
        return DNNL_CALL(dnnl_eltwise_forward_primitive_desc_create(
            out, e, prop,
            by_result ? functions[s->function].backward : functions[s->function].forward, x, y,
            functions[s->function].alpha, 0, attr));
    case ONEDNN_MATMUL:
        return DNNL_CALL(dnnl_matmul_primitive_desc_create(out, e, x, w, b, y, attr));
    case ONEDNN_CONCAT: return concat(o, s, out);
    case ONEDNN_REORDER:
        return DNNL_CALL(dnnl_reorder_primitive_desc_create(out, x, e, y, e, attr));
    }
    return weft_fail(WEFT_ERR_INTERNAL, "no such primitive");
}

/* Describes a gradient; hint: the description of the forward primitive. */
static weft_status backward(const onednn *o, const onednn_spec *s, dnnl_primitive_desc_t hint,
                            dnnl_primitive_desc_t *out)
{
    dnnl_engine_t e = o->engine;
    const_dnnl_memory_desc_t x = onednn_theirs(s->x), w = onednn_theirs(s->w),
                             y = onednn_theirs(s->y);
    const_dnnl_memory_desc_t b = onednn_theirs(s->bias), result;
    bool weights = s->pass == ONEDNN_WEIGHTS;
    switch (s->kind) {
    case ONEDNN_CONV:
        return weights ? DNNL_CALL(dnnl_convolution_backward_weights_primitive_desc_create(
                             out, e, dnnl_convolution_direct, x, w, b, y, s->stride, s->dilation,
                             s->padding, s->padding_end, hint, o->attr))
                       : DNNL_CALL(dnnl_convolution_backward_data_primitive_desc_create(
                             out, e, dnnl_convolution_direct, x, w, y, s->stride, s->dilation,
                             s->padding, s->padding_end, hint, o->attr));
    case ONEDNN_INNER:
        return weights ? DNNL_CALL(dnnl_inner_product_backward_weights_primitive_desc_create(
                             out, e, x, w, b, y, hint, o->attr))
                       : DNNL_CALL(dnnl_inner_product_backward_data_primitive_desc_create(
                             out, e, x, w, y, hint, o->attr));
    case ONEDNN_MAXPOOL:
    case ONEDNN_AVGPOOL:
        result = dnnl_primitive_desc_query_md(hint, dnnl_query_dst_md, 0);
        return DNNL_CALL(dnnl_pooling_backward_primitive_desc_create(
            out, e, s->kind == ONEDNN_MAXPOOL ? dnnl_pooling_max : dnnl_pooling_avg_exclude_padding,
            x, result, s->stride, s->kernel, s->dilation, s->padding, s->padding_end, hint,
            o->attr));
    case ONEDNN_ELTWISE:
        return DNNL_CALL(dnnl_eltwise_backward_primitive_desc_create(
            out, e, functions[s->function].backward, x, y, x, functions[s->function].alpha, 0, hint,
            o->attr));
    default: return weft_fail(WEFT_ERR_INTERNAL, "a primitive without a gradient");
    }
}

/* The forward pass to which a gradient belongs: its weight has the type of x, while the gradient of
 * the weight may be f32 where x is bf16. */
static weft_status describe_hint(onednn *o, const onednn_spec *s, dnnl_primitive_desc_t *out)
{
    onednn_spec hint = *s;
    if (s->w && onednn_md_dtype(s->w) != onednn_md_dtype(s->x))
        WEFT_TRY(onednn_md_any(o, s->w, onednn_md_dtype(s->x), &hint.w));
    return forward(o, &hint, NULL, o->attr, out);
}

static weft_status describe(onednn *o, const onednn_spec *s, dnnl_primitive_desc_t *out)
{
    const onednn_tail *tail = &s->tail;
    dnnl_primitive_attr_t attr;
    if (s->pass == ONEDNN_BACKWARD || s->pass == ONEDNN_WEIGHTS) {
        dnnl_primitive_desc_t hint;
        WEFT_TRY(describe_hint(o, s, &hint));
        weft_status status = backward(o, s, hint, out);
        dnnl_primitive_desc_destroy(hint);
        return status;
    }
    if (!tail->vector && !tail->addend && tail->function == ONEDNN_NO_FUNCTION)
        return forward(o, s, s->bias, o->attr, out);
    WEFT_TRY(tail_attr(tail, &attr));
    weft_status status = forward(o, s, s->bias, attr, out);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

weft_status onednn_describe(onednn *o, const onednn_spec *spec, onednn_primitive **out)
{
    onednn_primitive *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    p->o = o;
    p->vector = spec->tail.vector;
    weft_status status = describe(o, spec, &p->desc);
    if (status == WEFT_OK)
        *out = p;
    else
        free(p);
    return status;
}

/* Makes oneDNN generate the code of its general products, some megabytes, which it does in the
 * first one of more than a few elements. */
static void make_products(void)
{
    enum { SIZE = 16 };
    float a[SIZE * SIZE] = {0}, b[SIZE * SIZE] = {0}, c[SIZE * SIZE] = {0};
    (void)dnnl_sgemm('N', 'N', SIZE, SIZE, SIZE, 1, a, SIZE, b, SIZE, 0, c, SIZE);
}

/* A primitive that computes by general products has their code when it is made, so that a plan,
 * which makes primitives and runs none, has all that a run has. */
weft_status onednn_build(onednn_primitive *p)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    WEFT_TRY(DNNL_CALL(dnnl_primitive_create(&p->built, p->desc)));
    const char *name = onednn_name(p); /* as x64:gemm:jit; brgemm:avx512_core has code of its own */
    if (name && (strncmp(name, "gemm:", strlen("gemm:")) == 0 || strstr(name, ":gemm:")))
        pthread_once(&once, make_products);
    return WEFT_OK;
}

void onednn_drop(onednn_primitive *p)
{
    if (!p) return;
    if (p->built) dnnl_primitive_destroy(p->built);
    dnnl_primitive_desc_destroy(p->desc);
    free(p);
}

const char *onednn_name(const onednn_primitive *p)
{
    const char *name = NULL;
    (void)dnnl_primitive_desc_query(p->desc, dnnl_query_impl_info_str, 0, (void *)&name);
    return name;
}

/* oneDNN's argument for an operand, and the query for its descriptor. */
typedef struct argument {
    int arg;
    dnnl_query_t what;
    int index;
} argument;

static argument argument_of(const onednn_primitive *p, onednn_role role)
{
    static const argument known[] = {
        [ONEDNN_X] = {DNNL_ARG_SRC, dnnl_query_src_md, 0},
        [ONEDNN_W] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
        [ONEDNN_BIAS] = {DNNL_ARG_BIAS, dnnl_query_weights_md, 1},
        [ONEDNN_Y] = {DNNL_ARG_DST, dnnl_query_dst_md, 0},
        [ONEDNN_DX] = {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0},
        [ONEDNN_DW] = {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0},
        [ONEDNN_DBIAS] = {DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md, 1},
        [ONEDNN_DY] = {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0},
        [ONEDNN_INDEX] = {DNNL_ARG_WORKSPACE, dnnl_query_workspace_md, 0},
        [ONEDNN_SCRATCH] = {DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, 0},
        [ONEDNN_SCALE] = {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, 0, 0},
        [ONEDNN_SHIFT] = {DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, 0, 0},
    };
    if (role == ONEDNN_ADDEND) /* has the layout of the result */
        return (argument){DNNL_ARG_ATTR_MULTIPLE_POST_OP(p->vector ? 2 : 0) | DNNL_ARG_SRC_1,
                          dnnl_query_dst_md, 0};
    if (role >= ONEDNN_SOURCE) {
        int i = (int)role - (int)ONEDNN_SOURCE;
        return (argument){DNNL_ARG_MULTIPLE_SRC + i, dnnl_query_src_md, i};
    }
    return known[role];
}

weft_status onednn_wants(const onednn_primitive *p, onednn_role role, cpu_md *out)
{
    argument a = argument_of(p, role);
    dnnl_memory_desc_t copy;
    *out = p->vector;
    if (role == ONEDNN_SCALE || role == ONEDNN_SHIFT) return WEFT_OK;
    *out = NULL;
    const_dnnl_memory_desc_t md = dnnl_primitive_desc_query_md(p->desc, a.what, a.index);
    if (!md || cpu_blocks_of((cpu_md)(const void *)md).ndims == 0) return WEFT_OK;
    DNNL_TRY(dnnl_memory_desc_clone(&copy, md));
    return onednn_keep(p->o, copy, out);
}

/* --- runs --- */

struct onednn_run {
    const onednn_primitive *primitive;
    dnnl_stream_t stream;
    int count;
    dnnl_exec_arg_t *args;
};

weft_status onednn_run_new(const onednn_primitive *p, int count, onednn_run **out)
{
    onednn_run *run;
    WEFT_TRY(WEFT_NEW(&run, 1));
    run->primitive = p;
    weft_status status = WEFT_NEW(&run->args, count);
    if (status == WEFT_OK)
        status =
            DNNL_CALL(dnnl_stream_create(&run->stream, p->o->engine, dnnl_stream_default_flags));
    run->count = status == WEFT_OK ? count : 0;
    if (status == WEFT_OK)
        *out = run;
    else
        onednn_run_free(run);
    return status;
}

weft_status onednn_run_take(onednn_run *run, int i, onednn_role role, cpu_md md)
{
    run->args[i].arg = argument_of(run->primitive, role).arg;
    return DNNL_CALL(dnnl_memory_create(&run->args[i].memory, onednn_theirs(md),
                                        run->primitive->o->engine, DNNL_MEMORY_NONE));
}

weft_status onednn_run_place(onednn_run *run, int i, void *data)
{
    return DNNL_CALL(dnnl_memory_set_data_handle(run->args[i].memory, data));
}

/* Blocks asynchronous signals while a primitive runs. oneDNN's generated kernels use the stack
 * pointer as an address register, and the frame of a signal handler, which is written below the
 * stack pointer, would overwrite data. Threads that the primitive starts inherit the mask. Signals
 * of faults, such as SIGSEGV, stay deliverable. */
static void block_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, before);
}

weft_status onednn_run_go(onednn_run *run)
{
    sigset_t before;
    block_signals(&before);
    dnnl_status_t status =
        dnnl_primitive_execute(run->primitive->built, run->stream, run->count, run->args);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return onednn_status("dnnl_primitive_execute", status);
}

void onednn_run_free(onednn_run *run)
{
    if (!run) return;
    for (int i = 0; i < run->count; i++)
        if (run->args[i].memory) dnnl_memory_destroy(run->args[i].memory);
    if (run->stream) dnnl_stream_destroy(run->stream);
    free(run->args);
    free(run);
}
