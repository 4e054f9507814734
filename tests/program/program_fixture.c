/* Builds, feeds, trains and compares the small programs of program_fixture.h. */
#include "program_fixture.h"

static void build_graph(lowered *l, weft_context *context, const char *model, kind what, int micros,
                        int64_t batch)
{
    weft_model_options o;
    weft_optimizer_options optimizer;
    weft_optimizer_values made = {.keep = WEFT_NO_VALUE};
    weft_model_options_init(&o);
    o.model = model;
    weft_model_options_set_sample(&o, weft_shape_of(3, (int64_t[]){1, SIDE, SIDE}));
    o.batch = batch;
    o.classes = CLASSES;
    o.training = true;
    assert_ok(weft_graph_create(context, WEFT_F32, &l->graph));
    assert_ok(weft_model_build(l->graph, &o, &l->values));
    assert_ok(weft_graph_differentiate(l->graph, PORT(l->values, LOSS)));
    weft_optimizer_options_init(&optimizer);
    optimizer.accumulate = micros;
    if (what == TRAINING) assert_ok(weft_optimizer_build(l->graph, &optimizer, &made));
    l->keep = made.keep;
}

void lower_micro(lowered *l, weft_context *context, weft_store *store, const char *model,
                 int micros, int slots, int64_t batch)
{
    weft_program_options o;
    build_graph(l, context, model, TRAINING, micros, batch);
    const weft_value fetch[] = {PORT(l->values, LOGITS), PORT(l->values, LOSS)};
    weft_program_options_init(&o);
    o.fetch = fetch;
    o.fetch_count = 2;
    o.slots = slots;
    assert_ok(weft_program_create_with(store, l->graph, &o, &l->program));
}

void lower(lowered *l, weft_context *context, weft_store *store, const char *model, kind what,
           int64_t batch)
{
    build_graph(l, context, model, what, 1, batch);
    weft_value fetch[] = {PORT(l->values, LOGITS), PORT(l->values, LOSS), WEFT_NO_VALUE};
    /* The gradient of the first weight depends on the gradients of all layers behind it. */
    weft_value first =
        weft_graph_find(l->graph, strcmp(model, "mlp") ? "conv1/weight" : "fc1/weight");
    fetch[2] = weft_graph_gradient(l->graph, first);
    assert_ok(weft_program_create(store, l->graph, fetch, what == GRADIENTS ? 3 : 2, &l->program));
}

void drop(lowered *l)
{
    weft_program_destroy(&l->program);
    weft_graph_destroy(&l->graph);
}

void open_context(weft_context **out)
{
    assert_ok(weft_context_create(out));
    assert_ok(weft_context_set_threads(*out, 1));
}

void feed(const lowered *l, weft_instance *x, int64_t batch, int seed)
{
    float *in = weft_instance_input(x, PORT(l->values, FEATURES));
    float *weights = weft_instance_input(x, PORT(l->values, WEIGHTS));
    int32_t *labels = weft_instance_input(x, PORT(l->values, TARGET));
    for (int64_t i = 0; i < batch * SAMPLE; i++) in[i] = (float)((i * 37 + seed * 11) % 101) / 101;
    for (int64_t b = 0; b < batch && weights; b++) weights[b] = 1.0f / (float)batch;
    for (int64_t b = 0; b < batch && labels; b++) labels[b] = (int32_t)((b + seed) % CLASSES);
}

void train(const lowered *l, weft_instance *x, int64_t batch, int seed, int steps)
{
    for (int s = 0; s < steps; s++) {
        feed(l, x, batch, seed + s);
        assert_ok(weft_instance_run(x, WEFT_PHASE_MICRO));
        assert_ok(weft_instance_run(x, WEFT_PHASE_UPDATE));
    }
}

void same_values(const weft_store *a, const weft_store *b)
{
    assert_int_equal(weft_store_count(a), weft_store_count(b));
    for (int i = 0; i < weft_store_count(a); i++) {
        weft_type type = weft_store_type(a, i);
        size_t bytes = weft_type_bytes(&type);
        if (weft_store_role(a, i) == WEFT_ROLE_SUM) continue; /* of a step in progress */
        void *x = malloc(bytes), *y = malloc(bytes);
        assert_ok(weft_store_read(a, i, x));
        assert_ok(weft_store_read(b, weft_store_find(b, weft_store_name(a, i)), y));
        assert_memory_equal(x, y, bytes);
        free(x);
        free(y);
    }
}

void alone(weft_context *context, const char *device, const char *model, int64_t batch, int seed,
           int steps, weft_store **out)
{
    lowered l;
    weft_instance *x;
    assert_ok(weft_store_create(context, device, 7, out));
    lower(&l, context, *out, model, TRAINING, batch);
    assert_ok(weft_instance_create(l.program, *out, NULL, &x));
    train(&l, x, batch, seed, steps);
    weft_instance_destroy(&x);
    drop(&l);
}
