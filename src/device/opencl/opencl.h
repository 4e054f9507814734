/* Declares the OpenCL driver: the functions of libOpenCL, which is opened by dlopen, and what
 * stands behind cards, memory, queues and events. */
#ifndef WEFT_DEVICE_OPENCL_OPENCL_H
#define WEFT_DEVICE_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdatomic.h>

#include "device/gpu/gpu.h"

#define CL_FUNCTIONS(X)                                                                            \
    X(clGetPlatformIDs)                                                                            \
    X(clGetPlatformInfo)                                                                           \
    X(clGetDeviceIDs)                                                                              \
    X(clGetDeviceInfo)                                                                             \
    X(clCreateContext)                                                                             \
    X(clReleaseContext)                                                                            \
    X(clCreateCommandQueue)                                                                        \
    X(clReleaseCommandQueue)                                                                       \
    X(clFlush)                                                                                     \
    X(clFinish)                                                                                    \
    X(clCreateBuffer)                                                                              \
    X(clReleaseMemObject)                                                                          \
    X(clEnqueueFillBuffer)                                                                         \
    X(clEnqueueReadBuffer)                                                                         \
    X(clEnqueueWriteBuffer)                                                                        \
    X(clEnqueueCopyBuffer)                                                                         \
    X(clEnqueueMarkerWithWaitList)                                                                 \
    X(clEnqueueBarrierWithWaitList)                                                                \
    X(clWaitForEvents)                                                                             \
    X(clGetEventInfo)                                                                              \
    X(clGetEventProfilingInfo)                                                                     \
    X(clRetainEvent)                                                                               \
    X(clReleaseEvent)                                                                              \
    X(clCreateProgramWithSource)                                                                   \
    X(clCreateProgramWithBinary)                                                                   \
    X(clBuildProgram)                                                                              \
    X(clGetProgramBuildInfo)                                                                       \
    X(clGetProgramInfo)                                                                            \
    X(clReleaseProgram)                                                                            \
    X(clCreateKernel)                                                                              \
    X(clReleaseKernel)                                                                             \
    X(clSetKernelArg)                                                                              \
    X(clEnqueueNDRangeKernel)

/* The functions, of the type that the headers declare. */
typedef struct cl_functions {
#define CL_FIELD(name) __typeof__(name) *name;
    CL_FUNCTIONS(CL_FIELD)
#undef CL_FIELD
} cl_functions;

typedef struct cl_card {
    gpu_card head;
    void *library; /* of dlopen */
    cl_functions f;
    cl_device_id device;
    cl_context context;
    cl_command_queue fills; /* new memory is filled here */
    cl_ulong bytes, most;   /* of its memory, and of one allocation */
    atomic_size_t taken;    /* bytes of its memory that were allocated here */
} cl_card;

/* Fails with the name of an error. */
weft_status cl_fail(const cl_card *card, cl_int error, const char *function) WEFT_NODISCARD;
static inline weft_status cl_check(const cl_card *card, cl_int error, const char *function)
{
    return error == CL_SUCCESS ? WEFT_OK : cl_fail(card, error, function);
}

weft_status cl_open(const char *which, gpu_card **out) WEFT_NODISCARD;
void cl_close(gpu_card *head);
const char *cl_error_name(cl_int error);

/* memory.c */
extern const weft_memory_ops cl_memory_ops;
/* Devices of one card have one context. */
bool cl_reaches(weft_device *device, weft_device *other);
cl_mem cl_memory_of(weft_address address);
cl_command_queue cl_queue_of(const weft_queue *queue);

#endif
