/* The contract of exchanges, held by all that a context knows, and exchanges of the test's own that
 * prove the moments of a step. */
#include "exchanges.h"
#include "formats/safetensors.h"
#include "runs.h"
#include "weft/registry.h"

static char last_note[512];

static void take_log(void *user, weft_log_level level, const char *text)
{
    (void)user;
    if (level == WEFT_LOG_NOTE) (void)snprintf(last_note, sizeof(last_note), "%s", text);
}

static int begin(void **state)
{
    if (setup(state) != 0 || exchanges_register(context) != WEFT_OK) return 1;
    weft_context_set_log(context, take_log, NULL);
    return 0;
}

static int end(void **state)
{
    exchanges_forget();
    return teardown(state);
}

/* --- checkpoints --- */

typedef struct tensors {
    weft_bytes bytes;
    weft_safetensors all;
} tensors;

static bool open_tensors(const char *folder, const char *file, tensors *out)
{
    char path[4300];
    *out = (tensors){.bytes = {0}};
    (void)snprintf(path, sizeof(path), "%s/latest/%s.safetensors", folder, file);
    if (access(path, R_OK) != 0) return false;
    assert_ok(weft_file_map(path, &out->bytes));
    assert_ok(weft_safetensors_parse(path, out->bytes.data, out->bytes.size, &out->all));
    return true;
}

static void close_tensors(tensors *t)
{
    weft_safetensors_free(&t->all);
    weft_file_unmap(&t->bytes);
}

static double distance(const weft_tensor *a, const weft_tensor *b)
{
    double most = 0;
    weft_dtype dtype = strcmp(a->dtype, "F64") == 0   ? WEFT_F64
                       : strcmp(a->dtype, "F32") == 0 ? WEFT_F32
                                                      : WEFT_I32;
    for (int64_t i = 0; i < weft_shape_elements(&a->shape); i++) {
        double d = weft_number_get(dtype, a->data, i) - weft_number_get(dtype, b->data, i);
        most = d > most ? d : -d > most ? -d : most;
    }
    return most;
}

/* The same tensors with the same numbers, up to `close` (0: the same bits). */
static void assert_same(const char *a, const char *b, const char *file, double close,
                        const char *why)
{
    tensors x, y;
    bool has_x = open_tensors(a, file, &x), has_y = open_tensors(b, file, &y);
    if (has_x != has_y) fail_msg("%s: one has no %s", why, file);
    if (has_x && x.all.count != y.all.count)
        fail_msg("%s: %zu and %zu tensors in %s", why, x.all.count, y.all.count, file);
    for (size_t i = 0; has_x && i < x.all.count; i++) {
        const weft_tensor *p = &x.all.tensors[i], *q = weft_safetensors_find(&y.all, p->name);
        if (!q || p->bytes != q->bytes) fail_msg("%s: %s differs in '%s'", why, file, p->name);
        bool same = close == 0 ? memcmp(p->data, q->data, p->bytes) == 0 : distance(p, q) <= close;
        if (!same) fail_msg("%s: '%s' of %s differs by %g", why, p->name, file, distance(p, q));
    }
    close_tensors(&x);
    close_tensors(&y);
}

/* --- runs --- */

#define SMALL "model=mlp data=glyphs:size=9,train=96,test=8 seed=4 threads=1 "
#define EXACT SMALL "dtype=f64 device=reference "

static char *made(const char *root, const char *name)
{
    static char paths[8][4200];
    static int at;
    char *path = paths[at++ % 8];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static void run(const char *words, const char *more, const char *folder, int stop_after)
{
    char all[2000];
    log_of_run l;
    (void)snprintf(all, sizeof(all), "%s %s", words, more);
    weft_status status = train(all, folder, stop_after, &l);
    if (status != WEFT_OK && !(stop_after && status == WEFT_ERR_INTERRUPTED))
        fail_msg("%s: %s", all, weft_last_message());
}

/* --- the moments --- */

/* Sums of gradients over learners, taken range by range while backward goes on, and the run's
 * optimiser in place of the update, are synchronous data parallelism. */
static void test_sums_of_gradients(void **state)
{
    (void)state;
    static const struct {
        const char *together, *learners;
        double close; /* 0: the same order of sums, so the same bits */
    } ways[] = {
        {"ranks=2", "ranks=2", 0},
        {"ranks=3 batch=6", "ranks=3 batch=2", 1e-12},
        {"ranks=4", "ranks=4 batch=2", 1e-12},
        {"ranks=2", "ranks=4 mesh=data=2", 1e-12},
        {"ranks=2", "ranks=4 mesh=tensor=2", 1e-12},
        {"ranks=2", "ranks=4 mesh=pipeline=2 microbatches=2", 1e-12},
        {"ranks=2 microbatches=2", "ranks=2 microbatches=2", 1e-12},
        {"ranks=2 recompute=true", "ranks=2 recompute=true", 0},
    };
    static const char *const optimizers[] = {
        "optimizer=sgd lr=0.5", "optimizer=sgd lr=0.1 momentum=0.9 nesterov=true weight-decay=0.01",
        "optimizer=adam lr=0.01 lr-schedule=cosine warmup=3",
        "optimizer=adamw lr=0.01 weight-decay=0.1 lr-schedule=step decay-every=2"};
    char *root = temporary_folder(), words[900], name[40];
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (size_t o = 0; o < sizeof(optimizers) / sizeof(optimizers[0]); o++) {
            exchanges_forget();
            (void)snprintf(words, sizeof(words), EXACT "batch=8 steps=7 %s", optimizers[o]);
            (void)snprintf(name, sizeof(name), "together-%zu-%zu", w, o);
            const char *a = made(root, name);
            run(words, ways[w].together, a, 0);
            (void)snprintf(words, sizeof(words), EXACT "batch=4 steps=7 exchange=sum %s",
                           optimizers[o]);
            (void)snprintf(name, sizeof(name), "learners-%zu-%zu", w, o);
            const char *b = made(root, name);
            run(words, ways[w].learners, b, 0);
            assert_same(a, b, "parameters", ways[w].close, ways[w].learners);
            assert_true(seen.ready > 0);
            if (!strstr(ways[w].learners, "mesh")) assert_true(seen.early > 0);
        }
    remove_folder(root);
}

/* The same on devices that lay tensors in their own way, or in memory of their own. */
static void test_sums_on_devices(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "reference", "distant"};
    char *root = temporary_folder(), more[200];
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++) {
        const char *a = made(root, "together"), *b = made(root, "learners");
        (void)snprintf(more, sizeof(more),
                       "device=%s model=lenet data=glyphs:size=17,train=96,test=8 ranks=2",
                       devices[d]);
        run(SMALL "batch=8 steps=6 optimizer=adam", more, a, 0);
        run(SMALL "batch=4 steps=6 optimizer=adam exchange=sum", more, b, 0);
        assert_same(a, b, "parameters", 1e-4, devices[d]);
        char command[9000];
        (void)snprintf(command, sizeof(command), "rm -rf '%s' '%s'", a, b);
        assert_int_equal(system(command), 0);
    }
    remove_folder(root);
}

/* What set out after a step takes the place of the parameters before the next one: learner 0 goes
 * its way as if alone, and all end where it does. */
static void test_parameters_from_elsewhere(void **state)
{
    (void)state;
    static const char *const ways[] = {"ranks=2", "ranks=3", "ranks=4 mesh=data=2",
                                       "ranks=2 device=distant dtype=f32",
                                       "ranks=2 device=cpu dtype=f32"};
    char *root = temporary_folder();
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        void *alone;
        exchanges_forget();
        run(EXACT "batch=7 steps=5 exchange=apart", ways[w], NULL, 0);
        assert_memory_not_equal(seen.last[0], seen.last[1], seen.bytes);
        alone = malloc(seen.bytes);
        memcpy(alone, seen.last[0], seen.bytes);
        run(EXACT "batch=7 steps=5 exchange=pull", ways[w], NULL, 0);
        assert_memory_equal(seen.last[0], alone, seen.bytes);
        assert_memory_equal(seen.last[1], alone, seen.bytes);
        free(alone);
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_of_gradients),
        cmocka_unit_test(test_sums_on_devices),
        cmocka_unit_test(test_parameters_from_elsewhere),
    };
    return cmocka_run_group_tests_name("exchange", tests, begin, end);
}
