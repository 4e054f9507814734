/* Recurrent states that carry over from batch to batch: the losses of windows are those of one long
 * window, those of training are PyTorch's with detached states (golden/carried_states.py), and runs
 * resume to the bit, on ranks as well. */
#include <math.h>

#include "exchange_runs.h"

static const char net[] = "layers:\n"
                          "  - {type: embedding, name: tokens, units: 6}\n"
                          "  - {type: lstm, name: one, units: 5}\n"
                          "  - {type: gru, name: two, units: 4}\n"
                          "  - {type: linear, name: head, units: outputs}\n";

static char *root, model[4300];

static void enter(void)
{
    root = temporary_folder();
    write_file(root, "net.yaml", net, strlen(net), model, sizeof(model));
}

/* Writes a text of so many characters, and returns its path. */
static const char *text_of(int size)
{
    static char path[4300], text[1000];
    for (int i = 0; i < size; i++) text[i] = "abcdefg "[(i * i * 7 + i / 3) % 8];
    write_file(root, "text", text, (size_t)size, path, sizeof(path));
    return path;
}

static weft_status train_on(int size, int window, const char *more, const char *folder,
                            int stop_after, log_of_run *l)
{
    char words[10000];
    (void)snprintf(words, sizeof(words),
                   "model=%s data=text:%s,context=%d,test=0 batch=4 threads=1 seed=3 "
                   "optimizer=sgd %s",
                   model, text_of(size), window, more);
    return train(words, folder, stop_after, l);
}

#define REFERENCE "dtype=f64 device=reference "

static double mean_loss(int size, int window, const char *more, int steps)
{
    log_of_run l;
    double sum = 0;
    assert_ok(train_on(size, window, more, NULL, 0, &l));
    assert_int_equal(l.steps, steps);
    for (int i = 0; i < steps; i++) sum += l.loss[i] / steps;
    return sum;
}

/* Four streams of 30 characters: windows of 5, 6 or 15 with states that carry over have the losses
 * of windows of 30. Without the option they begin with zeros. */
static void test_long_window(void **state)
{
    (void)state;
    static const int contexts[] = {5, 6, 15};
    static const char *const ways[] = {"", "ranks=2 mesh=data=2", "ranks=3 mesh=data=3",
                                       "ranks=2 mesh=pipeline=2", "recompute=true"};
    char more[300];
    enter();
    double want = mean_loss(121, 30, REFERENCE "lr=1e-30", 1);
    for (int c = 0; c < 3; c++)
        for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
            (void)snprintf(more, sizeof(more), REFERENCE "lr=1e-30 carry-state=true %s", ways[w]);
            double have = mean_loss(121, contexts[c], more, 30 / contexts[c]);
            if (!(fabs(have - want) < 1e-12))
                fail_msg("%s: windows of %d have the loss %.17g, one of 30 %.17g", ways[w],
                         contexts[c], have, want);
        }
    assert_true(fabs(mean_loss(121, 5, REFERENCE "lr=1e-30", 6) - want) > 1e-6);
    remove_folder(root);
}

/* 22 windows in 4 streams, of which two have one more, in two epochs. */
static void test_golden(void **state)
{
    (void)state;
    log_of_run l;
    FILE *file = fopen(WEFT_TESTS_DIR "/golden/carried_states.txt", "r");
    assert_non_null(file);
    enter();
    assert_ok(train_on(111, 5, REFERENCE "lr=0.5 epochs=2 carry-state=true", NULL, 0, &l));
    assert_int_equal(l.steps, 12);
    for (int i = 0; i < l.steps; i++) {
        double want;
        assert_int_equal(fscanf(file, "%lf", &want), 1);
        if (!(fabs(l.loss[i] - want) < 1e-12))
            fail_msg("step %d has the loss %.17g, must have %.17g", i + 1, l.loss[i], want);
    }
    (void)fclose(file);
    remove_folder(root);
}

/* A run that stops in an epoch, or at its end, goes on with the same bits. */
static void test_resume(void **state)
{
    (void)state;
    static const char *const ways[] = {REFERENCE,
                                       "device=cpu",
                                       REFERENCE "ranks=2 mesh=data=2",
                                       REFERENCE "ranks=3 mesh=data=3 zero=1",
                                       REFERENCE "ranks=2 mesh=tensor=2",
                                       REFERENCE "ranks=2 mesh=pipeline=2"};
    log_of_run l;
    char more[400];
    for (size_t w = 0; w < WEFT_COUNT(ways); w++)
        for (int stop = 4; stop <= 6; stop += 2) {
            enter();
            (void)snprintf(more, sizeof(more), "lr=0.5 epochs=2 carry-state=true %s", ways[w]);
            assert_ok(train_on(111, 5, more, made(root, "a"), 0, &l));
            assert_int_equal(train_on(111, 5, more, made(root, "b"), stop, &l),
                             WEFT_ERR_INTERRUPTED);
            (void)snprintf(more + strlen(more), sizeof(more) - strlen(more), " resume=true");
            assert_ok(train_on(111, 5, more, made(root, "b"), 0, &l));
            assert_same(made(root, "a"), made(root, "b"), "parameters", 0, ways[w]);
            assert_same(made(root, "a"), made(root, "b"), "state", 0, ways[w]);
            remove_folder(root);
        }
}

/* A run that takes up the option begins with zeros. */
static void test_taken_up(void **state)
{
    (void)state;
    log_of_run l;
    enter();
    assert_int_equal(train_on(111, 5, "lr=0.5 epochs=3", made(root, "a"), 6, &l),
                     WEFT_ERR_INTERRUPTED);
    assert_ok(
        train_on(111, 5, "lr=0.5 epochs=3 carry-state=true resume=true", made(root, "a"), 0, &l));
    assert_non_null(strstr(last_note, "--carry-state true instead of false"));
    remove_folder(root);
}

/* A run that gives up the option would lose the states. */
static void test_given_up(void **state)
{
    (void)state;
    log_of_run l;
    enter();
    assert_int_equal(train_on(111, 5, "lr=0.5 epochs=3 carry-state=true", made(root, "a"), 6, &l),
                     WEFT_ERR_INTERRUPTED);
    assert_refused(train_on(111, 5, "lr=0.5 epochs=3 resume=true", made(root, "a"), 0, &l),
                   WEFT_ERR_ARGUMENT,
                   "its run had --carry-state true; go on with the same, or add "
                   "--drop-state");
    assert_ok(
        train_on(111, 5, "lr=0.5 epochs=3 resume=true drop-state=true", made(root, "a"), 0, &l));
    assert_non_null(strstr(last_note, "dropped from the checkpoint of step 6: the state '"));
    remove_folder(root);
}

static void refused(int window, const char *more, const char *says)
{
    log_of_run l;
    if (train_on(111, window, more, NULL, 0, &l) == WEFT_OK || !strstr(weft_last_message(), says))
        fail_msg("%s: '%s' lacks '%s'", more, weft_last_message(), says);
}

static void test_refusals(void **state)
{
    (void)state;
    log_of_run l;
    enter();
    refused(5, "carry-state=true microbatches=2", "--carry-state and --microbatches contradict");
    refused(5, "carry-state=true virtual-workers=2", "--carry-state and --virtual-workers");
    refused(5, "carry-state=true ranks=2 exchange=average", "--carry-state and --exchange");
    refused(4, "carry-state=true ranks=2 mesh=domain=2", "would split the 4 positions");
    refused(5, "carry-state=true model=gpt:layers=1,heads=1,width=4", "has no recurrent layer");
    assert_refused(train(SMALL "batch=4 carry-state=true", NULL, 0, &l), WEFT_ERR_ARGUMENT,
                   "samples each of which continues the one before");
    char words[10000];
    (void)snprintf(words, sizeof(words),
                   "model=%s data=text:%s,context=6,stride=3,test=0 batch=4 carry-state=true",
                   model, text_of(111));
    assert_refused(train(words, NULL, 0, &l), WEFT_ERR_ARGUMENT, "text: or tokens: without stride");
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_window), cmocka_unit_test(test_golden),
        cmocka_unit_test(test_resume),      cmocka_unit_test(test_taken_up),
        cmocka_unit_test(test_given_up),    cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("carry_state", tests, begin, end);
}
