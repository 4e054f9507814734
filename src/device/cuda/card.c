/* Finds cards by libcuda.so.1, opens the primary context of one, and says what errors mean. */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "device/cuda/cuda.h"

/* The process that has called cuInit: what it forks cannot use CUDA. 0: none. */
static pid_t initialized;
static _Thread_local cu_result entered;

bool cuda_enter(const cuda_card *card)
{
    entered = card->f.cuCtxPushCurrent_v2(card->context);
    return entered == CU_OK;
}

cu_result cuda_leave(const cuda_card *card, cu_result result)
{
    cu_context own;
    (void)card->f.cuCtxPopCurrent_v2(&own);
    return result;
}

cu_result cuda_not_entered(void)
{
    return entered;
}

/* After these errors every later call of the process fails. */
static bool is_lost(cu_result error)
{
    switch (error) {
    case CU_DEVICE_UNAVAILABLE:
    case CU_ECC_UNCORRECTABLE:
    case CU_NVLINK_UNCORRECTABLE:
    case CU_ILLEGAL_ADDRESS:
    case CU_LAUNCH_TIMEOUT:
    case CU_CONTEXT_IS_DESTROYED:
    case CU_HARDWARE_STACK_ERROR:
    case CU_ILLEGAL_INSTRUCTION:
    case CU_MISALIGNED_ADDRESS:
    case CU_INVALID_ADDRESS_SPACE:
    case CU_INVALID_PC:
    case CU_LAUNCH_FAILED:
    case CU_UNKNOWN: return true;
    default: return false;
    }
}

static weft_status forked(void)
{
    return weft->fail(WEFT_ERR_UNSUPPORTED,
                      "device cuda: process %d was forked from process %d after that had opened "
                      "the device, and CUDA does not work in such a process; fork before the "
                      "device is opened, or start a program",
                      (int)getpid(), (int)initialized);
}

weft_status cuda_fail(const cuda_card *card, cu_result error, const char *function)
{
    const char *name = NULL, *text = NULL;
    if (initialized && initialized != getpid()) return forked();
    if (entered != CU_OK) function = "cuCtxPushCurrent";
    entered = CU_OK;
    int length = (int)strcspn(function, "_"); /* without _v2 */
    if (card->f.cuGetErrorName) (void)card->f.cuGetErrorName(error, &name);
    if (card->f.cuGetErrorString) (void)card->f.cuGetErrorString(error, &text);
    weft_status status = error == CU_OUT_OF_MEMORY ? WEFT_ERR_MEMORY : WEFT_ERR_INTERNAL;
    status = weft->fail(status, "%.*s failed with %s (%u): %s", length, function,
                        name ? name : "an error", error, text ? text : "unknown");
    if (!is_lost(error)) return weft->fail_within(status, "device cuda %s", card->head.name);
    return weft->fail_within(
        status,
        "device cuda %s is lost to this process, since an operator that was queued before has "
        "failed (with CUDA_LAUNCH_BLOCKING=1 in the environment a run stops at that operator); the "
        "last checkpoint can be continued, also on the cpu",
        card->head.name);
}

static const cuda_symbol symbols[] = {
#define SYMBOL(name, parameters) {#name, offsetof(cuda_functions, name)},
    CUDA_FUNCTIONS(SYMBOL)
#undef SYMBOL
        {NULL, 0}};

static weft_status open_library(cuda_card *card)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return weft->fail(WEFT_ERR_UNSUPPORTED,
                          "device cuda: there is no driver here (%s); the driver of an NVIDIA card "
                          "installs libcuda.so.1",
                          dlerror());
    const char *missing = cuda_symbols_find(library, symbols, &card->f);
    if (!missing) return WEFT_OK;
    return weft->fail(
        WEFT_ERR_UNSUPPORTED,
        "device cuda: the driver's libcuda.so.1 lacks %s; install a driver for CUDA 12 "
        "or newer",
        missing);
}

static weft_status start(cuda_card *card, int *count)
{
    cu_result result = card->f.cuInit(0);
    if (result == CU_OK && initialized == 0) initialized = getpid();
    if (result == CU_NO_DEVICE)
        return weft->fail(WEFT_ERR_UNSUPPORTED,
                          "device cuda: the driver finds no card (see nvidia-smi, and "
                          "CUDA_VISIBLE_DEVICES if it is set)");
    WEFT_TRY(cuda_check(card, result, "cuInit"));
    WEFT_TRY(cuda_check(card, card->f.cuDriverGetVersion(&card->driver), "cuDriverGetVersion"));
    if (card->driver < 12000)
        return weft->fail(WEFT_ERR_UNSUPPORTED,
                          "device cuda: the driver supports CUDA %d.%d, must be 12.0 or newer",
                          card->driver / 1000, card->driver % 1000 / 10);
    return cuda_check(card, card->f.cuDeviceGetCount(count), "cuDeviceGetCount");
}

/* Writes "NUMBER NAME (N GiB)" for each card. */
static void list_cards(const cuda_card *card, int count, char *list, size_t size)
{
    size_t end = 0;
    list[0] = 0;
    for (int k = 0; k < count && end < size; k++) {
        char name[100] = "?";
        cu_device device;
        size_t bytes = 0;
        if (card->f.cuDeviceGet(&device, k) != CU_OK) continue;
        (void)card->f.cuDeviceGetName(name, sizeof(name), device);
        (void)card->f.cuDeviceTotalMem_v2(&bytes, device);
        int n = snprintf(list + end, size - end, "%s%d %s (%.1f GiB)", end ? ", " : "", k, name,
                         (double)bytes / (1 << 30));
        end += n > 0 ? (size_t)n : 0;
    }
}

static weft_status parse(const char *which, int *k)
{
    char rest;
    *k = 0;
    if (!*which || (sscanf(which, "%6d%c", k, &rest) == 1 && *k >= 0)) return WEFT_OK;
    return weft->fail(WEFT_ERR_ARGUMENT, "device cuda: '%s' is no card; write a number, such as 0",
                      which);
}

static weft_status find_card(cuda_card *card, int k, int count)
{
    char list[1024];
    if (k < count) return cuda_check(card, card->f.cuDeviceGet(&card->device, k), "cuDeviceGet");
    list_cards(card, count, list, sizeof(list));
    return weft->fail(WEFT_ERR_ARGUMENT, "device cuda: there is no card %d; there are: %s", k,
                      *list ? list : "none");
}

/* Binaries depend on the architecture alone, and on the driver if it compiles them from PTX. */
static weft_status describe(cuda_card *card)
{
    int major = 0, minor = 0;
    WEFT_TRY(cuda_check(
        card, card->f.cuDeviceGetName(card->head.name, sizeof(card->head.name), card->device),
        "cuDeviceGetName"));
    cu_result result = card->f.cuDeviceGetAttribute(&major, CU_CAPABILITY_MAJOR, card->device);
    if (result == CU_OK)
        result = card->f.cuDeviceGetAttribute(&minor, CU_CAPABILITY_MINOR, card->device);
    WEFT_TRY(cuda_check(card, result, "cuDeviceGetAttribute"));
    card->arch = 10 * major + minor;
    card->head.doubles = true;
    (void)snprintf(card->head.version, sizeof(card->head.version), "%s|sm_%d|%d|" CUDA_OPTIONS,
                   card->head.name, card->arch, card->driver);
    return WEFT_OK;
}

static weft_status open_context(cuda_card *card)
{
    cu_result result = card->f.cuDevicePrimaryCtxRetain(&card->context, card->device);
    if (result == CU_OUT_OF_MEMORY)
        return weft->fail(WEFT_ERR_MEMORY,
                          "device cuda: %s has no room for a context, some hundred MiB; nvidia-smi "
                          "lists the processes that use it",
                          card->head.name);
    WEFT_TRY(cuda_check(card, result, "cuDevicePrimaryCtxRetain"));
    card->retained = true;
    return CUDA_CHECK(card, cuStreamCreate, &card->fills, CU_NON_BLOCKING);
}

weft_status cuda_open(const char *which, gpu_card **out)
{
    cuda_card *card;
    int count = 0, k;
    WEFT_TRY(parse(which, &k));
    WEFT_TRY(weft->allocate(sizeof(*card), &card));
    weft_status status = open_library(card);
    if (status == WEFT_OK) status = start(card, &count);
    if (status == WEFT_OK) status = find_card(card, k, count);
    if (status == WEFT_OK) status = describe(card);
    if (status == WEFT_OK) status = open_context(card);
    if (status == WEFT_OK)
        *out = &card->head;
    else
        cuda_close(&card->head);
    return status;
}

/* The library stays: it cannot be started again after it was unloaded. */
void cuda_close(gpu_card *head)
{
    cuda_card *card = (cuda_card *)head;
    if (card->fills) (void)CUDA_CALL(card, cuStreamDestroy_v2, card->fills);
    if (card->retained) (void)card->f.cuDevicePrimaryCtxRelease_v2(card->device);
    free(card);
}
