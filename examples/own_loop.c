/* A training loop of one's own, of a model in a YAML file, that saves checkpoints: weft predict,
 * weft serve and the other commands read them.
 *
 *   cc examples/own_loop.c $(pkg-config --cflags --libs weft) -o own_loop
 *   ./own_loop examples/own_loop.yaml runs/own && weft eval runs/own */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { BATCH = 50, STEPS = 200, EVERY = 100 };

static void check(weft_status status)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", weft_last_message());
    exit(1);
}

/* The inputs of a program for a batch. */
typedef struct batch {
    float *x, *weights;
    int32_t *labels;
    int64_t size; /* elements of a sample */
} batch;

static void read_batch(const weft_dataset *data, int step, const batch *to)
{
    for (int i = 0; i < BATCH; i++) {
        int64_t sample = ((int64_t)step * BATCH + i) % weft_dataset_count(data, WEFT_TRAIN);
        check(weft_dataset_read(data, WEFT_TRAIN, sample, 0, to->x + i * to->size));
        check(weft_dataset_read(data, WEFT_TRAIN, sample, 1, &to->labels[i]));
        to->weights[i] = 1.0f / BATCH;
    }
}

int main(int argc, char **argv)
{
    weft_context *context;
    weft_train_options run = {0};
    weft_dataset *data;
    weft_graph *g;
    weft_model_options options;
    weft_model_values model;
    weft_optimizer_options optimizer;
    weft_optimizer_values state;
    weft_store *store;
    weft_instance *program;
    if (argc != 3) return fprintf(stderr, "usage: own_loop MODEL.yaml FOLDER\n"), 2;

    /* The options that the checkpoint stores: model, data, folder. */
    check(weft_context_create(&context));
    const weft_option *table = weft_train_table(context);
    check(weft_train_options_init(context, &run));
    check(weft_options_set(table, &run, "model", argv[1]));
    check(weft_options_set(table, &run, "data", "glyphs:train=5000"));
    check(weft_options_set(table, &run, "batch", "50"));
    check(weft_options_set(table, &run, "checkpoint", argv[2]));
    check(weft_dataset_open(context, run.task.data, run.task.normalize, NULL, &data));
    check(weft_dataset_prepare(data, WEFT_TRAIN));

    /* The graph of the model, its gradients, and the update. */
    weft_model_options_init(&options);
    options.model = run.task.model;
    options.classes = weft_dataset_stats(data)->classes;
    options.batch = BATCH;
    options.training = true;
    weft_model_options_set_sample(&options, weft_dataset_shape(data));
    check(weft_graph_create(context, WEFT_F32, &g));
    check(weft_model_build(g, &options, &model));
    weft_value loss = weft_model_value(&model, WEFT_PORT_LOSS);
    check(weft_graph_differentiate(g, loss));
    weft_optimizer_options_init(&optimizer);
    check(weft_optimizer_build(g, &optimizer, &state));
    check(weft_store_create(context, "cpu", 1, &store));
    check(weft_instance_build(store, g, &loss, 1, &program));

    batch in = {.x = weft_instance_input(program, weft_model_feature(&model, "x")),
                .weights =
                    weft_instance_input(program, weft_model_value(&model, WEFT_PORT_WEIGHTS)),
                .labels = weft_instance_input(program, weft_model_value(&model, WEFT_PORT_TARGET)),
                .size = weft_shape_elements(&options.input[0].shape)};
    for (int step = 1; step <= STEPS; step++) {
        read_batch(data, step, &in);
        check(weft_instance_run(program, WEFT_PHASE_MICRO));
        check(weft_instance_run(program, WEFT_PHASE_UPDATE));
        if (step % EVERY != 0) continue;
        printf("step %3d  loss %.4f\n", step,
               (double)*(const float *)weft_instance_output(program, loss));
        check(weft_checkpoint_save_loop(context, &run, store, g, data, step, NULL));
    }
    weft_instance_destroy(&program);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_dataset_close(&data);
    weft_options_free(table, &run);
    weft_context_destroy(&context);
    return 0;
}
