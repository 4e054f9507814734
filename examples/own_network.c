/* Trains a network of one's own through the C API: builds a graph, differentiates it, trains it on
 * drawn digits, and prints the loss.
 *
 *   cc examples/own_network.c $(pkg-config --cflags --libs weft) -o own_network */
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { BATCH = 50, STEPS = 100 };

static void check(weft_status status)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", weft_last_message());
    exit(1);
}

/* Adds the product of x [batch, k] and a new parameter [k, n], and returns it. */
static weft_value dense(weft_graph *g, const char *name, weft_value x, int64_t k, int64_t n)
{
    weft_shape shape = weft_shape_of(2, (int64_t[]){k, n});
    weft_value w = weft_graph_leaf(g, WEFT_VALUE_PARAM, name, WEFT_F32, &shape,
                                   (weft_init){WEFT_INIT_UNIFORM, 0.05});
    return weft_graph_node(g, "dense", name, (weft_value[]){x, w}, 2, NULL, 0);
}

int main(void)
{
    weft_context *context;
    weft_graph *g;
    weft_store *store;
    weft_instance *program;
    weft_dataset *data;
    weft_optimizer_options optimizer;
    weft_optimizer_values state;
    const weft_init none = {WEFT_INIT_CONSTANT, 0};
    weft_shape images = weft_shape_of(2, (int64_t[]){BATCH, 784}),
               rows = weft_shape_of(1, (int64_t[]){BATCH});

    check(weft_context_create(&context));
    check(weft_graph_create(context, WEFT_F32, &g));
    weft_value x = weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", WEFT_F32, &images, none);
    weft_value y = weft_graph_leaf(g, WEFT_VALUE_INPUT, "y", WEFT_I32, &rows, none);
    weft_value weights = weft_graph_leaf(g, WEFT_VALUE_INPUT, "weights", WEFT_F32, &rows, none);
    weft_value h = dense(g, "hidden", x, 784, 64);
    h = weft_graph_node(g, "tanh", "tanh", &h, 1, NULL, 0);
    weft_value logits = dense(g, "output", h, 64, 10);
    weft_value loss =
        weft_graph_node(g, "softmax_xent", "loss", (weft_value[]){logits, y, weights}, 3, NULL, 0);
    check(weft_graph_differentiate(g, loss)); /* also returns an earlier failure of g */
    weft_optimizer_options_init(&optimizer);
    check(weft_optimizer_build(g, &optimizer, &state));

    check(weft_store_create(context, "cpu", 1, &store));
    check(weft_instance_build(store, g, &loss, 1, &program));
    check(weft_dataset_open(context, "glyphs:train=5000", "unit", NULL, &data));
    check(weft_dataset_prepare(data, WEFT_TRAIN));
    float *to = weft_instance_input(program, x), *share = weft_instance_input(program, weights);
    int32_t *labels = weft_instance_input(program, y);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BATCH; i++) {
            check(weft_dataset_read(data, WEFT_TRAIN, step * BATCH + i, 0, to + i * 784));
            check(weft_dataset_read(data, WEFT_TRAIN, step * BATCH + i, 1, &labels[i]));
            share[i] = 1.0f / BATCH;
        }
        check(weft_instance_run(program, WEFT_PHASE_MICRO));
        check(weft_instance_run(program, WEFT_PHASE_UPDATE));
        if (step % 20 == 0 || step == STEPS - 1)
            printf("step %3d  loss %.4f\n", step,
                   (double)*(const float *)weft_instance_output(program, loss));
    }
    weft_dataset_close(&data);
    weft_instance_destroy(&program);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
    return 0;
}
