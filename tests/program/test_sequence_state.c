/* States of sequences: each instance has its own, they are written in place from run to run, and
 * rows of them are read, written and set to zero, on every device. */
#include "support.h"

enum { ROWS = 3, POSITIONS = 5, WIDTH = 2 };

typedef struct table {
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_value state, row, position, total, all;
} table;

/* A table into whose row b a run writes `row` at `position`, and a sum of all rows so far. */
static void build(table *t, const char *device)
{
    weft_shape whole = weft_shape_of(3, (int64_t[]){ROWS, POSITIONS, WIDTH}),
               one = weft_shape_of(3, (int64_t[]){ROWS, 1, WIDTH}),
               each = weft_shape_of(1, (int64_t[]){ROWS});
    const weft_init zero = {WEFT_INIT_CONSTANT, 0};
    assert_ok(weft_context_create(&t->context));
    assert_ok(weft_graph_create(t->context, WEFT_F32, &t->graph));
    assert_ok(weft_store_create(t->context, device, 1, &t->store));
    weft_graph *g = t->graph;
    t->state = weft_graph_leaf(g, WEFT_VALUE_STATE, "table", WEFT_F32, &whole, zero);
    t->total = weft_graph_leaf(g, WEFT_VALUE_STATE, "total", WEFT_F32, &one, zero);
    weft_graph_set_role(g, t->state, WEFT_ROLE_SEQUENCE, WEFT_NO_VALUE);
    weft_graph_set_role(g, t->total, WEFT_ROLE_SEQUENCE, WEFT_NO_VALUE);
    t->row = weft_graph_leaf(g, WEFT_VALUE_INPUT, "row", WEFT_F32, &one, zero);
    t->position = weft_graph_leaf(g, WEFT_VALUE_INPUT, "position", WEFT_I32, &each, zero);
    t->all = weft_graph_node(g, "write_rows", "all", (weft_value[]){t->state, t->row, t->position},
                             3, NULL, 0);
    weft_graph_assign(g, t->state, t->all);
    weft_value sum = weft_graph_node(g, "add", "sum", (weft_value[]){t->total, t->row}, 2, NULL, 0);
    weft_graph_assign(g, t->total, sum);
    assert_ok(weft_graph_status(g));
}

static void run(const table *t, weft_instance *x, int step)
{
    float *row = weft_instance_input(x, t->row);
    int32_t *position = weft_instance_input(x, t->position);
    for (int b = 0; b < ROWS; b++) {
        position[b] = b == 1 ? -1 : (step + b) % POSITIONS;
        for (int i = 0; i < WIDTH; i++) row[b * WIDTH + i] = (float)(100 * step + 10 * b + i);
    }
    assert_ok(weft_instance_run(x, WEFT_PHASE_MICRO));
}

static void check(const table *t, const weft_instance *x, int steps)
{
    float all[POSITIONS * WIDTH], total[WIDTH];
    for (int b = 0; b < ROWS; b++) {
        assert_int_equal(weft_instance_row_bytes(x, t->state, b), sizeof(all));
        assert_ok(weft_instance_read_row(x, t->state, b, all));
        assert_ok(weft_instance_read_row(x, t->total, b, total));
        for (int i = 0; i < WIDTH; i++) {
            float sum = 0;
            for (int s = 0; s < steps; s++) sum += (float)(100 * s + 10 * b + i);
            assert_float_equal(total[i], sum, 0);
            for (int p = 0; p < POSITIONS; p++) {
                int last = steps - 1;
                while (last >= 0 && (last + b) % POSITIONS != p) last--;
                float want = b == 1 || last < 0 ? 0 : (float)(100 * last + 10 * b + i);
                assert_float_equal(all[p * WIDTH + i], want, 0);
            }
        }
    }
}

static void test_instances_have_their_own(void **state)
{
    (void)state;
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        table t;
        weft_instance *x, *y;
        float moved[POSITIONS * WIDTH], zeros[POSITIONS * WIDTH];
        build(&t, built_in(WEFT_KIND_DEVICE, d));
        assert_ok(weft_instance_build(t.store, t.graph, NULL, 0, &x));
        assert_ok(weft_instance_build(t.store, t.graph, NULL, 0, &y));
        assert_int_equal(weft_store_count(t.store), 0);
        check(&t, x, 0);
        for (int step = 0; step < 7; step++) run(&t, x, step);
        for (int step = 0; step < 2; step++) run(&t, y, step);
        check(&t, x, 7);
        check(&t, y, 2);
        assert_ok(weft_instance_read_row(x, t.state, 2, moved));
        assert_ok(weft_instance_write_row(y, t.state, 0, moved));
        assert_ok(weft_instance_read_row(y, t.state, 0, zeros));
        assert_memory_equal(zeros, moved, sizeof(moved));
        assert_ok(weft_instance_write_row(y, t.state, 0, NULL));
        assert_ok(weft_instance_read_row(y, t.state, 0, zeros));
        for (int i = 0; i < POSITIONS * WIDTH; i++) assert_float_equal(zeros[i], 0, 0);
        const int64_t wrong[] = {-1, ROWS, INT64_MAX, INT64_MIN};
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
            assert_int_equal(weft_instance_row_bytes(x, t.state, wrong[i]), 0);
            assert_refused(weft_instance_read_row(x, t.state, wrong[i], moved), WEFT_ERR_ARGUMENT,
                           "no state of sequences with a row");
        }
        assert_refused(weft_instance_write_row(x, t.row, 0, moved), WEFT_ERR_ARGUMENT,
                       "no state of sequences with a row");
        weft_instance_destroy(&x);
        weft_instance_destroy(&y);
        weft_store_destroy(&t.store);
        weft_graph_destroy(&t.graph);
        weft_context_destroy(&t.context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instances_have_their_own),
    };
    return cmocka_run_group_tests_name("sequence_state", tests, NULL, NULL);
}
