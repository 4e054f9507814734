/* Compiles every kernel that the operator cases need with NVRTC for sm_80, sm_90 and sm_100, from
 * the texts that OpenCL runs: a driver whose memory is the host's, and whose launches do nothing.
 * NVRTC needs no graphics card. With WEFT_FAST each second one is compiled, for one of the three.
 * The registers and shared memory of a kernel on sm_90 may not exceed its row in gpu_resources.txt;
 * `--record FILE` writes that file. */
#include <dlfcn.h>
#include <stdio.h>

#include "device/cuda/prelude.h"
#include "device/gpu/gpu.h"
#include "gpu_resources.h"
#include "op_cases.h"
#include "program/program.h"

static struct nvrtc {
    void *library;
    int (*create)(void **program, const char *source, const char *name, int headers,
                  const char *const *header, const char *const *names);
    int (*compile)(void *program, int count, const char *const *options);
    int (*log_size)(void *program, size_t *size);
    int (*log)(void *program, char *log);
    int (*destroy)(void **program);
    int (*version)(int *major, int *minor);
} nvrtc;

static const char *const cards[] = {"--gpu-architecture=sm_80", "--gpu-architecture=sm_90",
                                    "--gpu-architecture=sm_100"};
enum { TABLE = 1 }; /* the card of gpu_resources.txt */
static int compiled;
static const char *table_file; /* the file to write; NULL: the table is compared */

static bool find(void)
{
    static const char *const names[] = {"libnvrtc.so",
                                        "libnvrtc.so.13",
                                        "libnvrtc.so.12",
                                        "/usr/local/cuda/lib64/libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so.13",
                                        "/usr/local/cuda/lib64/libnvrtc.so.12"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !nvrtc.library; i++)
        nvrtc.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!nvrtc.library) return false;
    *(void **)&nvrtc.create = dlsym(nvrtc.library, "nvrtcCreateProgram");
    *(void **)&nvrtc.compile = dlsym(nvrtc.library, "nvrtcCompileProgram");
    *(void **)&nvrtc.log_size = dlsym(nvrtc.library, "nvrtcGetProgramLogSize");
    *(void **)&nvrtc.log = dlsym(nvrtc.library, "nvrtcGetProgramLog");
    *(void **)&nvrtc.destroy = dlsym(nvrtc.library, "nvrtcDestroyProgram");
    *(void **)&nvrtc.version = dlsym(nvrtc.library, "nvrtcVersion");
    return nvrtc.create && nvrtc.compile && nvrtc.log_size && nvrtc.log && nvrtc.destroy &&
           nvrtc.version;
}

/* --- a driver --- */

static weft_status double_open(const char *which, gpu_card **out)
{
    (void)which;
    gpu_card *card = calloc(1, sizeof(*card));
    assert_non_null(card);
    card->doubles = true;
    *out = card;
    return WEFT_OK;
}

static void double_close(gpu_card *card)
{
    free(card);
}

static void compile_for(const char *source, const char *what, int card)
{
    void *program;
    size_t size = 0;
    const char *options[] = {cards[card], "--fmad=false", "--std=c++17", "--ptxas-options=-v"};
    assert_int_equal(nvrtc.create(&program, source, "kernel.cu", 0, NULL, NULL), 0);
    int status = nvrtc.compile(program, card == TABLE ? 4 : 3, options);
    (void)nvrtc.log_size(program, &size);
    char *log = calloc(1, size + 1);
    assert_non_null(log);
    (void)nvrtc.log(program, log);
    if (status != 0) fail_msg("operator %s, %s: %.3000s", what, cards[card], log);
    if (card == TABLE) resources_add(source, log);
    free(log);
    (void)nvrtc.destroy(&program);
}

static weft_status double_compile(gpu_card *card, const char *source, const char *what,
                                  gpu_module **out)
{
    const char *fast = getenv("WEFT_FAST");
    (void)card;
    for (int c = 0; c < 3; c++)
        if (table_file ? c == TABLE : !fast || compiled % 6 == 2 * c) compile_for(source, what, c);
    compiled++;
    *out = (gpu_module *)&nvrtc;
    return WEFT_OK;
}

static weft_status double_load(gpu_card *card, const void *binary, size_t bytes, gpu_module **out)
{
    (void)card;
    (void)binary;
    (void)bytes;
    (void)out;
    return WEFT_ERR_UNSUPPORTED;
}

static weft_status double_binary(gpu_card *card, gpu_module *module, void **out, size_t *bytes)
{
    (void)card;
    (void)module;
    (void)out;
    (void)bytes;
    return WEFT_ERR_UNSUPPORTED;
}

static void double_unload(gpu_module *module)
{
    (void)module;
}

static weft_status double_open_call(gpu_card *card, gpu_module *module, const char *function,
                                    gpu_call **out)
{
    (void)card;
    (void)module;
    (void)function;
    *out = (gpu_call *)&nvrtc;
    return WEFT_OK;
}

static void double_close_call(gpu_call *call)
{
    (void)call;
}

static weft_status double_set(gpu_call *call, const gpu_argument *arguments, int count)
{
    (void)call;
    (void)arguments;
    assert_true(count <= GPU_ARGUMENTS);
    return WEFT_OK;
}

static weft_status double_launch(weft_queue *queue, gpu_call *call, const gpu_grid *grid)
{
    (void)queue;
    (void)call;
    (void)grid;
    return WEFT_OK;
}

/* --- memory of the host --- */

struct weft_queue {
    int unused;
};
struct weft_queue_event {
    int unused;
};

static weft_status allocate(weft_device *device, size_t bytes, weft_memory **out)
{
    *out = calloc(1, sizeof(**out));
    assert_non_null(*out);
    (*out)->device = device;
    (*out)->base = calloc(1, bytes + 64);
    return WEFT_OK;
}
static void release(weft_memory *memory)
{
    free(memory->base);
    free(memory);
}
static weft_status open_queue(weft_device *device, weft_queue **out)
{
    (void)device;
    *out = calloc(1, sizeof(**out));
    return WEFT_OK;
}
static void close_queue(weft_queue *queue)
{
    free(queue);
}
static weft_status copy_in(weft_queue *queue, weft_address to, const void *from, size_t bytes)
{
    (void)queue;
    memcpy(weft_host(to), from, bytes);
    return WEFT_OK;
}
static weft_status copy_out(weft_queue *queue, void *to, weft_address from, size_t bytes)
{
    (void)queue;
    memcpy(to, weft_host(from), bytes);
    return WEFT_OK;
}
static weft_status copy(weft_queue *queue, weft_address to, weft_address from, size_t bytes)
{
    (void)queue;
    memmove(weft_host(to), weft_host(from), bytes);
    return WEFT_OK;
}
static weft_status open_event(weft_device *device, weft_queue_event **out)
{
    (void)device;
    *out = calloc(1, sizeof(**out));
    return WEFT_OK;
}
static void close_event(weft_queue_event *event)
{
    free(event);
}
static weft_status record(weft_queue *queue, weft_queue_event *event)
{
    (void)queue;
    (void)event;
    return WEFT_OK;
}
static weft_status wait_for(weft_queue_event *event)
{
    (void)event;
    return WEFT_OK;
}

static weft_status test_event(weft_queue_event *event, bool *done)
{
    (void)event;
    *done = true;
    return WEFT_OK;
}
static weft_status wait_queue(weft_queue *queue, weft_queue_event *event)
{
    (void)queue;
    (void)event;
    return WEFT_OK;
}

static const weft_memory_ops memory = {.allocate = allocate,
                                       .release = release,
                                       .open_queue = open_queue,
                                       .close_queue = close_queue,
                                       .copy_in = copy_in,
                                       .copy_out = copy_out,
                                       .copy = copy,
                                       .open_event = open_event,
                                       .close_event = close_event,
                                       .record = record,
                                       .wait = wait_for,
                                       .test = test_event,
                                       .wait_queue = wait_queue};

static const gpu_driver driver = {.name = "nvrtc",
                                  .prelude = cuda_prelude,
                                  .memory = &memory,
                                  .open = double_open,
                                  .close = double_close,
                                  .compile = double_compile,
                                  .load = double_load,
                                  .binary = double_binary,
                                  .unload = double_unload,
                                  .open_call = double_open_call,
                                  .close_call = double_close_call,
                                  .set = double_set,
                                  .launch = double_launch};

static weft_status device_open(weft_context *context, const char *arguments, weft_device **out)
{
    (void)context;
    return gpu_device_open(&driver, arguments, out);
}

static const weft_device_ops ops = {
    .struct_size = sizeof(weft_device_ops),
    .name = "nvrtc",
    .summary = "compiles kernels and runs none",
    .memory = &memory,
    .open = device_open,
    .close = gpu_device_close,
    .plain = weft_layout_plain,
    .rates = {.flops = 5e12, .bytes = 3e11, .start = 5e-6, .copied = 1e10, .copied_start = 2e-5},
    .candidates = gpu_candidates,
    .kernel = gpu_kernel_make,
    .reorder = gpu_reorder};

static void build_case(const op_case *c, weft_dtype real)
{
    fixture f;
    weft_store *store;
    weft_instance *p;
    weft_value fetch[MOST_INPUTS + MOST_OUTPUTS];
    fixture_start(&f, c, real);
    assert_ok(weft_device_register(f.context, &ops));
    assert_ok(weft_store_create(f.context, "nvrtc", 1, &store));
    if (weft_instance_build(store, f.graph, fetch, fixture_fetch(&f, fetch), &p) != WEFT_OK)
        fail_msg("%s: %s", c->name, weft_last_message());
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    fixture_end(&f);
}

static void test_all(void **state)
{
    (void)state;
    weft_context *context;
    weft_device *kept; /* keeps the programs, so that each is compiled once */
    if (!find()) {
        print_message("SKIPPED: no libnvrtc is here\n");
        skip();
    }
    weft_gpu_services = weft_services_get();
    assert_ok(weft_context_create(&context));
    assert_ok(weft_device_register(context, &ops));
    assert_ok(weft_device_open(context, "nvrtc", &kept));
    for (int c = 0; c < op_case_count; c++) {
        build_case(&op_cases[c], WEFT_F32);
        build_case(&op_cases[c], WEFT_F64);
    }
    assert_true(compiled > 50);
    print_message("%d programs\n", compiled);
    char compiler[64];
    int major = 0, minor = 0;
    (void)nvrtc.version(&major, &minor);
    (void)snprintf(compiler, sizeof(compiler), "NVRTC %d.%d", major, minor);
    if (table_file)
        resources_record(table_file, compiler);
    else
        assert_int_equal(resources_compare(GPU_RESOURCES, compiler, !getenv("WEFT_FAST")), 0);
    resources_free();
    weft_device_close(&kept);
    weft_context_destroy(&context);
}

int main(int count, char **arguments)
{
    if (count == 3 && strcmp(arguments[1], "--record") == 0) table_file = arguments[2];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests_name("gpu_nvrtc", tests, NULL, NULL);
}
