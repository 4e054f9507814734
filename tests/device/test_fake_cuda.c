/* The double of libcuda.so.1 (fake_cuda/) sees misuse: each case runs in a process of its own,
 * which must end with the words of the misuse. Operations wait until something waits for them. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "device/cuda/api.h"
#include "device/cuda/prelude.h"

static cuda_functions cu;
static cu_context context;
static cu_stream stream;
static cu_event event;
static cu_pointer memory;
static cu_module module;
static cu_function function;

#define OK(call) assert_int_equal(call, CU_OK)

static const char text[] =
    "KERNEL(add, 64, 1)(GLOBAL char *to, const i64 offset, const int n, const double value)\n"
    "{\n"
    "    GLOBAL double *x = (GLOBAL double *)(to + offset);\n"
    "    for (int i = ITEM_X; i < n; i += 64) x[i] += value;\n"
    "}\n";

typedef struct block {
    cu_pointer to;
    long long offset;
    int n;
    double value;
} block;

static cu_result launch_of(const block *b, size_t bytes, unsigned x, unsigned y, unsigned items)
{
    block copy = *b;
    void *extra[] = {CU_BLOCK, &copy, CU_BLOCK_SIZE, &bytes, CU_BLOCK_END};
    return cu.cuLaunchKernel(function, x, y, 1, items, 1, 1, 0, stream, NULL, extra);
}

static cu_result launch(void)
{
    const block b = {memory, 0, 16, 1};
    return launch_of(&b, sizeof(b), 1, 1, 64);
}

static void begin(void)
{
    char image[sizeof(text) + sizeof(cuda_prelude) + 100];
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
#define FIND(name, parameters) *(void **)&cu.name = dlsym(library, #name);
    CUDA_FUNCTIONS(FIND)
#undef FIND
    (void)snprintf(image, sizeof(image), "%s#define DOUBLES 1\n\n\n%s\n%s",
                   "a binary of fake_nvrtc\n", cuda_prelude, text);
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxPushCurrent_v2(context));
    OK(cu.cuStreamCreate(&stream, CU_NON_BLOCKING));
    OK(cu.cuEventCreate(&event, CU_DISABLE_TIMING));
    OK(cu.cuMemAlloc_v2(&memory, 1024));
    OK(cu.cuMemsetD8Async(memory, 0, 1024, stream));
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuModuleLoadDataEx(&module, image, 0, NULL, NULL));
    OK(cu.cuModuleGetFunction(&function, module, "add"));
}

static void no_context(void)
{
    cu_context old;
    OK(cu.cuCtxPopCurrent_v2(&old));
    (void)cu.cuMemAlloc_v2(&memory, 64);
}

static void dead_stream(void)
{
    OK(cu.cuStreamDestroy_v2(stream));
    (void)cu.cuStreamSynchronize(stream);
}

static void dead_event(void)
{
    OK(cu.cuEventDestroy_v2(event));
    (void)cu.cuEventRecord(event, stream);
}

static void waits_for_dead_event(void)
{
    OK(cu.cuEventDestroy_v2(event));
    (void)cu.cuStreamWaitEvent(stream, event, 0);
}

static void freed_while_launched(void)
{
    OK(launch());
    (void)cu.cuMemFree_v2(memory);
}

static void freed_while_copied(void)
{
    char to[64];
    OK(cu.cuMemcpyDtoHAsync_v2(to, memory, sizeof(to), stream));
    (void)cu.cuMemFree_v2(memory);
}

static void freed_twice(void)
{
    OK(cu.cuMemFree_v2(memory));
    (void)cu.cuMemFree_v2(memory);
}

static void launched_on_freed(void)
{
    OK(cu.cuMemFree_v2(memory));
    (void)launch();
}

static void unloaded_while_launched(void)
{
    OK(launch());
    (void)cu.cuModuleUnload(module);
}

static void wrong_size(void)
{
    const block b = {memory, 0, 16, 1};
    (void)launch_of(&b, sizeof(b) - 8, 1, 1, 64);
}

static void wrong_block(void)
{
    const block b = {memory, 0, 16, 1};
    OK(launch_of(&b, sizeof(b), 1, 1, 32));
    (void)cu.cuStreamSynchronize(stream);
}

static void beyond_memory(void)
{
    char from[64] = "";
    (void)cu.cuMemcpyHtoDAsync_v2(memory + 1000, from, sizeof(from), stream);
}

static void wrong_attribute(void)
{
    int value;
    (void)cu.cuDeviceGetAttribute(&value, 5, 0);
}

static void wrong_kind(void)
{
    (void)cu.cuStreamSynchronize((cu_stream)event);
}

static void destroyed_with_work(void)
{
    OK(launch());
    (void)cu.cuStreamDestroy_v2(stream);
}

static void of_other_context(void)
{
    cu_context other;
    OK(cu.cuDevicePrimaryCtxRetain(&other, 1));
    OK(cu.cuCtxPushCurrent_v2(other));
    (void)cu.cuStreamSynchronize(stream);
}

/* --- captures --- */

static void begin_capture(void)
{
    OK(cu.cuStreamBeginCapture_v2(stream, CU_CAPTURE_OF_THREAD));
    OK(launch());
}

static cu_graph_exec captured(void)
{
    cu_graph graph;
    cu_graph_exec made;
    begin_capture();
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&made, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    return made;
}

static void synchronized_in_capture(void)
{
    begin_capture();
    (void)cu.cuStreamSynchronize(stream);
}

static void allocated_in_capture(void)
{
    cu_pointer other;
    begin_capture();
    (void)cu.cuMemAlloc_v2(&other, 64);
}

static void captured_twice(void)
{
    begin_capture();
    (void)cu.cuStreamBeginCapture_v2(stream, CU_CAPTURE_OF_THREAD);
}

static void ended_without_capture(void)
{
    cu_graph graph;
    (void)cu.cuStreamEndCapture(stream, &graph);
}

static void left_open(void)
{
    begin_capture();
    (void)cu.cuStreamDestroy_v2(stream);
}

static void dead_graph(void)
{
    cu_graph_exec graph = captured();
    OK(cu.cuGraphExecDestroy(graph));
    (void)cu.cuGraphLaunch(graph, stream);
}

static void freed_with_graph(void)
{
    (void)captured();
    (void)cu.cuMemFree_v2(memory);
}

static void unloaded_with_graph(void)
{
    (void)captured();
    (void)cu.cuModuleUnload(module);
}

/* Memory of one card is used on another, which then gets access and uses it. */
static void of_other_card(void)
{
    cu_context other;
    cu_stream there;
    cu_pointer own;
    OK(cu.cuDevicePrimaryCtxRetain(&other, 1));
    OK(cu.cuCtxPushCurrent_v2(other));
    OK(cu.cuStreamCreate(&there, CU_NON_BLOCKING));
    OK(cu.cuMemAlloc_v2(&own, 64));
    OK(cu.cuCtxEnablePeerAccess(context, 0));
    if (cu.cuCtxEnablePeerAccess(context, 0) != CU_PEER_ACCESS_ALREADY_ENABLED) _exit(1);
    OK(cu.cuMemcpyDtoDAsync_v2(own, memory, 64, there));
    OK(cu.cuStreamSynchronize(there));
    OK(cu.cuCtxPopCurrent_v2(&other));
    (void)cu.cuMemcpyDtoDAsync_v2(memory, own, 64, stream);
}

static const struct {
    void (*run)(void);
    const char *words;
} cases[] = {
    {no_context, "no context is current"},
    {dead_stream, "the stream was destroyed before"},
    {dead_event, "the event was destroyed before"},
    {waits_for_dead_event, "the event was destroyed before"},
    {freed_while_launched, "a queued operation uses"},
    {freed_while_copied, "a queued operation uses"},
    {freed_twice, "is not allocated"},
    {launched_on_freed, "is no memory of a card"},
    {unloaded_while_launched, "a launch of add is queued"},
    {wrong_size, "gets 24 bytes of parameters, and has 32"},
    {wrong_block, "add is not launched"},
    {beyond_memory, "are no memory of a card"},
    {wrong_attribute, "attribute 5"},
    {wrong_kind, "a event, not a stream"},
    {destroyed_with_work, "operations are queued"},
    {of_other_context, "is not of the current context"},
    {synchronized_in_capture, "while the thread captures a stream"},
    {allocated_in_capture, "while the thread captures a stream"},
    {captured_twice, "while the thread captures a stream"},
    {ended_without_capture, "does not capture"},
    {left_open, "while the thread captures a stream"},
    {dead_graph, "the executable graph was destroyed before"},
    {freed_with_graph, "a graph uses"},
    {unloaded_with_graph, "a graph launches add"},
    {of_other_card, "is memory of card 1, to which card 0 has no access"},
};

/* Without the headers of OpenCL there is no double. */
static bool is_here(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    bool here = library && dlsym(library, "fake_cuda");
    if (!here) print_message("SKIPPED: the double of libcuda.so.1 is not here\n");
    return here;
}

static int run_alone(void (*run)(void), char *said, size_t size)
{
    int ends[2], result;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(ends[1], 2);
        begin();
        run();
        _exit(0);
    }
    (void)close(ends[1]);
    size_t end = 0;
    for (ssize_t n; end < size - 1 && (n = read(ends[0], said + end, size - 1 - end)) > 0;)
        end += (size_t)n;
    said[end] = 0;
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &result, 0), child);
    return result;
}

static void test_misuse(void **state)
{
    (void)state;
    char said[4096];
    if (!is_here()) skip();
    assert_int_equal(setenv("FAKE_CUDA_CARDS", "2", 1), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int result = run_alone(cases[i].run, said, sizeof(said));
        if (!WIFSIGNALED(result) || WTERMSIG(result) != SIGABRT || !strstr(said, cases[i].words))
            fail_msg("case %zu, '%s': result %x, it says: %s", i, cases[i].words, result, said);
    }
}

static double first(void)
{
    double value;
    memcpy(&value, (const void *)(uintptr_t)memory, sizeof(value));
    return value;
}

/* A kernel runs when its stream, or one that waits for it, is waited for. */
static void waits(void)
{
    cu_stream other;
    double got = 0;
    OK(cu.cuStreamCreate(&other, CU_NON_BLOCKING));
    OK(launch());
    if (first() != 0) _exit(1);
    OK(cu.cuEventRecord(event, stream));
    OK(launch());
    OK(cu.cuStreamWaitEvent(other, event, 0));
    OK(cu.cuMemcpyDtoHAsync_v2(&got, memory, sizeof(got), other));
    if (first() != 0 || got != 0) _exit(2);
    OK(cu.cuStreamSynchronize(other));
    if (got != 1 || first() != 1) _exit(3);
    if (cu.cuEventQuery(event) != CU_OK) _exit(4);
    OK(cu.cuEventRecord(event, stream));
    if (cu.cuEventQuery(event) != CU_NOT_READY) _exit(5);
    if (cu.cuEventQuery(event) != CU_OK || first() != 2) _exit(6);
    const block b = {memory, 0, 16, 1};
    if (launch_of(&b, sizeof(b), 1, 65536, 64) != 1) _exit(7);
    if (launch_of(&b, sizeof(b), 0, 1, 64) != 1) _exit(8);
}

/* A graph runs what was captured, as often as it is launched, in the order of its stream. */
static void replays(void)
{
    cu_graph_exec graph = captured();
    OK(cu.cuStreamSynchronize(stream));
    if (first() != 0) _exit(1);
    OK(cu.cuGraphLaunch(graph, stream));
    OK(launch());
    OK(cu.cuGraphLaunch(graph, stream));
    if (first() != 0) _exit(2);
    OK(cu.cuGraphExecDestroy(graph)); /* what is launched goes on */
    OK(cu.cuStreamSynchronize(stream));
    if (first() != 3) _exit(3);
}

/* After a kernel has failed every call does. */
static void stays_lost(void)
{
    OK(launch());
    if (cu.cuStreamSynchronize(stream) != CU_ILLEGAL_ADDRESS) _exit(1);
    if (cu.cuMemAlloc_v2(&memory, 64) != CU_ILLEGAL_ADDRESS) _exit(2);
    if (launch() != CU_ILLEGAL_ADDRESS || cu.cuEventQuery(event) != CU_ILLEGAL_ADDRESS) _exit(3);
}

static void test_order(void **state)
{
    (void)state;
    char said[4096];
    if (!is_here()) skip();
    int result = run_alone(waits, said, sizeof(said));
    if (result != 0) fail_msg("result %x: %s", result, said);
    result = run_alone(replays, said, sizeof(said));
    if (result != 0) fail_msg("a graph: result %x: %s", result, said);
    assert_int_equal(setenv("FAKE_CUDA_FAIL", "launch=700@1", 1), 0);
    result = run_alone(stays_lost, said, sizeof(said));
    if (result != 0) fail_msg("a lost card: result %x: %s", result, said);
    assert_int_equal(unsetenv("FAKE_CUDA_FAIL"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_misuse), cmocka_unit_test(test_order)};
    return cmocka_run_group_tests_name("fake_cuda", tests, NULL, NULL);
}
