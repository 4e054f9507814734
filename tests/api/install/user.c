/* A program outside the source tree that uses the installed library: builds a graph with one relu,
 * runs it, and checks its output. */
#include <stdio.h>
#include <weft/weft.h>

int main(void)
{
    weft_context *context = NULL;
    weft_graph *graph = NULL;
    weft_store *store = NULL;
    weft_instance *program = NULL;
    weft_shape shape = weft_shape_of(1, (int64_t[]){3});
    weft_status status = weft_context_create(&context);
    if (status == WEFT_OK) status = weft_graph_create(context, WEFT_F32, &graph);
    if (status != WEFT_OK) return 1;
    weft_value x = weft_graph_leaf(graph, WEFT_VALUE_INPUT, "x", WEFT_F32, &shape,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_value y = weft_graph_node(graph, "relu", "y", &x, 1, NULL, 0);
    status = weft_store_create(context, "cpu", 1, &store);
    if (status == WEFT_OK) status = weft_instance_build(store, graph, &y, 1, &program);
    if (status == WEFT_OK) {
        ((float *)weft_instance_input(program, x))[1] = 2;
        ((float *)weft_instance_input(program, x))[2] = -2;
        status = weft_instance_run(program, WEFT_PHASE_MICRO);
    }
    const float *out = status == WEFT_OK ? (const float *)weft_instance_output(program, y) : NULL;
    int right = out && out[0] == 0 && out[1] == 2 && out[2] == 0;
    if (status != WEFT_OK) fprintf(stderr, "%s\n", weft_last_message());
    weft_instance_destroy(&program);
    weft_store_destroy(&store);
    weft_graph_destroy(&graph);
    weft_context_destroy(&context);
    printf("weft %s %s\n", weft_version(), right ? "works" : "is wrong");
    return !right;
}
