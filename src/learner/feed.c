/* Writes batches to the inputs of a program, each rank its own part of the rows, and reads the
 * program's outputs. */
#include <math.h>
#include <stdio.h>

#include "graph/graph.h"
#include "learner/learner_internal.h"

/* Copies the part of `rows` that has the shape of `type` and begins at `start`, and converts each
 * element from one number type to the other. */
static void convert_part(const weft_type *from, const int64_t *start, const weft_type *type,
                         const void *rows, void *to)
{
    int64_t at[WEFT_MAX_RANK] = {0}, count = weft_shape_elements(&type->shape);
    for (int64_t i = 0; i < count; i++) {
        int64_t place = 0;
        for (int d = 0; d < type->shape.rank; d++)
            place = place * from->shape.dim[d] + start[d] + at[d];
        weft_number_put(type->dtype, to, i, weft_number_get(from->dtype, rows, place));
        for (int d = type->shape.rank; d-- > 0 && ++at[d] == type->shape.dim[d];) at[d] = 0;
    }
}

/* A copy of a part of `rows` that begins at `start` and has the shape of `part`. */
typedef struct copied {
    const weft_type *from, *part;
    const int64_t *start;
    const void *rows;
    char *to;
} copied;

static void copy_rows(void *user, int64_t begin, int64_t end)
{
    const copied *c = user;
    int64_t start[WEFT_MAX_RANK];
    weft_shape some = c->part->shape;
    size_t row = weft_type_bytes(c->part) / (size_t)some.dim[0];
    memcpy(start, c->start, sizeof(start));
    start[0] += begin;
    some.dim[0] = end - begin;
    weft_copy_part(c->from, start, &some, (void *)(uintptr_t)c->rows, c->to + (size_t)begin * row,
                   true);
}

/* Bytes for which another thread is worth its start. */
enum { COPIED_BYTES = 1 << 19 };

/* Copies with several threads, since the cores wait for the inputs. */
static void copy_part(const weft_graph *graph, const copied *c)
{
    int64_t rows = c->part->shape.rank > 0 ? c->part->shape.dim[0] : 0;
    int64_t bytes = (int64_t)weft_type_bytes(c->part);
    if (rows == 0)
        weft_copy_part(c->from, c->start, &c->part->shape, (void *)(uintptr_t)c->rows, c->to, true);
    else
        weft_parallel(weft_context_threads(graph->context), rows,
                      1 + rows * COPIED_BYTES / WEFT_MAX(bytes, 1), copy_rows,
                      (void *)(uintptr_t)c);
}

void weft_feed(const weft_graph *graph, const weft_instance *instance, weft_value v,
               const void *rows, weft_dtype dtype)
{
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK];
    if (v == WEFT_NO_VALUE) return;
    char *to = weft_instance_input(instance, v);
    weft_type type = weft_graph_value_type(graph, v);
    if (!to) return;
    weft_graph_part(graph, v, &whole, start);
    weft_type from = {dtype, whole};
    if (type.dtype == dtype)
        copy_part(graph, &(copied){&from, &type, start, rows, to});
    else
        convert_part(&from, start, &type, rows, to);
}

/* Fails with a message that names the input without a column, and all columns of the data. */
static weft_status no_column(const weft_port *port, const weft_batch *batch)
{
    char have[256] = "";
    for (int c = 0; c < batch->columns; c++)
        (void)snprintf(have + strlen(have), sizeof(have) - strlen(have), "%s%s (%s)", c ? ", " : "",
                       batch->column[c].name, weft_port_role_name((int)batch->column[c].role));
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "no column of the data goes to the model's input '%s' (%s); they have %s",
                     port->name, weft_port_role_name((int)port->role), have);
}

weft_status weft_feed_port(const weft_graph *graph, const weft_instance *instance,
                           const weft_port *port, weft_value value, const weft_batch *batch,
                           int64_t row)
{
    if (port->role >= WEFT_PORT_POSITION) return WEFT_OK;
    int c = weft_batch_find(batch, port->role, port->name);
    if (c < 0) return no_column(port, batch);
    weft_feed(graph, instance, value, weft_batch_rows(batch, c, row), batch->column[c].dtype);
    return WEFT_OK;
}

double weft_fetch(const weft_graph *graph, const weft_instance *instance, weft_value value,
                  int64_t i)
{
    const void *data = weft_instance_output(instance, value);
    double x = weft_number_get(weft_graph_value_type(graph, value).dtype, data, i);
    return isnan(x) ? fabs(x) : x; /* the sign of a NaN has no meaning, and would be printed */
}

static void feed_scalar(weft_rank *r, weft_value v, double value)
{
    const weft_graph *g = weft_rewritten_graph(r->mine);
    weft_value local = weft_rewritten_value(r->mine, v);
    void *to = local == WEFT_NO_VALUE ? NULL : weft_instance_input(r->instance, local);
    if (!to) return;
    weft_number_put(weft_graph_value_type(g, local).dtype, to, 0, value);
}

/* The row of the batch that weft_feed takes as row 0 of micro-batch m; weft_feed adds the offset of
 * this rank's part of a micro-batch. Without virtual workers the micro-batches follow each other.
 * With them a rank computes consecutive virtual workers, one in each micro-batch, so this function
 * subtracts the offset. */
static int64_t first_row(const weft_rank *r, int m)
{
    const weft_run_spec *k = r->run_spec;
    int64_t d = weft_plan_coordinate(r->plan, r->rank % k->plan.ranks, 0);
    if (k->worker == 0) return m * k->model.batch;
    return (d * k->microbatches + m - d) * k->worker;
}

weft_status weft_rank_feed(weft_rank *r, const weft_batch *b, int m)
{
    const weft_graph *g = weft_rewritten_graph(r->mine);
    int64_t first = first_row(r, m);
    for (int i = 0; i < r->values.count; i++) {
        const weft_port *p = &r->values.ports[i];
        weft_value local = weft_rewritten_value(r->mine, p->value);
        WEFT_TRY(weft_feed_port(g, r->instance, p, local, b, first));
        if (p->role == WEFT_PORT_POSITION) feed_scalar(r, p->value, (double)(b->before + first));
    }
    feed_scalar(r, r->optimizer.keep, m);
    return WEFT_OK;
}

/* Extends the rows [o->first, o->first + o->rows) of a micro-batch by those of an input's part. */
static void add_rows(const weft_rank *r, weft_value input, weft_loader_options *o)
{
    const weft_graph *g = weft_rewritten_graph(r->mine);
    weft_value local = weft_rewritten_value(r->mine, input);
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK];
    if (local == WEFT_NO_VALUE) return;
    weft_graph_part(g, local, &whole, start);
    int64_t end = start[0] + weft_graph_value_type(g, local).shape.dim[0];
    if (o->micro > 0) {
        end = WEFT_MAX(end, o->first + o->rows);
        start[0] = WEFT_MIN(start[0], o->first);
    }
    o->micro = whole.dim[0];
    o->first = start[0];
    o->rows = end - start[0];
}

void weft_rank_rows(const weft_rank *r, weft_loader_options *o)
{
    const weft_run_spec *k = r->run_spec;
    if (k->worker > 0) {
        o->micro = k->slots;
        o->rows = k->microbatches * k->worker;
        o->first = weft_plan_coordinate(r->plan, r->rank % k->plan.ranks, 0) * o->rows;
        return;
    }
    /* Inputs may be split along different axes: one that is pinned to another dimension than its
     * rows needs more rows than the targets. */
    for (int i = 0; i < r->values.count; i++)
        if (r->values.ports[i].role < WEFT_PORT_POSITION) add_rows(r, r->values.ports[i].value, o);
}
