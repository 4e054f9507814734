/* Ways to run that promise the same bits, over random data and options: sample weights, lengths of
 * sequences, batches that do not divide the data, any number of learners and servers. Policy bsp,
 * ssp with bound 0 and the simulated run, on any links, leave the same checkpoint, and so does each
 * way when it runs again. In the simulator links delay, lose and reorder messages, so updates
 * arrive in another order in every step. */
#include "simulations.h"

enum { MOST_SAMPLES = 40, POSITIONS = 5, FEATURES = 3, CASES = 12 };

static uint64_t draws;

static uint64_t roll(void)
{
    uint64_t z = draws += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
}
static int between(int low, int high)
{
    return low + (int)(roll() % (uint64_t)(high - low + 1));
}
static double real(void)
{
    return (double)(roll() >> 11) * 0x1p-53;
}
#define ONE_OF(...)                                                                                \
    ((const char *const[]){__VA_ARGS__})[roll() % WEFT_COUNT(((const char *const[]){__VA_ARGS__}))]

/* --- data --- */

/* Writes numbers as an array of numpy, in 8 bytes each if they are real and in 4 otherwise. */
static void write_array(const char *root, const char *name, const double *numbers, int count,
                        const char *shape, bool whole)
{
    char head[128], path[4300], *bytes = calloc(1, sizeof(head) + (size_t)count * 8);
    size_t size = whole ? 4 : 8;
    (void)snprintf(head, sizeof(head), "{'descr': '<%s', 'fortran_order': False, 'shape': (%s), }",
                   whole ? "i4" : "f8", shape);
    memcpy(bytes, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(bytes + 10, ' ', 118);
    memcpy(bytes + 10, head, strlen(head));
    bytes[127] = '\n';
    for (int i = 0; i < count; i++) {
        int32_t number = (int32_t)numbers[i];
        memcpy(bytes + 128 + (size_t)i * size,
               whole ? (const void *)&number : (const void *)&numbers[i], size);
    }
    write_file(root, name, bytes, 128 + (size_t)count * size, path, sizeof(path));
    free(bytes);
}

/* Weights of which some are equal and, with `gaps`, some 0. */
static double weight(bool gaps)
{
    if (gaps && roll() % 5 == 0) return 0;
    return roll() % 4 == 0 ? 1 : 2 * real();
}

static void write_sequences(const char *root, int samples, bool gaps)
{
    double x[MOST_SAMPLES * POSITIONS * FEATURES], y[MOST_SAMPLES], n[MOST_SAMPLES],
        w[MOST_SAMPLES];
    char shape[32];
    for (int i = 0; i < samples; i++) {
        y[i] = between(0, 2);
        n[i] = between(1, POSITIONS);
        w[i] = weight(gaps);
        for (int k = 0; k < POSITIONS * FEATURES; k++)
            x[i * POSITIONS * FEATURES + k] = 2 * real() - 1 + y[i] / 3;
    }
    y[0] = 2; /* all classes occur */
    w[0] = 1;
    (void)snprintf(shape, sizeof(shape), "%d, %d, %d", samples, POSITIONS, FEATURES);
    write_array(root, "x.npy", x, samples * POSITIONS * FEATURES, shape, false);
    (void)snprintf(shape, sizeof(shape), "%d,", samples);
    write_array(root, "y.npy", y, samples, shape, true);
    write_array(root, "n.npy", n, samples, shape, true);
    write_array(root, "w.npy", w, samples, shape, false);
}

static void write_table(const char *root, int samples, bool gaps)
{
    char text[MOST_SAMPLES * 80] = "a,b,c,y,w\n", path[4300];
    for (int i = 0; i < samples; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
                       "%.6f,%.6f,%.6f,%.6f,%.17g\n", real(), real(), real(), 3 * real(),
                       i ? weight(gaps) : 1);
    write_file(root, "t.csv", text, strlen(text), path, sizeof(path));
}

/* Writes data and a model, and appends the options that name them. */
static void draw_data(const char *root, int samples, bool gaps, char *words, size_t room)
{
    static const char table[] = "layers:\n  - {type: dense, units: 7}\n  - {type: tanh}\n"
                                "  - {type: dense, units: outputs}\n";
    static const char sequence[] = "layers:\n  - {type: lstm, units: 4, lengths: n}\n"
                                   "  - {type: sequence_mean, lengths: n}\n"
                                   "  - {type: dense, units: outputs}\n";
    bool long_ones = roll() % 2;
    const char *model = long_ones ? sequence : table;
    char path[4300];
    size_t used = strlen(words);
    write_file(root, "net.yaml", model, strlen(model), path, sizeof(path));
    if (long_ones)
        write_sequences(root, samples, gaps);
    else
        write_table(root, samples, gaps);
    if (long_ones)
        (void)snprintf(words + used, room - used,
                       "model=%s data=npy:x=%s/x.npy,n=%s/n.npy,label=%s/y.npy,weight=%s/w.npy,"
                       "test=0 ",
                       path, root, root, root, root);
    else
        (void)snprintf(words + used, room - used,
                       "model=%s data=csv:%s/t.csv,target=y,weight=w,test=0 ", path, root);
}

/* --- ways --- */

static void same(const char *a, const char *b, const char *why)
{
    static const char *const files[] = {"parameters", "state", "learners", "exchange"};
    for (size_t f = 0; f < WEFT_COUNT(files); f++) assert_same_or_none(a, b, files[f], why);
}

static void draw_words(const char *root, char *words, size_t room)
{
    int samples = between(5, MOST_SAMPLES), learners = between(2, 5);
    int batch = between(1, samples < 9 ? samples : 9), parts = 1;
    if (roll() % 4 == 0) parts = batch;
    (void)snprintf(
        words, room,
        "seed=%d threads=1 device=%s dtype=%s ranks=%d batch=%d microbatches=%d steps=%d "
        "optimizer=%s lr=0.05 lr-schedule=cosine clip-norm=%s ",
        between(0, 99), ONE_OF("reference", "cpu"), ONE_OF("f32", "f64"), learners, batch, parts,
        between(4, 12), ONE_OF("sgd", "adam", "adamw"), ONE_OF("0", "0.3"));
    draw_data(root, samples, roll() % 3 == 0, words, room);
}

/* bsp, ssp with bound 0, and both simulated on good and on bad links. A codec compresses what one
 * server has of a gradient, so with a codec their number is the same. */
static void check_servers(const char *root, const char *words)
{
    static const char bad[] = "step: 0.01\nlatency: 0.02\nlatency-jitter: 0.1\nlost: 0.1\n"
                              "twice: 0.1\nreordered: 0.2\nbandwidth: 1e6\nmachines:\n"
                              "  - {jitter: 0.5, count: %d}\n";
    char way[6][300], text[300], more[9000];
    const char *codec = ONE_OF("", "", "compress=onebit ", "compress=topk:ratio=0.3 ");
    const char *first = made(root, "w0");
    int learners = atoi(strstr(words, "ranks=") + 6);
    (void)snprintf(text, sizeof(text), bad, learners);
    const char *cluster = cluster_file(root, "bad.yaml", text);
    for (int i = 0; i < 6; i++)
        (void)snprintf(way[i], sizeof(way[i]), "exchange=server:policy=%s %s%s%s",
                       i % 2 ? "ssp,bound=0" : "bsp", codec, *codec || i % 3 ? "servers=2 " : "",
                       i < 4 ? "" : "cluster=");
    for (int i = 0; i < 6; i++) {
        told t;
        char name[16];
        (void)snprintf(name, sizeof(name), "w%d", i);
        const char *to = made(root, name);
        (void)snprintf(more, sizeof(more), "%s%s", way[i], i < 4 ? "" : cluster);
        if (i < 3)
            run(words, more, to, 0);
        else
            assert_ok(simulate(words, more, to, &t));
        (void)snprintf(more, sizeof(more), "%s: %s%s", words, i < 3 ? "" : "simulated, ", way[i]);
        same(first, to, more);
    }
}

/* Collectives between learners: a second run has the bits of the first. */
static void check_averages(const char *root, const char *words)
{
    const char *exchange = ONE_OF("exchange=average:every=2", "exchange=oneshot",
                                  "exchange=average:every=3,outer=nesterov,state=average");
    run(words, exchange, made(root, "a"), 0);
    run(words, exchange, made(root, "b"), 0);
    same(made(root, "a"), made(root, "b"), words);
}

static void test_random_runs(void **state)
{
    (void)state;
    int cases = getenv("WEFT_FAST") ? CASES / 3 : CASES;
    for (int i = 0; i < cases; i++) {
        char words[9000], *root = temporary_folder();
        draws = 1000003U * (uint64_t)(i + 1);
        draw_words(root, words, sizeof(words));
        check_servers(root, words);
        if (i % 3 == 0) check_averages(root, words);
        remove_folder(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_runs)};
    return cmocka_run_group_tests(tests, begin, end);
}
