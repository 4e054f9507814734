/* The doubles of cuBLASLt, cuDNN and NCCL (fake_cuda/) see misuse: each case runs in a process of
 * its own, which must end with the words of the misuse. The right use computes what the interfaces
 * say.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cuda/cublaslt_api.h"
#include "device/cuda/cudnn_api.h"
#include "device/cuda/nccl_api.h"
#include "support.h"

static cuda_functions cu;
static cublaslt_functions lt;
static cudnn_functions dnn;
static nccl_functions nccl;
static cu_context context;
static cu_stream stream;
static cu_pointer memory;

#define OK(call) assert_int_equal(call, 0)

static void *library_of(const char *folder, const char *file)
{
    char path[1200];
    (void)snprintf(path, sizeof(path), "%s/lib/python3.11/site-packages/nvidia/%s/lib/%s",
                   getenv("VIRTUAL_ENV"), folder, file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    return library;
}

static void begin(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
#define FIND_CU(name, parameters) *(void **)&cu.name = dlsym(library, #name);
    CUDA_FUNCTIONS(FIND_CU)
    library = library_of("cublas", "libcublasLt.so.13");
#define FIND_LT(name, parameters) *(void **)&lt.name = dlsym(library, #name);
    CUBLASLT_FUNCTIONS(FIND_LT)
    library = library_of("cudnn", "libcudnn.so.9");
#define FIND_DNN(name, parameters) *(void **)&dnn.name = dlsym(library, #name);
    CUDNN_FUNCTIONS(FIND_DNN)
    library = library_of("nccl", "libnccl.so.2");
#define FIND_NCCL(name, parameters) *(void **)&nccl.name = dlsym(library, #name);
    NCCL_FUNCTIONS(FIND_NCCL)
    OK(cu.cuInit(0));
    OK(cu.cuDevicePrimaryCtxRetain(&context, 0));
    OK(cu.cuCtxPushCurrent_v2(context));
    OK(cu.cuStreamCreate(&stream, CU_NON_BLOCKING));
    OK(cu.cuMemAlloc_v2(&memory, 8192));
    OK(cu.cuMemsetD8Async(memory, 0, 8192, stream));
    OK(cu.cuStreamSynchronize(stream));
}

/* The address of number i of the memory. */
static float *number(int i)
{
    return (float *)(uintptr_t)memory + i;
}

/* --- cuBLASLt: c [3, 2] = a [3, 9] b [9, 2], column-major; a is stored transposed --- */

enum { A_AT = 0, B_AT = 64, C_AT = 128, BIAS_AT = 192, WORK_AT = 256 };

static struct product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    const void *bias;
    void *work;
    size_t work_bytes;
    const float *from;
} pr;

static void describe(void)
{
    const int32_t transposed = LT_TRANSPOSED;
    const uint32_t epilogue = LT_EPILOGUE_BIAS, mask = LT_REDUCE_COMPUTE_TYPE, alignment = 16;
    const uint64_t room = 32768, exact = ~(uint64_t)LT_INPUT_TF32;
    OK(lt.cublasLtCreate(&pr.handle));
    OK(lt.cublasLtMatmulDescCreate(&pr.desc, LT_COMPUTE_32F, LT_R_32F));
    OK(lt.cublasLtMatmulDescSetAttribute(pr.desc, LT_TRANSA, &transposed, sizeof(transposed)));
    OK(lt.cublasLtMatmulDescSetAttribute(pr.desc, LT_EPILOGUE, &epilogue, sizeof(epilogue)));
    OK(lt.cublasLtMatrixLayoutCreate(&pr.a, LT_R_32F, 9, 3, 10));
    OK(lt.cublasLtMatrixLayoutCreate(&pr.b, LT_R_32F, 9, 2, 9));
    OK(lt.cublasLtMatrixLayoutCreate(&pr.c, LT_R_32F, 3, 2, 4));
    OK(lt.cublasLtMatmulPreferenceCreate(&pr.preference));
    OK(lt.cublasLtMatmulPreferenceSetAttribute(pr.preference, LT_MOST_WORKSPACE, &room,
                                               sizeof(room)));
    OK(lt.cublasLtMatmulPreferenceSetAttribute(pr.preference, LT_REDUCTION_MASK, &mask,
                                               sizeof(mask)));
    OK(lt.cublasLtMatmulPreferenceSetAttribute(pr.preference, LT_IMPLEMENTATION_MASK, &exact,
                                               sizeof(exact)));
    for (unsigned i = LT_ALIGNMENT_A; i <= LT_ALIGNMENT_D; i++)
        OK(lt.cublasLtMatmulPreferenceSetAttribute(pr.preference, i, &alignment,
                                                   sizeof(alignment)));
    pr.bias = number(BIAS_AT);
    OK(lt.cublasLtMatmulDescSetAttribute(pr.desc, LT_BIAS_POINTER, &pr.bias, sizeof(pr.bias)));
    pr.work = number(WORK_AT);
    pr.from = number(A_AT);
}

static void choose(void)
{
    int count = 0;
    OK(lt.cublasLtMatmulAlgoGetHeuristic(pr.handle, pr.desc, pr.a, pr.b, pr.c, pr.c, pr.preference,
                                         1, &pr.found, &count));
    assert_int_equal(count, 1);
    assert_true(pr.found.workspaceSize > 0);
    pr.work_bytes = pr.found.workspaceSize;
}

static void multiply(void)
{
    const float one = 1, zero = 0;
    OK(lt.cublasLtMatmulDescSetAttribute(pr.desc, LT_BIAS_POINTER, &pr.bias, sizeof(pr.bias)));
    OK(lt.cublasLtMatmul(pr.handle, pr.desc, &one, pr.from, pr.a, number(B_AT), pr.b, &zero,
                         number(C_AT), pr.c, number(C_AT), pr.c, &pr.found.algo, pr.work,
                         pr.work_bytes, stream));
}

static void product_right(void)
{
    for (int i = 0; i < 3; i++)
        for (int p = 0; p < 9; p++) *number(A_AT + 10 * i + p) = (float)(i + 1);
    for (int p = 0; p < 9; p++) *number(B_AT + p) = 1, *number(B_AT + 9 + p) = (float)p;
    for (int i = 0; i < 3; i++) *number(BIAS_AT + i) = (float)(100 * i);
    *number(C_AT + 3) = 77;
    describe();
    choose();
    multiply();
    if (*number(C_AT) != 0) _exit(1); /* nothing has waited for it */
    OK(cu.cuStreamSynchronize(stream));
    for (int i = 0; i < 3; i++)
        if (*number(C_AT + i) != (float)(9 * (i + 1) + 100 * i) ||
            *number(C_AT + 4 + i) != (float)(36 * (i + 1) + 100 * i))
            _exit(2);
    if (*number(C_AT + 3) != 77) _exit(3);
}

static void layout_gone(void)
{
    describe();
    choose();
    OK(lt.cublasLtMatrixLayoutDestroy(pr.b));
    multiply();
}

static void description_gone(void)
{
    describe();
    choose();
    OK(lt.cublasLtMatmulDescDestroy(pr.desc));
    multiply();
}

static void sizes_differ(void)
{
    describe();
    OK(lt.cublasLtMatrixLayoutCreate(&pr.b, LT_R_32F, 8, 2, 9));
    choose();
}

static void short_leading(void)
{
    describe();
    (void)lt.cublasLtMatrixLayoutCreate(&pr.b, LT_R_32F, 9, 2, 8);
}

static void of_other_problem(void)
{
    describe();
    choose();
    OK(lt.cublasLtMatrixLayoutCreate(&pr.a, LT_R_32F, 9, 3, 12));
    multiply();
}

static void small_workspace(void)
{
    describe();
    choose();
    pr.work_bytes--;
    multiply();
}

static void crooked_workspace(void)
{
    describe();
    choose();
    pr.work = number(WORK_AT + 32);
    multiply();
}

static void crooked_operand(void)
{
    describe();
    choose();
    pr.from = number(A_AT + 1);
    multiply();
}

static void crooked_bias(void)
{
    describe();
    choose();
    pr.bias = number(BIAS_AT + 4);
    multiply();
}

static void host_operand(void)
{
    static float own[64] __attribute__((aligned(64)));
    describe();
    choose();
    pr.from = own;
    multiply();
}

static void over_result(void)
{
    describe();
    choose();
    pr.work = number(C_AT);
    multiply();
}

static void freed_before(void)
{
    describe();
    choose();
    multiply();
    (void)cu.cuMemFree_v2(memory);
}

static void unordered_sums(void)
{
    const uint32_t mask = 7;
    describe();
    OK(lt.cublasLtMatmulPreferenceSetAttribute(pr.preference, LT_REDUCTION_MASK, &mask,
                                               sizeof(mask)));
    choose();
}

static void rounded_operands(void)
{
    const uint64_t any = UINT64_MAX;
    describe();
    OK(lt.cublasLtMatmulPreferenceSetAttribute(pr.preference, LT_IMPLEMENTATION_MASK, &any,
                                               sizeof(any)));
    choose();
}

static void without_context(void)
{
    cu_context old;
    OK(cu.cuCtxPopCurrent_v2(&old));
    (void)lt.cublasLtCreate(&pr.handle);
}

/* --- cuDNN --- */

static cudnnBackendDescriptor_t open_one(unsigned type)
{
    cudnnBackendDescriptor_t d;
    OK(dnn.cudnnBackendCreateDescriptor(type, &d));
    return d;
}

static void unfinished_part(void)
{
    cudnnBackendDescriptor_t t = open_one(DNN_TENSOR), o = open_one(DNN_FORWARD);
    (void)dnn.cudnnBackendSetAttribute(o, DNN_FORWARD_X, DNN_IS_DESCRIPTOR, 1, (const void *)&t);
}

static void changed_when_finished(void)
{
    const int64_t id = 1;
    cudnnBackendDescriptor_t t = open_one(DNN_TENSOR);
    OK(dnn.cudnnBackendFinalize(t));
    (void)dnn.cudnnBackendSetAttribute(t, DNN_TENSOR_ID, DNN_IS_INT64, 1, &id);
}

static void graph_of_nothing(void)
{
    cudnnBackendDescriptor_t g = open_one(DNN_GRAPH);
    (void)dnn.cudnnBackendFinalize(g);
}

static void descriptor_gone(void)
{
    cudnnBackendDescriptor_t t = open_one(DNN_TENSOR);
    OK(dnn.cudnnBackendDestroyDescriptor(t));
    (void)dnn.cudnnBackendFinalize(t);
}

static void pack_as_plan(void)
{
    cudnnHandle_t of;
    OK(dnn.cudnnCreate(&of));
    cudnnBackendDescriptor_t p = open_one(DNN_VARIANT_PACK);
    OK(dnn.cudnnBackendFinalize(p));
    (void)dnn.cudnnBackendExecute(of, p, p);
}

/* --- NCCL: a communicator of one rank --- */

static struct nccl_config config = {
    .size = sizeof(config), .magic = (unsigned)NCCL_CONFIG_MAGIC, .version = NCCL_LEAST};

static ncclComm_t join(int rank, int ranks)
{
    ncclUniqueId id;
    ncclComm_t comm;
    unsigned state = NCCL_IN_PROGRESS;
    OK(nccl.ncclGetUniqueId(&id));
    assert_int_equal(nccl.ncclCommInitRankConfig(&comm, ranks, id, rank, &config),
                     NCCL_IN_PROGRESS);
    while (ranks == 1 && state == NCCL_IN_PROGRESS) OK(nccl.ncclCommGetAsyncError(comm, &state));
    return comm;
}

static void gather_alone(ncclComm_t comm, const float *from, cu_stream in)
{
    OK(nccl.ncclGroupStart());
    OK(nccl.ncclAllGather(from, number(64), 8, NCCL_FLOAT32, comm, in));
    assert_int_equal(nccl.ncclGroupEnd(), NCCL_IN_PROGRESS);
}

static void blocking(void)
{
    config.blocking = 1;
    (void)join(0, 1);
}

static void no_mark(void)
{
    config.magic = 0;
    (void)join(0, 1);
}

static void not_open(void)
{
    gather_alone(join(0, 2), number(0), stream);
}

static void no_group(void)
{
    (void)nccl.ncclAllGather(number(0), number(64), 8, NCCL_FLOAT32, join(0, 1), stream);
}

static void group_in_progress(void)
{
    ncclComm_t comm = join(0, 1);
    gather_alone(comm, number(0), stream);
    gather_alone(comm, number(0), stream);
}

static void another_stream(void)
{
    ncclComm_t comm = join(0, 1);
    cu_stream other;
    unsigned state = NCCL_IN_PROGRESS;
    OK(cu.cuStreamCreate(&other, CU_NON_BLOCKING));
    gather_alone(comm, number(0), stream);
    while (state == NCCL_IN_PROGRESS) OK(nccl.ncclCommGetAsyncError(comm, &state));
    gather_alone(comm, number(0), other);
}

static void gathers_host_memory(void)
{
    static float here[8];
    unsigned state;
    ncclComm_t comm = join(0, 1);
    gather_alone(comm, here, stream);
    (void)nccl.ncclCommGetAsyncError(comm, &state);
}

static void not_finalized(void)
{
    (void)nccl.ncclCommDestroy(join(0, 1));
}

static void after_abort(void)
{
    ncclComm_t comm = join(0, 1);
    OK(nccl.ncclCommAbort(comm));
    gather_alone(comm, number(0), stream);
}

static const struct {
    void (*run)(void);
    const char *words;
} cases[] = {
    {layout_gone, "fake_cublaslt: cublasLtMatmul: the layout was destroyed before"},
    {description_gone, "the description was destroyed before"},
    {sizes_differ, "sizes do not match"},
    {short_leading, "a matrix of 9 rows with leading dimension 8"},
    {of_other_problem, "the algorithm is one of another problem"},
    {small_workspace, "and the algorithm needs"},
    {crooked_workspace, "the workspace is at"},
    {crooked_operand, "was to be at a multiple of 16"},
    {crooked_bias, "matrix 4 is at"},
    {host_operand, "are no memory of a card"},
    {over_result, "overlap"},
    {freed_before, "cuMemFree: a queued operation uses"},
    {unordered_sums, "sums in the order in which they end"},
    {rounded_operands, "operands may be rounded"},
    {without_context, "cublasLtCreate: no context is current"},
    {unfinished_part, "fake_cudnn: cudnnBackendSetAttribute: one that is not finished"},
    {changed_when_finished, "of a finished one"},
    {graph_of_nothing, "lacks attribute 801"},
    {descriptor_gone, "the descriptor was destroyed before"},
    {pack_as_plan, "not a finished plan and pack"},
    {blocking, "fake_nccl: ncclCommInitRankConfig: the communicator blocks"},
    {no_mark, "no initialized options"},
    {not_open, "ncclAllGather: the communicator is not open"},
    {no_group, "ncclAllGather: outside of a group"},
    {group_in_progress, "the group before is in progress"},
    {another_stream, "in another stream than before"},
    {gathers_host_memory, "are no memory of a card"},
    {not_finalized, "ncclCommDestroy: operations are left"},
    {after_abort, "the communicator was destroyed before"},
};

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
    char said[4096], folder[] = "/tmp/weft-fake-libraries-XXXXXX", remove[64];
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library || !dlsym(library, "fake_cuda")) {
        print_message("SKIPPED: the double of libcuda.so.1 is not here\n");
        skip();
    }
    assert_non_null(mkdtemp(folder)); /* what NCCL's double leaves when it ends the process */
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    int result = run_alone(product_right, said, sizeof(said));
    if (result != 0) fail_msg("a product: result %x: %s", result, said);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        result = run_alone(cases[i].run, said, sizeof(said));
        if (!WIFSIGNALED(result) || WTERMSIG(result) != SIGABRT || !strstr(said, cases[i].words))
            fail_msg("case %zu, '%s': result %x, it says: %s", i, cases[i].words, result, said);
    }
    (void)snprintf(remove, sizeof(remove), "rm -rf '%s'", folder);
    assert_int_equal(system(remove), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_misuse)};
    return cmocka_run_group_tests_name("fake_libraries", tests, NULL, NULL);
}
