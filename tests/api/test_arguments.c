/* Uses of the library that are wrong by their order or by a struct's size, which the generated
 * calls of tests/api/wrong_calls do not have. */
#include "service_fixture.h"

/* --- sizes of structs --- */

static void initialise(weft_optimizer_options *o, size_t size)
{
    memset(o, 0x5a, sizeof(*o));
    weft_optimizer_options_init_size(o, size);
}

/* An initialiser writes the bytes of the caller's struct alone, and the library takes the defaults
 * for the fields that it lacks. */
static void test_older_structs(void **state)
{
    (void)state;
    enum { OLD = offsetof(weft_optimizer_options, beta1) };
    weft_optimizer_options o;
    weft_optimizer_values values;
    for (int older = 0; older < 2; older++) {
        weft_graph *graph;
        weft_shape shape = weft_shape_of(1, (int64_t[]){3});
        initialise(&o, older ? OLD : sizeof(o));
        assert_int_equal(o.struct_size, older ? OLD : sizeof(o));
        for (size_t i = OLD; older && i < sizeof(o); i++)
            assert_int_equal(((unsigned char *)&o)[i], 0x5a);
        assert_ok(weft_graph_create(asked_context, WEFT_F32, &graph));
        weft_value w = weft_graph_leaf(graph, WEFT_VALUE_PARAM, "w", WEFT_F32, &shape,
                                       (weft_init){WEFT_INIT_CONSTANT, 1});
        weft_value loss = weft_graph_node(graph, "reduce_sum", "loss", &w, 1,
                                          (weft_attr[]){WEFT_ATTR_INT("axes", 0)}, 1);
        assert_ok(weft_graph_differentiate(graph, loss));
        assert_ok(weft_optimizer_build(graph, &o, &values));
        weft_graph_destroy(&graph);
    }
}

static void test_newer_and_wrong_structs(void **state)
{
    (void)state;
    struct {
        weft_batcher_options options;
        char newer[16];
    } o;
    weft_batcher *batcher;
    weft_batcher_options_init_size(&o.options, sizeof(o));
    assert_int_equal(o.options.struct_size, sizeof(o));
    assert_ok(weft_batcher_create(asked_context, &o.options, &batcher));
    weft_batcher_destroy(&batcher);
    o.newer[3] = 1;
    assert_refused(weft_batcher_create(asked_context, &o.options, &batcher), WEFT_ERR_ARGUMENT,
                   "is not 0");
    const size_t wrong[] = {0, 1, sizeof(size_t), sizeof(o.options) << 20, SIZE_MAX};
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++) {
        o.options.struct_size = wrong[i];
        assert_refused(weft_batcher_create(asked_context, &o.options, &batcher), WEFT_ERR_ARGUMENT,
                       "the struct_size of weft_batcher_options is");
    }
}

/* Options of a table: an older program's struct ends before the last options. */
static void test_older_options_of_a_table(void **state)
{
    (void)state;
    enum { OLD = offsetof(weft_eval_options, json) };
    weft_eval_options o = {0};
    weft_report report;
    const weft_option *table = weft_eval_table();
    char *text;
    o.json = o.quiet = true; /* behind the end of the older struct */
    assert_ok(weft_options_init_size(table, &o, OLD));
    assert_int_equal(o.struct_size, OLD);
    assert_true(o.json && o.quiet);
    assert_refused(weft_options_set(table, &o, "json", "true"), WEFT_ERR_UNSUPPORTED,
                   "older version");
    assert_ok(weft_options_get(table, &o, "json", &text));
    assert_string_equal(text, "false");
    weft_free(text);
    assert_refused(weft_evaluate(asked_context, &o, &report), WEFT_ERR_ARGUMENT, "checkpoint");
    weft_options_free(table, &o);
    memset(&o, 0, sizeof(o));
    assert_refused(weft_evaluate(asked_context, &o, &report), WEFT_ERR_ARGUMENT, "struct_size");
    assert_refused(weft_options_set(table, &o, "batch", "3"), WEFT_ERR_ARGUMENT, "struct_size");
}

static void test_version(void **state)
{
    (void)state;
    int major, minor, patch;
    assert_string_equal(weft_version(), WEFT_VERSION);
    assert_int_equal(weft_version_number(), WEFT_VERSION_NUMBER);
    assert_int_equal(sscanf(WEFT_VERSION, "%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(WEFT_VERSION_NUMBER, major * 1000000 + minor * 1000 + patch);
}

/* --- order, and what belongs together --- */

static void test_optimizer_without_gradients(void **state)
{
    (void)state;
    weft_graph *graph;
    weft_optimizer_options o;
    weft_optimizer_values values;
    weft_shape shape = weft_shape_of(1, (int64_t[]){3});
    weft_optimizer_options_init(&o);
    assert_ok(weft_graph_create(asked_context, WEFT_F32, &graph));
    (void)weft_graph_leaf(graph, WEFT_VALUE_PARAM, "w", WEFT_F32, &shape,
                          (weft_init){WEFT_INIT_CONSTANT, 0});
    assert_refused(weft_optimizer_build(graph, &o, &values), WEFT_ERR_ARGUMENT,
                   "weft_graph_differentiate first");
    weft_graph_destroy(&graph);
}

static void test_pad_by_too_much(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {
        {INT64_MAX, 0}, {0, INT64_MAX}, {INT64_MAX, INT64_MAX}, {-1, 0}, {INT64_MIN, 1}};
    for (size_t i = 0; i < WEFT_COUNT(sizes); i++) {
        weft_graph *graph;
        weft_shape shape = weft_shape_of(2, (int64_t[]){4, 4});
        weft_attr attrs[] = {WEFT_ATTR_INT("axis", 0), WEFT_ATTR_INT("before", sizes[i][0]),
                             WEFT_ATTR_INT("after", sizes[i][1])};
        assert_ok(weft_graph_create(asked_context, WEFT_F32, &graph));
        weft_value x = weft_graph_leaf(graph, WEFT_VALUE_INPUT, "x", WEFT_F32, &shape,
                                       (weft_init){WEFT_INIT_CONSTANT, 0});
        assert_int_equal(weft_graph_node(graph, "pad", "p", &x, 1, attrs, 3), WEFT_NO_VALUE);
        assert_refused(weft_graph_status(graph), WEFT_ERR_ARGUMENT, "must be from 0 to 2^40");
        weft_graph_destroy(&graph);
    }
}

/* The number of a name that is not found is no number of a tensor, and not that of all
 * parameters. */
static void test_not_found_is_no_tensor(void **state)
{
    (void)state;
    weft_store *store;
    weft_dtype dtype;
    void *data;
    size_t bytes;
    assert_ok(weft_store_create(asked_context, "reference", 1, &store));
    int none = weft_store_find(store, "no such tensor");
    assert_int_not_equal(none, WEFT_ALL_PARAMETERS);
    assert_refused(weft_store_map(store, none, &dtype, &data, &bytes), WEFT_ERR_ARGUMENT,
                   "'i' is -1");
    assert_refused(weft_store_read(store, none, &bytes), WEFT_ERR_ARGUMENT, "'i' is -1");
    assert_ok(weft_store_map(store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    assert_ok(weft_store_unmap(store, WEFT_ALL_PARAMETERS, data));
    weft_store_destroy(&store);
}

static void test_service_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *device, *policy, *mesh, *words;
    } cases[] = {{"no-such", "adaptive", NULL, "no-such"},
                 {"reference", "no-such", NULL, "no-such"},
                 {"reference", "adaptive:goal=no-such", NULL, "no-such"},
                 {"reference", "adaptive", "no-such=2", "no-such"},
                 {"reference", "", NULL, "policy"},
                 {"", "adaptive", NULL, "device"}};
    for (size_t i = 0; i < WEFT_COUNT(cases); i++) {
        weft_service *service;
        weft_service_options o;
        weft_service_options_init(&o);
        o.device = cases[i].device;
        o.policy = cases[i].policy;
        o.mesh = cases[i].mesh;
        assert_refused(weft_service_create(asked_context, &o, &service), WEFT_ERR_ARGUMENT,
                       cases[i].words);
    }
}

static void test_output_and_export(void **state)
{
    (void)state;
    assert_refused(weft_output_print(NULL, "%d", 1), WEFT_ERR_ARGUMENT, "'output' is NULL");
    assert_refused(weft_checkpoint_export_folder(asked_context, asked_folder, ""),
                   WEFT_ERR_ARGUMENT, "no name");
}

/* --- a request and a stop --- */

typedef struct answers {
    pthread_mutex_t lock;
    pthread_cond_t come;
    int count;
} answers;

static void answered(void *user, const weft_request_result *result)
{
    answers *a = user;
    assert_int_equal(result->status, WEFT_OK);
    pthread_mutex_lock(&a->lock);
    a->count++;
    pthread_cond_signal(&a->come);
    pthread_mutex_unlock(&a->lock);
}

/* The struct of a request is copied: it may be used for the next one as soon as it is submitted. */
static void test_request_is_copied(void **state)
{
    (void)state;
    enum { REQUESTS = 7, FEATURES = 64, CLASSES = 10 };
    static float x[REQUESTS][FEATURES];
    static double alone[REQUESTS][CLASSES], all[REQUESTS][CLASSES];
    char path[512];
    answers a = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    asked_train("copied", "mlp", "glyphs:size=8,train=60,test=20", "f32", 3);
    asked_path(path, sizeof(path), "copied/latest");
    weft_service *service = asked_serve_plainly(1, 4);
    assert_ok(weft_service_load(service, "m", path));
    weft_servable *servable = weft_service_hold(service, "m", 0);
    for (int i = 0; i < REQUESTS; i++) {
        for (int f = 0; f < FEATURES; f++) x[i][f] = (float)((i * 31 + f * 17) % 101) / 101;
        weft_inference_request one = asked_question(1, x[i], alone[i]);
        assert_ok(weft_servable_predict(servable, &one, NULL));
    }
    weft_inference_request request;
    uint64_t ticket;
    for (int i = 0; i < REQUESTS; i++) {
        request = asked_question(1, x[i], all[i]);
        request.user = &a;
        request.done = answered;
        assert_ok(weft_servable_submit(servable, &request, &ticket));
        memset(&request, 0x5a, sizeof(request));
    }
    if (weft_servable_cancel(servable, ticket)) a.count++; /* freed, and not answered */
    pthread_mutex_lock(&a.lock);
    while (a.count < REQUESTS) pthread_cond_wait(&a.come, &a.lock);
    pthread_mutex_unlock(&a.lock);
    for (int i = 0; i < REQUESTS - 1; i++)
        for (int c = 0; c < CLASSES; c++) assert_float_equal(all[i][c], alone[i][c], 1e-6);
    weft_servable_release(&servable);
    weft_service_destroy(&service);
}

static void stop_at_begin(void *user, const weft_event *event)
{
    if (event->kind == WEFT_EVENT_BEGIN) weft_trainer_stop(*(weft_trainer **)user);
}

/* A request to stop ends with the run that it has ended. */
static void test_stop_ends_with_the_run(void **state)
{
    (void)state;
    weft_trainer *trainer;
    weft_train_options o = {0};
    const weft_option *table = weft_train_table(asked_context);
    static const char *const set[][2] = {
        {"model", "mlp"}, {"data", "glyphs:size=8,train=60,test=20"},
        {"batch", "20"},  {"epochs", "2"},
        {"threads", "1"}, {"device", "reference"}};
    assert_ok(weft_train_options_init(asked_context, &o));
    for (size_t i = 0; i < WEFT_COUNT(set); i++)
        assert_ok(weft_options_set(table, &o, set[i][0], set[i][1]));
    assert_ok(weft_trainer_create(asked_context, &o, &trainer));
    assert_int_equal(weft_trainer_run(trainer, stop_at_begin, &trainer), WEFT_ERR_INTERRUPTED);
    assert_ok(weft_trainer_run(trainer, NULL, NULL));
    weft_trainer_destroy(&trainer);
    weft_options_free(table, &o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_older_structs),
        cmocka_unit_test(test_newer_and_wrong_structs),
        cmocka_unit_test(test_older_options_of_a_table),
        cmocka_unit_test(test_version),
        cmocka_unit_test(test_optimizer_without_gradients),
        cmocka_unit_test(test_pad_by_too_much),
        cmocka_unit_test(test_not_found_is_no_tensor),
        cmocka_unit_test(test_service_refuses),
        cmocka_unit_test(test_output_and_export),
        cmocka_unit_test(test_request_is_copied),
        cmocka_unit_test(test_stop_ends_with_the_run),
    };
    asked_begin();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return asked_end() != 0 || failed != 0;
}
