/* Modules, functions and launches of the double. A "binary" is what the double of NVRTC passes
 * through: a line and the source, whose prelude is replaced by the one of OpenCL. */
#include "device/cuda/prelude.h"
#include "device/opencl/prelude.h"
#include "fake.h"
#include "magic.h"

static char *translate(const char *source)
{
    const char *at = strstr(source, cuda_prelude);
    const char *roll = "#define ROLL 1\n"; /* as the device opencl does for a processor */
    if (!at) fake_misuse("cuModuleLoadDataEx: the source lacks the prelude");
    size_t size = strlen(source) + strlen(cl_prelude) + strlen(roll) + 1;
    char *out = malloc(size);
    if (!out) fake_misuse("out of memory");
    /* The text is the one of the device opencl, so PoCL finds it in its own cache. */
    (void)snprintf(out, size, "%.*s%s\n%s%s", (int)(at - 1 - source), source, roll, cl_prelude,
                   at + strlen(cuda_prelude));
    return out;
}

static cl_program build(const char *text, const char *options)
{
    cl_int error;
    const char *texts[] = {text};
    cl_program program = fake.clCreateProgramWithSource(fake.cl_context, 1, texts, NULL, &error);
    if (error == CL_SUCCESS)
        error = fake.clBuildProgram(program, 1, &fake.device, options, NULL, NULL);
    if (error == CL_SUCCESS) return program;
    char log[4096] = "";
    (void)fake.clGetProgramBuildInfo(program, fake.device, CL_PROGRAM_BUILD_LOG, sizeof(log), log,
                                     NULL);
    fake_misuse("the source is not compiled: %s", log);
}

cu_result cuModuleLoadDataEx(cu_module *out, const void *image, unsigned count, unsigned *options,
                             void **values)
{
    cu_result result = fake_begin_in("cuModuleLoadDataEx", NULL, NULL);
    if (result == 218 && count > 0 && options[0] == CU_JIT_ERROR_LOG)
        (void)snprintf(values[0], (size_t)(uintptr_t)values[1], "ptxas fatal : a planned error");
    if (result) return fake_end(result);
    if (strncmp(image, FAKE_MAGIC, strlen(FAKE_MAGIC)) != 0) return fake_end(200);
    const char *source = (const char *)image + strlen(FAKE_MAGIC);
    cu_module m = fake_new(sizeof(*m), "module");
    char *text = translate(source);
    m->doubles = strstr(source, "#define REAL_IS_DOUBLE") != NULL;
    m->program = build(text, "");
    m->types = build(text, "-cl-kernel-arg-info");
    free(text);
    fake.left[2]++;
    *out = m;
    return fake_end(CU_OK);
}

cu_result cuModuleUnload(cu_module module)
{
    cu_result result = fake_begin_in("cuModuleUnload", module, "module");
    if (result == CU_NOT_INITIALIZED) return fake_end(result);
    for (cu_stream s = fake.streams; s && !fake.lost; s = s->next)
        for (const op *o = s->queued.first; o; o = o->next)
            if (o->kind == OP_LAUNCH && o->function->module == module)
                fake_misuse("cuModuleUnload: a launch of %s is queued", o->function->name);
    for (cu_graph_exec g = fake.graphs; g && !fake.lost; g = g->next)
        for (const op *o = g->head.state == ALIVE ? g->ops.first : NULL; o; o = o->next)
            if (o->kind == OP_LAUNCH && o->function->module == module)
                fake_misuse("cuModuleUnload: a graph launches %s", o->function->name);
    for (cu_function f = module->functions; f; f = f->next) {
        f->head.state = DEAD;
        (void)fake.clReleaseKernel(f->kernel);
    }
    (void)fake.clReleaseProgram(module->program);
    (void)fake.clReleaseProgram(module->types);
    module->head.state = DEAD;
    fake.left[2]--;
    return fake_end(result);
}

/* The size of a parameter by the name of its type. */
static size_t size_of(const cu_module module, const char *type)
{
    static const struct {
        const char *name;
        size_t size;
    } types[] = {{"i64", 8},   {"long", 8}, {"u64", 8}, {"ulong", 8}, {"double", 8},
                 {"acc_t", 8}, {"int", 4},  {"u32", 4}, {"uint", 4},  {"float", 4}};
    if (strcmp(type, "real_t") == 0) return module->doubles ? 8 : 4;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].name, type) == 0) return types[i].size;
    fake_misuse("cuModuleGetFunction: a parameter of type %s", type);
}

/* Parameters lie one after another, each at a multiple of its size. */
static void find_parameters(cu_function f)
{
    cl_int error;
    cl_uint count = 0;
    cl_kernel kernel = fake.clCreateKernel(f->module->types, f->name, &error);
    (void)fake.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof(count), &count, NULL);
    if (count > MOST_PARAMETERS) fake_misuse("%s has %u parameters", f->name, count);
    for (cl_uint i = 0; i < count; i++) {
        char type[64] = "";
        cl_kernel_arg_address_qualifier space = 0;
        parameter *p = &f->parameter[f->count++];
        if (fake.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof(space),
                                    &space, NULL) != CL_SUCCESS ||
            fake.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof(type), type, NULL) !=
                CL_SUCCESS)
            fake_misuse("%s: OpenCL does not tell the types of parameters", f->name);
        p->pointer = space == CL_KERNEL_ARG_ADDRESS_GLOBAL;
        p->size = p->pointer ? sizeof(cu_pointer) : size_of(f->module, type);
        p->at = (f->bytes + p->size - 1) / p->size * p->size;
        f->bytes = p->at + p->size;
    }
    (void)fake.clReleaseKernel(kernel);
}

cu_result cuModuleGetFunction(cu_function *out, cu_module module, const char *name)
{
    cl_int error;
    cu_result result = fake_begin_in("cuModuleGetFunction", module, "module");
    if (result) return fake_end(result);
    cu_function f = fake_new(sizeof(*f), "function");
    f->module = module;
    (void)snprintf(f->name, sizeof(f->name), "%s", name);
    f->kernel = fake.clCreateKernel(module->program, name, &error);
    if (error != CL_SUCCESS) return fake_end(500); /* NOT_FOUND */
    find_parameters(f);
    f->next = module->functions;
    module->functions = f;
    *out = f;
    return fake_end(CU_OK);
}

/* Reads the block of parameters: BLOCK, its address, BLOCK_SIZE, the address of its size, END. */
static void read_block(const cu_function f, void **extra, char *to)
{
    if (!extra || extra[0] != CU_BLOCK || extra[2] != CU_BLOCK_SIZE || extra[4] != CU_BLOCK_END)
        fake_misuse("cuLaunchKernel: %s has no block of parameters", f->name);
    size_t bytes;
    memcpy(&bytes, extra[3], sizeof(bytes));
    if (bytes != f->bytes)
        fake_misuse("cuLaunchKernel: %s gets %zu bytes of parameters, and has %zu", f->name, bytes,
                    f->bytes);
    memcpy(to, extra[1], bytes);
    for (int i = 0; i < f->count; i++) {
        char *pointer;
        if (!f->parameter[i].pointer) continue;
        memcpy(&pointer, to + f->parameter[i].at, sizeof(pointer));
        const range *r = pointer ? fake_range_of(pointer, 1) : NULL;
        if (pointer && (!r || r->host))
            fake_misuse("cuLaunchKernel: parameter %d of %s is no memory of a card", i, f->name);
        if (pointer) fake_check_device("cuLaunchKernel", pointer, 1);
    }
}

cu_result cuLaunchKernel(cu_function f, unsigned x, unsigned y, unsigned z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared, cu_stream stream,
                         void **parameters, void **extra)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    cu_result result = fake_begin_in("cuLaunchKernel", f, "function");
    (void)fake_end(result);
    if (!result) result = fake_begin_in("cuLaunchKernel.", stream, "stream");
    if (result) return fake_end(result);
    bool fits = x > 0 && y > 0 && z > 0 && x <= 2147483647 && y <= 65535 && z <= 65535 &&
                block_x * block_y * block_z > 0 && block_x * block_y * block_z <= 1024 &&
                block_z <= 64 && shared == 0 && !parameters;
    if (!fits) return fake_end(1); /* INVALID_VALUE */
    op *o = fake_queue(stream, OP_LAUNCH);
    o->function = f;
    memcpy(o->grid, (unsigned[]){x, y, z}, sizeof(o->grid));
    memcpy(o->block, (unsigned[]){block_x, block_y, block_z}, sizeof(o->block));
    read_block(f, extra, o->parameters);
    if (blocking && strcmp(blocking, "1") == 0 && !stream->capturing) fake_run_all(stream, NULL);
    return fake_end(fake.lost);
}

void fake_launch(const op *o)
{
    cl_int error = CL_SUCCESS;
    const cu_function f = o->function;
    size_t global[3], local[3];
    fake.lost = fake_planned("launch");
    if (fake.lost) return;
    for (int i = 0; i < f->count && error == CL_SUCCESS; i++) {
        const parameter *p = &f->parameter[i];
        void *pointer;
        memcpy(&pointer, o->parameters + p->at, sizeof(pointer));
        error = p->pointer
                    ? fake.clSetKernelArgSVMPointer(f->kernel, (cl_uint)i, pointer)
                    : fake.clSetKernelArg(f->kernel, (cl_uint)i, p->size, o->parameters + p->at);
    }
    for (int d = 0; d < 3; d++) {
        local[d] = o->block[d];
        global[d] = local[d] * o->grid[d];
    }
    if (error == CL_SUCCESS)
        error = fake.clEnqueueNDRangeKernel(fake.cl_queue, f->kernel, 3, NULL, global, local, 0,
                                            NULL, NULL);
    if (error == CL_SUCCESS) error = fake.clFinish(fake.cl_queue);
    if (error != CL_SUCCESS)
        fake_misuse("%s is not launched: %d of OpenCL, block %u x %u", f->name, (int)error,
                    o->block[0], o->block[1]);
}
