/* Incremental decoding: the logits of each position, computed one position at a time from states,
 * are those of a graph that computes all positions at once. Rows of a batch advance independently
 * of each other, and rows that compute nothing keep their states. */
#include <math.h>

#include "graph/incremental.h"
#include "support.h"

enum { POSITIONS = 7, TOKENS = 11, MOST_ROWS = 3 };

/* A layer of each kind that computes positions alone or from states. */
static const char mixed[] = "layers:\n"
                            "  - {type: embedding, name: tokens, units: 8}\n"
                            "  - {type: rms_norm}\n"
                            "  - {type: attention, name: grouped, heads: 4, key_heads: 2, "
                            "causal: true, rotary: 100}\n"
                            "  - {type: add, name: sum, from: \"tokens, grouped\"}\n"
                            "  - {type: gru, name: memory, units: 5, layers: 2}\n"
                            "  - {type: linear, name: up, units: 6}\n"
                            "  - {type: silu, name: gate}\n"
                            "  - {type: mul, name: gated, from: \"up, gate\"}\n"
                            "  - {type: layer_norm}\n"
                            "  - {type: concat, name: both, axis: 2, from: \"gated, memory\"}\n"
                            "  - {type: dropout, rate: 0.5}\n"
                            "  - {type: linear, units: outputs}\n";

typedef struct decoding {
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_incremental one;
    weft_instance *whole, *step;
    weft_value tokens, logits, token, next;
    int rows;
} decoding;

static void build_model(decoding *d, const char *model, weft_dtype real)
{
    weft_model_options o;
    weft_model_values values;
    weft_model_options_init(&o);
    o.batch = d->rows;
    o.inputs = 1;
    o.input[0] =
        (weft_input){.name = "x", .dtype = WEFT_I32, .shape = {1, {POSITIONS}}, .values = TOKENS};
    o.positions = POSITIONS;
    o.classes = TOKENS;
    o.training = false;
    assert_ok(weft_graph_create(d->context, real, &d->graph));
    if (model) {
        o.model = model;
        assert_ok(weft_model_build(d->graph, &o, &values));
    } else {
        assert_ok(
            weft_model_build_text(d->graph, &o, "mixed.yaml", mixed, sizeof(mixed) - 1, &values));
    }
    d->tokens = weft_model_value(&values, WEFT_PORT_FEATURES);
    d->logits = weft_model_value(&values, WEFT_PORT_LOGITS);
}

static void begin(decoding *d, const char *model, const char *device, weft_dtype real, int rows)
{
    *d = (decoding){.rows = rows};
    assert_ok(weft_context_create(&d->context));
    assert_ok(weft_store_create(d->context, device, 1, &d->store));
    build_model(d, model, real);
    weft_value *map = calloc((size_t)weft_graph_value_count(d->graph), sizeof(*map));
    assert_ok(weft_graph_incremental(d->graph, d->tokens, d->logits, &d->one, map));
    d->token = map[d->tokens];
    d->next = map[d->logits];
    free(map);
    assert_ok(weft_instance_build(d->store, d->graph, &d->logits, 1, &d->whole));
    assert_ok(weft_instance_build(d->store, d->one.graph, &d->next, 1, &d->step));
}

static void end(decoding *d)
{
    weft_instance_destroy(&d->whole);
    weft_instance_destroy(&d->step);
    weft_store_destroy(&d->store);
    weft_incremental_free(&d->one);
    weft_graph_destroy(&d->graph);
    weft_context_destroy(&d->context);
}

static void put(const decoding *d, weft_value input, int row, int value)
{
    int32_t *to = weft_instance_input(d->step, input);
    if (to) to[row] = value; /* no layer may read the input */
}

/* position < 0: the row computes none. */
static void set(const decoding *d, int row, int token, int position)
{
    put(d, d->token, row, token);
    put(d, d->one.position, row, position);
    put(d, d->one.positions, row, position < 0 ? 0 : position);
    put(d, d->one.lengths, row, position + 1);
    put(d, d->one.active, row, position >= 0);
}

static double number(const weft_instance *x, weft_value v, weft_dtype real, int i)
{
    const void *data = weft_instance_output(x, v);
    return real == WEFT_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Rows advance at random until all have computed all positions. */
static double largest_difference(const decoding *d, weft_dtype real)
{
    int32_t *all = weft_instance_input(d->whole, d->tokens);
    int at[MOST_ROWS] = {0}, left = d->rows * POSITIONS;
    unsigned draw = 1;
    double most = 0;
    for (int i = 0; i < d->rows * POSITIONS; i++) all[i] = (i * 7 + i / 3) % TOKENS;
    assert_ok(weft_instance_run(d->whole, WEFT_PHASE_MICRO));
    while (left > 0) {
        bool on[MOST_ROWS];
        for (int b = 0; b < d->rows; b++) {
            draw = draw * 1103515245 + 12345;
            on[b] = at[b] < POSITIONS && draw >> 20 & 1;
            set(d, b, on[b] ? all[b * POSITIONS + at[b]] : 0, on[b] ? at[b] : -1);
        }
        assert_ok(weft_instance_run(d->step, WEFT_PHASE_MICRO));
        for (int b = 0; b < d->rows; b++) {
            for (int k = 0; k < TOKENS && on[b]; k++) {
                int there = (b * POSITIONS + at[b]) * TOKENS + k;
                double off = fabs(number(d->step, d->next, real, b * TOKENS + k) -
                                  number(d->whole, d->logits, real, there));
                most = isnan(off) ? INFINITY : fmax(most, off);
            }
            at[b] += on[b];
            left -= on[b];
        }
    }
    return most;
}

static void test_positions_one_by_one(void **state)
{
    static const char *const models[] = {NULL, "gpt:layers=2,heads=2,width=8",
                                         "char-lstm:layers=2,units=9"};
    (void)state;
    for (int device = 0; built_in(WEFT_KIND_DEVICE, device); device++)
        for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++)
            for (int rows = 1; rows <= MOST_ROWS; rows++)
                for (int real = 0; real < 2; real++) {
                    weft_dtype dtype = real ? WEFT_F64 : WEFT_F32;
                    decoding d;
                    begin(&d, models[m], built_in(WEFT_KIND_DEVICE, device), dtype, rows);
                    double off = largest_difference(&d, dtype);
                    if (!(off <= (real ? 1e-12 : 1e-5)))
                        fail_msg(
                            "%s on %s, %s, %d rows: off by %g", models[m] ? models[m] : "mixed",
                            built_in(WEFT_KIND_DEVICE, device), real ? "f64" : "f32", rows, off);
                    end(&d);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions_one_by_one),
    };
    return cmocka_run_group_tests_name("incremental", tests, NULL, NULL);
}
