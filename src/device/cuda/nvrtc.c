/* Compiles sources with NVRTC: to the binary of the card's architecture, or to PTX, which the
 * driver compiles, if NVRTC is older than the card. NVRTC is opened when a source is not in the
 * cache. */
#include <stdio.h>

#include "device/cuda/cuda.h"

/* NVRTC, once for the process: it is not unloaded. */
static struct nvrtc {
    pthread_mutex_t lock;
    nvrtc_functions f;
    bool open;
    char path[512];
    int version;               /* as of a driver: 1000 major + 10 minor */
    int driver;                /* the version of CUDA that it must not exceed */
    char newer[600];           /* one that is too new for the driver */
    int archs[64], arch_count; /* that it compiles for, ascending */
} nvrtc = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const files[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", NULL},
                         *const packages[] = {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib", NULL};

static const cuda_symbol symbols[] = {
#define SYMBOL(name, parameters) {#name, offsetof(nvrtc_functions, name)},
    NVRTC_FUNCTIONS(SYMBOL)
#undef SYMBOL
        {NULL, 0}};

/* One that writes for this driver or an older one: drivers load binaries of their own major version
 * of CUDA. */
static bool fits(void *functions, int driver, const char *path)
{
    const nvrtc_functions *f = functions;
    int major = 0, minor = 0, count = 0;
    if (f->nvrtcVersion(&major, &minor) != 0 || f->nvrtcGetNumSupportedArchs(&count) != 0 ||
        count < 1 || count > (int)WEFT_COUNT(nvrtc.archs) ||
        f->nvrtcGetSupportedArchs(nvrtc.archs) != 0)
        return false;
    if (major > driver / 1000) {
        (void)snprintf(nvrtc.newer, sizeof(nvrtc.newer), "%d.%d (%.500s)", major, minor, path);
        return false;
    }
    (void)snprintf(nvrtc.path, sizeof(nvrtc.path), "%s", path);
    nvrtc.version = 1000 * major + 10 * minor;
    nvrtc.arch_count = count;
    return true;
}

const cuda_library cuda_nvrtc_file = {{files, packages}, symbols, fits, "of other functions"};

static weft_status not_found(const struct nvrtc *n)
{
    int major = n->driver / 1000, minor = n->driver % 1000 / 10;
    const char *package = major > 12 ? "nvidia-cuda-nvrtc" : "nvidia-cuda-nvrtc-cu12";
    if (*n->newer)
        return weft->fail(WEFT_ERR_UNSUPPORTED,
                          "device cuda: the driver supports CUDA %d.%d, too old for what NVRTC %s "
                          "compiles; install a newer driver, or an older NVRTC: pip install %s",
                          major, minor, n->newer, package);
    return weft->fail(WEFT_ERR_UNSUPPORTED,
                      "device cuda: NVRTC, CUDA's compiler, is not found: " CUDA_PLACES
                      "; pip install %s",
                      package);
}

static weft_status open_nvrtc(const cuda_card *card)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&nvrtc.lock);
    nvrtc.driver = card->driver;
    if (!nvrtc.open)
        nvrtc.open = cuda_library_open(&cuda_nvrtc_file, nvrtc.driver, &nvrtc.f, NULL, 0);
    if (!nvrtc.open) status = not_found(&nvrtc);
    pthread_mutex_unlock(&nvrtc.lock);
    return status;
}

/* The newest architecture that NVRTC compiles for and the card runs: its own, or one for PTX. */
static weft_status choose(const cuda_card *card, int *arch)
{
    *arch = 0;
    for (int i = 0; i < nvrtc.arch_count; i++)
        if (nvrtc.archs[i] <= card->arch) *arch = WEFT_MAX(*arch, nvrtc.archs[i]);
    if (*arch > 0) return WEFT_OK;
    return weft->fail(WEFT_ERR_UNSUPPORTED,
                      "device cuda: %s is of architecture sm_%d, and NVRTC %d.%d (%s) compiles for "
                      "sm_%d and newer; install an older NVRTC: pip install nvidia-cuda-nvrtc-cu12",
                      card->head.name, card->arch, nvrtc.version / 1000, nvrtc.version % 1000 / 10,
                      nvrtc.path, nvrtc.archs[0]);
}

static weft_status check(cu_result error, const char *function)
{
    if (error == 0) return WEFT_OK;
    return weft->fail(WEFT_ERR_INTERNAL, "device cuda: %s failed with %u (NVRTC %s)", function,
                      error, nvrtc.path);
}

/* Fails with the log of a source that is not compiled. */
static weft_status refuse(nvrtc_program program, const char *what, int arch)
{
    char log[2048] = "", *all = NULL;
    size_t size = 0;
    (void)nvrtc.f.nvrtcGetProgramLogSize(program, &size);
    if (weft->allocate(size + 1, &all) == WEFT_OK) {
        if (nvrtc.f.nvrtcGetProgramLog(program, all) == 0)
            (void)snprintf(log, sizeof(log), "%s", all);
        free(all);
    }
    return weft->fail(
        WEFT_ERR_UNSUPPORTED,
        "device cuda: NVRTC %d.%d (%s) does not compile the kernel of operator %s for sm_%d: %s",
        nvrtc.version / 1000, nvrtc.version % 1000 / 10, nvrtc.path, what, arch, log);
}

/* PTX ends with a zero, by which the driver recognizes its end. */
static weft_status read_result(nvrtc_program program, bool ptx, void **out, size_t *bytes)
{
    const nvrtc_functions *f = &nvrtc.f;
    char *data;
    size_t size = 0;
    WEFT_TRY(check(ptx ? f->nvrtcGetPTXSize(program, &size) : f->nvrtcGetCUBINSize(program, &size),
                   ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize"));
    WEFT_TRY(weft->allocate(size + 1, &data));
    weft_status status =
        check(ptx ? f->nvrtcGetPTX(program, data) : f->nvrtcGetCUBIN(program, data),
              ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN");
    if (status != WEFT_OK) {
        free(data);
        return status;
    }
    *out = data;
    *bytes = size;
    return WEFT_OK;
}

weft_status cuda_compile(const cuda_card *card, const char *source, const char *what, void **out,
                         size_t *bytes)
{
    nvrtc_program program = NULL;
    char target[40];
    int arch;
    WEFT_TRY(open_nvrtc(card));
    WEFT_TRY(choose(card, &arch));
    bool ptx = arch < card->arch;
    (void)snprintf(target, sizeof(target), "--gpu-architecture=%s_%d", ptx ? "compute" : "sm",
                   arch);
    const char *const options[] = {target, CUDA_OPTION_LIST};
    WEFT_TRY(check(nvrtc.f.nvrtcCreateProgram(&program, source, "kernel.cu", 0, NULL, NULL),
                   "nvrtcCreateProgram"));
    weft_status status = WEFT_OK;
    if (nvrtc.f.nvrtcCompileProgram(program, (int)WEFT_COUNT(options), options) != 0)
        status = refuse(program, what, arch);
    if (status == WEFT_OK) status = read_result(program, ptx, out, bytes);
    (void)nvrtc.f.nvrtcDestroyProgram(&program);
    return status;
}
