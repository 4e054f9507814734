/* The flat optimizer applies the run's optimizer to a flat range of parameters: it runs a graph of
 * one parameter, whose gradient is an input, and of the update that weft_optimizer_build adds. */
#include "exchange/flat_optimizer.h"

#include <stdio.h>

#include "graph/graph.h"
#include "optim/optim.h"
#include "program/program.h"

/* Name of the graph's parameter, and prefix of the names of its moments. */
static const char RANGE[] = "range";

struct weft_flat_optimizer {
    weft_graph *graph;
    weft_store *store;
    weft_instance *instance;
    weft_value gradient;
    const void *lent; /* the caller's gradient that `instance` reads; NULL: its own buffer */
    int parameter;    /* index in the store */
    int32_t *step;    /* the store's counter of steps, which the learning rate follows */
    size_t bytes;
    struct state {
        char name[64];
        int entry; /* index in the store */
    } * states;
    int state_count;
};

void weft_flat_optimizer_close(weft_flat_optimizer **optimizer)
{
    if (!optimizer || !*optimizer) return;
    weft_flat_optimizer *o = *optimizer;
    weft_instance_destroy(&o->instance);
    weft_store_destroy(&o->store);
    weft_graph_destroy(&o->graph);
    free(o->states);
    free(o);
    *optimizer = NULL;
}

static weft_status check(const weft_context *context, const weft_optimizer_options *options,
                         int64_t count)
{
    bool by_tensor;
    WEFT_TRY(weft_optimizer_check(context, options->name, &by_tensor));
    if (by_tensor)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "the optimizer '%s' needs the norms of whole tensors, and this exchange "
                         "updates ranges of the parameters; take an exchange whose learners make "
                         "the update, such as average, or another optimizer",
                         options->name);
    if (options->clip_norm > 0 || options->accumulate > 1 || options->update != WEFT_UPDATE_HERE)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "the optimizer of a flat range neither clips nor adds up micro-batches, and "
            "makes its update itself: clip_norm 0, accumulate 1, WEFT_UPDATE_HERE");
    if (count < 1)
        return weft_fail(WEFT_ERR_ARGUMENT, "a flat range of %lld parameters", (long long)count);
    return WEFT_OK;
}

static weft_status build_graph(weft_flat_optimizer *o, const weft_optimizer_options *options,
                               weft_dtype dtype, int64_t count)
{
    weft_optimizer_values values;
    weft_shape shape = weft_shape_of(1, (int64_t[]){count});
    weft_init zero = {WEFT_INIT_CONSTANT, 0};
    weft_value w = weft_graph_leaf(o->graph, WEFT_VALUE_PARAM, RANGE, dtype, &shape, zero);
    o->gradient = weft_graph_leaf(o->graph, WEFT_VALUE_INPUT, "gradient", dtype, &shape, zero);
    WEFT_TRY(weft_graph_status(o->graph));
    o->graph->values[w].gradient = o->gradient;
    o->graph->differentiated = true;
    const weft_shape scalar = {.rank = 0};
    o->graph->rate = weft_graph_leaf(o->graph, WEFT_VALUE_INPUT, "rate", dtype, &scalar, zero);
    return weft_optimizer_build(o->graph, options, &values);
}

/* Lists the optimizer's states in the store, under their names without the prefix "range/" and with
 * _ for /. */
static weft_status list_states(weft_flat_optimizer *o)
{
    size_t skip = strlen(RANGE);
    WEFT_TRY(WEFT_NEW(&o->states, weft_store_count(o->store)));
    for (int e = 0; e < weft_store_count(o->store); e++) {
        const char *name = weft_store_name(o->store, e);
        if (weft_store_kind(o->store, e) != WEFT_VALUE_STATE) continue;
        struct state *s = &o->states[o->state_count++];
        bool own = strncmp(name, RANGE, skip) == 0 && name[skip] == '/';
        (void)snprintf(s->name, sizeof(s->name), "%s", own ? name + skip + 1 : name);
        s->entry = e;
        for (char *c = s->name; *c; c++)
            if (*c == '/') *c = '_';
        if (strcmp(s->name, "step") == 0) o->step = weft_host(weft_store_address(o->store, e));
    }
    return o->step ? WEFT_OK : weft_fail(WEFT_ERR_INTERNAL, "an optimizer has no count of steps");
}

weft_status weft_flat_optimizer_open(weft_context *context, const weft_store *like,
                                     const weft_optimizer_options *options, weft_dtype dtype,
                                     int64_t count, weft_flat_optimizer **out)
{
    weft_flat_optimizer *o;
    const weft_device *device = like->schema->device;
    const char *name = weft_device_shares(device) ? device->ops->name : "reference";
    WEFT_TRY(check(context, options, count));
    WEFT_TRY(WEFT_NEW(&o, 1));
    o->bytes = (size_t)count * weft_dtype_size(dtype);
    weft_status status = weft_graph_create(context, dtype, &o->graph);
    if (status == WEFT_OK) status = build_graph(o, options, dtype, count);
    if (status == WEFT_OK) status = weft_store_create(context, name, 0, &o->store);
    if (status == WEFT_OK) status = weft_instance_build(o->store, o->graph, NULL, 0, &o->instance);
    if (status == WEFT_OK) status = list_states(o);
    if (status != WEFT_OK) {
        weft_flat_optimizer_close(&o);
        return status;
    }
    o->parameter = weft_store_find(o->store, RANGE);
    weft_flat_optimizer_scale_rate(o, 1);
    *out = o;
    return WEFT_OK;
}

/* Copies the parameters into the store, or out of it; a vector has only one memory layout. */
static weft_status copy_parameters(weft_flat_optimizer *o, void *data, bool in)
{
    void *here;
    size_t bytes;
    weft_dtype dtype;
    WEFT_TRY(weft_store_map(o->store, o->parameter, &dtype, &here, &bytes));
    memcpy(in ? here : data, in ? data : here, o->bytes);
    if (in) return weft_store_unmap(o->store, o->parameter, here);
    weft_store_unmap_read(o->store, here);
    return WEFT_OK;
}

weft_status weft_flat_optimizer_run(weft_flat_optimizer *o, const void *gradient)
{
    if (gradient != o->lent) WEFT_TRY(weft_instance_lend(o->instance, o->gradient, gradient));
    o->lent = gradient;
    weft_store_touch(o->store);
    return weft_instance_run(o->instance, WEFT_PHASE_UPDATE);
}

weft_status weft_flat_optimizer_step(weft_flat_optimizer *o, void *parameters, const void *gradient)
{
    WEFT_TRY(copy_parameters(o, parameters, true));
    WEFT_TRY(weft_flat_optimizer_run(o, gradient));
    return copy_parameters(o, parameters, false);
}

void weft_flat_optimizer_set_step(weft_flat_optimizer *o, int64_t step)
{
    *o->step = (int32_t)(step - 1);
}

void weft_flat_optimizer_scale_rate(weft_flat_optimizer *o, double factor)
{
    weft_number_put(o->graph->real, weft_instance_input(o->instance, o->graph->rate), 0, factor);
}

void weft_flat_optimizer_buffers(weft_flat_optimizer *o, void **parameters, void **gradient)
{
    *parameters = weft_host(weft_store_address(o->store, o->parameter));
    *gradient = weft_instance_input(o->instance, o->gradient);
}

bool weft_flat_optimizer_state(weft_flat_optimizer *o, int i, weft_exchange_state *out)
{
    if (i < 0 || i >= o->state_count) return false;
    int entry = o->states[i].entry;
    *out = (weft_exchange_state){.name = o->states[i].name,
                                 .type = weft_store_type(o->store, entry),
                                 .data = weft_host(weft_store_address(o->store, entry))};
    out->bytes = weft_type_bytes(&out->type);
    return true;
}
