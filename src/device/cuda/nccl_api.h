/* Declares what is used of NCCL, so that no headers are needed to build. Types have NCCL's names
 * and enumerations are `unsigned`; the test cuda_headers compares all with the header where it is
 * installed (and includes it before, so that the types here are its own). */
#ifndef WEFT_DEVICE_CUDA_NCCL_API_H
#define WEFT_DEVICE_CUDA_NCCL_API_H

#include <stdint.h>

#include "device/cuda/api.h"

enum { NCCL_ID_BYTES = 128 };
#ifndef CUDA_HEADERS_ARE_INCLUDED
typedef struct ncclComm *ncclComm_t;
typedef struct {
    char internal[NCCL_ID_BYTES];
} ncclUniqueId;
typedef struct nccl_config ncclConfig_t;
#endif

/* Values: our name, NCCL's name, value. */
#define NCCL_VALUES(X)                                                                             \
    X(NCCL_OK, ncclSuccess, 0)                                                                     \
    X(NCCL_SYSTEM_ERROR, ncclSystemError, 2)                                                       \
    X(NCCL_REMOTE_ERROR, ncclRemoteError, 6)                                                       \
    X(NCCL_IN_PROGRESS, ncclInProgress, 7)                                                         \
    X(NCCL_SUM, ncclSum, 0)                                                                        \
    X(NCCL_UINT8, ncclUint8, 1)                                                                    \
    X(NCCL_INT32, ncclInt32, 2)                                                                    \
    X(NCCL_INT64, ncclInt64, 4)                                                                    \
    X(NCCL_FLOAT32, ncclFloat32, 7)                                                                \
    X(NCCL_FLOAT64, ncclFloat64, 8)                                                                \
    X(NCCL_BFLOAT16, ncclBfloat16, 9)

enum {
#define NCCL_VALUE(own, name, value) own = value,
    NCCL_VALUES(NCCL_VALUE)
#undef NCCL_VALUE
};

/* The options of a communicator, as they are in version 2.18; later ones append to them. A number
 * that is not set is INT_MIN, a pointer NULL. */
enum { NCCL_LEAST = 21800, NCCL_CONFIG_MAGIC = (int)0xcafebeef };
struct nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking; /* 0: no function waits for other ranks */
    int cga_size, least_blocks, most_blocks;
    const char *net;
    int shares, traffic;
};

/* Functions: name, parameters. All return a status, which is `unsigned`. */
#define NCCL_FUNCTIONS(X)                                                                          \
    X(ncclGetVersion, (int *))                                                                     \
    X(ncclGetUniqueId, (ncclUniqueId *))                                                           \
    X(ncclCommInitRankConfig, (ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *))              \
    X(ncclCommFinalize, (ncclComm_t))                                                              \
    X(ncclCommDestroy, (ncclComm_t))                                                               \
    X(ncclCommAbort, (ncclComm_t))                                                                 \
    X(ncclCommGetAsyncError, (ncclComm_t, unsigned *))                                             \
    X(ncclGroupStart, (void))                                                                      \
    X(ncclGroupEnd, (void))                                                                        \
    X(ncclAllReduce, (const void *, void *, size_t, unsigned, unsigned, ncclComm_t, cu_stream))    \
    X(ncclReduce, (const void *, void *, size_t, unsigned, unsigned, int, ncclComm_t, cu_stream))  \
    X(ncclReduceScatter,                                                                           \
      (const void *, void *, size_t, unsigned, unsigned, ncclComm_t, cu_stream))                   \
    X(ncclAllGather, (const void *, void *, size_t, unsigned, ncclComm_t, cu_stream))              \
    X(ncclBroadcast, (const void *, void *, size_t, unsigned, int, ncclComm_t, cu_stream))         \
    X(ncclSend, (const void *, size_t, unsigned, int, ncclComm_t, cu_stream))                      \
    X(ncclRecv, (void *, size_t, unsigned, int, ncclComm_t, cu_stream))

typedef struct nccl_functions {
#define NCCL_FIELD(name, parameters) unsigned(*name) parameters;
    NCCL_FUNCTIONS(NCCL_FIELD)
#undef NCCL_FIELD
    const char *(*ncclGetErrorString)(unsigned);
    const char *(*ncclGetLastError)(ncclComm_t);
} nccl_functions;

#endif
