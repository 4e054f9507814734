/* Recurrences: lstm and gru must give the values that tests/golden/make.py took from PyTorch, also
 * over packed sequences and in the other direction. The bits of results do not depend on the number
 * of threads, and a length out of range gives NaN. */
#include "golden_lines.h"

enum { BATCH = 5, POSITIONS = 7, UNITS = 6, MOST = 8 };

typedef struct fixture {
    const char *device;
    weft_dtype real;
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *program;
    weft_value in[MOST], fetch[2 * MOST];
    uint32_t streams[MOST];
    const char *names[2 * MOST]; /* of what is fetched */
    int inputs, fetched;
    weft_value lengths;
} fixture;

/* A real input with the numbers of a stream; `name`: of its gradient, which is fetched, or NULL. */
static weft_value leaf(fixture *f, const char *name, uint32_t stream, int rank, const int64_t *dim)
{
    char text[16];
    weft_shape shape = weft_shape_of(rank, dim);
    (void)snprintf(text, sizeof(text), "in%d", (int)stream);
    weft_value v = weft_graph_leaf(f->graph, WEFT_VALUE_INPUT, text, f->real, &shape,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    if (name) weft_graph_want_gradient(f->graph, v);
    f->streams[f->inputs] = stream;
    f->names[f->inputs] = name;
    f->in[f->inputs++] = v;
    return v;
}

/* The sum of the elements of v, each times a number of the stream. */
static weft_value weighed(fixture *f, weft_value v, uint32_t stream)
{
    weft_shape shape = weft_graph_value_type(f->graph, v).shape;
    weft_value by = leaf(f, NULL, stream, shape.rank, shape.dim);
    weft_attr axes = {.name = "axes", .count = shape.rank, .ints = {0, 1, 2}};
    v = weft_graph_node(f->graph, "mul", "weighed", (weft_value[]){v, by}, 2, NULL, 0);
    return weft_graph_node(f->graph, "reduce_sum", "sum", &v, 1, &axes, 1);
}

typedef struct kind {
    bool gru, states, lengths, reverse;
} kind;

static void build(fixture *f, kind k, int64_t batch, int64_t positions, int64_t units)
{
    int64_t all = (k.gru ? 3 : 4) * units;
    weft_value in[5], loss = WEFT_NO_VALUE;
    int count = 0, states = k.gru ? 1 : 2;
    assert_ok(weft_graph_create(f->context, f->real, &f->graph));
    in[count++] = leaf(f, "dg", 1, 3, (int64_t[]){batch, positions, all});
    in[count++] = leaf(f, "dw", 2, 2, (int64_t[]){units, all});
    if (k.gru) in[count++] = leaf(f, "dbias", 6, 1, &all);
    for (int s = 0; k.states && s < states; s++)
        in[count++] = leaf(f, s ? "dc0" : "dh0", 7 + (uint32_t)s, 2, (int64_t[]){batch, units});
    int leaves = f->inputs;
    f->lengths = WEFT_NO_VALUE;
    if (k.lengths) {
        weft_shape shape = weft_shape_of(1, &batch);
        in[count++] = f->lengths = weft_graph_leaf(f->graph, WEFT_VALUE_INPUT, "lengths", WEFT_I32,
                                                   &shape, (weft_init){WEFT_INIT_CONSTANT, 0});
    }
    weft_attr reverse = WEFT_ATTR_INT("reverse", k.reverse);
    weft_value y = weft_graph_node(f->graph, k.gru ? "gru" : "lstm", "rnn", in, count, &reverse, 1);
    assert_ok(weft_graph_status(f->graph));
    for (int o = 0; o <= states; o++) {
        weft_value sum = weighed(f, y + o, 3 + (uint32_t)o);
        loss = o == 0 ? sum
                      : weft_graph_node(f->graph, "add", "loss", (weft_value[]){loss, sum}, 2, NULL,
                                        0);
    }
    assert_ok(weft_graph_differentiate(f->graph, loss));
    const char *const gradients[MOST] = {f->names[0], f->names[1], f->names[2], f->names[3]};
    for (int o = 0; o <= states; o++) {
        f->names[f->fetched] = o == 0 ? "y" : o == 1 ? "h" : "c";
        f->fetch[f->fetched++] = y + o;
    }
    for (int i = 0; i < leaves; i++) {
        f->names[f->fetched] = gradients[i];
        f->fetch[f->fetched++] = weft_graph_gradient(f->graph, f->in[i]);
    }
}

static void start(fixture *f, int threads)
{
    assert_ok(weft_context_create(&f->context));
    assert_ok(weft_context_set_threads(f->context, threads));
}

static void run(fixture *f, const int32_t *lengths)
{
    assert_ok(weft_store_create(f->context, f->device, 1, &f->store));
    assert_ok(weft_instance_build(f->store, f->graph, f->fetch, f->fetched, &f->program));
    for (int i = 0; i < f->inputs; i++) golden_feed(f->program, f->graph, f->in[i], f->streams[i]);
    if (f->lengths != WEFT_NO_VALUE) {
        weft_type type = weft_graph_value_type(f->graph, f->lengths);
        memcpy(weft_instance_input(f->program, f->lengths), lengths, weft_type_bytes(&type));
    }
    assert_ok(weft_instance_run(f->program, WEFT_PHASE_MICRO));
}

static void end(fixture *f)
{
    weft_instance_destroy(&f->program);
    weft_store_destroy(&f->store);
    weft_graph_destroy(&f->graph);
    weft_context_destroy(&f->context);
}

static int64_t count_of(const fixture *f, int i)
{
    weft_type type = weft_graph_value_type(f->graph, f->fetch[i]);
    return weft_shape_elements(&type.shape);
}

static double element(const fixture *f, int i, int64_t n)
{
    return golden_get(weft_instance_output(f->program, f->fetch[i]), f->real, n);
}

/* --- golden values --- */

/* Reads a line of the file for each result, which are in the order of the results. */
static void golden_case(const char *device, weft_dtype real, kind k, FILE *file)
{
    static const int32_t lengths[BATCH] = {7, 3, 1, 7, 5};
    fixture f = {.device = device, .real = real};
    char name[64], line[512], wanted[96];
    (void)snprintf(name, sizeof(name), "%s%s%s%s", k.gru ? "gru" : "lstm",
                   k.states ? "_states" : "", k.lengths ? "_lengths" : "",
                   k.reverse ? "_reverse" : "");
    start(&f, 2);
    build(&f, k, BATCH, POSITIONS, UNITS);
    run(&f, lengths);
    for (int i = 0; i < f.fetched; i++) {
        (void)snprintf(wanted, sizeof(wanted), "%s %s ", name, f.names[i]);
        assert_non_null(fgets(line, sizeof(line), file));
        if (strncmp(line, wanted, strlen(wanted)) != 0) fail_msg("not '%s': %s", wanted, line);
        weft_type type = weft_graph_value_type(f.graph, f.fetch[i]);
        golden_compare(name, f.names[i], line + strlen(wanted),
                       weft_instance_output(f.program, f.fetch[i]), &type);
    }
    end(&f);
}

static void test_golden(void **state)
{
    (void)state;
    const struct {
        const char *device;
        weft_dtype real;
    } on[] = {{"reference", WEFT_F64}, {"reference", WEFT_F32}, {"cpu", WEFT_F32}};
    for (size_t d = 0; d < sizeof(on) / sizeof(on[0]); d++) {
        FILE *file = fopen(WEFT_TESTS_DIR "/golden/recurrences.txt", "r");
        assert_non_null(file);
        for (int i = 0; i < 16; i++)
            golden_case(on[d].device, on[d].real,
                        (kind){.gru = i >> 3 & 1,
                               .states = i >> 2 & 1,
                               .lengths = i >> 1 & 1,
                               .reverse = i & 1},
                        file);
        assert_int_equal(fgetc(file), EOF);
        (void)fclose(file);
    }
}

/* --- threads --- */

/* Runs on `threads` threads, and returns the outputs and the gradients of g and of the states, bit
 * for bit. (The gradient of w is a product of oneDNN's.) */
static float *bits_of(kind k, int threads, int64_t *count)
{
    fixture f = {.device = "cpu", .real = WEFT_F32};
    float *all = NULL;
    start(&f, threads);
    build(&f, k, 13, 5, 21);
    run(&f, NULL);
    *count = 0;
    for (int i = 0; i < f.fetched; i++) {
        if (strcmp(f.names[i], "dw") == 0 || strcmp(f.names[i], "dbias") == 0) continue;
        int64_t n = count_of(&f, i);
        all = realloc(all, (size_t)(*count + n) * sizeof(float));
        memcpy(all + *count, weft_instance_output(f.program, f.fetch[i]),
               (size_t)n * sizeof(float));
        *count += n;
    }
    end(&f);
    return all;
}

static void test_threads(void **state)
{
    (void)state;
    for (int gru = 0; gru < 2; gru++) {
        int64_t count, other;
        kind k = {.gru = gru, .states = true};
        float *one = bits_of(k, 1, &count);
        for (int threads = 2; threads <= 5; threads++) {
            float *many = bits_of(k, threads, &other);
            assert_int_equal(count, other);
            assert_memory_equal(one, many, (size_t)count * sizeof(float));
            free(many);
        }
        free(one);
    }
}

/* --- lengths --- */

/* Rows with a length out of range are NaN; the others are as if they were alone. */
static void test_wrong_lengths(void **state)
{
    (void)state;
    static const int32_t lengths[BATCH] = {7, -1, 0, 8, 5};
    static const char *const devices[] = {"reference", "cpu"};
    for (int i = 0; i < 8; i++) {
        kind k = {.gru = i & 1, .lengths = true, .reverse = i >> 1 & 1};
        fixture f = {.device = devices[i >> 2], .real = WEFT_F32};
        start(&f, 2);
        build(&f, k, BATCH, POSITIONS, UNITS);
        run(&f, lengths);
        for (int64_t n = 0; n < count_of(&f, 0); n++) {
            int64_t b = n / (POSITIONS * UNITS), t = n / UNITS % POSITIONS;
            bool wrong = lengths[b] < 0 || lengths[b] > POSITIONS;
            double y = element(&f, 0, n);
            if (!(wrong ? isnan(y) : isfinite(y) && (y != 0) == (t < lengths[b])))
                fail_msg("%s, case %d: row %d, position %d is %g", f.device, i, (int)b, (int)t, y);
        }
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_wrong_lengths),
    };
    return cmocka_run_group_tests_name("recurrence", tests, NULL, NULL);
}
