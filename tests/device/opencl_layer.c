/* A layer of OpenCL's loader (OPENCL_LAYERS) for tests of the device opencl over any driver.
 * OPENCL_LAYER_FAIL=FUNCTION=ERROR[@N] makes a function fail with this error from its Nth call on;
 * OPENCL_LAYER_LOG is the log of programs that do not compile. A buffer that is released holds no
 * numbers before it goes. Whatever was called is counted in the file OPENCL_LAYER_LEFT at the end:
 * contexts, queues, buffers, programs and kernels that were not released. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

static const struct _cl_icd_dispatch *next;
static struct _cl_icd_dispatch own;
static atomic_int left[5];
static atomic_int calls;
enum { CONTEXTS, QUEUES, BUFFERS, PROGRAMS, KERNELS };

/* The error with which a call of this function is to fail; CL_SUCCESS: it is to work. */
static cl_int planned(const char *function)
{
    const char *plan = getenv("OPENCL_LAYER_FAIL");
    size_t size = strlen(function);
    if (!plan || strncmp(plan, function, size) != 0 || plan[size] != '=') return CL_SUCCESS;
    const char *from = strchr(plan, '@');
    int call = atomic_fetch_add(&calls, 1) + 1;
    return !from || call >= atoi(from + 1) ? (cl_int)strtol(plan + size + 1, NULL, 10) : CL_SUCCESS;
}

#define FAILS(name, parameters, arguments)                                                         \
    static cl_int CL_API_CALL own_##name parameters                                                \
    {                                                                                              \
        cl_int error = planned(#name);                                                             \
        return error ? error : next->name arguments;                                               \
    }
#define MAKES(type, what, name, parameters, arguments)                                             \
    static type CL_API_CALL own_##name parameters                                                  \
    {                                                                                              \
        cl_int planned_error = planned(#name);                                                     \
        type made = planned_error ? NULL : next->name arguments;                                   \
        if (planned_error && error) *error = planned_error;                                        \
        if (made) atomic_fetch_add(&left[what], 1);                                                \
        return made;                                                                               \
    }
#define RELEASES(type, what, name)                                                                 \
    static cl_int CL_API_CALL own_##name(type x)                                                   \
    {                                                                                              \
        atomic_fetch_sub(&left[what], 1);                                                          \
        return next->name(x);                                                                      \
    }
#define WAITS cl_uint count, const cl_event *list, cl_event *event

typedef void(CL_CALLBACK *notice)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *built)(cl_program, void *);

MAKES(cl_context, CONTEXTS, clCreateContext,
      (const cl_context_properties *p, cl_uint n, const cl_device_id *d, notice f, void *u,
       cl_int *error),
      (p, n, d, f, u, error))
MAKES(cl_command_queue, QUEUES, clCreateCommandQueue,
      (cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *error),
      (c, d, p, error))
MAKES(cl_mem, BUFFERS, clCreateBuffer,
      (cl_context c, cl_mem_flags f, size_t size, void *host, cl_int *error),
      (c, f, size, host, error))
MAKES(cl_program, PROGRAMS, clCreateProgramWithSource,
      (cl_context c, cl_uint n, const char **s, const size_t *size, cl_int *error),
      (c, n, s, size, error))
MAKES(cl_program, PROGRAMS, clCreateProgramWithBinary,
      (cl_context c, cl_uint n, const cl_device_id *d, const size_t *size, const unsigned char **b,
       cl_int *fits, cl_int *error),
      (c, n, d, size, b, fits, error))
MAKES(cl_kernel, KERNELS, clCreateKernel, (cl_program p, const char *name, cl_int *error),
      (p, name, error))
RELEASES(cl_context, CONTEXTS, clReleaseContext)
RELEASES(cl_command_queue, QUEUES, clReleaseCommandQueue)
RELEASES(cl_program, PROGRAMS, clReleaseProgram)
RELEASES(cl_kernel, KERNELS, clReleaseKernel)
FAILS(clFinish, (cl_command_queue q), (q))
FAILS(clFlush, (cl_command_queue q), (q))
FAILS(clWaitForEvents, (cl_uint n, const cl_event *e), (n, e))
FAILS(clSetKernelArg, (cl_kernel k, cl_uint i, size_t size, const void *value), (k, i, size, value))
FAILS(clBuildProgram,
      (cl_program p, cl_uint n, const cl_device_id *d, const char *o, built f, void *u),
      (p, n, d, o, f, u))
FAILS(clEnqueueFillBuffer,
      (cl_command_queue q, cl_mem m, const void *pattern, size_t s, size_t at, size_t size, WAITS),
      (q, m, pattern, s, at, size, count, list, event))
FAILS(clEnqueueWriteBuffer,
      (cl_command_queue q, cl_mem m, cl_bool b, size_t at, size_t size, const void *from, WAITS),
      (q, m, b, at, size, from, count, list, event))
FAILS(clEnqueueReadBuffer,
      (cl_command_queue q, cl_mem m, cl_bool b, size_t at, size_t size, void *to, WAITS),
      (q, m, b, at, size, to, count, list, event))
FAILS(clEnqueueMarkerWithWaitList, (cl_command_queue q, WAITS), (q, count, list, event))
FAILS(clEnqueueBarrierWithWaitList, (cl_command_queue q, WAITS), (q, count, list, event))
FAILS(clEnqueueNDRangeKernel,
      (cl_command_queue q, cl_kernel k, cl_uint d, const size_t *o, const size_t *g,
       const size_t *l, WAITS),
      (q, k, d, o, g, l, count, list, event))

/* Fills a buffer that nothing else refers to. */
static cl_int CL_API_CALL own_clReleaseMemObject(cl_mem memory)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_uint users = 0;
    size_t bytes = 0;
    const cl_uchar none = 0xff;
    atomic_fetch_sub(&left[BUFFERS], 1);
    (void)next->clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof(users), &users, NULL);
    (void)next->clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof(context), (void *)&context, NULL);
    (void)next->clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
    if (users == 1 && context &&
        next->clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof(device), (void *)&device,
                               NULL) == CL_SUCCESS) {
        cl_command_queue queue = next->clCreateCommandQueue(context, device, 0, NULL);
        (void)next->clEnqueueFillBuffer(queue, memory, &none, 1, 0, bytes, 0, NULL, NULL);
        (void)next->clFinish(queue);
        (void)next->clReleaseCommandQueue(queue);
    }
    return next->clReleaseMemObject(memory);
}

static cl_int CL_API_CALL own_clGetProgramBuildInfo(cl_program p, cl_device_id d,
                                                    cl_program_build_info what, size_t room,
                                                    void *value, size_t *size)
{
    const char *log = getenv("OPENCL_LAYER_LOG");
    if (!log || what != CL_PROGRAM_BUILD_LOG)
        return next->clGetProgramBuildInfo(p, d, what, room, value, size);
    if (size) *size = strlen(log) + 1;
    if (value && room > strlen(log)) memcpy(value, log, strlen(log) + 1);
    return CL_SUCCESS;
}

static void report(void)
{
    const char *path = getenv("OPENCL_LAYER_LEFT");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%d contexts, %d queues, %d buffers, %d programs, %d kernels\n", left[CONTEXTS],
            left[QUEUES], left[BUFFERS], left[PROGRAMS], left[KERNELS]);
    (void)fclose(f);
}

cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *value, size_t *size)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (what != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
    if (value && room < sizeof(version)) return CL_INVALID_VALUE;
    if (value) memcpy(value, &version, sizeof(version));
    if (size) *size = sizeof(version);
    return CL_SUCCESS;
}

cl_int CL_API_CALL clInitLayer(cl_uint count, const struct _cl_icd_dispatch *target,
                               cl_uint *own_count, const struct _cl_icd_dispatch **out)
{
    if (count < sizeof(own) / sizeof(void *)) return CL_INVALID_VALUE;
    next = target;
    own = *target;
#define REPLACE(name) own.name = own_##name;
    REPLACE(clCreateContext)
    REPLACE(clCreateCommandQueue)
    REPLACE(clCreateBuffer)
    REPLACE(clCreateProgramWithSource)
    REPLACE(clCreateProgramWithBinary)
    REPLACE(clCreateKernel)
    REPLACE(clReleaseContext)
    REPLACE(clReleaseCommandQueue)
    REPLACE(clReleaseMemObject)
    REPLACE(clReleaseProgram)
    REPLACE(clReleaseKernel)
    REPLACE(clFinish)
    REPLACE(clFlush)
    REPLACE(clWaitForEvents)
    REPLACE(clSetKernelArg)
    REPLACE(clBuildProgram)
    REPLACE(clGetProgramBuildInfo)
    REPLACE(clEnqueueFillBuffer)
    REPLACE(clEnqueueWriteBuffer)
    REPLACE(clEnqueueReadBuffer)
    REPLACE(clEnqueueMarkerWithWaitList)
    REPLACE(clEnqueueBarrierWithWaitList)
    REPLACE(clEnqueueNDRangeKernel)
    *own_count = (cl_uint)(sizeof(own) / sizeof(void *));
    *out = &own;
    (void)atexit(report);
    return CL_SUCCESS;
}
