/* Makes execution plans of cuDNN for convolutions and their gradients.
 *
 * The engine is the first of heuristic A, and then of the fallback list, that repeats its results
 * and computes what a convolution is: engines are left out whose notes say that they are not
 * deterministic, that they transform tiles of the image (FFT, Winograd: a number that is not finite
 * would spread over the tile), that they convert operands to other types or add in less than float
 * or, without TF32, that they use tensor cores for float, whose operands are TF32 (engines of cuDNN
 * 9.19 that do so have no note of a conversion). */
#include "device/cuda/cudnn_plan.h"

#include "device/cuda/cuda.h"

static const int64_t most_workspace = 256 << 20;

typedef struct maker {
    const cudnn_target *target;
    const cudnn_functions *f;
    const cudnn_problem *problem;
    cudnn_plan *plan;
    unsigned type; /* of data */
} maker;

weft_status cudnn_check(const cudnn_functions *f, unsigned status, const char *what,
                        const char *function)
{
    if (status == DNN_OK) return WEFT_OK;
    return weft->fail(WEFT_ERR_INTERNAL, "operator %s: %s failed with %s (%u)", what, function,
                      f->cudnnGetErrorString(status), status);
}

static weft_status new_one(const maker *m, unsigned type, cudnnBackendDescriptor_t *out)
{
    cudnn_plan *p = m->plan;
    if (p->count == CUDNN_DESCRIPTORS)
        return weft->fail(WEFT_ERR_INTERNAL, "operator %s: more than %d descriptors",
                          m->problem->what, CUDNN_DESCRIPTORS);
    *out = NULL;
    WEFT_TRY(cudnn_check(m->f, m->f->cudnnBackendCreateDescriptor(type, out), m->problem->what,
                         "cudnnBackendCreateDescriptor"));
    p->all[p->count++] = *out;
    return WEFT_OK;
}

static weft_status set(const maker *m, cudnnBackendDescriptor_t d, unsigned attribute,
                       unsigned type, int64_t count, const void *values)
{
    return cudnn_check(m->f, m->f->cudnnBackendSetAttribute(d, attribute, type, count, values),
                       m->problem->what, "cudnnBackendSetAttribute");
}

static weft_status finalize(const maker *m, cudnnBackendDescriptor_t d)
{
    return cudnn_check(m->f, m->f->cudnnBackendFinalize(d), m->problem->what,
                       "cudnnBackendFinalize");
}

/* --- the graph --- */

/* Convolutions in space have two dimensions or, if the first one is in use, three. */
static int spatial(const gpu_window *w)
{
    return w->x[0] == 1 && w->y[0] == 1 && w->kernel[0] == 1 ? 2 : 3;
}

static weft_status tensor(const maker *m, int64_t id, int64_t first, int64_t second,
                          const int64_t *space, cudnnBackendDescriptor_t *out)
{
    int dims = 2 + spatial(&m->problem->window);
    const int64_t all[5] = {first, second, space[dims == 5 ? 0 : 1], space[dims == 5 ? 1 : 2],
                            space[2]},
                  alignment = CUDNN_ALIGNMENT;
    int64_t strides[5], each = 1;
    for (int d = dims - 1; d >= 0; d--) {
        strides[d] = each;
        each *= all[d];
    }
    WEFT_TRY(new_one(m, DNN_TENSOR, out));
    WEFT_TRY(set(m, *out, DNN_TENSOR_ID, DNN_IS_INT64, 1, &id));
    WEFT_TRY(set(m, *out, DNN_TENSOR_TYPE, DNN_IS_DATA_TYPE, 1, &m->type));
    WEFT_TRY(set(m, *out, DNN_TENSOR_DIMENSIONS, DNN_IS_INT64, dims, all));
    WEFT_TRY(set(m, *out, DNN_TENSOR_STRIDES, DNN_IS_INT64, dims, strides));
    WEFT_TRY(set(m, *out, DNN_TENSOR_ALIGNMENT, DNN_IS_INT64, 1, &alignment));
    return finalize(m, *out);
}

static weft_status convolution(const maker *m, cudnnBackendDescriptor_t *out)
{
    const gpu_window *w = &m->problem->window;
    int64_t count = spatial(w), first = 3 - count;
    const unsigned mode = DNN_CROSS_CORRELATION;
    WEFT_TRY(new_one(m, DNN_CONVOLUTION, out));
    WEFT_TRY(set(m, *out, DNN_CONVOLUTION_SPACE, DNN_IS_INT64, 1, &count));
    WEFT_TRY(set(m, *out, DNN_CONVOLUTION_TYPE, DNN_IS_DATA_TYPE, 1, &m->type));
    WEFT_TRY(set(m, *out, DNN_CONVOLUTION_MODE, DNN_IS_CONVOLUTION_MODE, 1, &mode));
    WEFT_TRY(set(m, *out, DNN_CONVOLUTION_PRE, DNN_IS_INT64, count, w->padding + first));
    WEFT_TRY(set(m, *out, DNN_CONVOLUTION_POST, DNN_IS_INT64, count, w->padding + first));
    WEFT_TRY(set(m, *out, DNN_CONVOLUTION_DILATIONS, DNN_IS_INT64, count, w->dilation + first));
    WEFT_TRY(set(m, *out, DNN_CONVOLUTION_STRIDES, DNN_IS_INT64, count, w->stride + first));
    return finalize(m, *out);
}

/* The attributes of an operation, by kind. */
static const struct {
    unsigned type, alpha, beta, convolution, x, w, y;
} operations[] = {
    [GPU_FORWARD] = {DNN_FORWARD, DNN_FORWARD_ALPHA, DNN_FORWARD_BETA, DNN_FORWARD_CONVOLUTION,
                     DNN_FORWARD_X, DNN_FORWARD_W, DNN_FORWARD_Y},
    [GPU_DATA] = {DNN_BACKWARD_DATA, DNN_DATA_ALPHA, DNN_DATA_BETA, DNN_DATA_CONVOLUTION,
                  DNN_DATA_DX, DNN_DATA_W, DNN_DATA_DY},
    [GPU_WEIGHT] = {DNN_BACKWARD_WEIGHT, DNN_WEIGHT_ALPHA, DNN_WEIGHT_BETA, DNN_WEIGHT_CONVOLUTION,
                    DNN_WEIGHT_X, DNN_WEIGHT_DW, DNN_WEIGHT_DY},
};

static weft_status scalar(const maker *m, cudnnBackendDescriptor_t d, unsigned attribute,
                          double value)
{
    const float single = (float)value;
    return m->problem->doubles ? set(m, d, attribute, DNN_IS_DOUBLE, 1, &value)
                               : set(m, d, attribute, DNN_IS_FLOAT, 1, &single);
}

static weft_status operation(const maker *m, cudnnBackendDescriptor_t *out)
{
    const gpu_window *w = &m->problem->window;
    cudnnBackendDescriptor_t x, weight, y, conv;
    const __typeof__(operations[0]) *o = &operations[m->problem->kind];
    WEFT_TRY(tensor(m, CUDNN_X, w->batch, w->in, w->x, &x));
    WEFT_TRY(tensor(m, CUDNN_W, w->out, w->in / w->groups, w->kernel, &weight));
    WEFT_TRY(tensor(m, CUDNN_Y, w->batch, w->out, w->y, &y));
    WEFT_TRY(convolution(m, &conv));
    WEFT_TRY(new_one(m, o->type, out));
    WEFT_TRY(set(m, *out, o->convolution, DNN_IS_DESCRIPTOR, 1, (const void *)&conv));
    WEFT_TRY(set(m, *out, o->x, DNN_IS_DESCRIPTOR, 1, (const void *)&x));
    WEFT_TRY(set(m, *out, o->w, DNN_IS_DESCRIPTOR, 1, (const void *)&weight));
    WEFT_TRY(set(m, *out, o->y, DNN_IS_DESCRIPTOR, 1, (const void *)&y));
    WEFT_TRY(scalar(m, *out, o->alpha, 1));
    WEFT_TRY(scalar(m, *out, o->beta, 0));
    return finalize(m, *out);
}

static weft_status graph(const maker *m, cudnnBackendDescriptor_t *out)
{
    cudnnBackendDescriptor_t one;
    WEFT_TRY(operation(m, &one));
    WEFT_TRY(new_one(m, DNN_GRAPH, out));
    WEFT_TRY(set(m, *out, DNN_GRAPH_OPERATIONS, DNN_IS_DESCRIPTOR, 1, (const void *)&one));
    if (m->target->handle)
        WEFT_TRY(
            set(m, *out, DNN_GRAPH_HANDLE, DNN_IS_HANDLE, 1, (const void *)&m->target->handle));
    return finalize(m, *out);
}

/* --- the engine --- */

static bool is_allowed(const cudnn_problem *problem, unsigned note)
{
    switch (note) {
    case DNN_NOTE_NONDETERMINISTIC:
    case DNN_NOTE_FFT:
    case DNN_NOTE_WINOGRAD:
    case DNN_NOTE_REDUCED:
    case DNN_NOTE_DOWN_CONVERT: return false;
    case DNN_NOTE_TENSOR_CORE: return problem->doubles || problem->tf32;
    default: return true;
    }
}

static weft_status may_run(const maker *m, cudnnBackendDescriptor_t config, bool *out)
{
    cudnnBackendDescriptor_t engine;
    unsigned notes[32];
    int64_t count = 0;
    *out = false;
    WEFT_TRY(new_one(m, DNN_ENGINE, &engine));
    if (m->f->cudnnBackendGetAttribute(config, DNN_CONFIG_ENGINE, DNN_IS_DESCRIPTOR, 1, &count,
                                       (void *)&engine) != DNN_OK ||
        m->f->cudnnBackendGetAttribute(engine, DNN_ENGINE_NOTES, DNN_IS_NUMERICAL_NOTE,
                                       WEFT_COUNT(notes), &count, notes) != DNN_OK)
        return WEFT_OK;
    for (int64_t i = 0; i < count; i++)
        if (!is_allowed(m->problem, notes[i])) return WEFT_OK;
    *out = true;
    return WEFT_OK;
}

/* Tries an engine: *out has its plan, or is NULL if there is none. */
static weft_status try_engine(const maker *m, cudnnBackendDescriptor_t config)
{
    const cudnn_target *t = m->target;
    cudnnBackendDescriptor_t plan;
    int64_t workspace = 0, count = 0;
    WEFT_TRY(new_one(m, DNN_PLAN, &plan));
    if (t->handle)
        WEFT_TRY(set(m, plan, DNN_PLAN_HANDLE, DNN_IS_HANDLE, 1, (const void *)&t->handle));
    else
        WEFT_TRY(set(m, plan, DNN_PLAN_DEVICE, DNN_IS_DESCRIPTOR, 1, (const void *)&t->device));
    WEFT_TRY(set(m, plan, DNN_PLAN_CONFIG, DNN_IS_DESCRIPTOR, 1, (const void *)&config));
    if (m->f->cudnnBackendFinalize(plan) != DNN_OK ||
        m->f->cudnnBackendGetAttribute(plan, DNN_PLAN_WORKSPACE, DNN_IS_INT64, 1, &count,
                                       &workspace) != DNN_OK ||
        workspace > most_workspace)
        return WEFT_OK;
    m->plan->plan = plan;
    m->plan->workspace = workspace;
    return WEFT_OK;
}

enum { MOST_ENGINES = 12 };

static weft_status ask(const maker *m, cudnnBackendDescriptor_t operations_graph, unsigned mode)
{
    cudnnBackendDescriptor_t heuristic, config[MOST_ENGINES];
    int64_t count = 0;
    WEFT_TRY(new_one(m, DNN_HEURISTIC, &heuristic));
    WEFT_TRY(set(m, heuristic, DNN_HEURISTIC_GRAPH, DNN_IS_DESCRIPTOR, 1,
                 (const void *)&operations_graph));
    WEFT_TRY(set(m, heuristic, DNN_HEURISTIC_MODE, DNN_IS_HEURISTIC_MODE, 1, &mode));
    if (!m->target->handle)
        WEFT_TRY(set(m, heuristic, DNN_HEURISTIC_DEVICE, DNN_IS_DESCRIPTOR, 1,
                     (const void *)&m->target->device));
    if (m->f->cudnnBackendFinalize(heuristic) != DNN_OK) return WEFT_OK;
    for (int i = 0; i < MOST_ENGINES; i++) WEFT_TRY(new_one(m, DNN_ENGINE_CONFIG, &config[i]));
    if (m->f->cudnnBackendGetAttribute(heuristic, DNN_HEURISTIC_RESULTS, DNN_IS_DESCRIPTOR,
                                       MOST_ENGINES, &count, (void *)config) != DNN_OK)
        return WEFT_OK;
    for (int64_t i = 0; i < WEFT_MIN(count, (int64_t)MOST_ENGINES) && !m->plan->plan; i++) {
        bool fits;
        WEFT_TRY(may_run(m, config[i], &fits));
        if (fits) WEFT_TRY(try_engine(m, config[i]));
    }
    return WEFT_OK;
}

weft_status cudnn_plan_make(const cudnn_target *target, const cudnn_problem *problem,
                            cudnn_plan *out)
{
    const maker m = {.target = target,
                     .f = target->f,
                     .problem = problem,
                     .plan = out,
                     .type = problem->doubles ? DNN_DOUBLE : DNN_FLOAT};
    static const unsigned modes[] = {DNN_MODE_A, DNN_MODE_FALLBACK};
    cudnnBackendDescriptor_t all;
    *out = (cudnn_plan){.count = 0};
    WEFT_TRY(graph(&m, &all));
    for (size_t i = 0; i < WEFT_COUNT(modes) && !out->plan; i++) WEFT_TRY(ask(&m, all, modes[i]));
    if (out->plan) return WEFT_OK;
    return weft->fail(WEFT_ERR_UNSUPPORTED, "cuDNN has no engine for %s", problem->what);
}

void cudnn_plan_close(const cudnn_target *target, cudnn_plan *plan)
{
    while (plan->count > 0)
        (void)target->f->cudnnBackendDestroyDescriptor(plan->all[--plan->count]);
    plan->plan = NULL;
}
