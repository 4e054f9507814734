/* Opens and closes learners whose steps a test makes by hand. */
#include "hand_learner.h"

#include "graph/graph.h"

weft_status parameter_store_open(weft_context *context, weft_dtype dtype, int64_t count,
                                 parameter_store *out)
{
    weft_shape shape = weft_shape_of(1, &count);
    WEFT_TRY(weft_graph_create(context, dtype, &out->graph));
    weft_value w = weft_graph_leaf(out->graph, WEFT_VALUE_PARAM, "w", dtype, &shape,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_value y = weft_graph_unary(out->graph, "relu", "y", w);
    WEFT_TRY(weft_store_create(context, "reference", 1, &out->store));
    return weft_instance_build(out->store, out->graph, &y, 1, &out->instance);
}

void parameter_store_close(parameter_store *p)
{
    weft_instance_destroy(&p->instance);
    weft_store_destroy(&p->store);
    weft_graph_destroy(&p->graph);
}

weft_status hand_learner_open(weft_context *context, weft_comm *comm, weft_dtype dtype,
                              int64_t count, const void *values, const char *exchange, int servers,
                              hand_learner *out)
{
    int local;
    WEFT_TRY(parameter_store_open(context, dtype, count, &out->own));
    WEFT_TRY(weft_learner_group_over(comm, &out->group));
    WEFT_TRY(weft_comm_open(context, "self", 1, out->alone, &local));
    WEFT_TRY(weft_store_write(out->own.store, 0, values));
    weft_exchange_setup setup = {.struct_size = sizeof(setup),
                                 .context = context,
                                 .endpoint = out->group,
                                 .store = out->own.store,
                                 .instance = out->own.instance,
                                 .servers = servers,
                                 .learner = out->alone[0]};
    WEFT_TRY(weft_exchange_open(exchange, &setup, &out->exchange));
    return weft_exchange_begin(out->exchange);
}

void hand_learner_close(hand_learner *l)
{
    weft_exchange_close(&l->exchange);
    weft_comm_close(&l->alone[0]);
    weft_learner_group_close(&l->group);
    parameter_store_close(&l->own);
}
