/* Compares the driver's own declarations of CUDA and its libraries (api.h, cublaslt_api.h,
 * cudnn_api.h, nccl_api.h) with their headers, by being compiled: values are equal, and functions
 * have the same types. LIBRARIES: the headers of cuBLASLt and cuDNN are there, too; NCCL: that of
 * NCCL. */
#include <cuda.h>
#include <limits.h>
#include <nvrtc.h>
#ifdef LIBRARIES
#include <cublasLt.h>
#include <cudnn.h>
#define CUDA_HEADERS_ARE_INCLUDED
#include "device/cuda/cublaslt_api.h"
#include "device/cuda/cudnn_api.h"
#endif

#ifdef NCCL
#include <nccl.h>
#define CUDA_HEADERS_ARE_INCLUDED
#include "device/cuda/nccl_api.h"
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

#ifdef NCCL
NCCL_VALUES(SAME_VALUE)
nccl_functions nccl = {NCCL_FUNCTIONS(OF_CUDA).ncclGetErrorString = ncclGetErrorString,
                       .ncclGetLastError = ncclGetLastError};
#define SAME_PLACE(own, name)                                                                      \
    _Static_assert(offsetof(struct nccl_config, own) == offsetof(ncclConfig_t, name),              \
                   #name " is elsewhere");
SAME_PLACE(size, size)
SAME_PLACE(magic, magic)
SAME_PLACE(version, version)
SAME_PLACE(blocking, blocking)
SAME_PLACE(cga_size, cgaClusterSize)
SAME_PLACE(least_blocks, minCTAs)
SAME_PLACE(most_blocks, maxCTAs)
SAME_PLACE(net, netName)
SAME_PLACE(shares, splitShare)
SAME_PLACE(traffic, trafficClass)
#ifdef NCCL_API_MAGIC /* older headers have the number alone */
_Static_assert((unsigned)NCCL_CONFIG_MAGIC == NCCL_API_MAGIC, "the mark of options");
#endif
_Static_assert(INT_MIN == NCCL_CONFIG_UNDEF_INT, "an option that is not set");
_Static_assert(sizeof(ncclUniqueId) == NCCL_ID_BYTES, "names");
#endif

_Static_assert(sizeof(cu_pointer) == sizeof(CUdeviceptr), "CUdeviceptr");
_Static_assert(sizeof(cu_device) == sizeof(CUdevice), "CUdevice");
_Static_assert(sizeof(cu_result) == sizeof(CUresult), "CUresult");
_Static_assert(sizeof(cu_result) == sizeof(nvrtcResult), "nvrtcResult");
_Static_assert((size_t)CU_LAUNCH_PARAM_END == (size_t)CU_BLOCK_END, "end");
_Static_assert((size_t)CU_LAUNCH_PARAM_BUFFER_POINTER == (size_t)CU_BLOCK, "block");
_Static_assert((size_t)CU_LAUNCH_PARAM_BUFFER_SIZE == (size_t)CU_BLOCK_SIZE, "size");
