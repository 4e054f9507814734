/* Builds cuDNN's execution plans for the convolutions of models, forward and backward, as the
 * device cuda does, for cards that are described in JSON: no card is needed. A test's library takes
 * the place of the one of the device in lowering, so each convolution of a model comes by here. */
#include <stdio.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cudnn_plan.h"
#include "device/device.h"
#include "support.h"
#include "weft/options.h"
#include "weft/train.h"

/* Cards of data centres, as cudaGetDeviceProperties has them; the clocks are theirs about. */
#define CARD(name, memory, clock)                                                                  \
    "{\"deviceName\":\"" name "\",\"deviceVer\":900,\"driverVer\":13000,\"cudaDeviceId\":0,"       \
    "\"multiProcessorCount\":132,\"totalGlobalMem\":" memory ",\"l2CacheSize\":52428800,"          \
    "\"smClockRateKHz\":" clock ",\"memClockRateKHz\":2619000,\"warpSize\":32,"                    \
    "\"regsPerBlock\":65536,\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":49152,"        \
    "\"maxSharedMemoryPerBlockOptin\":232448,\"reservedSharedMemoryPerBlock\":1024,"               \
    "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"                    \
    "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,"                                 \
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]}"
static const struct {
    const char *name, *json;
} cards[] = {{"H100", CARD("NVIDIA H100 80GB HBM3", "85045608448", "1980000")},
             {"H200", CARD("NVIDIA H200", "150123905024", "1980000")}};

#define OK(call) assert_int_equal(call, DNN_OK)

static cudnn_functions f;
static cudnn_target target;
static int planned, without, rounded, kinds[4];
static int64_t most;

static void describe(const char *json)
{
    target = (cudnn_target){.f = &f};
    assert_int_equal(f.cudnnBackendCreateDescriptor(DNN_DEVICE, &target.device), DNN_OK);
    unsigned status = f.cudnnBackendSetAttribute(target.device, DNN_DEVICE_JSON, DNN_IS_CHAR,
                                                 (int64_t)strlen(json) + 1, json);
    if (status != DNN_OK) fail_msg("the card's description: %s", f.cudnnGetErrorString(status));
    assert_int_equal(f.cudnnBackendFinalize(target.device), DNN_OK);
}

/* --- a device of the library alone --- */

static void *open_library(gpu_card *card, char *text, size_t size)
{
    (void)card;
    (void)snprintf(text, size, "%zu", f.cudnnGetVersion());
    return &target;
}

static void close_library(void *state)
{
    (void)state;
}

static bool whole(const weft_group *group)
{
    (void)group;
    return false;
}

/* The notes of the engine of a plan, as a set. */
static unsigned notes_of(const cudnn_plan *made)
{
    cudnnBackendDescriptor_t config, engine;
    unsigned notes[32], set = 0;
    int64_t count = 0;
    OK(f.cudnnBackendCreateDescriptor(DNN_ENGINE_CONFIG, &config));
    OK(f.cudnnBackendCreateDescriptor(DNN_ENGINE, &engine));
    OK(f.cudnnBackendGetAttribute(made->plan, DNN_PLAN_CONFIG, DNN_IS_DESCRIPTOR, 1, &count,
                                  (void *)&config));
    OK(f.cudnnBackendGetAttribute(config, DNN_CONFIG_ENGINE, DNN_IS_DESCRIPTOR, 1, &count,
                                  (void *)&engine));
    OK(f.cudnnBackendGetAttribute(engine, DNN_ENGINE_NOTES, DNN_IS_NUMERICAL_NOTE, 32, &count,
                                  notes));
    for (int64_t i = 0; i < count; i++) set |= 1u << notes[i];
    OK(f.cudnnBackendDestroyDescriptor(engine));
    OK(f.cudnnBackendDestroyDescriptor(config));
    return set;
}

static void make(gpu_plan *plan, const gpu_product *product)
{
    cudnn_plan made;
    const unsigned never = 1u << DNN_NOTE_NONDETERMINISTIC | 1u << DNN_NOTE_FFT |
                           1u << DNN_NOTE_WINOGRAD | 1u << DNN_NOTE_REDUCED |
                           1u << DNN_NOTE_DOWN_CONVERT,
                   rounds = 1u << DNN_NOTE_TENSOR_CORE;
    const cudnn_problem problem = {.kind = product->kind,
                                   .window = product->window,
                                   .doubles = plan->real == WEFT_F64,
                                   .tf32 = plan->kernel->device->tf32,
                                   .what = plan->kernel->what};
    plan->status = cudnn_plan_make(&target, &problem, &made);
    if (plan->status == WEFT_OK) {
        planned++;
        kinds[product->kind]++;
        most = WEFT_MAX(most, made.workspace);
        unsigned notes = notes_of(&made);
        if (notes & never || (notes & rounds && !problem.tf32))
            fail_msg("%s: an engine with the notes %x", plan->kernel->what, notes);
        rounded += notes & rounds ? 1 : 0;
    } else {
        without++;
        print_message("%s\n", weft_last_message());
    }
    cudnn_plan_close(&target, &made);
}

static const gpu_library library = {.name = "plans",
                                    .table = gpu_conv_entries,
                                    .advice = "",
                                    .open = open_library,
                                    .close = close_library,
                                    .whole = whole,
                                    .make = make,
                                    .flops = 1e30,
                                    .tf32_flops = 1e30};
static const gpu_library *const libraries[] = {&library, NULL};

static weft_status open_card(const char *which, gpu_card **out)
{
    (void)which;
    *out = calloc(1, sizeof(**out));
    assert_non_null(*out);
    (*out)->doubles = true;
    return WEFT_OK;
}

static void close_card(gpu_card *card)
{
    free(card);
}

static const gpu_driver driver = {
    .name = "planned", .open = open_card, .close = close_card, .libraries = libraries};

static weft_status device_open(weft_context *context, const char *arguments, weft_device **out)
{
    (void)context;
    return gpu_device_open(&driver, arguments, out);
}

/* Own kernels cost much more, so that a convolution without a plan is noticed. */
static const weft_device_ops ops = {.struct_size = sizeof(weft_device_ops),
                                    .name = "planned",
                                    .summary = "plans convolutions and computes nothing",
                                    .open = device_open,
                                    .close = gpu_device_close,
                                    .plain = weft_layout_plain,
                                    .rates = {.flops = 1, .bytes = 1e18, .start = 1e-9},
                                    .candidates = gpu_candidates,
                                    .kernel = gpu_kernel_make,
                                    .reorder = gpu_reorder};

static void plan_model(const char *model, const char *data, const char *device)
{
    weft_context *context;
    weft_train_options options = {0};
    char *text;
    const char *const words[][2] = {
        {"model", model}, {"data", data}, {"device", device}, {"batch", "8"}};
    assert_ok(weft_context_create(&context));
    assert_ok(weft_device_register(context, &ops));
    const weft_option *table = weft_train_table(context);
    assert_ok(weft_train_options_init(context, &options));
    for (size_t i = 0; i < WEFT_COUNT(words); i++)
        assert_ok(weft_options_set(table, &options, words[i][0], words[i][1]));
    if (weft_train_plan_text(context, &options, 0, &text) != WEFT_OK)
        fail_msg("%s: %s", model, weft_last_message());
    weft_free(text);
    weft_options_free(table, &options);
    weft_context_destroy(&context);
}

static void test_models(void **state)
{
    static const char *const models[][2] = {{"lenet", "glyphs:size=28,train=40,test=20"},
                                            {"vgg11", "glyphs:size=32,train=40,test=20"},
                                            {"inception", "glyphs:size=32,train=40,test=20"}};
    (void)state;
    if (!cuda_library_open(&cuda_cudnn_file, 99000, &f, NULL, 0) || f.cudnnGetVersion() < 91100) {
        print_message("SKIPPED: no libcudnn of version 9.11 or newer is here\n");
        skip();
    }
    weft_gpu_services = weft_services_get();
    for (size_t c = 0; c < WEFT_COUNT(cards); c++)
        for (size_t i = 0; i < WEFT_COUNT(models); i++) {
            planned = without = rounded = 0;
            most = 0;
            memset(kinds, 0, sizeof(kinds));
            describe(cards[c].json);
            plan_model(models[i][0], models[i][1], i == 1 ? "planned:tf32=on" : "planned");
            if (planned == 0 || without > 0 || !kinds[GPU_FORWARD] || !kinds[GPU_WEIGHT] ||
                !kinds[GPU_DATA])
                fail_msg("%s for %s: %d plans (%d forward, %d of data, %d of weights), %d missing",
                         models[i][0], cards[c].name, planned, kinds[GPU_FORWARD], kinds[GPU_DATA],
                         kinds[GPU_WEIGHT], without);
            print_message("%s for %s: %d plans, %d with TF32, workspace at most %lld bytes\n",
                          models[i][0], cards[c].name, planned, rounded, (long long)most);
            if (i == 1 && rounded == 0) fail_msg("TF32 is used nowhere");
            (void)f.cudnnBackendDestroyDescriptor(target.device);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models)};
    return cmocka_run_group_tests_name("cudnn_plans", tests, NULL, NULL);
}
