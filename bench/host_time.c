/* Measures what the host works for a training step on devices with memory of their own:
 * weft_host_time [DEVICE...]
 *
 * A step is waited for, or queued before the host waits for the one before it, or replayed from a
 * capture where the device can. The times are medians of single steps: the work of the host without
 * its waits, and the whole step. Steps of several ranks or micro-batches are those of `weft train`;
 * the times are of the first rank. */
#include <stdio.h>
#include <stdlib.h>

#include "program/instance.h"
#include "train/trainer.h"
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
    weft_comm_stats none;
    WEFT_TRY(weft_run_ahead_queue(n->x, &none));
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
    static weft_action passes[] = {{WEFT_PHASE_FORWARD, 0}, {WEFT_PHASE_BACKWARD, 0}};
    static const weft_schedule schedule = {passes, 2, 1};
    const weft_ahead_options o = {n.loss, WEFT_F32, &schedule, how == REPLAYED};
    if (status == WEFT_OK && how != WAITED) status = weft_run_ahead_open(n.x, &o, &can);
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

/* --- several ranks --- */

static struct ranks {
    bool waited;
    double host[STEPS], whole[STEPS];
} ranks;

static weft_status step_of_rank(weft_rank *r, const weft_batch *b, bool first)
{
    weft_step_consensus v = {0};
    if (ranks.waited || !r->runs_ahead) return weft_rank_step(r, b, &v);
    WEFT_TRY(weft_rank_queue(r, b));
    return first ? WEFT_OK : weft_rank_finish(r, &v);
}

static weft_status steps_of_rank(weft_run *run)
{
    weft_rank *r = &run->rank;
    weft_step_consensus v = {0};
    weft_batch b;
    const weft_loader_options o = {.split = WEFT_TRAIN,
                                   .batch = BATCH,
                                   .slots = run->job->run_spec.slots,
                                   .real = weft_graph_real(r->graph)};
    WEFT_TRY(weft_batch_open(run->job->data, &o, &b));
    weft_batch_make(run->job->data, &o, 0, 0, &b);
    weft_status status = WEFT_OK;
    for (int s = -10; s < STEPS && status == WEFT_OK; s++) {
        double start = weft_seconds();
        status = step_of_rank(r, &b, s == -10);
        if (s < 0 || r->rank > 0) continue;
        ranks.host[s] = r->host;
        ranks.whole[s] = weft_seconds() - start;
    }
    if (status == WEFT_OK && r->queued > 0) status = weft_rank_finish(r, &v);
    weft_batch_close(&b);
    return status;
}

static weft_status measure_ranks(const char *device, const char *const *words)
{
    weft_context *context;
    weft_train_options o = {0};
    weft_trainer *t = NULL;
    WEFT_TRY(weft_context_create(&context));
    const weft_option *table = weft_train_table(context);
    weft_status status = weft_train_options_init(context, &o);
    if (status == WEFT_OK) status = weft_options_set(table, &o, "device", device);
    for (int i = 0; words[i] && status == WEFT_OK; i += 2)
        status = weft_options_set(table, &o, words[i], words[i + 1]);
    if (status == WEFT_OK) status = weft_trainer_create(context, &o, &t);
    for (int waited = 1; waited >= 0 && status == WEFT_OK; waited--) {
        ranks.waited = waited;
        status = weft_trainer_everywhere(t, steps_of_rank);
        if (status != WEFT_OK) break;
        printf("%-10s", device);
        for (int i = 4; words[i]; i += 2) printf(" %s=%s", words[i], words[i + 1]);
        printf(" %s host %6.0f us, step %7.0f us\n", waited ? "waited for" : "ahead",
               median(ranks.host) * 1e6, median(ranks.whole) * 1e6);
    }
    weft_trainer_destroy(&t);
    weft_options_free(table, &o);
    weft_context_destroy(&context);
    return status;
}

static weft_status measure_all(const char *device)
{
    static const char *const models[] = {"mlp", "lenet"};
#define COMMON "data", "glyphs:size=16,train=100,test=10", "batch", "20", "model"
    static const char *const ways[][16] = {
        {COMMON, "lenet", "microbatches", "4"},
        {COMMON, "lenet", "ranks", "2"},
        {COMMON, "lenet", "ranks", "2", "zero", "2"},
        {COMMON, "lenet", "ranks", "2", "mesh", "pipeline=2", "microbatches", "4"}};
    for (size_t m = 0; m < WEFT_COUNT(models); m++)
        for (way how = WAITED; how < WAYS; how++) WEFT_TRY(measure(models[m], device, how));
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) WEFT_TRY(measure_ranks(device, ways[w]));
    return WEFT_OK;
}

int main(int count, char **names)
{
    for (int d = 1; d < count; d++)
        if (measure_all(names[d]) != WEFT_OK) {
            printf("%s: %s\n", names[d], weft_last_message());
            return 0;
        }
    return 0;
}
