/* Training runs of learners without lock step, from the options to the checkpoint. No part of an
 * update is lost, ranks of a learner have equal parameters, all learners end together, and
 * checkpoints keep the codecs' state. */
#include <math.h>

#include "exchange_runs.h"
#include "checked_exchanges.h"
#include "weft/registry.h"

/* Asserts that each learner ends with the initial parameters plus the changes of all learners, less
 * the residuals of their codecs: to the bit, in whatever order updates arrived. */
static void assert_balanced(const char *why)
{
    for (int64_t i = 0; i < balanced.count; i++) {
        double have = balanced.first[i] + balanced.changed[i];
        for (int k = 0; k < BALANCED; k++)
            if (balanced.residual[k]) have -= balanced.residual[k][i];
        for (int k = 0; k < BALANCED; k++)
            if (balanced.last[k] && balanced.last[k][i] != have)
                fail_msg("%s: learner %d has %.17g at %lld, should be %.17g", why, k,
                         balanced.last[k][i], (long long)i, have);
    }
}

static const char *const topologies[] = {"all", "ring", "torus", "random"};
#define STEPS(n) EXACT "batch=4 optimizer=sgd lr=0.3 seed=2 steps=" #n " "

static void test_updates(void **state)
{
    (void)state;
    static const char *const codecs[] = {"",
                                         "compress=none",
                                         "compress=threshold:tau=0.0078125",
                                         "compress=bitmap:tau=0.0078125",
                                         "compress=bf16",
                                         "compress=topk:ratio=0.1",
                                         "compress=threshold:tau=0.0078125,warmup=3"};
    char words[400];
    for (size_t t = 0; t < WEFT_COUNT(topologies); t++)
        for (int peers = 2; peers <= 5; peers++) {
            const char *codec = codecs[(4 * t + (size_t)peers) % WEFT_COUNT(codecs)];
            if (!in_full() && (t + (size_t)peers) % 2) continue;
            balance_forget();
            (void)snprintf(words, sizeof(words), "ranks=%d exchange=balanced:topology=%s %s", peers,
                           topologies[t], codec);
            run(STEPS(12), words, NULL, 0);
            assert_balanced(words);
            for (int k = 0; k < peers; k++) assert_int_equal(balanced.steps[k], 12);
        }
    balance_forget();
}

/* In the mode average nothing is compressed, and halves are rounded: each learner ends with the
 * initial parameters plus the mean change, up to 1e-12. */
static void test_average(void **state)
{
    (void)state;
    char words[400];
    for (size_t t = 0; t < WEFT_COUNT(topologies); t++)
        for (int peers = 2; peers <= 5; peers++) {
            if (!in_full() && (t + (size_t)peers) % 2) continue;
            balance_forget();
            (void)snprintf(words, sizeof(words),
                           "ranks=%d exchange=balanced:topology=%s,mode=average", peers,
                           topologies[t]);
            run(STEPS(12), words, NULL, 0);
            for (int64_t i = 0; i < balanced.count; i++)
                for (int k = 0; k < peers; k++)
                    assert_true(fabs(balanced.last[k][i] - balanced.first[i] -
                                     balanced.changed[i] / peers) < 1e-12);
        }
    balance_forget();
}

/* Checkpoints keep the residuals: over a stop after step 5 and a resumed run to step 11, no part of
 * an update is lost. */
static void test_residuals_go_on(void **state)
{
    (void)state;
    static const char *const codecs[] = {"threshold:tau=0.0625", "topk:ratio=0.02", "bf16"};
    char *root = temporary_folder(), words[400];
    for (size_t c = 0; c < WEFT_COUNT(codecs); c++) {
        const char *folder = made(root, codecs[c]);
        balance_forget();
        (void)snprintf(words, sizeof(words), "ranks=3 exchange=balanced:topology=ring compress=%s",
                       codecs[c]);
        run(STEPS(5), words, folder, 0);
        assert_balanced(words);
        (void)snprintf(words + strlen(words), sizeof(words) - strlen(words), " resume=true");
        run(STEPS(11), words, folder, 0);
        assert_balanced(words);
        assert_non_null(balanced.residual[2]);
        for (int k = 0; k < 3; k++) assert_int_equal(balanced.steps[k], 11);
    }
    balance_forget();
    remove_folder(root);
}

/* Learners that are asked to stop after step 6 all stop before the end, and the resumed run loses
 * no update. */
static void test_stop(void **state)
{
    (void)state;
    static const char *const ways[] = {"exchange=balanced compress=threshold:tau=0.0078125",
                                       "exchange=balanced:topology=ring compress=topk:ratio=0.1"};
    char *root = temporary_folder(), words[400];
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        const char *folder = made(root, w ? "b" : "a");
        balance_forget();
        (void)snprintf(words, sizeof(words), "ranks=3 %s", ways[w]);
        run(STEPS(40), words, folder, 6);
        assert_balanced(words);
        assert_true(balanced.steps[0] < 40);
        (void)snprintf(words, sizeof(words), "ranks=3 resume=true %s", ways[w]);
        run(STEPS(40), words, folder, 0);
        assert_balanced(words);
    }
    balance_forget();
    remove_folder(root);
}

/* A stop in the last step of the first learner ends the others where they are, and the run says
 * that it was stopped. How far the others are is chance, so there are several tries. */
static void test_stop_after_the_first_learner(void **state)
{
    (void)state;
    static const char *const ways[] = {"server:policy=async", "gossip", "hogwild"};
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        char words[400];
        log_of_run log;
        weft_status status = WEFT_OK;
        (void)snprintf(words, sizeof(words), STEPS(60) " ranks=4 exchange=%s", ways[w]);
        for (int i = 0; i < 40 && status == WEFT_OK; i++) status = train(words, NULL, 60, &log);
        assert_refused(status, WEFT_ERR_INTERRUPTED, "the first learner had finished all 60 steps");
    }
}

/* Writes the specification of a codec with those of the keys that its form has: a short warm-up,
 * and values with which it omits something after that. */
static void write_spec(const weft_entry *e, int warmup, char *out, size_t size)
{
    static const char *const keys[][2] = {
        {"[:tau=", "tau=0.001"}, {"adaptive", "adaptive"}, {"[:ratio=", "ratio=0.05"}};
    size_t used = (size_t)snprintf(out, size, "%s", e->name);
    if (!e->form || !strstr(e->form, "warmup=")) return;
    used += (size_t)snprintf(out + used, size - used, ":warmup=%d", warmup);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strstr(e->form, keys[i][0]))
            used += (size_t)snprintf(out + used, size - used, ",%s", keys[i][1]);
}

/* Synchronous servers apply updates in a fixed order. With each codec in both directions, a run
 * that is stopped and resumed, in the warm-up of the codec or after it, has the bits of one without
 * a stop, and checkpoints on the way change nothing. */
static void test_resumed_codecs(void **state)
{
    (void)state;
    const weft_entry *e;
    char words[500], spec[100];
    for (int i = 0; (e = weft_context_entry(context, WEFT_KIND_CODEC, i)); i++)
        for (int way = 0; way < 4; way++) {
            int mesh = 1 + way / 2;
            if (!in_full() && mesh != 1 + i % 2) continue;
            write_spec(e, way % 2 ? 2 : 6, spec, sizeof(spec));
            (void)snprintf(words, sizeof(words),
                           EXACT "exchange=server:policy=bsp servers=2 batch=4 optimizer=adam "
                                 "lr=0.01 ranks=%d mesh=data=%d compress=%s compress-downlink=%s",
                           2 * mesh, mesh, spec, spec);
            assert_resumed(words, "steps=9", "steps=4 checkpoint-every=3", 0,
                           "steps=9 resume=true checkpoint-every=2",
                           "parameters state learners exchange");
        }
}

/* The ranks of a learner that hold the same shard keep equal parameters, bit for bit, whenever
 * messages arrive. */
static void test_ranks_are_alike(void **state)
{
    (void)state;
    static const char *const meshes[] = {"data=2", "tensor=2", "pipeline=2 microbatches=2",
                                         "data=2,tensor=2"};
    static const int ranks[] = {4, 6, 4, 8};
    static const struct {
        const char *name, *more;
    } more[] = {{"watched_server", ":policy=async servers=3 compress=threshold:tau=0.001"},
                {"watched_server", ":policy=softsync,c=2,scale=inverse servers=2"},
                {"watched_gossip", ":topology=ring compress=topk:ratio=0.1"},
                {"watched_gossip", ":mode=average,topology=ring"}};
    const weft_entry *e;
    char words[300];
    for (size_t m = 0; m < WEFT_COUNT(meshes); m++) {
        (void)snprintf(words, sizeof(words),
                       SMALL "device=cpu steps=15 batch=4 mesh=%s ranks=%d exchange=", meshes[m],
                       ranks[m]);
        size_t size = strlen(words);
        if (!in_full() && m % 3) continue;
        for (size_t i = 0; i < WEFT_COUNT(more); i++) {
            if (!in_full() && (i + m) % 2) continue;
            (void)snprintf(words + size, sizeof(words) - size, "%s%s", more[i].name, more[i].more);
            run(words, "", NULL, 0);
        }
        for (int i = 0; (e = weft_context_entry(context, WEFT_KIND_EXCHANGE, i)); i++) {
            if (strncmp(e->name, "watched_", 8) != 0 || strcmp(e->name, "watched_fail") == 0)
                continue;
            if (!in_full() && (i + (int)m / 3) % 2) continue;
            (void)snprintf(words + size, sizeof(words) - size, "%s", e->name);
            run(words, "", NULL, 0);
        }
    }
}

static int begin_watching(void **state)
{
    return begin(state) != 0 || watched_register(context) != WEFT_OK ||
           balanced_register(context) != WEFT_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates),         cmocka_unit_test(test_average),
        cmocka_unit_test(test_residuals_go_on), cmocka_unit_test(test_stop),
        cmocka_unit_test(test_resumed_codecs),  cmocka_unit_test(test_stop_after_the_first_learner),
        cmocka_unit_test(test_ranks_are_alike),
    };
    return cmocka_run_group_tests(tests, begin_watching, end);
}
