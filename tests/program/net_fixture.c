/* Builds the network of net_fixture.h, feeds it with fixed samples, and runs training steps. */
#include "net_fixture.h"

void net_make(net *n, const char *model, const char *device, bool training, int64_t batch)
{
    weft_model_options o;
    weft_optimizer_options optimizer;
    weft_optimizer_values ignored;
    weft_model_options_init(&o);
    o.model = model;
    weft_model_options_set_sample(&o, weft_shape_of(3, (int64_t[]){1, 28, 28}));
    o.batch = batch;
    o.classes = 10;
    o.training = training;
    assert_ok(weft_context_create(&n->context));
    assert_ok(weft_graph_create(n->context, WEFT_F32, &n->graph));
    assert_ok(weft_model_build(n->graph, &o, &n->values));
    if (training) {
        assert_ok(weft_graph_differentiate(n->graph, PORT(n->values, LOSS)));
        weft_optimizer_options_init(&optimizer);
        assert_ok(weft_optimizer_build(n->graph, &optimizer, &ignored));
    }
    assert_ok(weft_store_create(n->context, device, 7, &n->store));
    weft_value fetch[] = {PORT(n->values, LOSS), PORT(n->values, LOGITS)};
    assert_ok(weft_instance_build(n->store, n->graph, fetch, 2, &n->program));
    float *x = weft_instance_input(n->program, PORT(n->values, FEATURES));
    float *w = weft_instance_input(n->program, PORT(n->values, WEIGHTS));
    int32_t *y = weft_instance_input(n->program, PORT(n->values, TARGET));
    for (int64_t i = 0; i < batch * 784; i++) x[i] = (float)(i * 37 % 101) / 101;
    for (int64_t i = 0; i < batch; i++) {
        w[i] = 1.0f / (float)batch;
        y[i] = (int32_t)(i % 10);
    }
}

void net_drop(net *n)
{
    weft_instance_destroy(&n->program);
    weft_store_destroy(&n->store);
    weft_graph_destroy(&n->graph);
    weft_context_destroy(&n->context);
}

void net_step(net *n)
{
    assert_ok(weft_instance_run(n->program, WEFT_PHASE_MICRO));
    assert_ok(weft_instance_run(n->program, WEFT_PHASE_UPDATE));
}
