/* Makes the descriptors of products for cuBLASLt, and chooses their algorithms.
 *
 * The algorithm is the first one of the heuristic, for the types, sizes, strides and an alignment
 * of 16 bytes alone; sums in slices are added out of place, in order, never in the order in which
 * they end. So a run repeats its bits with one version of the library on one kind of cards. */
#include "device/cuda/cublaslt_product.h"

static const uint64_t most_workspace = 32 << 20;

cublaslt_matrix cublaslt_matrix_of(int64_t rows, int64_t columns, int64_t by_row, int64_t by_column,
                                   int64_t batch_stride)
{
    if (by_row == 1 && by_column >= rows)
        return (cublaslt_matrix){rows, columns, by_column, batch_stride, false};
    return (cublaslt_matrix){columns, rows, by_row, batch_stride, true};
}

weft_status cublaslt_check(const cublaslt_problem *p, unsigned status, const char *function)
{
    if (status == LT_OK) return WEFT_OK;
    return weft->fail(WEFT_ERR_INTERNAL, "operator %s: %s failed with %s (%u)", p->what, function,
                      p->l->f.cublasLtGetStatusName(status), status);
}

void cublaslt_close(const cublaslt_problem *p, const cublaslt_descriptors *d)
{
    const cublaslt_functions *f = &p->l->f;
    if (d->product) (void)f->cublasLtMatmulDescDestroy(d->product);
    if (d->first) (void)f->cublasLtMatrixLayoutDestroy(d->first);
    if (d->second) (void)f->cublasLtMatrixLayoutDestroy(d->second);
    if (d->result) (void)f->cublasLtMatrixLayoutDestroy(d->result);
}

weft_status cublaslt_set(const cublaslt_problem *p, const cublaslt_descriptors *d,
                         unsigned attribute, const void *value, size_t size)
{
    return cublaslt_check(
        p, p->l->f.cublasLtMatmulDescSetAttribute(d->product, attribute, value, size),
        "cublasLtMatmulDescSetAttribute");
}

static weft_status open_layout(const cublaslt_problem *p, const cublaslt_matrix *m,
                               cublasLtMatrixLayout_t *out)
{
    const cublaslt_functions *f = &p->l->f;
    const int32_t batch = (int32_t)p->batch;
    WEFT_TRY(cublaslt_check(p,
                            f->cublasLtMatrixLayoutCreate(out, p->doubles ? LT_R_64F : LT_R_32F,
                                                          (uint64_t)m->rows, (uint64_t)m->columns,
                                                          m->leading),
                            "cublasLtMatrixLayoutCreate"));
    if (batch == 1) return WEFT_OK;
    WEFT_TRY(cublaslt_check(
        p, f->cublasLtMatrixLayoutSetAttribute(*out, LT_BATCH_COUNT, &batch, sizeof(batch)),
        "cublasLtMatrixLayoutSetAttribute"));
    return cublaslt_check(p,
                          f->cublasLtMatrixLayoutSetAttribute(
                              *out, LT_BATCH_OFFSET, &m->batch_stride, sizeof(m->batch_stride)),
                          "cublasLtMatrixLayoutSetAttribute");
}

weft_status cublaslt_open(const cublaslt_problem *p, cublaslt_descriptors *d)
{
    const int32_t first = p->first.transposed, second = p->second.transposed;
    const uint32_t epilogue = p->bias ? LT_EPILOGUE_BIAS : LT_EPILOGUE_DEFAULT;
    const unsigned compute = p->doubles ? LT_COMPUTE_64F
                             : p->tf32  ? LT_COMPUTE_TF32
                                        : LT_COMPUTE_32F;
    WEFT_TRY(cublaslt_check(
        p, p->l->f.cublasLtMatmulDescCreate(&d->product, compute, p->doubles ? LT_R_64F : LT_R_32F),
        "cublasLtMatmulDescCreate"));
    WEFT_TRY(cublaslt_set(p, d, LT_TRANSA, &first, sizeof(first)));
    WEFT_TRY(cublaslt_set(p, d, LT_TRANSB, &second, sizeof(second)));
    WEFT_TRY(cublaslt_set(p, d, LT_EPILOGUE, &epilogue, sizeof(epilogue)));
    WEFT_TRY(open_layout(p, &p->first, &d->first));
    WEFT_TRY(open_layout(p, &p->second, &d->second));
    return open_layout(p, &p->result, &d->result);
}

/* --- the algorithm --- */

static weft_status set_preference(const cublaslt_problem *p, cublasLtMatmulPreference_t preference,
                                  unsigned attribute, const void *value, size_t size)
{
    return cublaslt_check(
        p, p->l->f.cublasLtMatmulPreferenceSetAttribute(preference, attribute, value, size),
        "cublasLtMatmulPreferenceSetAttribute");
}

static weft_status ask(cublaslt_problem *p, const cublaslt_descriptors *d,
                       cublasLtMatmulPreference_t preference)
{
    static const unsigned operands[] = {LT_ALIGNMENT_A, LT_ALIGNMENT_B, LT_ALIGNMENT_C,
                                        LT_ALIGNMENT_D};
    const uint32_t alignment = CUBLASLT_ALIGNMENT,
                   mask = LT_REDUCE_COMPUTE_TYPE | LT_REDUCE_OUTPUT_TYPE;
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

weft_status cublaslt_choose(cublaslt_problem *p)
{
    cublaslt_descriptors d = {.product = NULL};
    cublasLtMatmulPreference_t preference = NULL;
    /* The heuristic takes the alignment of a bias from its address. */
    const uintptr_t aligned = CUBLASLT_ALIGNMENT;
    weft_status status = cublaslt_open(p, &d);
    if (status == WEFT_OK && p->bias)
        status = cublaslt_set(p, &d, LT_BIAS_POINTER, &aligned, sizeof(aligned));
    if (status == WEFT_OK)
        status = cublaslt_check(p, p->l->f.cublasLtMatmulPreferenceCreate(&preference),
                                "cublasLtMatmulPreferenceCreate");
    if (status == WEFT_OK) status = ask(p, &d, preference);
    if (preference) (void)p->l->f.cublasLtMatmulPreferenceDestroy(preference);
    cublaslt_close(p, &d);
    return status;
}
