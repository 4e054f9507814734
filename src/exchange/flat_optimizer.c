/* The flat optimizer applies the run's optimizer to a flat range of parameters: it runs a graph of
 * one parameter, or of one for each segment of the range, whose gradients are inputs, and of the
 * update that weft_optimizer_build adds. */
#include "exchange/flat_optimizer.h"

#include <stdio.h>

#include "graph/graph.h"
#include "optim/optim.h"
#include "program/program.h"
#include "program/walk.h"

/* Name of the graph's first parameter, and prefix of the names of its moments. */
static const char RANGE[] = "range";

/* A part of the range, which is a parameter of the graph. */
typedef struct piece {
    int64_t begin, count; /* in the range */
    double factor;        /* of the learning rate; 0: the parameters stay as they are */
    weft_value gradient;
    int entry; /* of the parameter in the store */
} piece;

struct weft_flat_optimizer {
    weft_graph *graph;
    weft_store *store;
    weft_instance *instance;
    piece *pieces;
    int piece_count;
    const void *lent; /* the caller's gradient that `instance` reads; NULL: its own buffer */
    /* Memory of the range from which several pieces are copied; NULL: there is one piece. */
    void *parameters, *own_gradient;
    int32_t *step; /* the store's counter of steps, which the learning rate follows */
    size_t size;   /* of an element */
    int64_t count;
    struct state {
        char name[64];
        int entry; /* index in the store; of a moment: of that of the first piece */
        bool moment;
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
    free(o->pieces);
    free(o->parameters);
    free(o->own_gradient);
    free(o->states);
    free(o);
    *optimizer = NULL;
}

static weft_status check(const weft_optimizer_options *options, int64_t count)
{
    if (options->clip_norm > 0 || options->accumulate > 1 || options->update != WEFT_UPDATE_HERE)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "the optimizer of a flat range neither clips nor adds up micro-batches, and "
            "makes its update itself: clip_norm 0, accumulate 1, WEFT_UPDATE_HERE");
    if (count < 1)
        return weft_fail(WEFT_ERR_ARGUMENT, "a flat range of %lld parameters", (long long)count);
    return WEFT_OK;
}

/* Cuts the range, which begins at `begin` of all parameters, into the parts of segments. */
static weft_status cut(weft_flat_optimizer *o, weft_segment_list list, int64_t begin)
{
    WEFT_TRY(WEFT_NEW(&o->pieces, list.count + 1));
    for (size_t i = 0; i < list.count; i++) {
        int64_t from = WEFT_MAX(list.at[i].begin - begin, (int64_t)0);
        int64_t end = i + 1 < list.count ? list.at[i + 1].begin - begin : o->count;
        end = WEFT_MIN(end, o->count);
        if (end <= from) continue;
        o->pieces[o->piece_count++] =
            (piece){.begin = from, .count = end - from, .factor = list.at[i].factor};
    }
    if (list.count == 0) o->pieces[o->piece_count++] = (piece){.count = o->count, .factor = 1};
    return WEFT_OK;
}

static void piece_name(int i, char out[32])
{
    (void)snprintf(out, 32, i == 0 ? "%s" : "%s%d", RANGE, i);
}

/* Takes the update of a piece, of its parameters and of its moments, out of the graph. */
static void keep_piece(weft_graph *g, int i)
{
    char name[32];
    piece_name(i, name);
    weft_value w = weft_graph_find(g, name);
    for (weft_value v = 0; v < weft_graph_value_count(g); v++) {
        weft_value_info *info = &g->values[v];
        if ((v != w && info->role_of != w) || info->assigned == WEFT_NO_VALUE) continue;
        g->values[info->assigned].next_of = WEFT_NO_VALUE;
        info->assigned = WEFT_NO_VALUE;
    }
}

static weft_status build_graph(weft_flat_optimizer *o, const weft_optimizer_options *options,
                               weft_dtype dtype)
{
    weft_optimizer_values values;
    weft_init zero = {WEFT_INIT_CONSTANT, 0};
    double *factors;
    for (int i = 0; i < o->piece_count; i++) {
        char name[32], gradient[48];
        weft_shape shape = weft_shape_of(1, (int64_t[]){o->pieces[i].count});
        piece_name(i, name);
        (void)snprintf(gradient, sizeof(gradient), i == 0 ? "gradient" : "gradient%d", i);
        weft_value w = weft_graph_leaf(o->graph, WEFT_VALUE_PARAM, name, dtype, &shape, zero);
        o->pieces[i].gradient =
            weft_graph_leaf(o->graph, WEFT_VALUE_INPUT, gradient, dtype, &shape, zero);
        WEFT_TRY(weft_graph_status(o->graph));
        o->graph->values[w].gradient = o->pieces[i].gradient;
    }
    o->graph->differentiated = true;
    const weft_shape scalar = {.rank = 0};
    o->graph->rate = weft_graph_leaf(o->graph, WEFT_VALUE_INPUT, "rate", dtype, &scalar, zero);
    WEFT_TRY(WEFT_NEW(&factors, o->piece_count));
    /* A piece that stays has moments all the same, since each state has the size of a range. */
    for (int i = 0; i < o->piece_count; i++)
        factors[i] = o->pieces[i].factor == 0 ? 1 : o->pieces[i].factor;
    weft_optimizer_options own = *options;
    own.averages = false; /* learners average the parameters that they hold */
    weft_status status = weft_optimizer_build_with(o->graph, &own, factors, &values);
    free(factors);
    for (int i = 0; i < o->piece_count && status == WEFT_OK; i++)
        if (o->pieces[i].factor == 0) keep_piece(o->graph, i);
    return status;
}

/* Lists the optimizer's states in the store, under their names without the prefix "range/" and with
 * _ for /, in the order of the graph, which is that of every range. */
static weft_status list_states(weft_flat_optimizer *o)
{
    size_t skip = strlen(RANGE);
    const char *step = weft_graph_value_name(o->graph, o->graph->step);
    WEFT_TRY(WEFT_NEW(&o->states, weft_store_count(o->store)));
    for (weft_value v = 0; v < weft_graph_value_count(o->graph); v++) {
        const char *name = weft_graph_value_name(o->graph, v);
        const int e = weft_store_find(o->store, name);
        bool of_piece = strncmp(name, RANGE, skip) == 0, first = of_piece && name[skip] == '/';
        if (weft_graph_value_kind(o->graph, v) != WEFT_VALUE_STATE || (of_piece && !first))
            continue;
        struct state *s = &o->states[o->state_count++];
        (void)snprintf(s->name, sizeof(s->name), "%s", of_piece ? name + skip + 1 : name);
        s->entry = e;
        s->moment = of_piece;
        for (char *c = s->name; *c; c++)
            if (*c == '/') *c = '_';
        if (strcmp(name, step) == 0) o->step = weft_host(weft_store_address(o->store, e));
    }
    return o->step ? WEFT_OK : weft_fail(WEFT_ERR_INTERNAL, "an optimizer has no count of steps");
}

/* Bytes of the range and its gradient, where there are several pieces. */
static size_t room_of(const weft_flat_optimizer *o)
{
    bool one = o->piece_count == 1 && o->pieces[0].factor != 0;
    return one ? 0 : (size_t)o->count * o->size;
}

static weft_status make_room(weft_flat_optimizer *o)
{
    for (int i = 0; i < o->piece_count; i++) {
        char name[32];
        piece_name(i, name);
        o->pieces[i].entry = weft_store_find(o->store, name);
    }
    if (room_of(o) == 0) return WEFT_OK;
    WEFT_TRY(weft_new_aligned(room_of(o), &o->parameters));
    return weft_new_aligned(room_of(o), &o->own_gradient);
}

/* Makes the optimizer's graph and its store. *out must be closed also on failure. */
static weft_status begin_open(weft_context *context, const weft_store *like,
                              const weft_optimizer_options *options, weft_dtype dtype,
                              int64_t count, weft_segment_list segments, int64_t begin,
                              weft_flat_optimizer **out)
{
    weft_flat_optimizer *o;
    /* Ranges are in host memory, where exchanges read and write them. */
    const char *name = schema_device(like->schema, SPACE_HOST)->ops->name;
    *out = NULL;
    WEFT_TRY(check(options, count));
    WEFT_TRY(WEFT_NEW(&o, 1));
    *out = o;
    o->count = count;
    o->size = weft_dtype_size(dtype);
    WEFT_TRY(cut(o, segments, begin));
    WEFT_TRY(weft_graph_create(context, dtype, &o->graph));
    WEFT_TRY(build_graph(o, options, dtype));
    return weft_store_create(context, name, 0, &o->store);
}

weft_status weft_flat_optimizer_open(weft_context *context, const weft_store *like,
                                     const weft_optimizer_options *options, weft_dtype dtype,
                                     int64_t count, weft_segment_list segments, int64_t begin,
                                     weft_flat_optimizer **out)
{
    weft_flat_optimizer *o;
    weft_status status = begin_open(context, like, options, dtype, count, segments, begin, &o);
    if (status == WEFT_OK) status = weft_instance_build(o->store, o->graph, NULL, 0, &o->instance);
    if (status == WEFT_OK) status = list_states(o);
    if (status == WEFT_OK) status = make_room(o);
    if (status != WEFT_OK) {
        weft_flat_optimizer_close(&o);
        return status;
    }
    weft_flat_optimizer_scale_rate(o, 1);
    *out = o;
    return WEFT_OK;
}

weft_status weft_flat_optimizer_memory(weft_context *context, const weft_store *like,
                                       const weft_optimizer_options *options, weft_dtype dtype,
                                       int64_t count, double *out, double *state)
{
    weft_flat_optimizer *o;
    weft_program *program = NULL;
    weft_program_options p = options_to_fetch(NULL, 0);
    p.dry = true;
    *out = *state = 0;
    weft_status status =
        begin_open(context, like, options, dtype, count, (weft_segment_list){.count = 0}, 0, &o);
    if (status == WEFT_OK) status = weft_program_create_with(o->store, o->graph, &p, &program);
    if (status == WEFT_OK) {
        weft_program_info info = weft_program_on_host(program);
        *out = weft_program_bytes(&info) + 2 * (double)room_of(o);
        *state = (double)info.state_bytes;
    }
    weft_program_destroy(&program);
    weft_flat_optimizer_close(&o);
    return status;
}

/* Copies the parameters into the store, or out of it; a vector has only one memory layout. */
static weft_status copy_parameters(weft_flat_optimizer *o, void *data, bool in)
{
    for (int i = 0; i < o->piece_count; i++) {
        const piece *p = &o->pieces[i];
        char *there = (char *)data + (size_t)p->begin * o->size;
        size_t bytes, all = (size_t)p->count * o->size;
        weft_dtype dtype;
        void *here;
        if (p->factor == 0) continue;
        WEFT_TRY(weft_store_map(o->store, p->entry, &dtype, &here, &bytes));
        memcpy(in ? here : there, in ? there : here, all);
        if (in)
            WEFT_TRY(weft_store_unmap(o->store, p->entry, here));
        else
            weft_store_unmap_read(o->store, here);
    }
    return WEFT_OK;
}

/* Updates the parameters in the store. */
static weft_status update(weft_flat_optimizer *o, const void *gradient)
{
    for (int i = 0; i < o->piece_count && gradient != o->lent; i++)
        if (o->pieces[i].factor != 0)
            WEFT_TRY(
                weft_instance_lend(o->instance, o->pieces[i].gradient,
                                   (const char *)gradient + (size_t)o->pieces[i].begin * o->size));
    o->lent = gradient;
    weft_store_touch(o->store);
    return weft_instance_run(o->instance, WEFT_PHASE_UPDATE);
}

weft_status weft_flat_optimizer_step(weft_flat_optimizer *o, void *parameters, const void *gradient)
{
    WEFT_TRY(copy_parameters(o, parameters, true));
    WEFT_TRY(update(o, gradient));
    return copy_parameters(o, parameters, false);
}

weft_status weft_flat_optimizer_run(weft_flat_optimizer *o, const void *gradient)
{
    return o->parameters ? weft_flat_optimizer_step(o, o->parameters, gradient)
                         : update(o, gradient);
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
    *parameters = o->parameters;
    *gradient = o->own_gradient;
    if (o->parameters) return;
    *parameters = weft_host(weft_store_address(o->store, o->pieces[0].entry));
    *gradient = weft_instance_input(o->instance, o->pieces[0].gradient);
}

weft_status weft_flat_optimizer_bytes(const weft_flat_optimizer *o, double *out)
{
    const weft_program *p = weft_instance_program(o->instance);
    weft_program_info info = weft_program_describe(p);
    weft_work work;
    *out = 0;
    for (int i = 0; i < (int)info.instructions; i++) {
        if (weft_instruction_transfer(p, i)) continue;
        WEFT_TRY(weft_instruction_work(p, i, &work));
        *out += work.bytes;
    }
    return WEFT_OK;
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

int weft_flat_optimizer_parts(const weft_flat_optimizer *o, int i, struct iovec *parts)
{
    const struct state *s = &o->states[i];
    int count = s->moment ? o->piece_count : 1;
    const char *moment = strchr(weft_store_name(o->store, s->entry), '/');
    for (int k = 0; parts && k < count; k++) {
        char leaf[32], name[128];
        piece_name(k, leaf);
        (void)snprintf(name, sizeof(name), "%s%s", leaf, moment ? moment : "");
        int entry = s->moment ? weft_store_find(o->store, name) : s->entry;
        weft_type type = weft_store_type(o->store, entry);
        parts[k] =
            (struct iovec){weft_host(weft_store_address(o->store, entry)), weft_type_bytes(&type)};
    }
    return count;
}
