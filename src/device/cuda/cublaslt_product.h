/* Declares products for cuBLASLt: their matrices, descriptors and algorithm.
 *
 * cuBLASLt's matrices are column-major, in which a row-major matrix is its transpose, so the
 * product c = a b is asked for as c^T = b^T a^T: the first matrix is Weft's b. */
#ifndef WEFT_DEVICE_CUDA_CUBLASLT_PRODUCT_H
#define WEFT_DEVICE_CUDA_CUBLASLT_PRODUCT_H

#include "device/cuda/cublaslt_api.h"
#include "device/cuda/cuda.h"

enum { CUBLASLT_ALIGNMENT = 16 }; /* of all operands */

typedef struct cublaslt_library {
    const cuda_card *card;
    cublaslt_functions f;
    cublasLtHandle_t handle;
} cublaslt_library;

/* A matrix as cuBLASLt sees it: column-major, with its leading dimension. */
typedef struct cublaslt_matrix {
    int64_t rows, columns, leading, batch_stride;
    bool transposed;
} cublaslt_matrix;

typedef struct cublaslt_problem {
    const cublaslt_library *l;
    cublaslt_matrix first, second, result;
    int64_t batch;
    bool doubles, tf32, bias;
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
    char what[64]; /* the operator, for messages */
} cublaslt_problem;

typedef struct cublaslt_descriptors {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t first, second, result;
} cublaslt_descriptors;

/* An operand whose elements of a row, and of a column, are so far apart. */
cublaslt_matrix cublaslt_matrix_of(int64_t rows, int64_t columns, int64_t by_row, int64_t by_column,
                                   int64_t batch_stride);
/* Makes the descriptors, which the caller closes also if this fails. */
weft_status cublaslt_open(const cublaslt_problem *p, cublaslt_descriptors *d) WEFT_NODISCARD;
void cublaslt_close(const cublaslt_problem *p, const cublaslt_descriptors *d);
weft_status cublaslt_set(const cublaslt_problem *p, const cublaslt_descriptors *d,
                         unsigned attribute, const void *value, size_t size) WEFT_NODISCARD;
/* Chooses the algorithm, and sets the bytes of its workspace. UNSUPPORTED: there is none. */
weft_status cublaslt_choose(cublaslt_problem *p) WEFT_NODISCARD;
weft_status cublaslt_check(const cublaslt_problem *p, unsigned status,
                           const char *function) WEFT_NODISCARD;

#endif
