/* Makes each function of CUDA's driver fail in turn (over the double in fake_cuda/): what has
 * called it fails with its name and leaves nothing, whatever the function is; and the device after
 * a fork. */
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda/cublaslt_api.h"
#include "device/cuda/cudnn_api.h"
#include "op_cases.h"
#include "program/program.h"

/* Functions that undo something, or serve messages or access to another card, and those of
 * libraries in whose place own kernels stand: their failure is of no consequence. */
static bool of_no_consequence(const char *function)
{
    static const char *const words[] = {
        "Free",     "Destroy",        "Release",     "Unload",           "PopCurrent",   "GetError",
        "TotalMem", "cublasLtCreate", "cudnnCreate", "AlgoGetHeuristic", "GetAttribute", "Peer"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(function, words[i])) return true;
    return false;
}

/* All functions of memory, queues and events. */
static weft_status use_memory(weft_device *d, weft_memory *m, void *host, weft_queue *const q[2],
                              weft_queue_event *e)
{
    const weft_memory_ops *ops = d->ops->memory;
    char back[64] = "";
    bool done = false;
    size_t total, rest;
    memset(host, 7, 64);
    WEFT_TRY(ops->usage(d, &total, &rest));
    WEFT_TRY(ops->copy_in(q[0], (weft_address){m, 0}, host, 64));
    WEFT_TRY(ops->record(q[0], e));
    WEFT_TRY(ops->wait_queue(q[1], e));
    WEFT_TRY(ops->copy(q[1], (weft_address){m, 64}, (weft_address){m, 0}, 64));
    WEFT_TRY(ops->copy_out(q[1], back, (weft_address){m, 64}, 64));
    WEFT_TRY(ops->record(q[1], e));
    while (!done) WEFT_TRY(ops->test(e, &done));
    WEFT_TRY(ops->wait(e));
    return back[63] == 7 ? WEFT_OK : weft_fail(WEFT_ERR_INTERNAL, "the copy is wrong");
}

/* Captures two copies, replays them, and reads what they have copied. */
static weft_status use_capture(weft_device *d, weft_memory *m, void *host, weft_queue *q,
                               weft_queue_event *e)
{
    const weft_memory_ops *ops = d->ops->memory;
    weft_capture *capture = NULL;
    memset(host, 9, 64);
    WEFT_TRY(d->ops->capture->begin(q));
    weft_status copied = ops->copy_in(q, (weft_address){m, 0}, host, 64);
    if (copied == WEFT_OK) copied = ops->copy(q, (weft_address){m, 64}, (weft_address){m, 0}, 64);
    weft_status status = d->ops->capture->end(q, &capture);
    if (status == WEFT_OK) status = copied;
    if (status == WEFT_OK) status = d->ops->capture->replay(q, capture);
    if (status == WEFT_OK) status = ops->copy_out(q, (char *)host + 63, (weft_address){m, 127}, 1);
    if (status == WEFT_OK) status = ops->record(q, e);
    if (status == WEFT_OK) status = ops->wait(e);
    if (capture) d->ops->capture->close(capture);
    return status;
}

static weft_status use_timers(weft_device *d, weft_queue *q)
{
    const weft_memory_ops *ops = d->ops->memory;
    weft_queue_event *timer[2] = {NULL};
    weft_status status = WEFT_OK;
    double seconds = -1;
    for (int i = 0; i < 2 && status == WEFT_OK; i++) status = ops->open_timer(d, &timer[i]);
    for (int i = 0; i < 2 && status == WEFT_OK; i++) status = ops->record(q, timer[i]);
    if (status == WEFT_OK) status = ops->wait(timer[1]);
    if (status == WEFT_OK) status = ops->elapsed(timer[0], timer[1], &seconds);
    if (status == WEFT_OK && seconds < 0)
        status = weft_fail(WEFT_ERR_INTERNAL, "the time is wrong");
    for (int i = 0; i < 2; i++)
        if (timer[i]) ops->close_event(timer[i]);
    return status;
}

static weft_status use_device(weft_device *d)
{
    const weft_memory_ops *ops = d->ops->memory;
    weft_memory *m = NULL;
    void *host = NULL;
    weft_queue *q[2] = {NULL};
    weft_queue_event *e = NULL;
    weft_status status = ops->allocate(d, 128, &m);
    if (status == WEFT_OK) status = ops->allocate_host(d, 64, &host);
    for (int i = 0; i < 2 && status == WEFT_OK; i++) status = ops->open_queue(d, &q[i]);
    if (status == WEFT_OK) status = ops->open_event(d, &e);
    if (status == WEFT_OK) status = use_memory(d, m, host, q, e);
    if (status == WEFT_OK) status = use_capture(d, m, host, q[0], e);
    if (status == WEFT_OK) status = use_timers(d, q[0]);
    if (e) ops->close_event(e);
    for (int i = 0; i < 2; i++)
        if (q[i]) ops->close_queue(q[i]);
    if (host) ops->release_host(d, host);
    if (m) ops->release(m);
    return status;
}

static weft_status run_case(const op_case *c)
{
    fixture f;
    weft_store *store = NULL;
    weft_instance *p = NULL;
    weft_value fetch[MOST_INPUTS + MOST_OUTPUTS];
    fixture_start(&f, c, WEFT_F32);
    weft_status status = weft_store_create(f.context, "cuda", 1, &store);
    if (status == WEFT_OK)
        status = weft_instance_build(store, f.graph, fetch, fixture_fetch(&f, fetch), &p);
    if (status == WEFT_OK) {
        fixture_feed(&f, p);
        status = weft_instance_run(p, WEFT_PHASE_MICRO);
    }
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    fixture_end(&f);
    return status;
}

/* A case that calls the function, and the case of the first table for those of the driver. */
static const char *case_of(const char *function)
{
    return strncmp(function, "cublas", 6) == 0  ? "matmul_nn"
           : strncmp(function, "cudnn", 5) == 0 ? "conv_plain"
                                                : op_cases[0].name;
}

/* A card reaches another one if the driver gives access, and no other device. */
static weft_status check_reach(weft_device *d, weft_device *other)
{
    const char *plan = getenv("FAKE_CUDA_FAIL");
    bool refused = plan && strstr(plan, "Peer");
    for (int again = 0; again < 2; again++)
        if (weft_device_reaches(d, other) == refused)
            return weft_fail(WEFT_ERR_INTERNAL, "reached: %d", !refused);
    bool own = weft_device_reaches(d, d);
    return own ? WEFT_OK : weft_fail(WEFT_ERR_INTERNAL, "a card does not reach itself");
}

static weft_status use_all(const char *name)
{
    weft_context *context;
    weft_device *d = NULL, *other = NULL;
    char id[64];
    assert_ok(weft_context_create(&context));
    weft_status status = weft_device_open(context, "cuda", &d);
    if (status == WEFT_OK) status = weft_device_open(context, "cuda:1", &other);
    if (status == WEFT_OK) status = check_reach(d, other);
    if (status == WEFT_OK) status = d->ops->collectives->identify(d, id, sizeof(id));
    if (status == WEFT_OK) status = use_device(d);
    weft_device_close(&other);
    weft_device_close(&d);
    weft_context_destroy(&context);
    for (int c = 0; c < op_case_count && status == WEFT_OK; c++)
        if (strcmp(op_cases[c].name, case_of(name ? name : "")) == 0)
            status = run_case(&op_cases[c]);
    return status;
}

/* Runs in a process: with FAKE_CUDA_FAIL, use_all must fail with this name. */
static int fails_with(const char *name)
{
    weft_status status = use_all(name);
    if (status == WEFT_OK) return of_no_consequence(name) ? 0 : 1;
    if (strstr(weft_last_message(), name)) return 0;
    (void)fprintf(stderr, "%s\n", weft_last_message());
    return 2;
}

static int succeeds(const char *name)
{
    return use_all(name) == WEFT_OK ? 0 : 1;
}

static void in_process(int (*run)(const char *), const char *name)
{
    int result;
    pid_t child = fork();
    if (child == 0) exit(run(name));
    assert_int_equal(waitpid(child, &result, 0), child);
    if (result != 0) fail_msg("%s: result %x", name ? name : "without a failure", result);
}

static void nothing_is_left(const char *path)
{
    char line[200];
    FILE *file = fopen(path, "r");
    for (; file && fgets(line, sizeof(line), file);)
        if (strstr(line, "0 contexts, 0 streams, 0 events, 0 modules, 0 allocations, 0 graphs") !=
            line)
            fail_msg("%s: %s", getenv("FAKE_CUDA_FAIL"), line);
    if (file) (void)fclose(file);
    (void)unlink(path);
}

static bool is_here(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool here = library && dlsym(library, "fake_cuda");
    if (!here) print_message("SKIPPED: the double of libcuda.so.1 is not here\n");
    return here;
}

static void test_each_function(void **state)
{
    (void)state;
#define NAME(name, parameters) #name,
    static const char *const names[] = {CUDA_FUNCTIONS(NAME) CUBLASLT_FUNCTIONS(NAME)
                                            CUDNN_FUNCTIONS(NAME)};
    char plan[100], path[] = "/tmp/weft-cuda-calls-XXXXXX";
    if (!is_here()) skip();
    (void)close(mkstemp(path));
    assert_int_equal(setenv("FAKE_CUDA_LEFT", path, 1), 0);
    assert_int_equal(setenv("FAKE_CUDA_CARDS", "2", 1), 0);
    static const char *const all[] = {NULL, "cublas", "cudnn"};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        in_process(succeeds, all[i]);
        nothing_is_left(path);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[64];
        (void)snprintf(plan, sizeof(plan), "%s=1@1", names[i]);
        (void)snprintf(name, sizeof(name), "%s", names[i]);
        name[strcspn(name, "_")] = 0;
        assert_int_equal(setenv("FAKE_CUDA_FAIL", plan, 1), 0);
        in_process(fails_with, name);
        if (!of_no_consequence(name)) nothing_is_left(path);
    }
    assert_int_equal(unsetenv("FAKE_CUDA_FAIL"), 0);
    assert_int_equal(unsetenv("FAKE_CUDA_LEFT"), 0);
    assert_int_equal(unsetenv("FAKE_CUDA_CARDS"), 0);
    (void)unlink(path);
}

static weft_context *shared;
static weft_device *opened;

/* With and without a device that its parent has opened. */
static int after_fork(const char *name)
{
    weft_device *d = NULL;
    (void)name;
    weft_status status = opened ? use_device(opened) : weft_device_open(shared, "cuda", &d);
    if (status == WEFT_OK || !strstr(weft_last_message(), "was forked from process")) return 1;
    if (!opened) return 0;
    if (weft_device_open(shared, "cuda", &d) == WEFT_OK && use_device(d) == WEFT_OK) return 2;
    return strstr(weft_last_message(), "was forked from process") ? 0 : 3;
}

static int forks(const char *name)
{
    assert_ok(weft_context_create(&shared));
    assert_ok(weft_device_open(shared, "cuda", &opened));
    assert_ok(use_device(opened));
    in_process(after_fork, name);
    weft_device_close(&opened);
    in_process(after_fork, name);
    weft_context_destroy(&shared);
    return 0;
}

static void test_fork(void **state)
{
    (void)state;
    if (!is_here()) skip();
    in_process(forks, "fork");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_function),
                                       cmocka_unit_test(test_fork)};
    return cmocka_run_group_tests_name("cuda_calls", tests, NULL, NULL);
}
