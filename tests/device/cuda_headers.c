/* Compares the driver's own declarations of CUDA and its libraries (api.h, cublaslt_api.h,
 * cudnn_api.h) with their headers, by being compiled: values are equal, and functions have the same
 * types. LIBRARIES: the headers of cuBLASLt and cuDNN are there, too. */
#include <cuda.h>
#include <nvrtc.h>
#ifdef LIBRARIES
#include <cublasLt.h>
#include <cudnn.h>
#define CUDA_HEADERS_ARE_INCLUDED
#include "device/cuda/cublaslt_api.h"
#include "device/cuda/cudnn_api.h"
#endif

#include "device/cuda/api.h"

#define SAME_VALUE(own, name, value)                                                               \
    _Static_assert((int)own == (int)name, #name " has another value");
CUDA_VALUES(SAME_VALUE)

/* An enumeration of CUDA and `unsigned` are one type to the compiler, so pointers to functions are
 * assigned exactly if all parameters are of the same type. */
cuda_functions cuda = {
#define OF_CUDA(name, parameters) .name = name,
    CUDA_FUNCTIONS(OF_CUDA)};
nvrtc_functions nvrtc = {NVRTC_FUNCTIONS(OF_CUDA)};

#ifdef LIBRARIES
CUBLASLT_VALUES(SAME_VALUE)
CUDNN_VALUES(SAME_VALUE)
cublaslt_functions cublaslt = {CUBLASLT_FUNCTIONS(OF_CUDA).cublasLtGetVersion = cublasLtGetVersion,
                               .cublasLtGetStatusName = cublasLtGetStatusName};
cudnn_functions cudnn = {CUDNN_FUNCTIONS(OF_CUDA).cudnnGetVersion = cudnnGetVersion,
                         .cudnnGetCudartVersion = cudnnGetCudartVersion};
#endif

_Static_assert(sizeof(cu_pointer) == sizeof(CUdeviceptr), "CUdeviceptr");
_Static_assert(sizeof(cu_device) == sizeof(CUdevice), "CUdevice");
_Static_assert(sizeof(cu_result) == sizeof(CUresult), "CUresult");
_Static_assert(sizeof(cu_result) == sizeof(nvrtcResult), "nvrtcResult");
_Static_assert((size_t)CU_LAUNCH_PARAM_END == (size_t)CU_BLOCK_END, "end");
_Static_assert((size_t)CU_LAUNCH_PARAM_BUFFER_POINTER == (size_t)CU_BLOCK, "block");
_Static_assert((size_t)CU_LAUNCH_PARAM_BUFFER_SIZE == (size_t)CU_BLOCK_SIZE, "size");
