/* Checkpoints in the middle of a run whose codecs omit a part of the updates: they have the
 * residuals of every learner. */
#include <math.h>
#include <stdio.h>

#include "exchange_runs.h"
#include "weft/registry.h"

static void assert_back_in_the_middle(const char *words, const char *files)
{
    assert_resumed(words, "steps=9", "steps=9 checkpoint-every=4 keep=9", 4, "steps=9 resume=true",
                   files);
}

/* Servers that wait for all learners apply updates in a fixed order: a run that is resumed from a
 * checkpoint in the middle ends with the bits of an undisturbed run. */
static void test_fixed_order(void **state)
{
    (void)state;
    static const char *const ways[] = {"policy=bsp ranks=3", "policy=ssp,bound=0 ranks=2",
                                       "policy=bsp ranks=4 mesh=data=2",
                                       "policy=bsp ranks=4 mesh=tensor=2"};
    const weft_entry *e;
    char words[500];
    for (int i = 0; (e = weft_context_entry(context, WEFT_KIND_CODEC, i)); i++)
        for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
            if (!in_full() && w != (size_t)i % WEFT_COUNT(ways)) continue;
            bool steps = strcmp(e->name, "threshold") == 0 || strcmp(e->name, "bitmap") == 0;
            bool some = strcmp(e->name, "topk") == 0 || strcmp(e->name, "dgc") == 0;
            (void)snprintf(words, sizeof(words),
                           EXACT "batch=4 optimizer=adam lr=0.01 servers=2 compress-downlink=%s "
                                 "compress=%s%s exchange=server:%s",
                           e->name, e->name,
                           steps  ? ":tau=0.001,adaptive"
                           : some ? ":warmup=6,ratio=0.05"
                                  : "",
                           ways[w]);
            assert_back_in_the_middle(words, "parameters state learners exchange");
        }
}

/* A range that begins in the padding of a parameter resumes with its threshold as well. The model
 * has parameters of 10, 10, 1 and 81 numbers, which padding extends to 16, 16, 8 and 88; of nine
 * ranges, those from 14 and from 28 begin in padding. */
static void test_begins_in_padding(void **state)
{
    (void)state;
    static const char net[] = "layers:\n  - {type: dense, name: a, units: 1}\n"
                              "  - {type: dense, name: b, units: classes}\n";
    char *root = temporary_folder(), model[4200], words[4600];
    write_file(root, "small.yaml", net, sizeof(net) - 1, model, sizeof(model));
    (void)snprintf(words, sizeof(words),
                   EXACT "model=%s batch=4 optimizer=sgd lr=0.1 servers=9 "
                         "compress=threshold:tau=0.001,adaptive compress-downlink=none ranks=2 "
                         "exchange=server:policy=bsp",
                   model);
    assert_back_in_the_middle(words, "parameters exchange");
    remove_folder(root);
}

/* Running statistics of a batch normalisation are in a checkpoint in the middle only for the first
 * learner; its statistics and all else have the bits of an undisturbed run. */
static void test_statistics(void **state)
{
    (void)state;
    static const char net[] = "layers:\n  - {type: dense, units: 9}\n  - {type: batch_norm}\n"
                              "  - {type: relu}\n  - {type: dense, units: classes}\n";
    char *root = temporary_folder(), model[4200], words[4600];
    write_file(root, "norm.yaml", net, sizeof(net) - 1, model, sizeof(model));
    (void)snprintf(words, sizeof(words),
                   EXACT "model=%s batch=4 optimizer=adam lr=0.02 servers=2 ranks=3 "
                         "compress=topk:ratio=0.2 exchange=server:policy=bsp",
                   model);
    assert_back_in_the_middle(words, "parameters state exchange");
    remove_folder(root);
}

/* The weighted sum of the residuals of learners `first` to `last` for one tensor; *learners: how
 * many of them have one. */
static double owed_by(const char *folder, int first, int last, const char *state,
                      const char *tensor, int *learners)
{
    tensors t;
    double sum = 0;
    *learners = 0;
    assert_true(open_tensors(folder, "exchange", &t));
    for (int k = first; k <= last; k++) {
        char name[100];
        (void)snprintf(name, sizeof(name), k ? "%d/%s/%s" : "%.0d%s/%s", k, state, tensor);
        const weft_tensor *p = weft_safetensors_find(&t.all, name);
        for (int64_t i = 0; p && i < weft_shape_elements(&p->shape); i++) {
            double number; /* values lie at any byte of the file */
            memcpy(&number, (const char *)p->data + (size_t)i * sizeof(number), sizeof(number));
            sum += number * (double)(i % 7 + 1);
        }
        *learners += p != NULL;
    }
    close_tensors(&t);
    return sum;
}

static double owed(const char *folder, const char *state, const char *tensor, int *learners)
{
    return owed_by(folder, 0, 15, state, tensor, learners);
}

enum { LEARNERS = 5 };

/* A policy with the number of updates of which it applies the mean. */
typedef struct mean_of {
    const char *policy;
    int of;
} mean_of;

/* A run that is resumed with another number of learners or another policy keeps the effect of the
 * residuals: their sum, or their mean where a version is the mean of several updates. No update is
 * ever sent, since tau is 1e6, so the residuals are the sum of all gradients; the clip norm of the
 * resumed run makes new gradients vanish. */
static void check_resumed(const char *root, mean_of from, mean_of to, int after)
{
    static const char all[] =
        EXACT "batch=4 optimizer=sgd lr=0.1 servers=2 compress=threshold:tau=1e6";
    bool mean = from.of == LEARNERS;
    char words[500];
    int before, now;
    (void)snprintf(words, sizeof(words), "%s-%s-%d", from.policy, to.policy, after);
    const char *folder = made(root, words);
    /* Learners always send their residuals at the end of a run; for a checkpoint in the middle only
     * policies that keep learners together make all of them send. */
    (void)snprintf(words, sizeof(words), "ranks=%d exchange=server:policy=%s %s", LEARNERS,
                   from.policy, mean ? "steps=6 checkpoint-every=3 keep=9" : "steps=3");
    run(all, words, folder, 0);
    if (mean) go_back_to(folder, 3, 6);
    double want = owed(folder, "threshold_residual", "fc1/weight", &before);
    (void)snprintf(words, sizeof(words),
                   "ranks=%d steps=4 resume=true clip-norm=1e-12 exchange=server:policy=%s", after,
                   to.policy);
    run(all, words, folder, 0);
    double have = owed(folder, "threshold_residual", "fc1/weight", &now);
    assert_int_equal(now, after);
    assert_true(fabs(want) > 1e-3);
    want *= (double)to.of / from.of;
    if (fabs(want - have) > 1e-9 * fabs(want))
        fail_msg("%s, then %s: %d learners owe %.17g, should %.17g", from.policy, to.policy, after,
                 have, want);
}

/* A version of softsync is the mean of all learners that are left if these are fewer. */
static void test_other_numbers(void **state)
{
    (void)state;
    static const mean_of policies[] = {{"bsp", LEARNERS},
                                       {"ssp,bound=0", LEARNERS},
                                       {"async", 1},
                                       {"softsync,c=2", 2},
                                       {"softsync,c=4", 4}};
    static const int after[] = {2, 3, 5, 7};
    char *root = temporary_folder();
    for (size_t i = 0; i < WEFT_COUNT(after); i++)
        for (size_t p = 0; p < WEFT_COUNT(policies); p++) {
            mean_of to = policies[p];
            to.of = to.of == LEARNERS ? after[i] : WEFT_MIN(to.of, after[i]);
            check_resumed(root, policies[p], to, after[i]);
        }
    remove_folder(root);
}

static void test_other_policies(void **state)
{
    (void)state;
    static const struct {
        mean_of from, to;
        int after;
    } ways[] = {
        {{"bsp", LEARNERS}, {"async", 1}, LEARNERS},
        {{"async", 1}, {"bsp", LEARNERS}, LEARNERS},
        {{"async", 1}, {"bsp", 3}, 3},
        {{"bsp", LEARNERS}, {"softsync,c=2", 2}, LEARNERS},
        {{"softsync,c=1", 1}, {"ssp,bound=0", 2}, 2},
        {{"softsync,c=4", 4}, {"ssp,bound=1", 1}, 7},
    };
    char *root = temporary_folder();
    for (size_t i = 0; i < WEFT_COUNT(ways); i++)
        check_resumed(root, ways[i].from, ways[i].to, ways[i].after);
    remove_folder(root);
}

/* Where learners do not wait for each other, a checkpoint does not wait either, and has the
 * residuals that have arrived. */
static void test_no_order(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "exchange=server:policy=ssp,bound=1 servers=2 compress=topk:ratio=0.1 keep=99",
        "exchange=gossip:topology=ring compress=topk:ratio=0.1 keep=99",
        "exchange=easgd:every=2 servers=2 compress=topk:ratio=0.1 keep=99"};
    char *root = temporary_folder(), name[10];
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        int learners;
        (void)snprintf(name, sizeof(name), "%zu", w);
        const char *folder = made(root, name);
        run(EXACT "batch=4 ranks=3 steps=30 checkpoint-every=2", ways[w], folder, 0);
        go_back_to(folder, 28, 30);
        (void)owed(folder, "topk_residual", "fc1/weight", &learners);
        if (w == 0) assert_int_equal(learners, 3);
        run(EXACT "batch=4 ranks=3 steps=30 resume=true", ways[w], folder, 0);
        (void)owed(folder, "topk_residual", "fc1/weight", &learners);
        assert_int_equal(learners, 3);
    }
    remove_folder(root);
}

/* Learners push the gradients that they add up (push=N) before a checkpoint, which has the
 * residuals that these pushes leave. No number is ever sent, since tau is 1e6, so residuals are the
 * sums of the gradients so far: those of a run that pushes in every step. The other learner may be
 * at any step. */
static void test_rest_is_pushed(void **state)
{
    (void)state;
    enum { STEPS = 12 };
    static const char words[] = EXACT "batch=4 optimizer=sgd lr=0.1 ranks=2 steps=12 keep=99 "
                                      "checkpoint-every=1 compress=threshold:tau=1e6";
    double want[2][STEPS + 1];
    char *root = temporary_folder();
    const char *a = made(root, "each"), *b = made(root, "rest");
    int there;
    run(words, "exchange=server:policy=bsp", a, 0);
    run(words, "exchange=server:policy=async,push=1000", b, 0);
    for (int s = STEPS; s > 0; s--) {
        go_back_to(a, s, s + 1);
        for (int k = 0; k < 2; k++)
            want[k][s] = owed_by(a, k, k, "threshold_residual", "fc1/weight", &there);
    }
    for (int s = STEPS - 1; s > 0; s--) {
        go_back_to(b, s, s + 1);
        double have = owed_by(b, 0, 0, "threshold_residual", "fc1/weight", &there);
        if (fabs(have - want[0][s]) > 1e-9 * fabs(have))
            fail_msg("step %d: the first learner owes %.17g, should %.17g", s, have, want[0][s]);
        have = owed_by(b, 1, 1, "threshold_residual", "fc1/weight", &there);
        bool known = !there;
        for (int t = 1; t <= STEPS; t++)
            known = known || fabs(have - want[1][t]) <= 1e-9 * fabs(have);
        if (!known) fail_msg("step %d: the second learner owes %.17g, at no step", s, have);
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed_order),    cmocka_unit_test(test_begins_in_padding),
        cmocka_unit_test(test_statistics),     cmocka_unit_test(test_other_numbers),
        cmocka_unit_test(test_other_policies), cmocka_unit_test(test_no_order),
        cmocka_unit_test(test_rest_is_pushed)};
    return cmocka_run_group_tests_name("middle", tests, begin, end);
}
