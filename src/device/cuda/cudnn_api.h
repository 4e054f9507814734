/* Declares what is used of cuDNN 9: its graph interface, in which everything is a descriptor with
 * attributes, so that no headers are needed to build. The test cuda_headers compares all with the
 * headers where these are installed. */
#ifndef WEFT_DEVICE_CUDA_CUDNN_API_H
#define WEFT_DEVICE_CUDA_CUDNN_API_H

#include <stdint.h>

#include "device/cuda/api.h"

#ifndef CUDA_HEADERS_ARE_INCLUDED
typedef struct cudnnContext *cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t;
#endif

/* Values: our name, cuDNN's name, value. */
#define CUDNN_VALUES(X)                                                                            \
    X(DNN_OK, CUDNN_STATUS_SUCCESS, 0)                                                             \
    X(DNN_FLOAT, CUDNN_DATA_FLOAT, 0)                                                              \
    X(DNN_DOUBLE, CUDNN_DATA_DOUBLE, 1)                                                            \
    X(DNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION, 1)                                           \
    X(DNN_MODE_A, CUDNN_HEUR_MODE_A, 3)                                                            \
    X(DNN_MODE_FALLBACK, CUDNN_HEUR_MODE_FALLBACK, 2)                                              \
    X(DNN_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_TENSOR_CORE, 0)                                   \
    X(DNN_NOTE_DOWN_CONVERT, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, 1)                          \
    X(DNN_NOTE_REDUCED, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, 2)                       \
    X(DNN_NOTE_FFT, CUDNN_NUMERICAL_NOTE_FFT, 3)                                                   \
    X(DNN_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, 4)                         \
    X(DNN_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD, 5)                                         \
    X(DNN_IS_HANDLE, CUDNN_TYPE_HANDLE, 0)                                                         \
    X(DNN_IS_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1)                                                   \
    X(DNN_IS_INT64, CUDNN_TYPE_INT64, 3)                                                           \
    X(DNN_IS_FLOAT, CUDNN_TYPE_FLOAT, 4)                                                           \
    X(DNN_IS_DOUBLE, CUDNN_TYPE_DOUBLE, 5)                                                         \
    X(DNN_IS_POINTER, CUDNN_TYPE_VOID_PTR, 6)                                                      \
    X(DNN_IS_CONVOLUTION_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 7)                                     \
    X(DNN_IS_HEURISTIC_MODE, CUDNN_TYPE_HEUR_MODE, 8)                                              \
    X(DNN_IS_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 11)                                        \
    X(DNN_IS_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 15)                                        \
    X(DNN_IS_CHAR, CUDNN_TYPE_CHAR, 24)                                                            \
    X(DNN_CONVOLUTION, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, 1)                                    \
    X(DNN_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 2)                                              \
    X(DNN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 3)                                    \
    X(DNN_HEURISTIC, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                                       \
    X(DNN_PLAN, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                                        \
    X(DNN_FORWARD, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, 10)                     \
    X(DNN_BACKWARD_WEIGHT, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, 11)     \
    X(DNN_BACKWARD_DATA, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, 12)         \
    X(DNN_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                                      \
    X(DNN_VARIANT_PACK, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                                 \
    X(DNN_TENSOR, CUDNN_BACKEND_TENSOR_DESCRIPTOR, 17)                                             \
    X(DNN_DEVICE, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 38)                                         \
    X(DNN_CONVOLUTION_TYPE, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, 100)                                 \
    X(DNN_CONVOLUTION_MODE, CUDNN_ATTR_CONVOLUTION_CONV_MODE, 101)                                 \
    X(DNN_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_DILATIONS, 102)                            \
    X(DNN_CONVOLUTION_STRIDES, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 103)                         \
    X(DNN_CONVOLUTION_POST, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 104)                             \
    X(DNN_CONVOLUTION_PRE, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 105)                               \
    X(DNN_CONVOLUTION_SPACE, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 106)                             \
    X(DNN_HEURISTIC_MODE, CUDNN_ATTR_ENGINEHEUR_MODE, 200)                                         \
    X(DNN_HEURISTIC_GRAPH, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                             \
    X(DNN_HEURISTIC_RESULTS, CUDNN_ATTR_ENGINEHEUR_RESULTS, 202)                                   \
    X(DNN_HEURISTIC_DEVICE, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 204)                                 \
    X(DNN_CONFIG_ENGINE, CUDNN_ATTR_ENGINECFG_ENGINE, 300)                                         \
    X(DNN_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 400)                                      \
    X(DNN_PLAN_CONFIG, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                               \
    X(DNN_PLAN_WORKSPACE, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                           \
    X(DNN_PLAN_DEVICE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 407)                                  \
    X(DNN_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 700)                      \
    X(DNN_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 701)                        \
    X(DNN_FORWARD_CONVOLUTION, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, 702)            \
    X(DNN_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, 703)                              \
    X(DNN_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, 704)                              \
    X(DNN_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, 705)                              \
    X(DNN_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 706)                        \
    X(DNN_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 707)                          \
    X(DNN_DATA_CONVOLUTION, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, 708)              \
    X(DNN_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, 709)                                \
    X(DNN_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, 710)                              \
    X(DNN_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, 711)                              \
    X(DNN_WEIGHT_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 712)                    \
    X(DNN_WEIGHT_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 713)                      \
    X(DNN_WEIGHT_CONVOLUTION, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, 714)          \
    X(DNN_WEIGHT_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, 715)                          \
    X(DNN_WEIGHT_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, 716)                            \
    X(DNN_WEIGHT_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, 717)                          \
    X(DNN_GRAPH_HANDLE, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, 800)                                     \
    X(DNN_GRAPH_OPERATIONS, CUDNN_ATTR_OPERATIONGRAPH_OPS, 801)                                    \
    X(DNN_TENSOR_ALIGNMENT, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 900)                                 \
    X(DNN_TENSOR_TYPE, CUDNN_ATTR_TENSOR_DATA_TYPE, 901)                                           \
    X(DNN_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_DIMENSIONS, 902)                                    \
    X(DNN_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_STRIDES, 903)                                          \
    X(DNN_TENSOR_ID, CUDNN_ATTR_TENSOR_UNIQUE_ID, 906)                                             \
    X(DNN_PACK_IDS, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                                      \
    X(DNN_PACK_POINTERS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                              \
    X(DNN_PACK_WORKSPACE, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 1003)                                 \
    X(DNN_ENGINE_NOTES, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, 1303)                                    \
    X(DNN_DEVICE_JSON, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, 2702)

enum {
#define CUDNN_VALUE(own, name, value) own = value,
    CUDNN_VALUES(CUDNN_VALUE)
#undef CUDNN_VALUE
};

/* Functions: name, parameters. All return a status, which is `unsigned`. */
#define CUDNN_FUNCTIONS(X)                                                                         \
    X(cudnnCreate, (cudnnHandle_t *))                                                              \
    X(cudnnDestroy, (cudnnHandle_t))                                                               \
    X(cudnnSetStream, (cudnnHandle_t, cu_stream))                                                  \
    X(cudnnBackendCreateDescriptor, (unsigned, cudnnBackendDescriptor_t *))                        \
    X(cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t))                                   \
    X(cudnnBackendFinalize, (cudnnBackendDescriptor_t))                                            \
    X(cudnnBackendSetAttribute,                                                                    \
      (cudnnBackendDescriptor_t, unsigned, unsigned, int64_t, const void *))                       \
    X(cudnnBackendGetAttribute,                                                                    \
      (cudnnBackendDescriptor_t, unsigned, unsigned, int64_t, int64_t *, void *))                  \
    X(cudnnBackendExecute, (cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t))

typedef struct cudnn_functions {
#define CUDNN_FIELD(name, parameters) unsigned(*name) parameters;
    CUDNN_FUNCTIONS(CUDNN_FIELD)
#undef CUDNN_FIELD
    size_t (*cudnnGetVersion)(void);       /* 10000 major + 100 minor + patch */
    size_t (*cudnnGetCudartVersion)(void); /* of CUDA: 1000 major + 10 minor */
    const char *(*cudnnGetErrorString)(unsigned);
} cudnn_functions;

#endif
