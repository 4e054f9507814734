/* Compares what the candidates of a device (weft/device_ops.h) say that they cost with the time
 * that they take: weft_rates [DEVICE]
 *
 * Each operator and size below runs alone, with operands in plain layouts. The constants in
 * weft_rates of a device, and the estimates of its candidates, come from these measurements. They
 * need not be exact, but should be right about which of two candidates is the cheaper one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "floor.h"

enum { ROUNDS = 21 };

/* An operator to measure, with its operands as shapes of up to four dimensions; a first dimension
 * 0: no operand. */
typedef struct sample {
    const char *op;
    int64_t operand[3][5];
    weft_attr attrs[3];
    int attr_count;
} sample;

static const sample samples[] = {
    {"dense", {{1, 16}, {16, 10}}, {{0}}, 0},
    {"dense", {{32, 256}, {256, 256}}, {{0}}, 0},
    {"dense", {{256, 1024}, {1024, 1024}}, {{0}}, 0},
    {"conv", {{16, 16, 8, 8}, {16, 16, 3, 3}}, {WEFT_ATTR_PAIR("padding", 1, 1)}, 1},
    {"conv", {{32, 64, 16, 16}, {64, 64, 3, 3}}, {WEFT_ATTR_PAIR("padding", 1, 1)}, 1},
    {"matmul", {{4, 8, 8}, {4, 8, 8}}, {{0}}, 0},
    {"add", {{16, 16}, {16, 16}}, {{0}}, 0},
    {"add", {{1024, 1024}, {1024, 1024}}, {{0}}, 0},
    {"relu", {{4096, 1024}}, {{0}}, 0},
    {"tanh", {{16, 16}}, {{0}}, 0},
    {"concat", {{16, 8}, {16, 24}}, {WEFT_ATTR_INT("axis", 1)}, 1},
    {"concat", {{256, 2}, {256, 3}}, {WEFT_ATTR_INT("axis", 1)}, 1},
    {"concat", {{32, 64, 16, 16}, {32, 64, 16, 16}}, {WEFT_ATTR_INT("axis", 1)}, 1},
    {"concat", {{512, 1024}, {512, 1024}}, {WEFT_ATTR_INT("axis", 0)}, 1},
    {"slice",
     {{16, 32}},
     {WEFT_ATTR_INT("axis", 1), WEFT_ATTR_INT("start", 5), WEFT_ATTR_INT("stop", 21)},
     3},
    {"slice",
     {{32, 32, 16, 16}},
     {WEFT_ATTR_INT("axis", 2), WEFT_ATTR_INT("start", 0), WEFT_ATTR_INT("stop", 1)},
     3},
    {"slice",
     {{32, 64, 32, 32}},
     {WEFT_ATTR_INT("axis", 2), WEFT_ATTR_INT("start", 3), WEFT_ATTR_INT("stop", 19)},
     3},
    {"slice",
     {{4096, 64}},
     {WEFT_ATTR_INT("axis", 1), WEFT_ATTR_INT("start", 7), WEFT_ATTR_INT("stop", 8)},
     3},
    {"slice",
     {{2048, 1024}},
     {WEFT_ATTR_INT("axis", 0), WEFT_ATTR_INT("start", 100), WEFT_ATTR_INT("stop", 1900)},
     3},
};

static weft_status build(weft_context *context, const sample *s, weft_graph **graph,
                         weft_group *group)
{
    weft_value in[3];
    int count = 0;
    WEFT_TRY(weft_graph_create(context, WEFT_F32, graph));
    for (; count < 3 && s->operand[count][0]; count++) {
        char name[16];
        int rank = 0;
        while (s->operand[count][rank]) rank++;
        weft_shape shape = weft_shape_of(rank, s->operand[count]);
        (void)snprintf(name, sizeof(name), "x%d", count);
        in[count] = weft_graph_leaf(*graph, WEFT_VALUE_INPUT, name, WEFT_F32, &shape,
                                    (weft_init){WEFT_INIT_CONSTANT, 0});
    }
    weft_value y = weft_graph_node(*graph, s->op, s->op, in, count, s->attrs, s->attr_count);
    WEFT_TRY(weft_graph_status(*graph));
    *group = (weft_group){.graph = *graph,
                          .node = {(*graph)->nodes[(*graph)->values[y].node]},
                          .count = 1,
                          .in_count = count,
                          .out = {y},
                          .out_count = 1};
    memcpy(group->in, in, sizeof(in));
    return WEFT_OK;
}

/* Sets *out to the seconds of one run: each round runs the kernel often enough for the clock, and
 * the fastest of ROUNDS rounds counts. */
static weft_status time_it(weft_device *device, weft_bound *bound, double *out)
{
    double times[ROUNDS];
    weft_queue *queue;
    weft_queue_event *event;
    weft_status status = WEFT_OK;
    WEFT_TRY(weft_queue_open(device, &queue));
    WEFT_TRY(weft_event_open(device, &event));
    for (int64_t r = 0, runs = 1; r < ROUNDS && status == WEFT_OK;) {
        double begin = seconds_now();
        for (int64_t i = 0; i < runs && status == WEFT_OK; i++)
            status = bound->ops->run(bound, queue);
        if (status == WEFT_OK) status = weft_event_record(device, queue, event);
        if (status == WEFT_OK) status = weft_event_wait(device, event);
        double took = seconds_now() - begin;
        if (took < 1e-3 && r == 0)
            runs *= 2;
        else
            times[r++] = took / (double)runs;
    }
    weft_event_close(device, &event);
    weft_queue_close(device, &queue);
    *out = times[0]; /* the fastest round, since other work of the machine only adds time */
    for (int r = 1; r < ROUNDS; r++) *out = WEFT_MIN(*out, times[r]);
    return status;
}

static weft_status run_kernel(weft_device *device, const weft_group *group,
                              const weft_kernel *kernel, double *out)
{
    weft_address in[WEFT_GROUP_VALUES], to[WEFT_GROUP_VALUES];
    weft_memory *memory;
    weft_bound *bound;
    size_t bytes = kernel->scratch + 64;
    for (int i = 0; i < group->in_count; i++) bytes += kernel->in[i]->bytes / 64 * 64 + 64;
    for (int i = 0; i < group->out_count; i++) bytes += kernel->out[i]->bytes / 64 * 64 + 64;
    WEFT_TRY(weft_memory_new(device, bytes, &memory));
    weft_address next = {memory, 0};
    for (int i = 0; i < group->in_count; i++) {
        in[i] = next;
        next = weft_beyond(next, kernel->in[i]->bytes / 64 * 64 + 64);
    }
    for (int i = 0; i < group->out_count; i++) {
        to[i] = next;
        next = weft_beyond(next, kernel->out[i]->bytes / 64 * 64 + 64);
    }
    weft_status status = kernel->ops->bind(kernel, &bound);
    if (status == WEFT_OK) {
        status = bound->ops->place(bound, in, to, next);
        if (status == WEFT_OK) status = time_it(device, bound, out);
        bound->ops->destroy(bound);
    }
    weft_memory_free(&memory);
    return status;
}

static void describe(const weft_group *group, const char *name, double said, double took)
{
    char text[128];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s", group->node[0]->op->name);
    for (int i = 0; i < group->in_count; i++) {
        const weft_shape *s = &weft_value_type(group->graph, group->in[i])->shape;
        for (int d = 0; d < s->rank && used < sizeof(text); d++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%c%lld", d ? 'x' : ' ',
                                     (long long)s->dim[d]);
    }
    printf("%-44s %-10s %12.2f %12.2f\n", text, name, said * 1e6, took * 1e6);
}

static weft_status bench(weft_context *context, weft_device *device, const sample *s)
{
    const weft_layout *in[WEFT_GROUP_VALUES] = {NULL};
    weft_candidate found[WEFT_CANDIDATES];
    weft_graph *graph = NULL;
    weft_group group;
    weft_status status = build(context, s, &graph, &group);
    for (int i = 0; status == WEFT_OK && i < group.in_count; i++)
        status = device->ops->plain(device, weft_value_type(graph, group.in[i]), &in[i]);
    int count = status == WEFT_OK ? device->ops->candidates(device, &group, in, found) : 0;
    for (int i = 0; status == WEFT_OK && i < count; i++) {
        weft_kernel *kernel;
        double took;
        status = device->ops->kernel(device, &group, &found[i], in, &kernel);
        if (status != WEFT_OK) break;
        status = run_kernel(device, &group, kernel, &took);
        if (status == WEFT_OK) describe(&group, found[i].name, found[i].seconds, took);
        kernel->ops->destroy(kernel);
    }
    weft_graph_destroy(&graph);
    return status;
}

int main(int argc, char **argv)
{
    weft_context *context;
    weft_device *device = NULL;
    weft_status status = weft_context_create(&context);
    if (status == WEFT_OK) status = weft_device_open(context, argc > 1 ? argv[1] : "cpu", &device);
    if (status == WEFT_OK)
        printf("%-44s %-10s %12s %12s\n", "operator", "candidate", "said us", "took us");
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]) && status == WEFT_OK; i++)
        status = bench(context, device, &samples[i]);
    if (status != WEFT_OK) (void)fprintf(stderr, "weft_rates: %s\n", weft_last_message());
    weft_device_close(&device);
    weft_context_destroy(&context);
    return status != WEFT_OK;
}
