/* The plug-in of the device cuda: modules and launches, and the entry of the registry. */
#include <stdio.h>

#include "device/cuda/cuda.h"
#include "device/cuda/prelude.h"

struct gpu_module {
    const cuda_card *card;
    cu_module module;
    void *binary; /* what it was made from, until it is taken for the cache */
    size_t bytes;
};

/* Arguments lie in one block, each at a multiple of its size, as the parameters of a kernel do. */
struct gpu_call {
    const cuda_card *card;
    cu_function function;
    size_t bytes;
    char block[16 * GPU_ARGUMENTS];
};

static void unload(gpu_module *module)
{
    if (module->module) (void)CUDA_CALL(module->card, cuModuleUnload, module->module);
    free(module->binary);
    free(module);
}

static weft_status load_image(gpu_module *m, const void *image)
{
    char log[2048] = "";
    unsigned options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_SIZE};
    void *values[] = {log, (void *)sizeof(log)};
    cu_result result = CUDA_CALL(m->card, cuModuleLoadDataEx, &m->module, image,
                                 (unsigned)WEFT_COUNT(options), options, values);
    if (result == CU_OK) return WEFT_OK;
    weft_status status = cuda_fail(m->card, result, "cuModuleLoadDataEx");
    log[sizeof(log) - 1] = 0;
    return *log ? weft->fail_within(status, "%s", log) : status;
}

static weft_status load(gpu_card *card, const void *binary, size_t bytes, gpu_module **out)
{
    gpu_module *m;
    (void)bytes;
    WEFT_TRY(weft->allocate(sizeof(*m), &m));
    m->card = (const cuda_card *)card;
    weft_status status = load_image(m, binary);
    if (status == WEFT_OK)
        *out = m;
    else
        unload(m);
    return status;
}

static weft_status compile(gpu_card *card, const char *source, const char *what, gpu_module **out)
{
    void *binary;
    size_t bytes;
    WEFT_TRY(cuda_compile((const cuda_card *)card, source, what, &binary, &bytes));
    weft_status status = load(card, binary, bytes, out);
    if (status != WEFT_OK) {
        free(binary);
        return weft->fail_within(status, "the driver refuses the kernel of operator %s", what);
    }
    (*out)->binary = binary;
    (*out)->bytes = bytes;
    return WEFT_OK;
}

static weft_status binary(gpu_card *card, gpu_module *module, void **out, size_t *bytes)
{
    (void)card;
    *out = module->binary;
    *bytes = module->bytes;
    module->binary = NULL;
    return WEFT_OK;
}

static void close_call(gpu_call *call)
{
    free(call);
}

static weft_status open_call(gpu_card *card, gpu_module *module, const char *function,
                             gpu_call **out)
{
    gpu_call *call;
    WEFT_TRY(weft->allocate(sizeof(*call), &call));
    call->card = (const cuda_card *)card;
    weft_status status =
        CUDA_CHECK(call->card, cuModuleGetFunction, &call->function, module->module, function);
    if (status == WEFT_OK) {
        *out = call;
        return WEFT_OK;
    }
    close_call(call);
    return weft->fail_within(status, "kernel %s", function);
}

static void append(gpu_call *call, size_t size, const void *value)
{
    size_t at = (call->bytes + size - 1) / size * size;
    memcpy(call->block + at, value, size);
    call->bytes = at + size;
}

static weft_status set(gpu_call *call, const gpu_argument *arguments, int count)
{
    call->bytes = 0;
    for (int i = 0; i < count; i++) {
        const gpu_argument *a = &arguments[i];
        const float real = (float)a->real;
        switch (a->kind) {
        case GPU_IN:
        case GPU_OUT:
        case GPU_SCRATCH:
        case GPU_GUARD: {
            const weft_memory *memory = a->address.memory;
            const cu_pointer base = memory ? (cu_pointer)(uintptr_t)memory->base : 0;
            const long long offset = (long long)a->address.offset;
            append(call, sizeof(base), &base);
            append(call, sizeof(offset), &offset);
            break;
        }
        case GPU_INT: append(call, sizeof(a->whole), &a->whole); break;
        case GPU_FLOAT: append(call, sizeof(real), &real); break;
        case GPU_DOUBLE: append(call, sizeof(a->real), &a->real); break;
        }
    }
    return WEFT_OK;
}

static weft_status launch(weft_queue *queue, gpu_call *call, const gpu_grid *grid)
{
    void *block[] = {CU_BLOCK, call->block, CU_BLOCK_SIZE, &call->bytes, CU_BLOCK_END};
    const unsigned x = (unsigned)grid->groups[0], y = (unsigned)grid->groups[1],
                   z = (unsigned)grid->groups[2];
    return CUDA_CHECK(call->card, cuLaunchKernel, call->function, x, y, z, (unsigned)grid->block[0],
                      (unsigned)grid->block[1], 1, 0, cuda_stream_of(queue), NULL, block);
}

static const gpu_library *const libraries[] = {&cuda_cublaslt, &cuda_cudnn, &cuda_nccl, NULL};

static const gpu_driver driver = {.name = "cuda",
                                  .prelude = cuda_prelude,
                                  .memory = &cuda_memory_ops,
                                  .open = cuda_open,
                                  .close = cuda_close,
                                  .compile = compile,
                                  .load = load,
                                  .binary = binary,
                                  .unload = unload,
                                  .open_call = open_call,
                                  .close_call = close_call,
                                  .set = set,
                                  .launch = launch,
                                  .libraries = libraries};

static void *pointer(weft_address address, weft_pointer_kind *kind)
{
    *kind = WEFT_POINTER_CUDA;
    return (void *)(uintptr_t)cuda_pointer_of(address);
}

/* Rates like those of a card of a data centre (A100, H100). They are constants for all cards, since
 * the ranks of a job, which may have unlike cards, and a resumed run must choose the same kernels;
 * nothing but the choice between the card and the host depends on them. */
GPU_PLUGIN(
    driver, "cuda",
    "an NVIDIA card; cuda:K is card K; cuda:K:libraries=none does without cuBLASLt and cuDNN, "
    "cuda:K:libraries=cublaslt+cudnn+nccl adds up between cards by NCCL, and cuda:K:tf32=on lets "
    "cuBLASLt and cuDNN use TF32",
    .memory = &cuda_memory_ops, .reaches = cuda_reaches, .capture = &cuda_capture_ops,
    .collectives = &cuda_nccl_collectives, .pointer = pointer,
    .rates = {
        .flops = 1.5e13, .bytes = 1.5e12, .start = 4e-6, .copied = 2e10, .copied_start = 1e-5})
