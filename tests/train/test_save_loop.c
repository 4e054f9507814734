/* A training loop of one's own saves checkpoints that evaluate, predict and resume as those of the
 * trainer do. */
#include "support.h"

enum { BATCH = 20, SIDE = 17, SIZE = SIDE * SIDE };
#define DATA "glyphs:size=17,train=60,test=30"

typedef struct loop {
    weft_context *context;
    weft_train_options run;
    weft_dataset *data;
    weft_graph *graph;
    weft_store *store;
    weft_instance *program;
    weft_model_values model;
    weft_value loss;
} loop;

static void set(loop *l, const char *name, const char *value)
{
    assert_ok(weft_options_set(weft_train_table(l->context), &l->run, name, value));
}

static void begin(loop *l, const char *model)
{
    weft_model_options options;
    weft_optimizer_options optimizer;
    weft_optimizer_values state;
    assert_ok(weft_context_create(&l->context));
    assert_ok(weft_context_set_threads(l->context, 1));
    assert_ok(weft_train_options_init(l->context, &l->run));
    set(l, "model", model);
    set(l, "data", DATA);
    assert_ok(weft_dataset_open(l->context, DATA, "auto", NULL, &l->data));
    assert_ok(weft_dataset_prepare(l->data, WEFT_TRAIN));
    weft_model_options_init(&options);
    options.model = model;
    options.classes = 10;
    options.batch = BATCH;
    options.training = true;
    weft_model_options_set_sample(&options, weft_dataset_shape(l->data));
    assert_ok(weft_graph_create(l->context, WEFT_F32, &l->graph));
    assert_ok(weft_model_build(l->graph, &options, &l->model));
    l->loss = PORT(l->model, LOSS);
    assert_ok(weft_graph_differentiate(l->graph, l->loss));
    weft_optimizer_options_init(&optimizer);
    assert_ok(weft_optimizer_build(l->graph, &optimizer, &state));
    assert_ok(weft_store_create(l->context, "cpu", 1, &l->store));
    assert_ok(weft_instance_build(l->store, l->graph, &l->loss, 1, &l->program));
}

static void step(loop *l, int number)
{
    float *x = weft_instance_input(l->program, weft_model_feature(&l->model, "x"));
    float *weights = weft_instance_input(l->program, PORT(l->model, WEIGHTS));
    int32_t *labels = weft_instance_input(l->program, PORT(l->model, TARGET));
    for (int i = 0; i < BATCH; i++) {
        read_sample(l->data, WEFT_TRAIN, (number * BATCH + i) % 60, x + i * SIZE, &labels[i]);
        weights[i] = 1.0f / BATCH;
    }
    assert_ok(weft_instance_run(l->program, WEFT_PHASE_MICRO));
    assert_ok(weft_instance_run(l->program, WEFT_PHASE_UPDATE));
}

static weft_status save(loop *l, int64_t at, char **path)
{
    return weft_checkpoint_save_loop(l->context, &l->run, l->store, l->graph, l->data, at, path);
}

static void end(loop *l)
{
    weft_options_free(weft_train_table(l->context), &l->run);
    weft_instance_destroy(&l->program);
    weft_store_destroy(&l->store);
    weft_graph_destroy(&l->graph);
    weft_dataset_close(&l->data);
    weft_context_destroy(&l->context);
}

/* The mean loss of the test part, by the program of the loop without updates. */
static double test_loss(loop *l)
{
    double sum = 0;
    float *x = weft_instance_input(l->program, weft_model_feature(&l->model, "x"));
    float *weights = weft_instance_input(l->program, PORT(l->model, WEIGHTS));
    int32_t *labels = weft_instance_input(l->program, PORT(l->model, TARGET));
    assert_ok(weft_dataset_prepare(l->data, WEFT_TEST));
    for (int first = 0; first < 30; first += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            weights[i] = first + i < 30 ? 1.0f / 30 : 0;
            read_sample(l->data, WEFT_TEST, (first + i) % 30, x + i * SIZE, &labels[i]);
        }
        assert_ok(weft_instance_run(l->program, WEFT_PHASE_MICRO));
        sum += (double)*(const float *)weft_instance_output(l->program, l->loss);
    }
    return sum;
}

static void test_saved(void **state)
{
    (void)state;
    static const char *const models[] = {"mlp", "lenet"};
    for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++) {
        loop l = {0};
        char *folder = temporary_folder(), *path = NULL, *text = NULL;
        weft_eval_options o = {0};
        weft_report report = {0};
        begin(&l, models[m]);
        set(&l, "checkpoint", folder);
        set(&l, "batch", "20");
        for (int i = 1; i <= 7; i++) step(&l, i);
        assert_ok(save(&l, 7, &path));
        assert_non_null(strstr(path, "/step-7"));
        assert_ok(weft_options_init(weft_eval_table(), &o));
        assert_ok(weft_options_set(weft_eval_table(), &o, "checkpoint", folder));
        assert_ok(weft_evaluate(l.context, &o, &report));
        double loss = test_loss(&l);
        assert_true(report.loss > loss - 1e-4 && report.loss < loss + 1e-4);
        assert_ok(weft_checkpoint_text(l.context, path, &text));
        assert_non_null(strstr(text, "after step 7"));
        /* A trainer resumes from it. */
        weft_trainer *trainer;
        set(&l, "resume", "true");
        set(&l, "steps", "9");
        assert_ok(weft_trainer_create(l.context, &l.run, &trainer));
        assert_ok(weft_trainer_run(trainer, NULL, NULL));
        weft_trainer_destroy(&trainer);
        weft_free(text);
        weft_free(path);
        weft_report_free(&report);
        weft_options_free(weft_eval_table(), &o);
        end(&l);
        remove_folder(folder);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    loop l = {0};
    char *folder = temporary_folder(), *path = NULL;
    begin(&l, "mlp");
    assert_refused(save(&l, 1, &path), WEFT_ERR_ARGUMENT, "the option checkpoint is not set");
    set(&l, "checkpoint", folder);
    assert_refused(save(&l, -1, &path), WEFT_ERR_ARGUMENT, "step is -1");
    set(&l, "model", "lenet");
    assert_refused(save(&l, 1, &path), WEFT_ERR_ARGUMENT, "of the model is not in the graph");
    set(&l, "model", "no_such_model");
    assert_refused(save(&l, 1, &path), WEFT_ERR_ARGUMENT, "no_such_model");
    set(&l, "model", "mlp");
    set(&l, "dtype", "f64");
    assert_refused(save(&l, 1, &path), WEFT_ERR_ARGUMENT, "is not in the graph, or is another one");
    set(&l, "dtype", "f32");
    weft_shape one = weft_shape_of(1, (int64_t[]){3});
    assert_null(path);
    assert_ok(save(&l, 2, NULL));
    assert_refused(save(&l, 2, &path), WEFT_ERR_ARGUMENT, "give a later step");
    assert_refused(save(&l, 1, &path), WEFT_ERR_ARGUMENT, "the checkpoint of step 2");
    assert_ok(save(&l, 3, NULL));
    (void)weft_graph_leaf(l.graph, WEFT_VALUE_PARAM, "more", WEFT_F32, &one,
                          (weft_init){WEFT_INIT_CONSTANT, 0});
    assert_refused(save(&l, 4, &path), WEFT_ERR_ARGUMENT,
                   "'more' of the graph is not in the model");
    assert_null(path);
    end(&l);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_saved),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
