/* Measures what the host works for a training step on devices with memory of their own:
 * weft_host_time [DEVICE...]
 *
 * A step is waited for, or queued before the host waits for the one before it, or replayed from a
 * capture where the device can. The times are medians of single steps: the work of the host without
 * its waits, and the whole step. */
#include <stdio.h>
#include <stdlib.h>

#include "program/instance.h"
#include "weft/weft.h"

enum { STEPS = 60, BATCH = 20 };
typedef enum way { WAITED, QUEUED, REPLAYED, WAYS } way;

typedef struct net {
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *x;
    weft_model_values values;
    weft_value loss;
} net;

static weft_status make(net *n, const char *model, const char *device)
{
    weft_model_options o;
    weft_optimizer_options optimizer;
    weft_optimizer_values ignored;
    weft_model_options_init(&o);
    weft_optimizer_options_init(&optimizer);
    o.model = model;
    weft_model_options_set_sample(&o, weft_shape_of(3, (int64_t[]){1, 16, 16}));
    o.batch = BATCH;
    o.classes = 10;
    o.training = true;
    WEFT_TRY(weft_context_create(&n->context));
    WEFT_TRY(weft_graph_create(n->context, WEFT_F32, &n->graph));
    WEFT_TRY(weft_model_build(n->graph, &o, &n->values));
    n->loss = weft_model_value(&n->values, WEFT_PORT_LOSS);
    WEFT_TRY(weft_graph_differentiate(n->graph, n->loss));
    WEFT_TRY(weft_optimizer_build(n->graph, &optimizer, &ignored));
    WEFT_TRY(weft_store_create(n->context, device, 1, &n->store));
    return weft_instance_build(n->store, n->graph, &n->loss, 1, &n->x);
}

static void drop(net *n)
{
    weft_instance_destroy(&n->x);
    weft_store_destroy(&n->store);
    weft_graph_destroy(&n->graph);
    weft_context_destroy(&n->context);
}

static weft_status step(const net *n, way how, bool first)
{
    if (how == WAITED) {
        WEFT_TRY(weft_instance_run(n->x, WEFT_PHASE_MICRO));
        return weft_instance_run(n->x, WEFT_PHASE_UPDATE);
    }
    WEFT_TRY(weft_run_ahead_queue(n->x));
    return first ? WEFT_OK : weft_run_ahead_wait(n->x);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times)
{
    qsort(times, STEPS, sizeof(*times), ascending);
    return times[STEPS / 2];
}

static weft_status measure(const char *model, const char *device, way how)
{
    static const char *const names[WAYS] = {"waited for", "queued", "replayed"};
    net n = {0};
    double host[STEPS], whole[STEPS];
    bool can = true;
    weft_status status = make(&n, model, device);
    if (status == WEFT_OK && how != WAITED)
        status = weft_run_ahead_open(n.x, n.loss, how == REPLAYED, &can);
    for (int s = -10; s < STEPS && can && status == WEFT_OK; s++) {
        double start = weft_seconds(), worked = weft_instance_host_seconds(n.x);
        status = step(&n, how, s == -10);
        if (s < 0) continue;
        host[s] = weft_instance_host_seconds(n.x) - worked;
        whole[s] = weft_seconds() - start;
    }
    if (status == WEFT_OK && can && (how != REPLAYED || n.x->replays > 0))
        printf("%-10s %-6s %-10s host %6.0f us, step %7.0f us\n", device, model, names[how],
               median(host) * 1e6, median(whole) * 1e6);
    drop(&n);
    return status;
}

int main(int count, char **names)
{
    static const char *const models[] = {"mlp", "lenet"};
    for (int d = 1; d < count; d++)
        for (size_t m = 0; m < WEFT_COUNT(models); m++)
            for (way how = WAITED; how < WAYS; how++)
                if (measure(models[m], names[d], how) != WEFT_OK) {
                    printf("%s: %s\n", names[d], weft_last_message());
                    return 0;
                }
    return 0;
}
