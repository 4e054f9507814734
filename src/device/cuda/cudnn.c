/* Routines of cuDNN for convolutions, their data gradients and their weight gradients. Own kernels
 * compute the operators that follow a convolution in its group, in a launch of their own. */
#include <stdio.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cudnn_plan.h"

enum { WORKSPACE_ALIGNMENT = 256 };

/* One thread at a time uses a handle, which has one stream, so launches set it under the lock. */
typedef struct library {
    const cuda_card *card;
    cudnn_functions f;
    cudnn_target target;
    pthread_mutex_t lock;
} library;

typedef struct problem {
    library *l;
    cudnn_plan plan;
    int64_t ids[3]; /* of the arguments: both operands, and the result */
    char what[64];
} problem;

typedef struct call {
    const problem *p;
    cudnnBackendDescriptor_t pack;
} call;

/* --- the library --- */

static const char *const files[] = {"libcudnn.so", "libcudnn.so.9", NULL};
static const char *const packages[] = {"/nvidia/cudnn/lib", "/nvidia/cu13/lib", NULL};

static const cuda_symbol symbols[] = {
#define SYMBOL(name, parameters) {#name, offsetof(cudnn_functions, name)},
    CUDNN_FUNCTIONS(SYMBOL) SYMBOL(cudnnGetVersion, ) SYMBOL(cudnnGetCudartVersion, )
        SYMBOL(cudnnGetErrorString, )
#undef SYMBOL
            {NULL, 0}};

/* Version 9, which is made for a version of CUDA that the driver has. */
static bool fits(void *functions, int driver, const char *path)
{
    const cudnn_functions *f = functions;
    (void)path;
    return f->cudnnGetVersion() / 10000 == 9 &&
           (int)(f->cudnnGetCudartVersion() / 1000) <= driver / 1000;
}

const cuda_library cuda_cudnn_file = {
    {files, packages}, symbols, fits, "not of version 9, or newer than the driver"};

static void close_library(void *state)
{
    library *l = state;
    if (l->target.handle) (void)CUDA_WITHIN(l->card, l->f.cudnnDestroy(l->target.handle));
    pthread_mutex_destroy(&l->lock);
    free(l); /* the library stays */
}

static void *open_library(gpu_card *card, char *text, size_t size)
{
    library *l;
    text[0] = 0;
    if (weft->allocate(sizeof(*l), &l) != WEFT_OK) return NULL;
    l->card = (const cuda_card *)card;
    l->target.f = &l->f;
    pthread_mutex_init(&l->lock, NULL);
    if (cuda_library_open(&cuda_cudnn_file, l->card->driver, &l->f, text, size)) {
        unsigned status = CUDA_WITHIN(l->card, l->f.cudnnCreate(&l->target.handle));
        if (cuda_library_starts(status, "cudnnCreate", l->f.cudnnGetErrorString(status),
                                l->f.cudnnGetVersion(), text, size) &&
            l->target.handle)
            return l;
        if (status != DNN_OK) l->target.handle = NULL;
    }
    close_library(l);
    return NULL;
}

/* --- calls: arguments are both operands, the result, workspace --- */

static void close_call(void *data)
{
    call *c = data;
    if (c->pack) (void)c->p->l->f.cudnnBackendDestroyDescriptor(c->pack);
    free(c);
}

static weft_status open_call(const void *data, void **out)
{
    call *c;
    WEFT_TRY(weft->allocate(sizeof(*c), &c));
    c->p = data;
    *out = c;
    return WEFT_OK;
}

static weft_status set_one(const call *c, unsigned attribute, unsigned type, int64_t count,
                           const void *values)
{
    const cudnn_functions *f = &c->p->l->f;
    return cudnn_check(f, f->cudnnBackendSetAttribute(c->pack, attribute, type, count, values),
                       c->p->what, "cudnnBackendSetAttribute");
}

/* A variant pack is made anew, since one that is finished cannot be changed. */
static weft_status pack(call *c, void *const *to, void *workspace)
{
    const cudnn_functions *f = &c->p->l->f;
    if (c->pack) (void)f->cudnnBackendDestroyDescriptor(c->pack);
    c->pack = NULL;
    WEFT_TRY(cudnn_check(f, f->cudnnBackendCreateDescriptor(DNN_VARIANT_PACK, &c->pack), c->p->what,
                         "cudnnBackendCreateDescriptor"));
    WEFT_TRY(set_one(c, DNN_PACK_POINTERS, DNN_IS_POINTER, 3, (const void *)to));
    WEFT_TRY(set_one(c, DNN_PACK_IDS, DNN_IS_INT64, 3, c->p->ids));
    WEFT_TRY(set_one(c, DNN_PACK_WORKSPACE, DNN_IS_POINTER, 1, (const void *)&workspace));
    return cudnn_check(f, f->cudnnBackendFinalize(c->pack), c->p->what, "cudnnBackendFinalize");
}

static weft_status set(void *data, const gpu_argument *arguments, int count)
{
    call *c = data;
    const cuda_card *card = c->p->l->card;
    void *to[4] = {NULL};
    for (int i = 0; i < count; i++)
        to[i] = (void *)(uintptr_t)cuda_pointer_of(arguments[i].address);
    for (int i = 0; i < 3; i++)
        if ((uintptr_t)to[i] % CUDNN_ALIGNMENT != 0)
            return weft->fail(WEFT_ERR_INTERNAL,
                              "operator %s: operand %d of cuDNN is at %p, must be at a multiple of "
                              "%d bytes; libraries=none does without",
                              c->p->what, i, to[i], CUDNN_ALIGNMENT);
    uintptr_t before = (uintptr_t)to[3] % WORKSPACE_ALIGNMENT;
    void *workspace = (char *)to[3] + (before ? WORKSPACE_ALIGNMENT - before : 0);
    if (!cuda_enter(card)) return cuda_check(card, cuda_not_entered(), "cudnnBackendFinalize");
    weft_status status = pack(c, to, c->p->plan.workspace ? workspace : NULL);
    (void)cuda_leave(card, 0);
    return status;
}

static weft_status launch(weft_queue *queue, void *data)
{
    const call *c = data;
    library *l = c->p->l;
    const char *function = "cudnnSetStream";
    if (!cuda_enter(l->card)) return cuda_check(l->card, cuda_not_entered(), "cudnnBackendExecute");
    pthread_mutex_lock(&l->lock);
    unsigned status = l->f.cudnnSetStream(l->target.handle, cuda_stream_of(queue));
    if (status == DNN_OK) {
        function = "cudnnBackendExecute";
        status = l->f.cudnnBackendExecute(l->target.handle, c->p->plan.plan, c->pack);
    }
    pthread_mutex_unlock(&l->lock);
    return cudnn_check(&l->f, cuda_leave(l->card, status), c->p->what, function);
}

static void destroy(void *data)
{
    problem *p = data;
    bool entered = cuda_enter(p->l->card);
    cudnn_plan_close(&p->l->target, &p->plan);
    if (entered) (void)cuda_leave(p->l->card, 0);
    free(p);
}

static const gpu_routine routine = {
    .open = open_call, .close = close_call, .set = set, .launch = launch, .destroy = destroy};

/* --- candidates --- */

static bool whole(const weft_group *group)
{
    (void)group;
    return false;
}

/* The tensors of the operands, b and a, and of the result. */
static const int64_t ids[][3] = {[GPU_FORWARD] = {CUDNN_X, CUDNN_W, CUDNN_Y},
                                 [GPU_DATA] = {CUDNN_Y, CUDNN_W, CUDNN_X},
                                 [GPU_WEIGHT] = {CUDNN_X, CUDNN_Y, CUDNN_W}};

static weft_status plan_of(problem *p, const cudnn_problem *asked)
{
    const cuda_card *card = p->l->card;
    if (!cuda_enter(card)) return cuda_check(card, cuda_not_entered(), "cudnnBackendFinalize");
    pthread_mutex_lock(&p->l->lock);
    weft_status status = cudnn_plan_make(&p->l->target, asked, &p->plan);
    pthread_mutex_unlock(&p->l->lock);
    (void)cuda_leave(card, 0);
    return status;
}

/* cuDNN derives the sizes of results from equal paddings at both ends. */
static bool sides_are_alike(const gpu_window *w)
{
    for (int d = 0; d < 3; d++) {
        int64_t covered = w->dilation[d] * (w->kernel[d] - 1) + 1;
        if (w->y[d] != (w->x[d] + 2 * w->padding[d] - covered) / w->stride[d] + 1) return false;
    }
    return true;
}

static void make(gpu_plan *plan, const gpu_product *product)
{
    problem *p;
    if (plan->status == WEFT_OK && !sides_are_alike(&product->window))
        plan->status = weft->fail(WEFT_ERR_UNSUPPORTED,
                                  "operator %s: cuDNN has no convolution with different paddings "
                                  "before and behind an image",
                                  plan->kernel->what);
    if (plan->status == WEFT_OK) plan->status = weft->allocate(sizeof(*p), &p);
    if (plan->status != WEFT_OK) return;
    p->l = plan->library->state;
    memcpy(p->ids, ids[product->kind], sizeof(p->ids));
    (void)snprintf(p->what, sizeof(p->what), "%s", plan->kernel->what);
    const cudnn_problem asked = {.kind = product->kind,
                                 .window = product->window,
                                 .doubles = plan->real == WEFT_F64,
                                 .tf32 = plan->kernel->device->tf32,
                                 .what = p->what};
    plan->status = plan_of(p, &asked);
    if (plan->status != WEFT_OK) {
        destroy(p);
        return;
    }
    size_t workspace = p->plan.workspace ? (size_t)p->plan.workspace + WORKSPACE_ALIGNMENT : 0;
    gpu_routine_add(plan, &routine, p);
    gpu_in(plan, product->b);
    gpu_in(plan, product->a);
    gpu_routine_result(plan);
    gpu_scratch(plan, gpu_reserve(plan, workspace));
}

/* Rates as those of cuBLASLt; they are constants (see its file). */
const gpu_library cuda_cudnn = {.name = "cudnn",
                                .table = gpu_conv_entries,
                                .advice = CUDA_PLACES "; pip install nvidia-cudnn-cu13",
                                .open = open_library,
                                .close = close_library,
                                .whole = whole,
                                .make = make,
                                .flops = 3e13,
                                .tf32_flops = 1.5e14};
