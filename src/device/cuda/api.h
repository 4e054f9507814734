/* Declares what the CUDA driver uses of libcuda.so.1 (the driver API) and of NVRTC, so that neither
 * headers of CUDA nor its libraries are needed to build. The structs have CUDA's tags, and CUDA's
 * enumerations are `unsigned`, so the types are compatible with those of its headers; the
 * test cuda_headers compares them where the headers are installed. */
#ifndef WEFT_DEVICE_CUDA_API_H
#define WEFT_DEVICE_CUDA_API_H

#include <stddef.h>

typedef unsigned cu_result;
typedef int cu_device;
typedef unsigned long long cu_pointer; /* an address of a card's memory */
typedef struct CUctx_st *cu_context;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;
typedef struct CUgraph_st *cu_graph; /* what a stream has captured */
typedef struct CUgraphExec_st *cu_graph_exec;
typedef struct CUmod_st *cu_module;
typedef struct CUfunc_st *cu_function;
typedef struct _nvrtcProgram *nvrtc_program;
struct CUuuid_st; /* 16 bytes */

/* Values: our name, CUDA's name, value. */
#define CUDA_VALUES(X)                                                                             \
    X(CU_OK, CUDA_SUCCESS, 0)                                                                      \
    X(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY, 2)                                               \
    X(CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED, 3)                                           \
    X(CU_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE, 46)                                    \
    X(CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE, 100)                                                     \
    X(CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT, 201)                                         \
    X(CU_ECC_UNCORRECTABLE, CUDA_ERROR_ECC_UNCORRECTABLE, 214)                                     \
    X(CU_NVLINK_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE, 220)                               \
    X(CU_NOT_READY, CUDA_ERROR_NOT_READY, 600)                                                     \
    X(CU_PEER_ACCESS_ALREADY_ENABLED, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704)                 \
    X(CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS, 700)                                         \
    X(CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT, 702)                                           \
    X(CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)                               \
    X(CU_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR, 714)                               \
    X(CU_ILLEGAL_INSTRUCTION, CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)                                 \
    X(CU_MISALIGNED_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS, 716)                                   \
    X(CU_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)                             \
    X(CU_INVALID_PC, CUDA_ERROR_INVALID_PC, 718)                                                   \
    X(CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED, 719)                                             \
    X(CU_UNKNOWN, CUDA_ERROR_UNKNOWN, 999)                                                         \
    X(CU_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                       \
    X(CU_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                       \
    X(CU_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                                                  \
    X(CU_WITH_TIMING, CU_EVENT_DEFAULT, 0)                                                         \
    X(CU_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING, 2)                                               \
    X(CU_PORTABLE, CU_MEMHOSTALLOC_PORTABLE, 1)                                                    \
    X(CU_CAPTURE_OF_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, 1)                                \
    X(CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BUFFER, 5)                                                \
    X(CU_JIT_ERROR_LOG_SIZE, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, 6)

enum {
#define CUDA_VALUE(own, name, value) own = value,
    CUDA_VALUES(CUDA_VALUE)
#undef CUDA_VALUE
};

/* The keys of the list that passes arguments as one block. */
#define CU_BLOCK_END ((void *)0)
#define CU_BLOCK ((void *)1)
#define CU_BLOCK_SIZE ((void *)2)

/* Functions of the driver API: name and parameters. All return a cu_result. */
#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuInit, (unsigned))                                                                          \
    X(cuDriverGetVersion, (int *))                                                                 \
    X(cuGetErrorName, (cu_result, const char **))                                                  \
    X(cuGetErrorString, (cu_result, const char **))                                                \
    X(cuDeviceGetCount, (int *))                                                                   \
    X(cuDeviceGet, (cu_device *, int))                                                             \
    X(cuDeviceGetName, (char *, int, cu_device))                                                   \
    X(cuDeviceTotalMem_v2, (size_t *, cu_device))                                                  \
    X(cuDeviceGetAttribute, (int *, unsigned, cu_device))                                          \
    X(cuDeviceGetUuid_v2, (struct CUuuid_st *, cu_device))                                         \
    X(cuDevicePrimaryCtxRetain, (cu_context *, cu_device))                                         \
    X(cuDevicePrimaryCtxRelease_v2, (cu_device))                                                   \
    X(cuCtxPushCurrent_v2, (cu_context))                                                           \
    X(cuCtxPopCurrent_v2, (cu_context *))                                                          \
    X(cuDeviceCanAccessPeer, (int *, cu_device, cu_device))                                        \
    X(cuCtxEnablePeerAccess, (cu_context, unsigned))                                               \
    X(cuMemGetInfo_v2, (size_t *, size_t *))                                                       \
    X(cuMemAlloc_v2, (cu_pointer *, size_t))                                                       \
    X(cuMemFree_v2, (cu_pointer))                                                                  \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                 \
    X(cuMemFreeHost, (void *))                                                                     \
    X(cuMemsetD8Async, (cu_pointer, unsigned char, size_t, cu_stream))                             \
    X(cuMemcpyHtoDAsync_v2, (cu_pointer, const void *, size_t, cu_stream))                         \
    X(cuMemcpyDtoHAsync_v2, (void *, cu_pointer, size_t, cu_stream))                               \
    X(cuMemcpyDtoDAsync_v2, (cu_pointer, cu_pointer, size_t, cu_stream))                           \
    X(cuStreamCreate, (cu_stream *, unsigned))                                                     \
    X(cuStreamDestroy_v2, (cu_stream))                                                             \
    X(cuStreamSynchronize, (cu_stream))                                                            \
    X(cuStreamWaitEvent, (cu_stream, cu_event, unsigned))                                          \
    X(cuStreamBeginCapture_v2, (cu_stream, unsigned))                                              \
    X(cuStreamEndCapture, (cu_stream, cu_graph *))                                                 \
    X(cuGraphInstantiateWithFlags, (cu_graph_exec *, cu_graph, unsigned long long))                \
    X(cuGraphLaunch, (cu_graph_exec, cu_stream))                                                   \
    X(cuGraphDestroy, (cu_graph))                                                                  \
    X(cuGraphExecDestroy, (cu_graph_exec))                                                         \
    X(cuEventCreate, (cu_event *, unsigned))                                                       \
    X(cuEventDestroy_v2, (cu_event))                                                               \
    X(cuEventRecord, (cu_event, cu_stream))                                                        \
    X(cuEventQuery, (cu_event))                                                                    \
    X(cuEventSynchronize, (cu_event))                                                              \
    X(cuEventElapsedTime, (float *, cu_event, cu_event))                                           \
    X(cuModuleLoadDataEx, (cu_module *, const void *, unsigned, unsigned *, void **))              \
    X(cuModuleUnload, (cu_module))                                                                 \
    X(cuModuleGetFunction, (cu_function *, cu_module, const char *))                               \
    X(cuLaunchKernel, (cu_function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,    \
                       unsigned, cu_stream, void **, void **))

typedef struct cuda_functions {
#define CUDA_FIELD(name, parameters) cu_result(*name) parameters;
    CUDA_FUNCTIONS(CUDA_FIELD)
#undef CUDA_FIELD
} cuda_functions;

/* Functions of NVRTC, which return 0 for success. */
#define NVRTC_FUNCTIONS(X)                                                                         \
    X(nvrtcVersion, (int *, int *))                                                                \
    X(nvrtcGetNumSupportedArchs, (int *))                                                          \
    X(nvrtcGetSupportedArchs, (int *))                                                             \
    X(nvrtcCreateProgram, (nvrtc_program *, const char *, const char *, int, const char *const *,  \
                           const char *const *))                                                   \
    X(nvrtcDestroyProgram, (nvrtc_program *))                                                      \
    X(nvrtcCompileProgram, (nvrtc_program, int, const char *const *))                              \
    X(nvrtcGetProgramLogSize, (nvrtc_program, size_t *))                                           \
    X(nvrtcGetProgramLog, (nvrtc_program, char *))                                                 \
    X(nvrtcGetCUBINSize, (nvrtc_program, size_t *))                                                \
    X(nvrtcGetCUBIN, (nvrtc_program, char *))                                                      \
    X(nvrtcGetPTXSize, (nvrtc_program, size_t *))                                                  \
    X(nvrtcGetPTX, (nvrtc_program, char *))

typedef struct nvrtc_functions {
#define NVRTC_FIELD(name, parameters) cu_result(*name) parameters;
    NVRTC_FUNCTIONS(NVRTC_FIELD)
#undef NVRTC_FIELD
} nvrtc_functions;

#endif
