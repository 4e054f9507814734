/* The double of libcudnn.so: the graph interface for one convolution or one of its gradients, on
 * the host, in the order of the double's streams, with the semantics that NVIDIA documents.
 * Descriptors hold attributes, which are complete when they are finalized and do not change
 * afterwards. The heuristic lists engines that the device must not take: one that is not
 * deterministic, one that transforms tiles, and one that rounds to TF32 before one that computes as
 * asked; results of the first two are NaN. FAKE_CUDA_FAIL names its functions, too.
 *
 *   FAKE_CUDNN_VERSION  91900
 *   FAKE_CUDNN_NONE     the heuristics find no engine
 */
#include <math.h>

#include "device/cuda/cudnn_api.h"
#include "library.h"

const char library_name[] = "cudnn";

#define DECLARE(name, parameters) __attribute__((visibility("default"))) unsigned name parameters;
CUDNN_FUNCTIONS(DECLARE)
__attribute__((visibility("default"))) size_t cudnnGetVersion(void);
__attribute__((visibility("default"))) size_t cudnnGetCudartVersion(void);
__attribute__((visibility("default"))) const char *cudnnGetErrorString(unsigned status);

enum { BAD_PARAMETER = 2000, NOT_SUPPORTED = 3000, MOST_ATTRIBUTES = 10 };

struct cudnnContext {
    object head;
    cu_stream stream;
};

typedef struct attribute {
    unsigned name, type;
    int64_t count;
    void *values;
} attribute;

typedef struct descriptor {
    object head;
    unsigned type;
    bool final;
    attribute list[MOST_ATTRIBUTES];
    int count, engine; /* of an engine, its configuration and its plan */
} descriptor;

enum { ENGINE_RANDOM, ENGINE_FFT, ENGINE_TF32, ENGINE_PLAIN, ENGINES };
static const unsigned notes[ENGINES] = {DNN_NOTE_NONDETERMINISTIC, DNN_NOTE_FFT,
                                        DNN_NOTE_TENSOR_CORE, UINT32_MAX};

size_t cudnnGetVersion(void)
{
    const char *text = getenv("FAKE_CUDNN_VERSION");
    return text ? (size_t)atol(text) : 91900;
}

size_t cudnnGetCudartVersion(void)
{
    return 13000;
}

const char *cudnnGetErrorString(unsigned status)
{
    return status == BAD_PARAMETER ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_OTHER";
}

unsigned cudnnCreate(cudnnHandle_t *out)
{
    unsigned status = library_planned("cudnnCreate");
    if (status) return status;
    *out = library_new(sizeof(**out), "handle");
    return DNN_OK;
}

unsigned cudnnDestroy(cudnnHandle_t handle_of)
{
    return library_end("cudnnDestroy", handle_of, "handle");
}

unsigned cudnnSetStream(cudnnHandle_t handle_of, cu_stream stream)
{
    library_need("cudnnSetStream", handle_of, "handle");
    handle_of->stream = stream;
    return library_planned("cudnnSetStream");
}

unsigned cudnnBackendCreateDescriptor(unsigned type, cudnnBackendDescriptor_t *out)
{
    unsigned status = library_planned("cudnnBackendCreateDescriptor");
    if (status) return status;
    descriptor *d = library_new(sizeof(*d), "descriptor");
    d->type = type;
    d->engine = -1;
    *out = d;
    return DNN_OK;
}

unsigned cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t data)
{
    return library_end("cudnnBackendDestroyDescriptor", data, "descriptor");
}

static size_t size_of(unsigned type)
{
    switch (type) {
    case DNN_IS_DATA_TYPE:
    case DNN_IS_CONVOLUTION_MODE:
    case DNN_IS_HEURISTIC_MODE:
    case DNN_IS_NUMERICAL_NOTE:
    case DNN_IS_FLOAT: return 4;
    case DNN_IS_CHAR: return 1;
    default: return 8;
    }
}

unsigned cudnnBackendSetAttribute(cudnnBackendDescriptor_t data, unsigned name, unsigned type,
                                  int64_t count, const void *values)
{
    descriptor *d = data;
    library_need("cudnnBackendSetAttribute", d, "descriptor");
    unsigned status = library_planned("cudnnBackendSetAttribute");
    if (status) return status;
    if (d->final) library_misuse("cudnnBackendSetAttribute: attribute %u of a finished one", name);
    if (count < 1 || d->count == MOST_ATTRIBUTES) return BAD_PARAMETER;
    size_t bytes = size_of(type) * (size_t)count;
    attribute *a = &d->list[d->count++];
    *a = (attribute){name, type, count, malloc(bytes)};
    if (!a->values) library_misuse("out of memory");
    memcpy(a->values, values, bytes);
    if (type != DNN_IS_DESCRIPTOR) return DNN_OK;
    for (int64_t i = 0; i < count; i++) {
        const descriptor *other = ((descriptor *const *)values)[i];
        library_need("cudnnBackendSetAttribute", other, "descriptor");
        if (!other->final) library_misuse("cudnnBackendSetAttribute: one that is not finished");
    }
    return DNN_OK;
}

static const attribute *find(const descriptor *d, unsigned name, unsigned type, int64_t count)
{
    for (int i = 0; i < d->count; i++)
        if (d->list[i].name == name) {
            if (d->list[i].type != type || (count > 0 && d->list[i].count != count))
                library_misuse("attribute %u has another type or number", name);
            return &d->list[i];
        }
    library_misuse("a descriptor of type %u lacks attribute %u", d->type, name);
}

static int64_t number(const descriptor *d, unsigned name, int i)
{
    const attribute *a = find(d, name, DNN_IS_INT64, 0);
    if (i >= a->count) library_misuse("attribute %u has %d numbers", name, (int)a->count);
    return ((const int64_t *)a->values)[i];
}

static const descriptor *part(const descriptor *d, unsigned name, unsigned type)
{
    const descriptor *found = *(descriptor *const *)find(d, name, DNN_IS_DESCRIPTOR, 1)->values;
    library_need("a part", found, "descriptor");
    if (found->type != type) library_misuse("attribute %u is of type %u", name, found->type);
    return found;
}

static unsigned data_type(const descriptor *d, unsigned name)
{
    return *(const unsigned *)find(d, name, DNN_IS_DATA_TYPE, 1)->values;
}

/* A convolution in up to three dimensions of space. */
typedef struct tensor {
    int64_t id, dim[5], stride[5];
    void *at;
} tensor;
typedef struct job {
    unsigned operation;
    bool doubles;
    int engine, space;
    int64_t padding[3], step[3], dilation[3];
    tensor x, w, y;
    void *workspace;
    size_t workspace_bytes;
} job;

static const struct {
    unsigned type, alpha, beta, convolution, x, w, y;
} operations[] = {
    {DNN_FORWARD, DNN_FORWARD_ALPHA, DNN_FORWARD_BETA, DNN_FORWARD_CONVOLUTION, DNN_FORWARD_X,
     DNN_FORWARD_W, DNN_FORWARD_Y},
    {DNN_BACKWARD_DATA, DNN_DATA_ALPHA, DNN_DATA_BETA, DNN_DATA_CONVOLUTION, DNN_DATA_DX,
     DNN_DATA_W, DNN_DATA_DY},
    {DNN_BACKWARD_WEIGHT, DNN_WEIGHT_ALPHA, DNN_WEIGHT_BETA, DNN_WEIGHT_CONVOLUTION, DNN_WEIGHT_X,
     DNN_WEIGHT_DW, DNN_WEIGHT_DY},
};

/* Dimensions of space that are missing have size 1, in front. */
static tensor read_tensor(const descriptor *d, const job *j)
{
    tensor t = {.id = number(d, DNN_TENSOR_ID, 0)};
    int missing = 3 - j->space;
    if ((data_type(d, DNN_TENSOR_TYPE) == DNN_DOUBLE) != j->doubles) library_misuse("types differ");
    if (find(d, DNN_TENSOR_DIMENSIONS, DNN_IS_INT64, 2 + j->space)->count !=
        find(d, DNN_TENSOR_STRIDES, DNN_IS_INT64, 2 + j->space)->count)
        library_misuse("as many strides as dimensions");
    if (number(d, DNN_TENSOR_ALIGNMENT, 0) != 16) library_misuse("alignment");
    for (int i = 0; i < 5; i++) {
        int own = i < 2 ? i : i - missing;
        bool has = i < 2 || own >= 2;
        t.dim[i] = has ? number(d, DNN_TENSOR_DIMENSIONS, own) : 1;
        t.stride[i] = has ? number(d, DNN_TENSOR_STRIDES, own) : 0;
    }
    return t;
}

static void need_scalar(const descriptor *o, unsigned name, bool doubles, double value)
{
    const attribute *a = find(o, name, doubles ? DNN_IS_DOUBLE : DNN_IS_FLOAT, 1);
    double has = doubles ? *(const double *)a->values : (double)*(const float *)a->values;
    if (has != value) library_misuse("attribute %u is %g", name, has);
}

static job read_operation(const descriptor *o)
{
    int row = 0;
    while (row < 3 && operations[row].type != o->type) row++;
    if (row == 3) library_misuse("an operation of type %u", o->type);
    const descriptor *c = part(o, operations[row].convolution, DNN_CONVOLUTION);
    job j = {.operation = o->type,
             .doubles = data_type(c, DNN_CONVOLUTION_TYPE) == DNN_DOUBLE,
             .space = (int)number(c, DNN_CONVOLUTION_SPACE, 0)};
    int missing = 3 - j.space;
    const unsigned mode =
        *(const unsigned *)find(c, DNN_CONVOLUTION_MODE, DNN_IS_CONVOLUTION_MODE, 1)->values;
    if (mode != DNN_CROSS_CORRELATION) library_misuse("a convolution of mode %u", mode);
    for (int d = 0; d < 3; d++) {
        bool has = d >= missing;
        j.padding[d] = has ? number(c, DNN_CONVOLUTION_PRE, d - missing) : 0;
        j.step[d] = has ? number(c, DNN_CONVOLUTION_STRIDES, d - missing) : 1;
        j.dilation[d] = has ? number(c, DNN_CONVOLUTION_DILATIONS, d - missing) : 1;
        if (has && number(c, DNN_CONVOLUTION_POST, d - missing) != j.padding[d])
            library_misuse("paddings differ");
    }
    need_scalar(o, operations[row].alpha, j.doubles, 1);
    need_scalar(o, operations[row].beta, j.doubles, 0);
    j.x = read_tensor(part(o, operations[row].x, DNN_TENSOR), &j);
    j.w = read_tensor(part(o, operations[row].w, DNN_TENSOR), &j);
    j.y = read_tensor(part(o, operations[row].y, DNN_TENSOR), &j);
    return j;
}

/* Sizes as cuDNN documents them. */
static void check_sizes(const job *j)
{
    const tensor *x = &j->x, *w = &j->w, *y = &j->y;
    bool fits = x->dim[0] == y->dim[0] && w->dim[0] == y->dim[1] && w->dim[1] > 0 &&
                x->dim[1] % w->dim[1] == 0 && y->dim[1] % (x->dim[1] / w->dim[1]) == 0 &&
                x->id != w->id && w->id != y->id && x->id != y->id;
    for (int d = 0; d < 3; d++) {
        int64_t covered = j->dilation[d] * (w->dim[2 + d] - 1) + 1;
        fits = fits && j->step[d] > 0 && j->dilation[d] > 0 &&
               y->dim[2 + d] == (x->dim[2 + d] + 2 * j->padding[d] - covered) / j->step[d] + 1;
    }
    if (!fits) library_misuse("the sizes of a convolution do not fit");
}

static job job_of(const descriptor *graph)
{
    job j = read_operation(
        *(descriptor *const *)find(graph, DNN_GRAPH_OPERATIONS, DNN_IS_DESCRIPTOR, 1)->values);
    check_sizes(&j);
    return j;
}

static size_t workspace_of(const descriptor *plan)
{
    return plan->engine == ENGINE_TF32 ? 0 : 999;
}

unsigned cudnnBackendFinalize(cudnnBackendDescriptor_t data)
{
    descriptor *d = data;
    library_need("cudnnBackendFinalize", d, "descriptor");
    unsigned status = library_planned("cudnnBackendFinalize");
    if (status) return status;
    if (d->type == DNN_GRAPH) {
        (void)job_of(d);
        library_need("a graph", *(void **)find(d, DNN_GRAPH_HANDLE, DNN_IS_HANDLE, 1)->values,
                     "handle");
    }
    if (d->type == DNN_HEURISTIC) {
        (void)part(d, DNN_HEURISTIC_GRAPH, DNN_GRAPH);
        if (getenv("FAKE_CUDNN_NONE")) return NOT_SUPPORTED;
    }
    if (d->type == DNN_PLAN) {
        library_need("a plan", *(void **)find(d, DNN_PLAN_HANDLE, DNN_IS_HANDLE, 1)->values,
                     "handle");
        d->engine = part(d, DNN_PLAN_CONFIG, DNN_ENGINE_CONFIG)->engine;
    }
    d->final = true;
    return DNN_OK;
}

/* A copy of a reference, by which a result is found again. */
static void refer(descriptor *d, unsigned name, const descriptor *to)
{
    attribute *a = &d->list[d->count++];
    *a = (attribute){name, DNN_IS_DESCRIPTOR, 1, malloc(sizeof(to))};
    if (!a->values) library_misuse("out of memory");
    memcpy(a->values, (const void *)&to, sizeof(to));
}

unsigned cudnnBackendGetAttribute(cudnnBackendDescriptor_t data, unsigned name, unsigned type,
                                  int64_t most, int64_t *count, void *values)
{
    const descriptor *d = data;
    descriptor *const *to = values;
    library_need("cudnnBackendGetAttribute", d, "descriptor");
    unsigned status = library_planned("cudnnBackendGetAttribute");
    if (status) return status;
    if (!d->final) library_misuse("cudnnBackendGetAttribute: of one that is not finished");
    *count = 1;
    if (d->type == DNN_HEURISTIC && name == DNN_HEURISTIC_RESULTS && type == DNN_IS_DESCRIPTOR) {
        if (most < ENGINES) library_misuse("room for %d results", (int)most);
        for (int i = 0; i < ENGINES; i++) {
            if (to[i]->type != DNN_ENGINE_CONFIG) library_misuse("results are configurations");
            to[i]->engine = i;
            to[i]->final = true;
            refer(to[i], DNN_HEURISTIC_GRAPH, part(d, DNN_HEURISTIC_GRAPH, DNN_GRAPH));
        }
        *count = ENGINES;
    } else if (d->type == DNN_ENGINE_CONFIG && name == DNN_CONFIG_ENGINE) {
        if (to[0]->type != DNN_ENGINE) library_misuse("the result is an engine");
        to[0]->engine = d->engine;
        to[0]->final = true;
    } else if (d->type == DNN_ENGINE && name == DNN_ENGINE_NOTES && type == DNN_IS_NUMERICAL_NOTE) {
        *count = notes[d->engine] == UINT32_MAX ? 0 : 1;
        memcpy(values, &notes[d->engine], sizeof(notes[0]) * (size_t)*count);
    } else if (d->type == DNN_PLAN && name == DNN_PLAN_WORKSPACE && type == DNN_IS_INT64) {
        *(int64_t *)values = (int64_t)workspace_of(d);
    } else {
        library_misuse("cudnnBackendGetAttribute: attribute %u of type %u", name, d->type);
    }
    return DNN_OK;
}

/* --- the computation --- */

static int64_t place(const tensor *t, int64_t first, int64_t second, const int64_t *space)
{
    int64_t at = first * t->stride[0] + second * t->stride[1];
    for (int d = 0; d < 3; d++) at += space[d] * t->stride[2 + d];
    return at;
}

static double get(const job *j, const tensor *t, int64_t i)
{
    double value = j->doubles ? ((const double *)t->at)[i] : (double)((const float *)t->at)[i];
    return j->engine == ENGINE_TF32 && !j->doubles ? library_tf32(value) : value;
}

static size_t elements(const tensor *t)
{
    size_t count = 1;
    for (int d = 0; d < 5; d++) count *= (size_t)t->dim[d];
    return count;
}

/* Adds the products of all elements of y and w that meet in an element of x. */
static void add(const job *j, double *sum, int64_t b, int64_t o, const int64_t *y)
{
    int64_t groups = j->x.dim[1] / j->w.dim[1], each = j->y.dim[1] / groups;
    for (int64_t i = 0; i < j->w.dim[1]; i++)
        for (int64_t k = 0; k < j->w.dim[2] * j->w.dim[3] * j->w.dim[4]; k++) {
            const int64_t own[3] = {k / (j->w.dim[3] * j->w.dim[4]), k / j->w.dim[4] % j->w.dim[3],
                                    k % j->w.dim[4]};
            int64_t at[3];
            bool there = true;
            for (int d = 0; d < 3; d++) {
                at[d] = y[d] * j->step[d] - j->padding[d] + own[d] * j->dilation[d];
                there = there && at[d] >= 0 && at[d] < j->x.dim[2 + d];
            }
            if (!there) continue;
            int64_t in_x = place(&j->x, b, o / each * j->w.dim[1] + i, at);
            int64_t in_w = place(&j->w, o, i, own), in_y = place(&j->y, b, o, y);
            if (j->operation == DNN_FORWARD)
                sum[in_y] += get(j, &j->x, in_x) * get(j, &j->w, in_w);
            else if (j->operation == DNN_BACKWARD_DATA)
                sum[in_x] += get(j, &j->y, in_y) * get(j, &j->w, in_w);
            else
                sum[in_w] += get(j, &j->y, in_y) * get(j, &j->x, in_x);
        }
}

static const tensor *result_of(const job *j)
{
    return j->operation == DNN_FORWARD ? &j->y : j->operation == DNN_BACKWARD_DATA ? &j->x : &j->w;
}

static void run(void *user)
{
    const job *j = user;
    const tensor *to = result_of(j);
    double *sum = calloc(elements(to), sizeof(*sum));
    if (!sum) library_misuse("out of memory");
    if (j->workspace_bytes > 0) memset(j->workspace, 0xff, j->workspace_bytes);
    for (int64_t b = 0; b < j->y.dim[0]; b++)
        for (int64_t o = 0; o < j->y.dim[1]; o++)
            for (int64_t p = 0; p < j->y.dim[2] * j->y.dim[3] * j->y.dim[4]; p++)
                add(j, sum, b, o,
                    (const int64_t[3]){p / (j->y.dim[3] * j->y.dim[4]),
                                       p / j->y.dim[4] % j->y.dim[3], p % j->y.dim[4]});
    bool wrong = j->engine == ENGINE_RANDOM || j->engine == ENGINE_FFT;
    for (size_t i = 0; i < elements(to); i++) {
        double value = wrong ? (double)NAN : sum[i];
        if (j->doubles)
            ((double *)to->at)[i] = value;
        else
            ((float *)to->at)[i] = (float)value;
    }
    free(sum);
}

/* --- execution --- */

static void bind(tensor *t, const descriptor *pack)
{
    const attribute *ids = find(pack, DNN_PACK_IDS, DNN_IS_INT64, 3),
                    *pointers = find(pack, DNN_PACK_POINTERS, DNN_IS_POINTER, 3);
    t->at = NULL;
    for (int i = 0; i < 3; i++)
        if (((const int64_t *)ids->values)[i] == t->id)
            t->at = ((void *const *)pointers->values)[i];
    if (!t->at) library_misuse("cudnnBackendExecute: tensor %d has no memory", (int)t->id);
    if ((uintptr_t)t->at % 16 != 0) library_misuse("cudnnBackendExecute: a tensor is at %p", t->at);
}

unsigned cudnnBackendExecute(cudnnHandle_t handle_of, cudnnBackendDescriptor_t plan_of,
                             cudnnBackendDescriptor_t pack_of)
{
    const char *function = "cudnnBackendExecute";
    const descriptor *plan = plan_of, *pack = pack_of;
    unsigned status = library_planned(function);
    if (status) return status;
    library_need(function, handle_of, "handle");
    library_need(function, plan, "descriptor");
    library_need(function, pack, "descriptor");
    if (!plan->final || !pack->final || plan->type != DNN_PLAN || pack->type != DNN_VARIANT_PACK)
        library_misuse("%s: not a finished plan and pack", function);
    job *j = malloc(sizeof(*j));
    if (!j) library_misuse("out of memory");
    *j = job_of(
        part(part(plan, DNN_PLAN_CONFIG, DNN_ENGINE_CONFIG), DNN_HEURISTIC_GRAPH, DNN_GRAPH));
    j->engine = plan->engine;
    bind(&j->x, pack);
    bind(&j->w, pack);
    bind(&j->y, pack);
    j->workspace = *(void **)find(pack, DNN_PACK_WORKSPACE, DNN_IS_POINTER, 1)->values;
    j->workspace_bytes = workspace_of(plan);
    size_t each = j->doubles ? 8 : 4;
    const tensor *result = result_of(j);
    fake_use use[MOST_USES] = {{result->at, each * elements(result)}};
    int uses = 1;
    if (j->workspace_bytes > 0) use[uses++] = (fake_use){j->workspace, j->workspace_bytes};
    int written = uses;
    const tensor *const all[] = {&j->x, &j->w, &j->y};
    for (int i = 0; i < 3; i++)
        if (all[i] != result) use[uses++] = (fake_use){all[i]->at, each * elements(all[i])};
    library_need_apart(function, use, uses, 0, written);
    return library_queue(handle_of->stream, function, run, j, use, uses);
}
