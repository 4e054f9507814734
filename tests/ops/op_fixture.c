/* Makes the inputs of the operator tests' graphs and their loss, and lists the values to fetch. */
#include <math.h>

#include "op_cases.h"

/* Pseudorandom numbers far enough from zero that finite differences cross no kink of a relu. */
static double number(int input, int64_t i)
{
    double x = sin((double)(i * 37 + input * 101 + 11) * 12.9898) * 43758.5453;
    x = 2 * (x - floor(x)) - 1;
    return x + (x < 0 ? -0.05 : 0.05);
}

weft_value fixture_input(fixture *f, int rank, const int64_t *dim, bool wanted, double scale,
                         double shift)
{
    char name[16];
    int n = f->input_count++;
    assert_true(n < MOST_INPUTS);
    weft_shape shape = weft_shape_of(rank, dim);
    (void)snprintf(name, sizeof(name), "in%d", n);
    f->inputs[n] = weft_graph_leaf(f->graph, WEFT_VALUE_INPUT, name, weft_graph_real(f->graph),
                                   &shape, (weft_init){WEFT_INIT_CONSTANT, 0});
    f->sizes[n] = weft_shape_elements(&shape);
    f->data[n] = malloc((size_t)f->sizes[n] * sizeof(double));
    for (int64_t i = 0; i < f->sizes[n]; i++) f->data[n][i] = number(n, i) * scale + shift;
    if (wanted) weft_graph_want_gradient(f->graph, f->inputs[n]);
    /* Vectors are parameters and statistics in networks, which stay f32. */
    if (!f->narrow || rank == 1) return f->inputs[n];
    weft_attr narrow = WEFT_ATTR_INT("dtype", WEFT_BF16);
    return weft_graph_node(f->graph, "cast", name, &f->inputs[n], 1, &narrow, 1);
}

weft_value fixture_ints(fixture *f, int rank, const int64_t *dim, int32_t limit)
{
    char name[16];
    int n = f->input_count++;
    assert_true(n < MOST_INPUTS);
    weft_shape shape = weft_shape_of(rank, dim);
    (void)snprintf(name, sizeof(name), "in%d", n);
    f->inputs[n] = weft_graph_leaf(f->graph, WEFT_VALUE_INPUT, name, WEFT_I32, &shape,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    f->sizes[n] = weft_shape_elements(&shape);
    f->ints[n] = malloc((size_t)f->sizes[n] * sizeof(int32_t));
    for (int64_t i = 0; i < f->sizes[n]; i++) f->ints[n][i] = (int32_t)((i * 7 + 3) % limit);
    return f->inputs[n];
}

/* Adds the loss: the sum of all output elements, each times a fixed number, so that all elements
 * have different gradients. */
static void add_loss(fixture *f)
{
    for (int i = 0, outputs = f->output_count; i < outputs; i++) {
        weft_type type = weft_graph_value_type(f->graph, f->outputs[i]);
        weft_value weight = fixture_input(f, type.shape.rank, type.shape.dim, false, 1, 0);
        weft_value y = weft_graph_node(f->graph, "mul", "weighted",
                                       (weft_value[]){f->outputs[i], weight}, 2, NULL, 0);
        weft_attr axes = {.name = "axes", .count = type.shape.rank};
        for (int d = 0; d < type.shape.rank; d++) axes.ints[d] = d;
        if (type.shape.rank > 0)
            y = weft_graph_node(f->graph, "reduce_sum", "sum", &y, 1, &axes, 1);
        f->loss = i == 0 ? y
                         : weft_graph_node(f->graph, "add", "total", (weft_value[]){f->loss, y}, 2,
                                           NULL, 0);
    }
}

void fixture_start(fixture *f, const op_case *c, weft_dtype real)
{
    memset(f, 0, sizeof(*f));
    assert_ok(weft_context_create(&f->context));
    f->narrow = real == WEFT_BF16;
    assert_ok(weft_graph_create(f->context, f->narrow ? WEFT_F32 : real, &f->graph));
    c->build(f);
    add_loss(f);
    assert_ok(weft_graph_status(f->graph));
    if (!c->no_gradient) assert_ok(weft_graph_differentiate(f->graph, f->loss));
}

void fixture_end(fixture *f)
{
    for (int i = 0; i < f->input_count; i++) {
        free(f->data[i]);
        free(f->ints[i]);
    }
    weft_graph_destroy(&f->graph);
    weft_context_destroy(&f->context);
}

int fixture_fetch(const fixture *f, weft_value *fetch)
{
    int count = 0;
    for (int i = 0; i < f->output_count; i++) fetch[count++] = f->outputs[i];
    for (int i = 0; i < f->input_count; i++)
        if (weft_graph_gradient(f->graph, f->inputs[i]) != WEFT_NO_VALUE)
            fetch[count++] = weft_graph_gradient(f->graph, f->inputs[i]);
    return count;
}

void fixture_feed(const fixture *f, const weft_instance *p)
{
    for (int i = 0; i < f->input_count; i++) {
        void *to = weft_instance_input(p, f->inputs[i]);
        for (int64_t j = 0; to && j < f->sizes[i]; j++) {
            if (f->ints[i])
                ((int32_t *)to)[j] = f->ints[i][j];
            else if (weft_graph_real(f->graph) == WEFT_F32)
                ((float *)to)[j] = (float)f->data[i][j];
            else
                ((double *)to)[j] = f->data[i][j];
        }
    }
}

double fixture_get(const fixture *f, const weft_instance *p, weft_value v, int64_t i)
{
    const void *data = weft_instance_output(p, v);
    assert_non_null(data);
    return weft_number_get(weft_graph_value_type(f->graph, v).dtype, data, i);
}

case_results fixture_run(const op_case *c, weft_dtype real, const char *device, int times)
{
    fixture f;
    weft_store *store;
    weft_instance *p;
    weft_value fetch[MOST_INPUTS + MOST_OUTPUTS];
    case_results r = {.number = NULL};
    fixture_start(&f, c, real);
    r.count = fixture_fetch(&f, fetch);
    for (int i = 0; i < r.count; i++) {
        weft_type type = weft_graph_value_type(f.graph, fetch[i]);
        r.total += r.sizes[i] = weft_shape_elements(&type.shape);
    }
    r.number = calloc((size_t)r.total + 1, sizeof(*r.number));
    assert_non_null(r.number);
    assert_ok(weft_store_create(f.context, device, 1, &store));
    if (weft_instance_build(store, f.graph, fetch, r.count, &p) != WEFT_OK)
        fail_msg("%s on %s: %s", c->name, device, weft_last_message());
    for (int t = 0; t < times; t++) {
        fixture_feed(&f, p);
        if (weft_instance_run(p, WEFT_PHASE_MICRO) != WEFT_OK)
            fail_msg("%s on %s: %s", c->name, device, weft_last_message());
        for (int64_t i = 0, at = 0; i < r.count; i++)
            for (int64_t j = 0; j < r.sizes[i]; j++, at++) {
                double now = fixture_get(&f, p, fetch[i], j);
                if (t > 0 && memcmp(&now, &r.number[at], sizeof(now)) != 0)
                    fail_msg("%s on %s: element %lld of result %d is %.17g, and then %.17g",
                             c->name, device, (long long)j, (int)i, r.number[at], now);
                r.number[at] = now;
            }
    }
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    fixture_end(&f);
    return r;
}
