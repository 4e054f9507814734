/* Declares what is used of cuBLASLt, so that no headers are needed to build. Types have CUDA's
 * names and enumerations are `unsigned`; the test cuda_headers compares all with the headers where
 * these are installed (and includes them before, so that the types here are theirs). */
#ifndef WEFT_DEVICE_CUDA_CUBLASLT_API_H
#define WEFT_DEVICE_CUDA_CUBLASLT_API_H

#include <stdint.h>

#include "device/cuda/api.h"

#ifndef CUDA_HEADERS_ARE_INCLUDED
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublaslt_desc *cublasLtMatmulDesc_t;
typedef struct cublaslt_layout *cublasLtMatrixLayout_t;
typedef struct cublaslt_preference *cublasLtMatmulPreference_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    unsigned state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
#endif

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == 64 &&
                   sizeof(cublasLtMatmulHeuristicResult_t) == 96 &&
                   offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) == 64 &&
                   offsetof(cublasLtMatmulHeuristicResult_t, state) == 72,
               "the results of the heuristic");

/* Values: our name, CUDA's name, value. */
#define CUBLASLT_VALUES(X)                                                                         \
    X(LT_OK, CUBLAS_STATUS_SUCCESS, 0)                                                             \
    X(LT_R_32F, CUDA_R_32F, 0)                                                                     \
    X(LT_R_64F, CUDA_R_64F, 1)                                                                     \
    X(LT_COMPUTE_32F, CUBLAS_COMPUTE_32F, 68)                                                      \
    X(LT_COMPUTE_64F, CUBLAS_COMPUTE_64F, 70)                                                      \
    X(LT_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32, 77)                                           \
    X(LT_TRANSPOSED, CUBLAS_OP_T, 1)                                                               \
    X(LT_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA, 3)                                                   \
    X(LT_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB, 4)                                                   \
    X(LT_EPILOGUE, CUBLASLT_MATMUL_DESC_EPILOGUE, 7)                                               \
    X(LT_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)                                       \
    X(LT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DEFAULT, 1)                                           \
    X(LT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BIAS, 4)                                                 \
    X(LT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)                                       \
    X(LT_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6)                             \
    X(LT_MOST_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)                              \
    X(LT_REDUCTION_MASK, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)                            \
    X(LT_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)                               \
    X(LT_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)                               \
    X(LT_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)                               \
    X(LT_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)                               \
    X(LT_IMPLEMENTATION_MASK, CUBLASLT_MATMUL_PREF_IMPL_MASK, 12)                                  \
    X(LT_INPUT_16F, CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F, 0x10000)                              \
    X(LT_INPUT_16BF, CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF, 0x20000)                            \
    X(LT_INPUT_TF32, CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32, 0x40000)                            \
    X(LT_REDUCE_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)                           \
    X(LT_REDUCE_OUTPUT_TYPE, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 4)

enum {
#define CUBLASLT_VALUE(own, name, value) own = value,
    CUBLASLT_VALUES(CUBLASLT_VALUE)
#undef CUBLASLT_VALUE
};

/* Functions: name, parameters. All return a status, which is `unsigned`. */
#define CUBLASLT_FUNCTIONS(X)                                                                      \
    X(cublasLtCreate, (cublasLtHandle_t *))                                                        \
    X(cublasLtDestroy, (cublasLtHandle_t))                                                         \
    X(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t *, unsigned, unsigned))                      \
    X(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t))                                           \
    X(cublasLtMatmulDescSetAttribute, (cublasLtMatmulDesc_t, unsigned, const void *, size_t))      \
    X(cublasLtMatrixLayoutCreate,                                                                  \
      (cublasLtMatrixLayout_t *, unsigned, uint64_t, uint64_t, int64_t))                           \
    X(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t))                                       \
    X(cublasLtMatrixLayoutSetAttribute, (cublasLtMatrixLayout_t, unsigned, const void *, size_t))  \
    X(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t *))                              \
    X(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t))                               \
    X(cublasLtMatmulPreferenceSetAttribute,                                                        \
      (cublasLtMatmulPreference_t, unsigned, const void *, size_t))                                \
    X(cublasLtMatmulAlgoGetHeuristic,                                                              \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,     \
       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,            \
       cublasLtMatmulHeuristicResult_t *, int *))                                                  \
    X(cublasLtMatmul,                                                                              \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t, \
       const void *, cublasLtMatrixLayout_t, const void *, const void *, cublasLtMatrixLayout_t,   \
       void *, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t, cu_stream))

typedef struct cublaslt_functions {
#define CUBLASLT_FIELD(name, parameters) unsigned(*name) parameters;
    CUBLASLT_FUNCTIONS(CUBLASLT_FIELD)
#undef CUBLASLT_FIELD
    size_t (*cublasLtGetVersion)(void); /* 10000 major + 100 minor + patch */
    const char *(*cublasLtGetStatusName)(unsigned);
} cublaslt_functions;

#endif
