/* The schedule plateau: its measurements against PyTorch's ReduceLROnPlateau
 * (golden/plateau.py), and runs with it, which leave the same bits after a stop in an epoch or at
 * its end, with test data and without, on ranks, and with several learners. */
#include <math.h>

#include "base/learning_rate.h"
#include "exchange_runs.h"

static int find_plateau(void)
{
    int kind = 0;
    while (kind < weft_rate_schedule_count && !weft_rate_schedules[kind].ops.measure) kind++;
    assert_true(kind < weft_rate_schedule_count);
    return kind;
}

static void check_case(FILE *file, const double *keys, double factor, double low, int count)
{
    const int kind = find_plateau();
    const weft_rate_ops *s = &weft_rate_schedules[kind].ops;
    double state[16] = {0};
    const weft_learning_rate rate = {
        .schedule = s,
        .of = {.lr = 1, .gamma = factor, .floor = low, .keys = keys, .measured = state},
        .pace = 1};
    assert_true(s->measures <= 16);
    assert_true(weft_learning_rate_at(&rate, 0) == 1);
    for (int i = 0; i < count; i++) {
        double loss, want;
        assert_int_equal(fscanf(file, "%lf %lf", &loss, &want), 2);
        s->measure(&rate.of, loss, state);
        double have = weft_learning_rate_at(&rate, i);
        if (!(fabs(have - want) <= 1e-14 * want))
            fail_msg("patience %g, threshold %g, cooldown %g: after loss %d the rate is %.17g, "
                     "must be %.17g",
                     keys[0], keys[1], keys[2], i, have, want);
    }
}

static void test_golden(void **state)
{
    (void)state;
    double keys[WEFT_MOST_RATE_KEYS], factor, low;
    int count, cases = 0;
    FILE *file = fopen(WEFT_TESTS_DIR "/golden/plateau.txt", "r");
    assert_non_null(file);
    for (; fscanf(file, "%lf %lf %lf %lf %lf %d", &keys[0], &keys[1], &keys[2], &factor, &low,
                  &count) == 6;
         cases++)
        check_case(file, keys, factor, low, count);
    (void)fclose(file);
    assert_int_equal(cases, 24);
}

#define GLYPHS "glyphs:size=9,train=60,test=20"
#define RUN                                                                                        \
    "model=mlp seed=4 threads=1 optimizer=sgd lr=2 lr-schedule=plateau:patience=0,cooldown=1 "     \
    "gamma=0.5 epochs=7 data="

/* A table of 60 samples, all of them for training. */
static void write_table(const char *root, char *path, size_t size)
{
    char text[4000];
    size_t used = (size_t)snprintf(text, sizeof(text), "a,b,label\n");
    for (int i = 0; i < 60; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%d,%d,%d\n", i * 7 % 13,
                                 i * i % 11, i * 5 % 3);
    write_file(root, "table.csv", text, used, path, size);
}

/* The rate falls, and a run that stops after any step goes on with the same bits. */
static void check_run(const char *words, const char *way, int stop_after, double *last)
{
    char *root = temporary_folder(), more[5000];
    log_of_run l;
    const char *a = made(root, "a"), *b = made(root, "b");
    (void)snprintf(more, sizeof(more), "%s %s", words, way);
    if (train(more, a, 0, &l) != WEFT_OK) fail_msg("%s: %s", more, weft_last_message());
    *last = l.rate[l.steps - 1];
    if (!(l.rate[0] == 2 && *last < 2 && *last > 0)) fail_msg("%s: rates %g, %g", more, 2.0, *last);
    run(more, "", b, stop_after);
    run(more, "resume=true", b, 0);
    assert_same(a, b, "parameters", 0, way);
    assert_same(a, b, "state", 0, way);
    remove_folder(root);
}

static void test_runs(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "batch=12", "batch=12 device=reference dtype=f64 microbatches=2",
        "batch=12 ranks=2 mesh=data=2 zero=1", "batch=12 ranks=2 mesh=pipeline=2 microbatches=3",
        "batch=6 ranks=2 exchange=average:every=3"};
    double rate[2];
    char *folder = temporary_folder(), table[4300], words[5000];
    write_table(folder, table, sizeof(table));
    (void)snprintf(words, sizeof(words), RUN "csv:%s,label=label,test=0 ", table);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        check_run(RUN GLYPHS " ", ways[w], 12 + 3 * (int)(w % 2), &rate[0]);
        check_run(words, ways[w], 13, &rate[1]);
    }
    remove_folder(folder);
}

/* A run that takes up the schedule, or gives it up and so its state, begins with the rate of the
 * other options. */
static void test_other_schedule(void **state)
{
    (void)state;
    static const char base[] = "model=mlp data=glyphs:size=9,train=60,test=20 threads=1 "
                               "optimizer=sgd lr=0.5 batch=12 epochs=4";
    static const char *const schedules[] = {"lr-schedule=plateau:patience=0", ""};
    for (int way = 0; way < 2; way++) {
        char *root = temporary_folder(), words[300];
        log_of_run l;
        (void)snprintf(words, sizeof(words), "%s %s", base, schedules[way]);
        run(words, "", made(root, "a"), 8);
        (void)snprintf(words, sizeof(words), "%s %s resume=true%s", base, schedules[1 - way],
                       way ? "" : " drop-state=true");
        assert_ok(train(words, made(root, "a"), 0, &l));
        assert_true(l.rate[0] == 0.5);
        assert_non_null(strstr(last_note, way ? "the learning rate goes on by"
                                              : "dropped from the checkpoint of step 8: the state "
                                                "'measured'"));
        remove_folder(root);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const char *const exchanges[] = {"server", "easgd", "gossip", "hogwild"};
    log_of_run l;
    char words[400];
    for (size_t i = 0; i < sizeof(exchanges) / sizeof(exchanges[0]); i++) {
        (void)snprintf(words, sizeof(words), RUN GLYPHS " batch=6 ranks=2 exchange=%s",
                       exchanges[i]);
        assert_refused(train(words, NULL, 0, &l), WEFT_ERR_ARGUMENT, "learners of exchange");
    }
    assert_refused(train(SMALL "lr-schedule=plateau:patience=0.5", NULL, 0, &l), WEFT_ERR_ARGUMENT,
                   "must be a whole number");
    assert_refused(train(SMALL "lr-schedule=plateau:patient=1", NULL, 0, &l), WEFT_ERR_ARGUMENT,
                   "did you mean 'patience'");
    assert_refused(train(SMALL "lr-schedule=step:every=1", NULL, 0, &l), WEFT_ERR_ARGUMENT,
                   "learning-rate schedule step: no key is named 'every'; there are none");
    assert_refused(train(SMALL "batch=9 lr-schedule=one-cycle warmup=1", NULL, 0, &l),
                   WEFT_ERR_ARGUMENT, "warmup is 1, but the schedule 'one-cycle' rises by itself");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_other_schedule),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("plateau", tests, begin, end);
}
