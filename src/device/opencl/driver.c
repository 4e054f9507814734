/* The plug-in of the device opencl: programs and launches, and the entry of the registry. */
#include <stdio.h>

#include "device/opencl/opencl.h"
#include "device/opencl/prelude.h"

struct gpu_module {
    const cl_card *card;
    cl_program program;
};

struct gpu_call {
    const cl_card *card;
    cl_kernel kernel;
};

/* Constants of formulas have no suffix. */
static const char *options_of(const cl_card *card)
{
    return card->head.doubles ? "" : "-cl-single-precision-constant";
}

static void unload(gpu_module *module)
{
    if (module->program) (void)module->card->f.clReleaseProgram(module->program);
    free(module);
}

static weft_status new_module(const gpu_card *card, gpu_module **out)
{
    WEFT_TRY(weft->allocate(sizeof(**out), out));
    (*out)->card = (const cl_card *)card;
    return WEFT_OK;
}

/* Fails with the log of a program that does not compile. */
static weft_status refuse(const gpu_module *m, const char *what, cl_int error)
{
    char log[2048] = "";
    const cl_card *card = m->card;
    if (error != CL_BUILD_PROGRAM_FAILURE) return cl_fail(card, error, "clBuildProgram");
    size_t size = 0;
    char *all = NULL;
    (void)card->f.clGetProgramBuildInfo(m->program, card->device, CL_PROGRAM_BUILD_LOG, 0, NULL,
                                        &size);
    if (weft->allocate(size + 1, &all) == WEFT_OK) {
        (void)card->f.clGetProgramBuildInfo(m->program, card->device, CL_PROGRAM_BUILD_LOG, size,
                                            all, NULL);
        (void)snprintf(log, sizeof(log), "%s", all);
        free(all);
    }
    return weft->fail(WEFT_ERR_UNSUPPORTED,
                      "device opencl: %s does not compile the kernel of operator %s: %s",
                      card->head.name, what, log);
}

static weft_status compile(gpu_card *card, const char *source, const char *what, gpu_module **out)
{
    gpu_module *m;
    cl_int error;
    WEFT_TRY(new_module(card, &m));
    m->program = m->card->f.clCreateProgramWithSource(m->card->context, 1, &source, NULL, &error);
    weft_status status = cl_check(m->card, error, "clCreateProgramWithSource");
    if (status == WEFT_OK) {
        error = m->card->f.clBuildProgram(m->program, 1, &m->card->device, options_of(m->card),
                                          NULL, NULL);
        if (error != CL_SUCCESS) status = refuse(m, what, error);
    }
    if (status == WEFT_OK)
        *out = m;
    else
        unload(m);
    return status;
}

static weft_status load(gpu_card *card, const void *binary, size_t bytes, gpu_module **out)
{
    gpu_module *m;
    cl_int error, fits;
    const unsigned char *data = binary;
    WEFT_TRY(new_module(card, &m));
    m->program = m->card->f.clCreateProgramWithBinary(m->card->context, 1, &m->card->device, &bytes,
                                                      &data, &fits, &error);
    if (error == CL_SUCCESS) error = fits;
    if (error == CL_SUCCESS)
        error = m->card->f.clBuildProgram(m->program, 1, &m->card->device, options_of(m->card),
                                          NULL, NULL);
    if (error == CL_SUCCESS) {
        *out = m;
        return WEFT_OK;
    }
    unload(m);
    return cl_fail((const cl_card *)card, error, "clCreateProgramWithBinary");
}

static weft_status binary(gpu_card *card, gpu_module *module, void **out, size_t *bytes)
{
    const cl_functions *f = &((const cl_card *)card)->f;
    size_t size = 0;
    unsigned char *data;
    cl_int error =
        f->clGetProgramInfo(module->program, CL_PROGRAM_BINARY_SIZES, sizeof(size), &size, NULL);
    if (error != CL_SUCCESS || size == 0)
        return cl_fail((const cl_card *)card, error, "clGetProgramInfo");
    WEFT_TRY(weft->allocate(size, &data));
    error = f->clGetProgramInfo(module->program, CL_PROGRAM_BINARIES, sizeof(data), &data, NULL);
    if (error != CL_SUCCESS) {
        free(data);
        return cl_fail((const cl_card *)card, error, "clGetProgramInfo");
    }
    *out = data;
    *bytes = size;
    return WEFT_OK;
}

static void close_call(gpu_call *call)
{
    if (call->kernel) (void)call->card->f.clReleaseKernel(call->kernel);
    free(call);
}

static weft_status open_call(gpu_card *card, gpu_module *module, const char *function,
                             gpu_call **out)
{
    gpu_call *call;
    cl_int error;
    WEFT_TRY(weft->allocate(sizeof(*call), &call));
    call->card = (const cl_card *)card;
    call->kernel = call->card->f.clCreateKernel(module->program, function, &error);
    if (error == CL_SUCCESS) {
        *out = call;
        return WEFT_OK;
    }
    close_call(call);
    return weft->fail(WEFT_ERR_INTERNAL, "device opencl: clCreateKernel of %s failed with %d (%s)",
                      function, (int)error, cl_error_name(error));
}

static weft_status set_one(gpu_call *call, cl_uint *i, size_t size, const void *value)
{
    return cl_check(call->card, call->card->f.clSetKernelArg(call->kernel, (*i)++, size, value),
                    "clSetKernelArg");
}

static weft_status set(gpu_call *call, const gpu_argument *arguments, int count)
{
    cl_uint at = 0;
    for (int i = 0; i < count; i++) {
        const gpu_argument *a = &arguments[i];
        cl_int whole = a->whole;
        cl_float real = (cl_float)a->real;
        switch (a->kind) {
        case GPU_IN:
        case GPU_OUT:
        case GPU_SCRATCH:
        case GPU_GUARD: {
            cl_mem memory = a->address.memory ? cl_memory_of(a->address) : NULL;
            cl_long offset = (cl_long)a->address.offset;
            WEFT_TRY(set_one(call, &at, sizeof(memory), &memory));
            WEFT_TRY(set_one(call, &at, sizeof(offset), &offset));
            break;
        }
        case GPU_INT: WEFT_TRY(set_one(call, &at, sizeof(whole), &whole)); break;
        case GPU_FLOAT: WEFT_TRY(set_one(call, &at, sizeof(real), &real)); break;
        case GPU_DOUBLE: WEFT_TRY(set_one(call, &at, sizeof(a->real), &a->real)); break;
        }
    }
    return WEFT_OK;
}

static weft_status launch(weft_queue *queue, gpu_call *call, const gpu_grid *grid)
{
    const size_t local[3] = {(size_t)grid->block[0], (size_t)grid->block[1], 1};
    size_t global[3];
    for (int d = 0; d < 3; d++) global[d] = (size_t)grid->groups[d] * local[d];
    return cl_check(call->card,
                    call->card->f.clEnqueueNDRangeKernel(cl_queue_of(queue), call->kernel, 3, NULL,
                                                         global, local, 0, NULL, NULL),
                    "clEnqueueNDRangeKernel");
}

static const gpu_driver driver = {
    .name = "opencl",
    .prelude = cl_prelude,
    .memory = &cl_memory_ops,
    .open = cl_open,
    .close = cl_close,
    .compile = compile,
    .load = load,
    .binary = binary,
    .unload = unload,
    .open_call = open_call,
    .close_call = close_call,
    .set = set,
    .launch = launch,
};

/* Rates of a card of the middle: what is on it stays there. */
GPU_PLUGIN(driver, "opencl", "a device of OpenCL, such as a graphics card; opencl:PLATFORM.DEVICE",
           .memory = &cl_memory_ops, .reaches = cl_reaches,
           .rates = {
               .flops = 5e12, .bytes = 3e11, .start = 5e-6, .copied = 1e10, .copied_start = 2e-5})
