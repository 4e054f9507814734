/* The double of libcublasLt.so: products on the host, in the order of the double's streams, with
 * the semantics that NVIDIA documents: column-major matrices with leading dimensions, transposes,
 * strided batches, alpha and beta, a bias for each row of the result, operands rounded to TF32. A
 * result has read nothing of workspace, which is filled with ones. Misuse ends the process with a
 * line of the words "fake_cublaslt:". FAKE_CUDA_FAIL names its functions, too.
 *
 *   FAKE_CUBLASLT_VERSION  130100
 *   FAKE_CUBLASLT_NONE     the heuristic finds no algorithm
 */
#include "device/cuda/cublaslt_api.h"
#include "library.h"

const char library_name[] = "cublaslt";

#define DECLARE(name, parameters) __attribute__((visibility("default"))) unsigned name parameters;
CUBLASLT_FUNCTIONS(DECLARE)
__attribute__((visibility("default"))) size_t cublasLtGetVersion(void);
__attribute__((visibility("default"))) const char *cublasLtGetStatusName(unsigned status);

enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

struct cublasLtContext {
    object head;
};
struct cublaslt_desc {
    object head;
    unsigned compute, scale;
    int32_t first, second; /* transposed */
    uint32_t epilogue;
    const void *bias;
};
struct cublaslt_layout {
    object head;
    unsigned type;
    uint64_t rows, columns;
    int64_t leading, stride;
    int32_t batch;
};
struct cublaslt_preference {
    object head;
    uint64_t workspace, implementations;
    uint32_t reduction, alignment[4];
};

/* The problem that an algorithm was chosen for. */
typedef struct chosen {
    uint32_t magic, hash, alignment[5]; /* of a, b, c, the result, and the bias */
    uint64_t workspace;
} chosen;
_Static_assert(sizeof(chosen) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm");

size_t cublasLtGetVersion(void)
{
    const char *text = getenv("FAKE_CUBLASLT_VERSION");
    return text ? (size_t)atol(text) : 130100;
}

const char *cublasLtGetStatusName(unsigned status)
{
    return status == NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED" : "CUBLAS_STATUS_OTHER";
}

unsigned cublasLtCreate(cublasLtHandle_t *out)
{
    unsigned status = library_planned("cublasLtCreate");
    if (status) return status;
    *out = library_new(sizeof(**out), "handle");
    return LT_OK;
}

unsigned cublasLtDestroy(cublasLtHandle_t lt)
{
    return library_end("cublasLtDestroy", lt, "handle");
}

unsigned cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, unsigned compute, unsigned scale)
{
    unsigned status = library_planned_anywhere("cublasLtMatmulDescCreate");
    if (status) return status;
    cublasLtMatmulDesc_t d = library_new(sizeof(*d), "description");
    d->compute = compute;
    d->scale = scale;
    d->epilogue = LT_EPILOGUE_DEFAULT;
    *out = d;
    return LT_OK;
}

unsigned cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    return library_end("cublasLtMatmulDescDestroy", d, "description");
}

static unsigned set(void *to, size_t size, const void *from, size_t given)
{
    if (!from || given != size) return INVALID_VALUE;
    memcpy(to, from, size);
    return LT_OK;
}

unsigned cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, unsigned what, const void *value,
                                        size_t size)
{
    library_need("cublasLtMatmulDescSetAttribute", d, "description");
    unsigned status = library_planned_anywhere("cublasLtMatmulDescSetAttribute");
    if (status) return status;
    switch (what) {
    case LT_TRANSA: return set(&d->first, sizeof(d->first), value, size);
    case LT_TRANSB: return set(&d->second, sizeof(d->second), value, size);
    case LT_EPILOGUE: return set(&d->epilogue, sizeof(d->epilogue), value, size);
    case LT_BIAS_POINTER: return set((void *)&d->bias, sizeof(d->bias), value, size);
    default: library_misuse("cublasLtMatmulDescSetAttribute: attribute %u", what);
    }
}

unsigned cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, unsigned type, uint64_t rows,
                                    uint64_t columns, int64_t leading)
{
    unsigned status = library_planned_anywhere("cublasLtMatrixLayoutCreate");
    if (status) return status;
    cublasLtMatrixLayout_t l = library_new(sizeof(*l), "layout");
    if (leading < (int64_t)rows)
        library_misuse("a matrix of %d rows with leading dimension %d", (int)rows, (int)leading);
    l->type = type;
    l->rows = rows;
    l->columns = columns;
    l->leading = leading;
    l->batch = 1;
    *out = l;
    return LT_OK;
}

unsigned cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    return library_end("cublasLtMatrixLayoutDestroy", l, "layout");
}

unsigned cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l, unsigned what,
                                          const void *value, size_t size)
{
    library_need("cublasLtMatrixLayoutSetAttribute", l, "layout");
    unsigned status = library_planned_anywhere("cublasLtMatrixLayoutSetAttribute");
    if (status) return status;
    if (what == LT_BATCH_COUNT) return set(&l->batch, sizeof(l->batch), value, size);
    if (what == LT_BATCH_OFFSET) return set(&l->stride, sizeof(l->stride), value, size);
    library_misuse("cublasLtMatrixLayoutSetAttribute: attribute %u", what);
}

unsigned cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    unsigned status = library_planned_anywhere("cublasLtMatmulPreferenceCreate");
    if (status) return status;
    *out = library_new(sizeof(**out), "preference");
    (*out)->reduction = 7;
    (*out)->implementations = UINT64_MAX;
    for (int i = 0; i < 4; i++) (*out)->alignment[i] = 256;
    return LT_OK;
}

unsigned cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    return library_end("cublasLtMatmulPreferenceDestroy", p, "preference");
}

unsigned cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p, unsigned what,
                                              const void *value, size_t size)
{
    library_need("cublasLtMatmulPreferenceSetAttribute", p, "preference");
    unsigned status = library_planned_anywhere("cublasLtMatmulPreferenceSetAttribute");
    if (status) return status;
    if (what == LT_MOST_WORKSPACE) return set(&p->workspace, sizeof(p->workspace), value, size);
    if (what == LT_REDUCTION_MASK) return set(&p->reduction, sizeof(p->reduction), value, size);
    if (what == LT_IMPLEMENTATION_MASK)
        return set(&p->implementations, sizeof(p->implementations), value, size);
    if (what >= LT_ALIGNMENT_A && what <= LT_ALIGNMENT_D)
        return set(&p->alignment[what - LT_ALIGNMENT_A], sizeof(p->alignment[0]), value, size);
    library_misuse("cublasLtMatmulPreferenceSetAttribute: attribute %u", what);
}

/* A product: op(first) is [m, k], op(second) [k, n], the result [m, n]. */
typedef struct job {
    struct cublaslt_desc d;
    struct cublaslt_layout first, second, c, result;
    uint64_t m, n, k;
    const void *a, *b, *from;
    void *to, *workspace;
    size_t workspace_bytes;
    double alpha, beta;
} job;

static void check(const char *function, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t first,
                  cublasLtMatrixLayout_t second, cublasLtMatrixLayout_t c,
                  cublasLtMatrixLayout_t result, job *j)
{
    library_need(function, d, "description");
    library_need(function, first, "layout");
    library_need(function, second, "layout");
    library_need(function, c, "layout");
    library_need(function, result, "layout");
    *j = (job){.d = *d, .first = *first, .second = *second, .c = *c, .result = *result};
    j->m = d->first ? first->columns : first->rows;
    j->k = d->first ? first->rows : first->columns;
    j->n = d->second ? second->rows : second->columns;
    if ((d->second ? second->columns : second->rows) != j->k || result->rows != j->m ||
        result->columns != j->n || c->rows != j->m || c->columns != j->n)
        library_misuse("%s: sizes do not match", function);
    if (second->batch != first->batch || result->batch != first->batch || c->batch != first->batch)
        library_misuse("%s: batches do not match", function);
    if (second->type != first->type || result->type != first->type || c->type != first->type)
        library_misuse("%s: types do not match", function);
    bool doubles = first->type == LT_R_64F;
    if (doubles != (d->compute == LT_COMPUTE_64F) || d->scale != first->type)
        library_misuse("%s: the type of computation does not match", function);
    if (d->epilogue != LT_EPILOGUE_DEFAULT && (d->epilogue != LT_EPILOGUE_BIAS || doubles))
        library_misuse("%s: epilogue %u", function, d->epilogue);
}

/* A number that tells problems apart. */
static uint32_t hash_of(const job *j)
{
    const uint64_t numbers[] = {j->m,
                                j->n,
                                j->k,
                                (uint64_t)j->first.batch,
                                (uint64_t)j->d.first,
                                (uint64_t)j->d.second,
                                (uint64_t)j->first.leading,
                                (uint64_t)j->second.leading,
                                (uint64_t)j->result.leading,
                                j->d.compute,
                                j->d.epilogue};
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        hash = hash * 1000003 + numbers[i];
    return (uint32_t)(hash ^ hash >> 32);
}

/* Some problems need workspace of an odd size, if so much is allowed. */
unsigned cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lt, cublasLtMatmulDesc_t d,
                                        cublasLtMatrixLayout_t first, cublasLtMatrixLayout_t second,
                                        cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t result,
                                        cublasLtMatmulPreference_t p, int most,
                                        cublasLtMatmulHeuristicResult_t *out, int *count)
{
    const char *function = "cublasLtMatmulAlgoGetHeuristic";
    job j;
    unsigned status = library_planned(function);
    if (status) return status;
    library_need(function, lt, "handle");
    library_need(function, p, "preference");
    check(function, d, first, second, c, result, &j);
    if (p->reduction & 1) library_misuse("%s: sums in the order in which they end", function);
    if (j.first.type == LT_R_32F && j.d.compute != LT_COMPUTE_TF32 &&
        p->implementations & LT_INPUT_TF32)
        library_misuse("%s: operands may be rounded", function);
    if (most != 1) library_misuse("%s: %d algorithms", function, most);
    *count = 0;
    if (getenv("FAKE_CUBLASLT_NONE")) return NOT_SUPPORTED;
    chosen own = {.magic = 0xa190, .hash = hash_of(&j)};
    memcpy(own.alignment, p->alignment, sizeof(p->alignment));
    if (j.d.epilogue == LT_EPILOGUE_BIAS) {
        uintptr_t at = (uintptr_t)j.d.bias;
        if (!at) library_misuse("%s: a bias without an address", function);
        own.alignment[4] = at % 256 == 0 ? 256 : (uint32_t)(at & -at);
    }
    own.workspace = j.k >= 8 && p->workspace >= 4100 ? 4 * j.k + 5 : 0;
    *out = (cublasLtMatmulHeuristicResult_t){.workspaceSize = own.workspace};
    memcpy(&out->algo, &own, sizeof(own));
    *count = 1;
    return LT_OK;
}

static double get(const struct cublaslt_layout *l, const void *at, uint64_t batch, uint64_t row,
                  uint64_t column)
{
    uint64_t i = batch * (uint64_t)l->stride + column * (uint64_t)l->leading + row;
    return l->type == LT_R_64F ? ((const double *)at)[i] : (double)((const float *)at)[i];
}

static double element(const job *j, uint64_t batch, uint64_t row, uint64_t column)
{
    double sum = 0;
    for (uint64_t p = 0; p < j->k; p++) {
        double a = get(&j->first, j->a, batch, j->d.first ? p : row, j->d.first ? row : p);
        double b = get(&j->second, j->b, batch, j->d.second ? column : p, j->d.second ? p : column);
        sum += j->d.compute == LT_COMPUTE_TF32 ? library_tf32(a) * library_tf32(b) : a * b;
    }
    sum *= j->alpha;
    if (j->beta != 0) sum += j->beta * get(&j->c, j->from, batch, row, column);
    if (j->d.epilogue == LT_EPILOGUE_BIAS) sum += (double)((const float *)j->d.bias)[row];
    return sum;
}

static void run(void *user)
{
    const job *j = user;
    if (j->workspace_bytes > 0) memset(j->workspace, 0xff, j->workspace_bytes);
    for (int32_t batch = 0; batch < j->result.batch; batch++)
        for (uint64_t column = 0; column < j->n; column++)
            for (uint64_t row = 0; row < j->m; row++) {
                uint64_t i = (uint64_t)batch * (uint64_t)j->result.stride +
                             column * (uint64_t)j->result.leading + row;
                double value = element(j, (uint64_t)batch, row, column);
                if (j->result.type == LT_R_64F)
                    ((double *)j->to)[i] = value;
                else
                    ((float *)j->to)[i] = (float)value;
            }
}

static fake_use use_of(const struct cublaslt_layout *l, const void *at)
{
    uint64_t count = (uint64_t)(l->batch - 1) * (uint64_t)l->stride +
                     (l->columns - 1) * (uint64_t)l->leading + l->rows;
    return (fake_use){at, count * (l->type == LT_R_64F ? 8 : 4)};
}

static double scalar(const struct cublaslt_layout *l, const void *at)
{
    return l->type == LT_R_64F ? *(const double *)at : (double)*(const float *)at;
}

unsigned cublasLtMatmul(cublasLtHandle_t lt, cublasLtMatmulDesc_t d, const void *alpha,
                        const void *a, cublasLtMatrixLayout_t first, const void *b,
                        cublasLtMatrixLayout_t second, const void *beta, const void *from,
                        cublasLtMatrixLayout_t c, void *to, cublasLtMatrixLayout_t result,
                        const cublasLtMatmulAlgo_t *algo, void *workspace, size_t bytes,
                        cu_stream stream)
{
    const char *function = "cublasLtMatmul";
    job *j = malloc(sizeof(*j));
    chosen own;
    unsigned status = library_planned(function);
    if (status || !j) {
        free(j);
        return status ? status : NOT_SUPPORTED;
    }
    library_need(function, lt, "handle");
    check(function, d, first, second, c, result, j);
    memcpy(&own, algo, sizeof(own));
    if (own.magic != 0xa190 || own.hash != hash_of(j))
        library_misuse("%s: the algorithm is one of another problem", function);
    if (bytes < own.workspace)
        library_misuse("%s: workspace of %zu bytes, and the algorithm needs %d", function, bytes,
                       (int)own.workspace);
    if (own.workspace > 0 && (uintptr_t)workspace % 256 != 0)
        library_misuse("%s: the workspace is at %p", function, workspace);
    const void *const at[] = {a, b, from, to, d->bias};
    for (int i = 0; i < (d->epilogue == LT_EPILOGUE_BIAS ? 5 : 4); i++)
        if ((uintptr_t)at[i] % own.alignment[i] != 0)
            library_misuse("%s: matrix %d is at %p, and was to be at a multiple of %u", function, i,
                           at[i], own.alignment[i]);
    fake_use use[MOST_USES] = {use_of(first, a), use_of(second, b), use_of(result, to)};
    int uses = 3;
    if (own.workspace > 0) use[uses++] = (fake_use){workspace, bytes};
    if (d->epilogue == LT_EPILOGUE_BIAS) use[uses++] = (fake_use){d->bias, 4 * result->rows};
    library_need_apart(function, use, uses, 2, own.workspace > 0 ? 2 : 1);
    j->a = a;
    j->b = b;
    j->from = from;
    j->to = to;
    j->workspace = workspace;
    j->workspace_bytes = own.workspace ? bytes : 0;
    j->alpha = scalar(result, alpha);
    j->beta = scalar(result, beta);
    if (j->beta != 0 && from != to) library_misuse("%s: c and the result differ", function);
    return library_queue(stream, function, run, j, use, uses);
}
