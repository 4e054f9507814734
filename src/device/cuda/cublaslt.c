/* Routines of cuBLASLt for products, with a bias in the epilogue.
 *
 * cuBLASLt's matrices are column-major, in which a row-major matrix is its transpose, so the
 * product c = a b is asked for as c^T = b^T a^T: the first matrix is Weft's b.
 *
 * The algorithm is the first one of the heuristic, for the types, sizes, strides and an alignment
 * of 16 bytes alone; sums in slices are added out of place, in order, never in the order in which
 * they end. Its workspace is scratch memory of the kernel. So a run repeats its bits with one
 * version of the library on one kind of cards.
 *
 * The bias is the only epilogue that is exactly Weft's function: cuBLASLt's gelu is the
 * approximation by tanh, and what its relu makes of NaN is not documented. */
#include <dlfcn.h>
#include <stdio.h>

#include "device/cuda/cublaslt_api.h"
#include "device/cuda/cuda.h"
#include "device/gpu/product.h"

enum { ALIGNMENT = 16, WORKSPACE_ALIGNMENT = 256 };
static const uint64_t most_workspace = 32 << 20;

typedef struct library {
    const cuda_card *card;
    cublaslt_functions f;
    cublasLtHandle_t handle;
    void *found; /* of dlopen */
    char *text;  /* gets why a library that is found does not fit */
    size_t size;
} library;

/* A matrix as cuBLASLt sees it: column-major, with its leading dimension. */
typedef struct matrix {
    int64_t rows, columns, leading, batch_stride;
    bool transposed;
} matrix;

typedef struct problem {
    const library *l;
    matrix first, second, result;
    int64_t batch;
    bool doubles, tf32, bias;
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
    char what[64];
} problem;

/* The descriptors of a problem. */
typedef struct descriptors {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t first, second, result;
} descriptors;

typedef struct call {
    const problem *p;
    descriptors d;
    const void *first, *second;
    void *result, *workspace;
} call;

/* --- the library --- */

static const char *const files[] = {"libcublasLt.so", "libcublasLt.so.13", "libcublasLt.so.12",
                                    NULL},
                         *const packages[] = {"/nvidia/cu13/lib", "/nvidia/cublas/lib", NULL};
static const cuda_names names = {files, packages};

static bool find_functions(library *l)
{
#define FIND(name, parameters)                                                                     \
    *(void **)(&l->f.name) = dlsym(l->found, #name);                                               \
    if (!l->f.name) return false;
    CUBLASLT_FUNCTIONS(FIND)
    FIND(cublasLtGetVersion, )
    FIND(cublasLtGetStatusName, )
#undef FIND
    return true;
}

/* One of a newer major version than the driver's does not run. */
static bool take(void *user, const char *path, bool loaded)
{
    library *l = user;
    l->found = dlopen(path, RTLD_NOW | RTLD_LOCAL | (loaded ? RTLD_NOLOAD : 0));
    if (!l->found) return false;
    if (find_functions(l) && (int)(l->f.cublasLtGetVersion() / 10000) <= l->card->driver / 1000)
        return true;
    (void)snprintf(l->text, l->size, "%s is older than version 12, or newer than the driver", path);
    (void)dlclose(l->found);
    l->found = NULL;
    return false;
}

static void close_library(void *state)
{
    library *l = state;
    if (l->handle && cuda_enter(l->card))
        (void)cuda_leave(l->card, l->f.cublasLtDestroy(l->handle));
    free(l); /* the library stays */
}

static void *open_library(gpu_card *card, char *text, size_t size)
{
    library *l;
    text[0] = 0;
    if (weft->allocate(sizeof(*l), &l) != WEFT_OK) return NULL;
    *l = (library){.card = (const cuda_card *)card, .text = text, .size = size};
    unsigned status = LT_OK;
    if (cuda_find(&names, take, l)) {
        size_t version = l->f.cublasLtGetVersion();
        status = cuda_enter(l->card) ? cuda_leave(l->card, l->f.cublasLtCreate(&l->handle))
                                     : cuda_not_entered();
        if (status == LT_OK)
            (void)snprintf(text, size, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
                           version % 100);
        else
            (void)snprintf(text, size, "cublasLtCreate failed with %s",
                           l->f.cublasLtGetStatusName(status));
    }
    if (l->handle && status == LT_OK) return l;
    close_library(l);
    return NULL;
}

static weft_status check(const problem *p, unsigned status, const char *function)
{
    if (status == LT_OK) return WEFT_OK;
    return weft->fail(WEFT_ERR_INTERNAL, "operator %s: %s failed with %s (%u)", p->what, function,
                      p->l->f.cublasLtGetStatusName(status), status);
}

/* --- descriptors --- */

static void close_descriptors(const problem *p, const descriptors *d)
{
    const cublaslt_functions *f = &p->l->f;
    if (d->product) (void)f->cublasLtMatmulDescDestroy(d->product);
    if (d->first) (void)f->cublasLtMatrixLayoutDestroy(d->first);
    if (d->second) (void)f->cublasLtMatrixLayoutDestroy(d->second);
    if (d->result) (void)f->cublasLtMatrixLayoutDestroy(d->result);
}

static weft_status set_product(const problem *p, const descriptors *d, unsigned attribute,
                               const void *value, size_t size)
{
    return check(p, p->l->f.cublasLtMatmulDescSetAttribute(d->product, attribute, value, size),
                 "cublasLtMatmulDescSetAttribute");
}

static weft_status open_layout(const problem *p, const matrix *m, cublasLtMatrixLayout_t *out)
{
    const cublaslt_functions *f = &p->l->f;
    const int32_t batch = (int32_t)p->batch;
    WEFT_TRY(
        check(p,
              f->cublasLtMatrixLayoutCreate(out, p->doubles ? LT_R_64F : LT_R_32F,
                                            (uint64_t)m->rows, (uint64_t)m->columns, m->leading),
              "cublasLtMatrixLayoutCreate"));
    if (batch == 1) return WEFT_OK;
    WEFT_TRY(check(p,
                   f->cublasLtMatrixLayoutSetAttribute(*out, LT_BATCH_COUNT, &batch, sizeof(batch)),
                   "cublasLtMatrixLayoutSetAttribute"));
    return check(p,
                 f->cublasLtMatrixLayoutSetAttribute(*out, LT_BATCH_OFFSET, &m->batch_stride,
                                                     sizeof(m->batch_stride)),
                 "cublasLtMatrixLayoutSetAttribute");
}

static weft_status open_descriptors(const problem *p, descriptors *d)
{
    const int32_t first = p->first.transposed, second = p->second.transposed;
    const uint32_t epilogue = p->bias ? LT_EPILOGUE_BIAS : LT_EPILOGUE_DEFAULT;
    const unsigned compute = p->doubles ? LT_COMPUTE_64F
                             : p->tf32  ? LT_COMPUTE_TF32
                                        : LT_COMPUTE_32F;
    WEFT_TRY(check(
        p, p->l->f.cublasLtMatmulDescCreate(&d->product, compute, p->doubles ? LT_R_64F : LT_R_32F),
        "cublasLtMatmulDescCreate"));
    WEFT_TRY(set_product(p, d, LT_TRANSA, &first, sizeof(first)));
    WEFT_TRY(set_product(p, d, LT_TRANSB, &second, sizeof(second)));
    WEFT_TRY(set_product(p, d, LT_EPILOGUE, &epilogue, sizeof(epilogue)));
    WEFT_TRY(open_layout(p, &p->first, &d->first));
    WEFT_TRY(open_layout(p, &p->second, &d->second));
    return open_layout(p, &p->result, &d->result);
}

/* --- the algorithm --- */

static weft_status set_preference(const problem *p, cublasLtMatmulPreference_t preference,
                                  unsigned attribute, const void *value, size_t size)
{
    return check(p,
                 p->l->f.cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, size),
                 "cublasLtMatmulPreferenceSetAttribute");
}

static weft_status ask(problem *p, const descriptors *d, cublasLtMatmulPreference_t preference)
{
    static const unsigned operands[] = {LT_ALIGNMENT_A, LT_ALIGNMENT_B, LT_ALIGNMENT_C,
                                        LT_ALIGNMENT_D};
    const uint32_t alignment = ALIGNMENT, mask = LT_REDUCE_COMPUTE_TYPE | LT_REDUCE_OUTPUT_TYPE;
    /* Operands are not converted, except to TF32 if that is on. */
    const uint64_t converted = LT_INPUT_16F | LT_INPUT_16BF | (p->tf32 ? 0 : LT_INPUT_TF32),
                   implementations = ~converted;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    WEFT_TRY(
        set_preference(p, preference, LT_MOST_WORKSPACE, &most_workspace, sizeof(most_workspace)));
    WEFT_TRY(set_preference(p, preference, LT_REDUCTION_MASK, &mask, sizeof(mask)));
    WEFT_TRY(set_preference(p, preference, LT_IMPLEMENTATION_MASK, &implementations,
                            sizeof(implementations)));
    for (size_t i = 0; i < WEFT_COUNT(operands); i++)
        WEFT_TRY(set_preference(p, preference, operands[i], &alignment, sizeof(alignment)));
    if (!cuda_enter(p->l->card)) return cuda_check(p->l->card, cuda_not_entered(), "cublasLt");
    unsigned status =
        cuda_leave(p->l->card, p->l->f.cublasLtMatmulAlgoGetHeuristic(
                                   p->l->handle, d->product, d->first, d->second, d->result,
                                   d->result, preference, 1, &found, &count));
    if (status != LT_OK || count < 1 || found.state != LT_OK)
        return weft->fail(WEFT_ERR_UNSUPPORTED, "cuBLASLt has no algorithm for %s", p->what);
    p->algo = found.algo;
    p->workspace = found.workspaceSize;
    return WEFT_OK;
}

static weft_status choose(problem *p)
{
    descriptors d = {.product = NULL};
    cublasLtMatmulPreference_t preference = NULL;
    /* The heuristic takes the alignment of a bias from its address. */
    const uintptr_t aligned = ALIGNMENT;
    weft_status status = open_descriptors(p, &d);
    if (status == WEFT_OK && p->bias)
        status = set_product(p, &d, LT_BIAS_POINTER, &aligned, sizeof(aligned));
    if (status == WEFT_OK)
        status = check(p, p->l->f.cublasLtMatmulPreferenceCreate(&preference),
                       "cublasLtMatmulPreferenceCreate");
    if (status == WEFT_OK) status = ask(p, &d, preference);
    if (preference) (void)p->l->f.cublasLtMatmulPreferenceDestroy(preference);
    close_descriptors(p, &d);
    return status;
}

/* --- calls: arguments are a, b, the result, workspace, and the bias --- */

static void close_call(void *data)
{
    call *c = data;
    close_descriptors(c->p, &c->d);
    free(c);
}

static weft_status open_call(const void *data, void **out)
{
    call *c;
    WEFT_TRY(weft->allocate(sizeof(*c), &c));
    c->p = data;
    weft_status status = open_descriptors(c->p, &c->d);
    if (status == WEFT_OK)
        *out = c;
    else
        close_call(c);
    return status;
}

static weft_status set(void *data, const gpu_argument *arguments, int count)
{
    call *c = data;
    void *to[5] = {NULL};
    for (int i = 0; i < count; i++)
        to[i] = (void *)(uintptr_t)cuda_pointer_of(arguments[i].address);
    c->second = to[0];
    c->first = to[1];
    c->result = to[2];
    uintptr_t before = (uintptr_t)to[3] % WORKSPACE_ALIGNMENT;
    c->workspace = (char *)to[3] + (before ? WORKSPACE_ALIGNMENT - before : 0);
    for (int i = 0; i < 5; i++)
        if (i != 3 && (uintptr_t)to[i] % ALIGNMENT != 0)
            return weft->fail(WEFT_ERR_INTERNAL,
                              "operator %s: operand %d of cuBLASLt is at %p, must be at a multiple "
                              "of %d bytes; libraries=none does without",
                              c->p->what, i, to[i], ALIGNMENT);
    if (!c->p->bias) return WEFT_OK;
    return set_product(c->p, &c->d, LT_BIAS_POINTER, &to[4], sizeof(to[4]));
}

static weft_status launch(weft_queue *queue, void *data)
{
    const call *c = data;
    const problem *p = c->p;
    const library *l = p->l;
    const float one = 1, zero = 0;
    const double one_double = 1, zero_double = 0;
    const void *alpha = p->doubles ? (const void *)&one_double : &one;
    const void *beta = p->doubles ? (const void *)&zero_double : &zero;
    if (!cuda_enter(l->card)) return cuda_check(l->card, cuda_not_entered(), "cublasLtMatmul");
    return check(
        p,
        cuda_leave(l->card, l->f.cublasLtMatmul(l->handle, c->d.product, alpha, c->first,
                                                c->d.first, c->second, c->d.second, beta, c->result,
                                                c->d.result, c->result, c->d.result, &p->algo,
                                                p->workspace ? c->workspace : NULL, p->workspace,
                                                cuda_stream_of(queue))),
        "cublasLtMatmul");
}

static const gpu_routine routine = {
    .open = open_call, .close = close_call, .set = set, .launch = launch, .destroy = free};

/* --- candidates --- */

/* Epilogues that are exactly Weft's functions. */
static const char *const epilogues[] = {"bias"};

/* The input of the group that is added to each row of the product; -1: the group is another one. */
static int bias_of(const weft_group *group)
{
    gpu_elements e;
    weft_value main_out;
    const weft_value *in;
    if (group->count != 2 || group->out_count != 1 || !gpu_elements_read(group, 1, &e)) return -1;
    (void)weft->node_outputs(group->node[0], &main_out);
    int last = e.full.rank - 1, count = weft->node_inputs(group->node[1], &in);
    if (strcmp(weft->node_op(group->node[1]), epilogues[0]) != 0) return -1;
    if (count != 2 || in[0] != main_out || weft->group_out(group, main_out) >= 0) return -1;
    int at = weft->group_in(group, in[1]);
    const weft_type *type = weft->value_type(group->graph, in[1]);
    if (at < 0 || type->dtype != WEFT_F32 || type->shape.rank != 1) return -1;
    for (int d = 0; d < last; d++)
        if (e.operand[at].stride[d] != 0) return -1;
    return type->shape.dim[0] == e.full.dim[last] ? at : -1;
}

static bool whole(const weft_group *group)
{
    return bias_of(group) >= 0;
}

/* An operand whose elements of a row, and of a column, are so far apart. */
static matrix matrix_of(int64_t rows, int64_t columns, int64_t by_row, int64_t by_column,
                        int64_t batch_stride)
{
    if (by_row == 1 && by_column >= rows)
        return (matrix){rows, columns, by_column, batch_stride, false};
    return (matrix){columns, rows, by_row, batch_stride, true};
}

static void make(gpu_plan *plan, const gpu_product *product)
{
    const int64_t *s = product->sizes, m = product->m, n = product->n, k = product->k;
    problem *p;
    int bias = plan->group->count > 1 ? bias_of(plan->group) : -1;
    if (plan->status == WEFT_OK) plan->status = weft->allocate(sizeof(*p), &p);
    if (plan->status != WEFT_OK) return;
    *p = (problem){.l = plan->library->state,
                   .first = matrix_of(n, k, s[GPU_BJ], s[GPU_BP], s[GPU_B_BATCH]),
                   .second = matrix_of(k, m, s[GPU_AP], s[GPU_AI], s[GPU_A_BATCH]),
                   .result = {n, m, n, m * n, false},
                   .batch = product->batch,
                   .doubles = plan->real == WEFT_F64,
                   .tf32 = plan->kernel->device->tf32,
                   .bias = bias >= 0};
    (void)snprintf(p->what, sizeof(p->what), "%s", plan->kernel->what);
    plan->status = choose(p);
    if (plan->status != WEFT_OK) {
        free(p);
        return;
    }
    size_t workspace = p->workspace ? p->workspace + WORKSPACE_ALIGNMENT : 0;
    gpu_routine_add(plan, &routine, p);
    gpu_in(plan, product->a);
    gpu_in(plan, product->b);
    gpu_routine_result(plan);
    gpu_scratch(plan, gpu_reserve(plan, workspace));
    if (bias >= 0) gpu_group_in(plan, bias);
}

/* Rates like those of a card of a data centre (H100), as the device's own: in f32 half of what the
 * card can, and as much with TF32, for the choice between the routine and own kernels. */
const gpu_library cuda_cublaslt = {.name = "cublaslt",
                                   .table = gpu_product_entries,
                                   .advice = "pip install nvidia-cublas",
                                   .open = open_library,
                                   .close = close_library,
                                   .whole = whole,
                                   .make = make,
                                   .flops = 3e13,
                                   .tf32_flops = 2e14};
