/* Declares the double of libcuda.so.1: the functions of CUDA's driver API that the device cuda
 * uses, over OpenCL. Streams run only when they are waited for or asked, and misuse of the
 * interface ends the process with a line of the words "fake_cuda:". Variables of the environment:
 *
 *   FAKE_CUDA_FAIL     NAME=ERROR[@N]: call N (1: the first) of a function, and all later ones,
 * return the error. NAME "launch": kernel N faults when it runs, and every later call fails
 *   FAKE_CUDA_CARDS    number of cards, 1 by default
 *   FAKE_CUDA_NAME     of all cards; "Fake N" by default
 *   FAKE_CUDA_DRIVER   version, 13000
 *   FAKE_CUDA_ARCH     architecture, 90
 *   FAKE_CUDA_MEMORY   bytes of a card, 2^31
 *   FAKE_CUDA_PEERS    0: cards cannot access each other's memory
 *   FAKE_CUDA_LEFT     a file, to which the end of the process appends what was not released
 */
#ifndef WEFT_TESTS_FAKE_CUDA_H
#define WEFT_TESTS_FAKE_CUDA_H

#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS /* clCreateCommandQueue */
#include <CL/cl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cuda/api.h"

#define FAKE_CL(X)                                                                                 \
    X(clGetPlatformIDs)                                                                            \
    X(clGetDeviceIDs)                                                                              \
    X(clCreateContext)                                                                             \
    X(clCreateCommandQueue)                                                                        \
    X(clFinish)                                                                                    \
    X(clSVMAlloc)                                                                                  \
    X(clSVMFree)                                                                                   \
    X(clCreateProgramWithSource)                                                                   \
    X(clBuildProgram)                                                                              \
    X(clGetProgramBuildInfo)                                                                       \
    X(clReleaseProgram)                                                                            \
    X(clCreateKernel)                                                                              \
    X(clReleaseKernel)                                                                             \
    X(clGetKernelInfo)                                                                             \
    X(clGetKernelArgInfo)                                                                          \
    X(clSetKernelArg)                                                                              \
    X(clSetKernelArgSVMPointer)                                                                    \
    X(clEnqueueNDRangeKernel)

/* A handle of each kind begins with this; handles are kept for ever, so that later use is seen. */
typedef struct handle {
    enum { ALIVE = 0x51de, DEAD = 0xdead } state;
    const char *kind;
    cu_context context;
} handle;

enum { MOST_CARDS = 4, MOST_PARAMETERS = 160 };
struct CUctx_st {
    handle head;
    int card, users;
    bool peer[MOST_CARDS]; /* memory of this card may be accessed */
};

/* A place in a stream: the operations before it have run, or not yet. */
typedef struct mark {
    int users;
    bool done;
    double at; /* milliseconds of the clock when it was done */
    cu_stream stream;
} mark;

/* Memory that an operation of a library reads or writes. */
typedef struct fake_use {
    const void *at;
    size_t bytes;
} fake_use;
enum { MOST_USES = 24 };

typedef enum op_kind { OP_LAUNCH, OP_COPY, OP_SET, OP_RECORD, OP_WAIT, OP_LIBRARY } op_kind;
typedef struct op {
    op_kind kind;
    struct op *next;
    cu_function function;
    unsigned grid[3], block[3];
    char parameters[16 * MOST_PARAMETERS];
    void *to;
    const void *from;
    unsigned char value;
    size_t bytes;
    mark *mark;
    bool (*ready)(void *user); /* NULL, or whether the operation can run now */
    void (*run)(void *user);
    void *user;
    int *users; /* operations that share `user`: those of captures are run often */
    fake_use use[MOST_USES];
    int uses;
} op;

typedef struct oplist {
    op *first, *last;
} oplist;

struct CUstream_st {
    handle head;
    oplist queued;
    oplist captured; /* while it captures */
    bool running, capturing;
    bool awaits;    /* an operation waits for what comes from elsewhere */
    cu_stream next; /* all streams */
};
struct CUgraph_st {
    handle head;
    oplist ops;
};
struct CUgraphExec_st {
    handle head;
    oplist ops;
    cu_graph_exec next; /* all of them */
};
struct CUevent_st {
    handle head;
    mark *mark; /* NULL: not recorded */
    bool timed;
};
struct CUmod_st {
    handle head;
    cl_program program;
    cl_program types; /* built with what tells the types of parameters */
    bool doubles;     /* real_t is double */
    cu_function functions;
};
typedef struct parameter {
    size_t at, size;
    bool pointer;
} parameter;
struct CUfunc_st {
    handle head;
    cu_module module;
    cu_function next;
    cl_kernel kernel;
    char name[64];
    size_t bytes; /* of the block of parameters */
    int count;
    parameter parameter[MOST_PARAMETERS];
};

typedef struct range {
    char *base, *raw; /* what OpenCL has allocated, of which a part is used */
    size_t bytes;
    bool host;
    cu_context context;
    struct range *next;
} range;

extern struct fake {
    pthread_mutex_t lock;
    pid_t process; /* that has called cuInit */
    int cards, version, arch;
    size_t memory, taken[MOST_CARDS];
    cu_result lost; /* what all calls return */
    struct CUctx_st context[MOST_CARDS];
    cu_stream streams;
    cu_graph_exec graphs;
    range *ranges;
    int left[5]; /* streams, events, modules, allocations, graphs */
    cl_device_id device;
    cl_context cl_context;
    cl_command_queue cl_queue;
#define FAKE_FIELD(name) __typeof__(name) *name;
    FAKE_CL(FAKE_FIELD)
#undef FAKE_FIELD
} fake;

/* Ends the process with a line: the interface was misused. */
void fake_misuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* Begins a call: locks, and returns the error that the call shall return. */
cu_result fake_begin(const char *function);
/* Ends it: unlocks. */
cu_result fake_end(cu_result result);
/* Begins a call that needs a current context; and, of a handle, that it is alive and of that
 * context. */
cu_result fake_begin_in(const char *function, const void *handle, const char *kind);
cu_context fake_current(void);
void *fake_new(size_t bytes, const char *kind);
range *fake_range_of(const void *at, size_t bytes);
/* Ends the process unless the bytes are memory of the current card, or of one that it may access.
 */
void fake_check_device(const char *function, const void *at, size_t bytes);
/* Returns false if an operation cannot run yet. */
bool fake_run(cu_stream stream, const mark *until);
/* Runs, and waits in between, without the lock, until that was possible. */
void fake_run_all(cu_stream stream, const mark *until);
/* Appends an operation to what the stream captures, or else to what it runs. */
op *fake_queue(cu_stream stream, op_kind kind);
/* Whether this thread captures a stream: it may queue kernels, copies and fills alone then. */
extern _Thread_local cu_stream fake_capturing;
/* Counts a call that FAKE_CUDA_FAIL names; 0: it shall not fail. */
cu_result fake_planned(const char *function);
void fake_launch(const op *o);

/* For the doubles of libraries, which find it in the double of the driver: queues an operation in a
 * stream, whose memory must be that of a card. The operation calls `run`, and frees `user`. With
 * `ready` it runs once that says so; the cards then work on their own, too, in a thread. */
typedef cu_result fake_queue_fn(cu_stream stream, const char *function, bool (*ready)(void *user),
                                void (*run)(void *user), void *user, const fake_use *use, int uses);
__attribute__((visibility("default"))) fake_queue_fn fake_queue_library;
/* As fake_planned, for functions of libraries; in_context: a context must be current. */
__attribute__((visibility("default"))) cu_result fake_planned_library(const char *function,
                                                                      bool in_context);

/* The card of the current context. */
__attribute__((visibility("default"))) int fake_current_card(void);

/* The functions of the interfaces, as the driver declares them. */
#define FAKE_DECLARE(name, parameters)                                                             \
    __attribute__((visibility("default"))) cu_result name parameters;
CUDA_FUNCTIONS(FAKE_DECLARE)
NVRTC_FUNCTIONS(FAKE_DECLARE)
FAKE_DECLARE(cuGetExportTable, (const void **, const void *)) /* NVRTC looks for it */
extern __attribute__((visibility("default")))
const int fake_cuda; /* tells the double by its name */

#endif
