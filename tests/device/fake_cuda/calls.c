/* Begins and ends the calls of the double, and has devices and contexts. */
#include <dlfcn.h>
#include <stdarg.h>
#include <unistd.h>

#include "fake.h"

const int fake_cuda = 1;
struct fake fake = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local cu_context stack[16];
static _Thread_local int depth;
_Thread_local cu_stream fake_capturing;

void fake_misuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)fputs("fake_cuda: ", stderr);
    (void)vfprintf(stderr, format, list);
    (void)fputs("\n", stderr);
    va_end(list);
    abort();
}

cu_result fake_planned(const char *function)
{
    static int calls;
    const char *plan = getenv("FAKE_CUDA_FAIL");
    size_t size = strlen(function);
    if (!plan || strncmp(plan, function, size) != 0 || plan[size] != '=') return CU_OK;
    const char *from = strchr(plan, '@');
    return ++calls >= (from ? atoi(from + 1) : 1) ? (cu_result)atoi(plan + size + 1) : CU_OK;
}

cu_result fake_begin(const char *function)
{
    pthread_mutex_lock(&fake.lock);
    if (fake.process != getpid()) return CU_NOT_INITIALIZED;
    return fake.lost ? fake.lost : fake_planned(function);
}

cu_result fake_end(cu_result result)
{
    pthread_mutex_unlock(&fake.lock);
    return result;
}

cu_context fake_current(void)
{
    return depth > 0 ? stack[depth - 1] : NULL;
}

static bool may_capture(const char *function)
{
    static const char *const names[] = {
        "cuLaunchKernel",      "cuMemcpy",       "cuMemsetD8Async",   "cublasLtMatmul",
        "cudnnBackendExecute", "cudnnSetStream", "cuStreamEndCapture"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(function, names[i], strlen(names[i])) == 0) return true;
    return false;
}

cu_result fake_begin_in(const char *function, const void *data, const char *kind)
{
    cu_result result = fake_begin(function);
    const handle *h = data;
    if (result == CU_NOT_INITIALIZED) return result;
    if (!fake_current()) fake_misuse("%s: no context is current", function);
    if (fake_capturing && !may_capture(function))
        fake_misuse("%s: while the thread captures a stream", function);
    if (!kind) return result;
    if (!h) fake_misuse("%s: no %s", function, kind);
    if (strcmp(h->kind, kind) != 0) fake_misuse("%s: a %s, not a %s", function, h->kind, kind);
    if (h->state != ALIVE) fake_misuse("%s: the %s was destroyed before", function, kind);
    if (h->context != fake_current())
        fake_misuse("%s: the %s is not of the current context", function, kind);
    return result;
}

void *fake_new(size_t bytes, const char *kind)
{
    handle *h = calloc(1, bytes);
    if (!h) fake_misuse("out of memory");
    *h = (handle){.state = ALIVE, .kind = kind, .context = fake_current()};
    return h;
}

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

/* Appends what was not released to a file. */
static void report(void)
{
    const char *path = getenv("FAKE_CUDA_LEFT");
    FILE *file = path && fake.process == getpid() ? fopen(path, "a") : NULL;
    int contexts = 0;
    if (!file) return;
    for (int k = 0; k < fake.cards; k++) contexts += fake.context[k].users;
    (void)fprintf(file,
                  "%d contexts, %d streams, %d events, %d modules, %d allocations, %d graphs\n",
                  contexts, fake.left[0], fake.left[1], fake.left[2], fake.left[3], fake.left[4]);
    (void)fclose(file);
}

static void start_opencl(void)
{
    cl_platform_id platform;
    cl_int error = -1;
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) fake_misuse("%s", dlerror());
#define FIND(name)                                                                                 \
    *(void **)&fake.name = dlsym(library, #name);                                                  \
    if (!fake.name) fake_misuse("libOpenCL.so.1 lacks %s", #name);
    FAKE_CL(FIND)
#undef FIND
    if (fake.clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS &&
        fake.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &fake.device, NULL) == CL_SUCCESS)
        fake.cl_context = fake.clCreateContext(NULL, 1, &fake.device, NULL, NULL, &error);
    if (error == CL_SUCCESS)
        fake.cl_queue = fake.clCreateCommandQueue(fake.cl_context, fake.device, 0, &error);
    if (error != CL_SUCCESS) fake_misuse("no OpenCL device");
}

cu_result cuInit(unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&fake.lock);
    cu_result planned = fake_planned("cuInit");
    if (planned) return fake_end(planned);
    if (fake.process && fake.process != getpid()) return fake_end(CU_NOT_INITIALIZED);
    fake.cards = (int)number("FAKE_CUDA_CARDS", 1);
    fake.version = (int)number("FAKE_CUDA_DRIVER", 13000);
    fake.arch = (int)number("FAKE_CUDA_ARCH", 90);
    fake.memory = (size_t)number("FAKE_CUDA_MEMORY", 1L << 31);
    if (fake.cards == 0) return fake_end(CU_NO_DEVICE);
    if (!fake.process) (void)atexit(report);
    fake.process = getpid();
    return fake_end(CU_OK);
}

cu_result cuDriverGetVersion(int *version)
{
    cu_result result = fake_begin("cuDriverGetVersion");
    *version = fake.version;
    return fake_end(result);
}

cu_result cuGetErrorName(cu_result error, const char **out)
{
    static const struct {
        cu_result error;
        const char *name;
    } list[] = {
#define NAME(own, name, value) {value, #name},
        CUDA_VALUES(NAME)
#undef NAME
    };
    *out = NULL;
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]) && !*out; i++)
        if (list[i].error == error && strncmp(list[i].name, "CUDA_", 5) == 0) *out = list[i].name;
    return *out ? CU_OK : 1;
}

cu_result cuGetErrorString(cu_result error, const char **out)
{
    *out = error == CU_ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
                                       : "the text of an error";
    return CU_OK;
}

cu_result cuGetExportTable(const void **out, const void *which)
{
    (void)which;
    *out = NULL;
    return 500; /* NOT_FOUND */
}

cu_result cuDeviceGetCount(int *out)
{
    cu_result result = fake_begin("cuDeviceGetCount");
    *out = fake.cards;
    return fake_end(result);
}

cu_result cuDeviceGet(cu_device *out, int k)
{
    cu_result result = fake_begin("cuDeviceGet");
    *out = k;
    return fake_end(result ? result : k < 0 || k >= fake.cards ? 101 : CU_OK);
}

cu_result cuDeviceGetUuid_v2(struct CUuuid_st *out, cu_device k)
{
    cu_result result = fake_begin("cuDeviceGetUuid_v2");
    memset(out, k + 1, 16);
    return fake_end(result);
}

cu_result cuDeviceGetName(char *out, int size, cu_device k)
{
    cu_result result = fake_begin("cuDeviceGetName");
    const char *name = getenv("FAKE_CUDA_NAME");
    if (name)
        (void)snprintf(out, (size_t)size, "%s", name);
    else
        (void)snprintf(out, (size_t)size, "Fake %d", k);
    return fake_end(result);
}

cu_result cuDeviceTotalMem_v2(size_t *out, cu_device k)
{
    cu_result result = fake_begin("cuDeviceTotalMem_v2");
    (void)k;
    *out = fake.memory;
    return fake_end(result);
}

cu_result cuDeviceGetAttribute(int *out, unsigned what, cu_device k)
{
    cu_result result = fake_begin("cuDeviceGetAttribute");
    if (k < 0 || k >= fake.cards) fake_misuse("cuDeviceGetAttribute: there is no card %d", k);
    if (what == CU_CAPABILITY_MAJOR)
        *out = fake.arch / 10;
    else if (what == CU_CAPABILITY_MINOR)
        *out = fake.arch % 10;
    else
        fake_misuse("cuDeviceGetAttribute: attribute %u", what);
    return fake_end(result);
}

cu_result cuDevicePrimaryCtxRetain(cu_context *out, cu_device k)
{
    cu_result result = fake_begin("cuDevicePrimaryCtxRetain");
    if (result) return fake_end(result);
    struct CUctx_st *c = &fake.context[k];
    if (!fake.cl_context) start_opencl();
    c->head = (handle){.state = ALIVE, .kind = "context"};
    c->card = k;
    c->users++;
    *out = c;
    return fake_end(CU_OK);
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device k)
{
    cu_result result = fake_begin("cuDevicePrimaryCtxRelease_v2");
    struct CUctx_st *c = &fake.context[k];
    if (result == CU_NOT_INITIALIZED) return fake_end(result);
    if (c->users == 0) fake_misuse("cuDevicePrimaryCtxRelease: more often than it was retained");
    if (--c->users == 0) c->head.state = DEAD;
    return fake_end(result);
}

cu_result cuDeviceCanAccessPeer(int *out, cu_device k, cu_device other)
{
    cu_result result = fake_begin("cuDeviceCanAccessPeer");
    if (k < 0 || k >= fake.cards || other < 0 || other >= fake.cards)
        fake_misuse("cuDeviceCanAccessPeer: there is no card %d or %d", k, other);
    *out = k != other && number("FAKE_CUDA_PEERS", 1);
    return fake_end(result);
}

cu_result cuCtxEnablePeerAccess(cu_context other, unsigned flags)
{
    cu_result result = fake_begin_in("cuCtxEnablePeerAccess", NULL, NULL);
    cu_context mine = fake_current();
    if (flags) fake_misuse("cuCtxEnablePeerAccess: flags %u", flags);
    if (!other || other->head.state != ALIVE || other == mine)
        fake_misuse("cuCtxEnablePeerAccess: no context of another card");
    if (result) return fake_end(result);
    bool already = mine->peer[other->card];
    mine->peer[other->card] = true;
    return fake_end(already ? CU_PEER_ACCESS_ALREADY_ENABLED : CU_OK);
}

cu_result cuCtxPushCurrent_v2(cu_context context)
{
    cu_result result = fake_begin("cuCtxPushCurrent_v2");
    /* The call succeeds on a context whose kernels have failed. */
    if (result == CU_NOT_INITIALIZED || (result && result != fake.lost)) return fake_end(result);
    if (!context || context->head.state != ALIVE) fake_misuse("cuCtxPushCurrent: no context");
    if (depth == 16) fake_misuse("cuCtxPushCurrent: 16 contexts were not popped");
    stack[depth++] = context;
    return fake_end(CU_OK);
}

cu_result cuCtxPopCurrent_v2(cu_context *out)
{
    (void)fake_begin("cuCtxPopCurrent_v2");
    if (depth == 0) fake_misuse("cuCtxPopCurrent: none was pushed");
    *out = stack[--depth];
    return fake_end(CU_OK);
}
