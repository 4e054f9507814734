/* Bounds of the numbers that options and the keys of a cluster file accept: both bounds are legal,
 * and the next number beyond each is refused. An option without a row here fails. */
#include <math.h>

#include "cost/cluster.h"
#include "one_context.h"
#include "support.h"

typedef struct limits {
    const char *name;
    double low, high;
} limits;

static const limits run_options[] = {
    {"batch", 1, 1e9},
    {"beta1", 0, 1 - 1e-9},
    {"beta2", 0, 1 - 1e-9},
    {"checkpoint-every", 0, 1e9},
    {"clip-norm", 0, 1e30},
    {"label-smoothing", 0, 0.999999},
    {"decay-every", 1, 1e9},
    {"epochs", 1, 1e9},
    {"epsilon", 1e-30, 1},
    {"evaluate-every", 0, 1e9},
    {"failure-timeout", 1, 1e6},
    {"gamma", 1e-12, 1},
    {"keep", 1, 1e6},
    {"lr", 1e-30, 1e6},
    {"lr-floor", 0, 1e6},
    {"max-restarts", 0, 1e6},
    {"microbatches", 1, 1e6},
    {"momentum", 0, 1 - 1e-9},
    {"noise-scale", 0, 1e9},
    {"patience", 0, 1e9},
    {"ranks", 0, 1024},
    {"replicas", 0, 1},
    {"seed", 0, 9007199254740992},
    {"servers", 0, 1024},
    {"steps", 0, 2e9},
    {"target", 0, 1e30},
    {"threads", 0, 1024},
    {"timeout", 0.1, 1e6},
    {"unfreeze", 0, 1e9},
    {"virtual-workers", 0, 65536},
    {"warmup", 0, 1e9},
    {"weight-decay", 0, 1e6},
    {"zero", 0, 3},
};

static const limits load_options[] = {
    {"connections", 1, 65536}, {"requests", 0, 1e12},   {"rows", 1, 1e6},   {"seconds", 0.001, 1e6},
    {"seed", 0, 9e15},         {"timeout", 0.001, 1e6}, {"warmup", 0, 1e6},
};

static const limits server_options[] = {
    {"body", 1, 4096},      {"connections", 1, 1e6},     {"drain", 0, 86400},
    {"headers", 4, 4096},   {"instances", 1, 64},        {"limit", 1, 4096},
    {"measure", 0, 3600},   {"metrics-port", -1, 65535}, {"patience", 0, 1e6},
    {"port", 0, 65535},     {"processes", 1, 64},        {"rate", 1e-6, 1e9},
    {"rate-limit", 0, 1e9}, {"receive", 1, 86400},       {"requests", 100, 1e8},
    {"seed", 0, 1e15},      {"timeout", 1, 86400},       {"threads", 0, 1024},
    {"waiting", 1, 1e9},    {"watch", 0, 86400},
};

static const limits cluster_keys[] = {
    {"bandwidth", 0, 1e15}, {"latency", 0, 1e6}, {"latency-jitter", 0, 1e6},
    {"lost", 0, 0.999},     {"rate", 1, 1e18},   {"reordered", 0, 0.999},
    {"step", 1e-9, 1e6},    {"twice", 0, 0.999},
};

static const limits group_keys[] = {
    {"awake", 1e-6, 1},         {"bandwidth", 0, 1e15}, {"cores", 1, 4096},
    {"count", 1, 1024},         {"jitter", 0, 1e6},     {"latency", 0, 1e6},
    {"latency-jitter", 0, 1e6}, {"lost", 0, 0.999},     {"period", 1e-6, 1e6},
    {"reordered", 0, 0.999},    {"slow", 0, 1},         {"slowdown", 1, 1e6},
    {"speed", 1e-6, 1e6},       {"twice", 0, 0.999},
};

/* The nearest numbers outside of the bounds. whole: the option is an integer. */
static double below(const limits *l, bool whole)
{
    return whole ? l->low - 1 : nextafter(l->low, -INFINITY);
}

static double above(const limits *l, bool whole)
{
    double next = nextafter(l->high, INFINITY);
    return whole ? fmax(l->high + 1, next) : next;
}

/* --- options --- */

static void check_option(const weft_option *table, const weft_option *o, const limits *l)
{
    static uint64_t target[1024];
    const bool whole = o->kind != WEFT_OPT_REAL;
    const struct {
        double value;
        bool legal;
    } tries[] = {
        {l->low, true}, {l->high, true}, {below(l, whole), false}, {above(l, whole), false}};
    memset(target, 0, sizeof(target));
    assert_ok(weft_options_init_size(table, target, 0));
    for (size_t i = 0; i < WEFT_COUNT(tries); i++) {
        char text[64], says[64];
        (void)snprintf(text, sizeof(text), "%.17g", tries[i].value);
        (void)snprintf(says, sizeof(says), "option '%s' is", o->name);
        weft_status status = weft_options_set(table, target, o->name, text);
        if ((status == WEFT_OK) != tries[i].legal)
            fail_msg("--%s %s is %s; legal is from %g to %g", o->name, text,
                     status == WEFT_OK ? "taken" : "refused", l->low, l->high);
        if (status != WEFT_OK) assert_non_null(strstr(weft_last_message(), says));
    }
    weft_options_free(table, target);
}

static void check_table(const weft_option *table, const limits *all, size_t count)
{
    for (const weft_option *o = table; o->name; o++) {
        if (o->kind == WEFT_OPT_STRING || o->kind == WEFT_OPT_FLAG) continue;
        size_t i = 0;
        while (i < count && strcmp(all[i].name, o->name) != 0) i++;
        if (i == count)
            fail_msg("option '%s' has no row here; it takes from %g to %g", o->name, o->low,
                     o->high);
        check_option(table, o, &all[i]);
    }
}

static void test_options(void **state)
{
    (void)state;
    const weft_option *runs[] = {
        weft_train_table(context),
        weft_eval_table(),
        weft_predict_table(),
        weft_simulate_table(context),
        weft_compare_table(context),
        weft_cluster_table(context, WEFT_CLUSTER_COORDINATOR),
        weft_cluster_table(context, WEFT_CLUSTER_SERVER),
        weft_cluster_table(context, WEFT_CLUSTER_LEARNER),
    };
    for (size_t t = 0; t < WEFT_COUNT(runs); t++)
        check_table(runs[t], run_options, WEFT_COUNT(run_options));
    check_table(weft_load_table(context), load_options, WEFT_COUNT(load_options));
    check_table(weft_server_table(context), server_options, WEFT_COUNT(server_options));
}

/* --- the cluster file --- */

static weft_status open_cluster(const char *before, const char *key, double value)
{
    char path[] = "/tmp/cluster-XXXXXX";
    int64_t learners = 1;
    weft_cluster cluster;
    int file = mkstemp(path);
    assert_true(file >= 0);
    FILE *out = fdopen(file, "w");
    assert_non_null(out);
    fprintf(out, "%s%s: %.17g\n", before, key, value);
    fclose(out);
    weft_status status = weft_cluster_open(path, &learners, &cluster);
    if (status == WEFT_OK) weft_cluster_free(&cluster);
    unlink(path);
    return status;
}

static void check_keys(const char *before, const limits *keys, size_t count)
{
    char says[64];
    for (size_t i = 0; i < count; i++) {
        const limits *l = &keys[i];
        bool whole = strcmp(l->name, "count") == 0 || strcmp(l->name, "cores") == 0;
        (void)snprintf(says, sizeof(says), "option '%s' is", l->name);
        assert_ok(open_cluster(before, l->name, l->low));
        assert_ok(open_cluster(before, l->name, l->high));
        assert_refused(open_cluster(before, l->name, below(l, whole)), WEFT_ERR_ARGUMENT, says);
        assert_refused(open_cluster(before, l->name, above(l, whole)), WEFT_ERR_ARGUMENT, says);
    }
}

static void test_cluster_keys(void **state)
{
    (void)state;
    check_keys("", cluster_keys, WEFT_COUNT(cluster_keys));
    static const char machine[] = "machines:\n  - ";
    check_keys(machine, group_keys, WEFT_COUNT(group_keys));
    assert_ok(open_cluster(machine, "memory", 1));
    assert_ok(open_cluster(machine, "memory", 1e15));
    assert_refused(open_cluster(machine, "memory", 0), WEFT_ERR_ARGUMENT, "memory is 0 bytes");
    assert_refused(open_cluster(machine, "memory", -1), WEFT_ERR_ARGUMENT, "option 'memory' is");
    assert_refused(open_cluster(machine, "memory", 2e15), WEFT_ERR_ARGUMENT, "option 'memory' is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_cluster_keys),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
