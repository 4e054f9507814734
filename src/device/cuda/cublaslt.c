/* Routines of cuBLASLt for products, with a bias in the epilogue.
 *
 * The workspace of a product is scratch memory of its kernel.
 *
 * The bias is the only epilogue that is exactly Weft's function: cuBLASLt's gelu is the
 * approximation by tanh, and what its relu makes of NaN is not documented. */
#include <stdio.h>

#include "device/cuda/cublaslt_product.h"
#include "device/gpu/product.h"

enum { WORKSPACE_ALIGNMENT = 256 };

typedef struct call {
    const cublaslt_problem *p;
    cublaslt_descriptors d;
    const void *first, *second;
    void *result, *workspace;
} call;

/* --- the library --- */

static const char *const files[] = {"libcublasLt.so", "libcublasLt.so.13", "libcublasLt.so.12",
                                    NULL},
                         *const packages[] = {"/nvidia/cu13/lib", "/nvidia/cublas/lib", NULL};

static const cuda_symbol symbols[] = {
#define SYMBOL(name, parameters) {#name, offsetof(cublaslt_functions, name)},
    CUBLASLT_FUNCTIONS(SYMBOL) SYMBOL(cublasLtGetVersion, ) SYMBOL(cublasLtGetStatusName, )
#undef SYMBOL
        {NULL, 0}};

/* One of a newer major version than the driver's does not run. */
static bool fits(void *functions, int driver, const char *path)
{
    (void)path;
    return (int)(((cublaslt_functions *)functions)->cublasLtGetVersion() / 10000) <= driver / 1000;
}

const cuda_library cuda_cublaslt_file = {
    {files, packages}, symbols, fits, "older than version 12, or newer than the driver"};

static void close_library(void *state)
{
    cublaslt_library *l = state;
    if (l->handle) (void)CUDA_WITHIN(l->card, l->f.cublasLtDestroy(l->handle));
    free(l); /* the library stays */
}

static void *open_library(gpu_card *card, char *text, size_t size)
{
    cublaslt_library *l;
    text[0] = 0;
    if (weft->allocate(sizeof(*l), &l) != WEFT_OK) return NULL;
    l->card = (const cuda_card *)card;
    if (cuda_library_open(&cuda_cublaslt_file, l->card->driver, &l->f, text, size)) {
        unsigned status = CUDA_WITHIN(l->card, l->f.cublasLtCreate(&l->handle));
        if (cuda_library_starts(status, "cublasLtCreate", l->f.cublasLtGetStatusName(status),
                                l->f.cublasLtGetVersion(), text, size) &&
            l->handle)
            return l;
    }
    close_library(l);
    return NULL;
}

/* --- calls: arguments are a, b, the result, workspace, and the bias --- */

static void close_call(void *data)
{
    call *c = data;
    cublaslt_close(c->p, &c->d);
    free(c);
}

static weft_status open_call(const void *data, void **out)
{
    call *c;
    WEFT_TRY(weft->allocate(sizeof(*c), &c));
    c->p = data;
    weft_status status = cublaslt_open(c->p, &c->d);
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
        if (i != 3 && (uintptr_t)to[i] % CUBLASLT_ALIGNMENT != 0)
            return weft->fail(WEFT_ERR_INTERNAL,
                              "operator %s: operand %d of cuBLASLt is at %p, must be at a multiple "
                              "of %d bytes; libraries=none does without",
                              c->p->what, i, to[i], CUBLASLT_ALIGNMENT);
    if (!c->p->bias) return WEFT_OK;
    return cublaslt_set(c->p, &c->d, LT_BIAS_POINTER, &to[4], sizeof(to[4]));
}

static weft_status launch(weft_queue *queue, void *data)
{
    const call *c = data;
    const cublaslt_problem *p = c->p;
    const cublaslt_library *l = p->l;
    const float one = 1, zero = 0;
    const double one_double = 1, zero_double = 0;
    const void *alpha = p->doubles ? (const void *)&one_double : &one;
    const void *beta = p->doubles ? (const void *)&zero_double : &zero;
    if (!cuda_enter(l->card)) return cuda_check(l->card, cuda_not_entered(), "cublasLtMatmul");
    return cublaslt_check(
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

static void make(gpu_plan *plan, const gpu_product *product)
{
    const int64_t *s = product->sizes, m = product->m, n = product->n, k = product->k;
    cublaslt_problem *p;
    int bias = plan->group->count > 1 ? bias_of(plan->group) : -1;
    if (plan->status == WEFT_OK) plan->status = weft->allocate(sizeof(*p), &p);
    if (plan->status != WEFT_OK) return;
    *p =
        (cublaslt_problem){.l = plan->library->state,
                           .first = cublaslt_matrix_of(n, k, s[GPU_BJ], s[GPU_BP], s[GPU_B_BATCH]),
                           .second = cublaslt_matrix_of(k, m, s[GPU_AP], s[GPU_AI], s[GPU_A_BATCH]),
                           .result = {n, m, n, m * n, false},
                           .batch = product->batch,
                           .doubles = plan->real == WEFT_F64,
                           .tf32 = plan->kernel->device->tf32,
                           .bias = bias >= 0};
    (void)snprintf(p->what, sizeof(p->what), "%s", plan->kernel->what);
    plan->status = cublaslt_choose(p);
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
                                   .advice = CUDA_PLACES "; pip install nvidia-cublas",
                                   .open = open_library,
                                   .close = close_library,
                                   .whole = whole,
                                   .make = make,
                                   .flops = 3e13,
                                   .tf32_flops = 2e14};
