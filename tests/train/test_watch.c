/* Tests what a run does by its evaluations: --evaluate-every, the mean training loss, --keep-best
 * and --patience. */
#include <math.h>
#include <unistd.h>

#include "context.h"

enum { MOST = 200 };

/* The evaluations of a run, the losses of its steps, and the step at which it is asked to stop. */
typedef struct record {
    weft_trainer *trainer;
    int64_t stop, last;
    double loss[MOST]; /* by step */
    int count;
    struct {
        int64_t step;
        char part[12];
        double value, train, all[12]; /* all: of all figures */
        bool best;
    } eval[MOST];
    char weights[4300]; /* those of the last evaluation; "": of the run */
} record;

static void on_event(void *user, const weft_event *e)
{
    record *r = user;
    weft_figure f;
    if (e->kind == WEFT_EVENT_STEP) {
        r->last = e->step;
        r->loss[e->step] = e->loss;
        if (e->step == r->stop) weft_trainer_stop(r->trainer);
    }
    if (e->kind != WEFT_EVENT_EVAL) return;
    assert_true(r->count < MOST && weft_report_figure(e->report, 1, &f));
    r->eval[r->count].step = e->step;
    (void)snprintf(r->eval[r->count].part, sizeof(r->eval[0].part), "%s", e->report->part);
    r->eval[r->count].value = f.value;
    for (int i = 0; weft_report_figure(e->report, i, &f); i++) r->eval[r->count].all[i] = f.value;
    r->eval[r->count].train = e->train_loss;
    r->eval[r->count++].best = e->best;
    (void)snprintf(r->weights, sizeof(r->weights), "%s", e->path ? e->path : "");
}

static const char COMMON[] =
    "model=mlp data=glyphs:size=9,train=100,test=13 batch=10 optimizer=sgd lr=0.4 threads=1 "
    "epochs=20 validation=0.2 evaluate-every=3";

/* Runs with options that are given as "name=value" words. */
static weft_status train(const char *common, const char *words, const char *folder, record *r)
{
    weft_train_options o = {0};
    const weft_option *table = weft_train_table(context);
    char copy[6000], *save = NULL;
    assert_ok(weft_train_options_init(context, &o));
    (void)snprintf(copy, sizeof(copy), "%s %s", common, words);
    if (folder) assert_ok(weft_options_set(table, &o, "checkpoint", folder));
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, w, equals + 1));
    }
    weft_status status = weft_trainer_create(context, &o, &r->trainer);
    if (status == WEFT_OK) status = weft_trainer_run(r->trainer, on_event, r);
    weft_trainer_destroy(&r->trainer);
    weft_options_free(table, &o);
    return status;
}

/* The evaluations come every three steps and after each epoch of eight; the training loss is the
 * mean of the steps since the last one. */
static void test_evaluations(void **state)
{
    (void)state;
    record r = {0};
    assert_ok(train(COMMON, "steps=13", NULL, &r));
    static const int64_t steps[] = {3, 6, 8, 9, 12, 13, 13};
    assert_int_equal(r.count, 7);
    int64_t before = 0;
    for (int i = 0; i < 7; i++) {
        double sum = 0;
        assert_int_equal(r.eval[i].step, steps[i]);
        assert_string_equal(r.eval[i].part, i < 6 ? "validation" : "test");
        for (int64_t s = before + 1; s <= steps[i]; s++) sum += r.loss[s];
        double mean = sum / (double)(steps[i] - before);
        assert_true(i < 6 ? fabs(r.eval[i].train - mean) < 1e-12 : isnan(r.eval[i].train));
        assert_false(r.eval[i].best);
        before = steps[i];
    }
}

/* Checks a whole run by the rule: the best evaluation is the first of the greatest value, and the
 * run ends `patience` evaluations after it. Returns the step of the best one. */
static int64_t check_by_rule(const record *r, int patience)
{
    double best = -1;
    int64_t best_step = 0;
    int waited = 0, i = 0;
    for (; i < r->count && waited < patience; i++) {
        bool better = r->eval[i].value > best;
        assert_int_equal(r->eval[i].best, better);
        waited = better ? 0 : waited + 1;
        if (better) best_step = r->eval[i].step;
        if (better) best = r->eval[i].value;
    }
    assert_int_equal(waited, patience);
    assert_int_equal(r->last, r->eval[i - 1].step);
    assert_string_equal(r->eval[i].part, "test");
    assert_int_equal(r->count, i + 1);
    return best_step;
}

static void check_best(const char *folder, int64_t step, double value)
{
    char path[4300], to[64] = "", name[64];
    weft_eval_options o = {0};
    weft_report report;
    weft_figure f;
    (void)snprintf(path, sizeof(path), "%s/best", folder);
    (void)snprintf(name, sizeof(name), "step-%d", (int)step);
    assert_true(readlink(path, to, sizeof(to) - 1) > 0);
    assert_string_equal(to, name);
    assert_ok(weft_options_init(weft_eval_table(), &o));
    assert_ok(weft_options_set(weft_eval_table(), &o, "checkpoint", path));
    assert_ok(weft_options_set(weft_eval_table(), &o, "split", "validation"));
    assert_ok(weft_evaluate(context, &o, &report));
    assert_true(weft_report_figure(&report, 1, &f) && f.value == value);
    weft_report_free(&report);
    weft_options_free(weft_eval_table(), &o);
}

/* The run ends with the test of the weights that DIR/best has, on any number of ranks. */
static void test_best_is_tested(void **state)
{
    (void)state;
    static const char *const ways[] = {"ranks=1",
                                       "ranks=2",
                                       "ranks=2 zero=3",
                                       "ranks=1 ema=0.9",
                                       "ranks=2 mesh=tensor=2",
                                       "ranks=2 exchange=average:every=3 batch=5"};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        char *root = temporary_folder(), words[200], best[4300];
        record r = {0};
        weft_eval_options o = {0};
        weft_report report;
        (void)snprintf(words, sizeof(words), "keep-best=accuracy patience=4 keep=1 %s", ways[i]);
        (void)snprintf(best, sizeof(best), "%s/best", root);
        assert_ok(train(COMMON, words, root, &r));
        assert_string_equal(r.weights, best);
        assert_string_equal(r.eval[r.count - 1].part, "test");
        assert_int_equal(r.eval[r.count - 1].step, r.last);
        assert_ok(weft_options_init(weft_eval_table(), &o));
        assert_ok(weft_options_set(weft_eval_table(), &o, "checkpoint", best));
        assert_ok(weft_evaluate(context, &o, &report));
        double off = fabs(r.eval[r.count - 1].all[0] - report.loss);
        if (!(off <= 1e-5 * report.loss))
            fail_msg("%s: the test loss is %.9g, and that of the best weights %.9g", ways[i],
                     r.eval[r.count - 1].all[0], report.loss);
        weft_report_free(&report);
        weft_options_free(weft_eval_table(), &o);
        remove_folder(root);
    }
}

static double value_at(const record *r, int64_t step)
{
    for (int i = 0; i < r->count; i++)
        if (r->eval[i].step == step) return r->eval[i].value;
    return NAN;
}

/* A run that is stopped at any step and goes on has the evaluations of one that is not. */
static void test_patience(void **state)
{
    (void)state;
    static const char words[] = "keep-best=accuracy patience=5 keep=1";
    char *root = temporary_folder(), folder[4200], more[200];
    record whole = {0};
    (void)snprintf(folder, sizeof(folder), "%s/whole", root);
    assert_ok(train(COMMON, words, folder, &whole));
    int64_t best = check_by_rule(&whole, 5);
    check_best(folder, best, value_at(&whole, best));
    for (int64_t stop = 2; stop < whole.last; stop += 1 + whole.last / 4) {
        record first = {.stop = stop}, rest = {0};
        (void)snprintf(folder, sizeof(folder), "%s/%d", root, (int)stop);
        assert_int_equal(train(COMMON, words, folder, &first), WEFT_ERR_INTERRUPTED);
        (void)snprintf(more, sizeof(more), "%s resume=true ranks=%d", words, 1);
        assert_ok(train(COMMON, more, folder, &rest));
        assert_int_equal(first.count + rest.count, whole.count);
        assert_memory_equal(first.eval, whole.eval, (size_t)first.count * sizeof(*whole.eval));
        for (int i = 0; i < rest.count; i++) {
            int k = first.count + i;
            assert_int_equal(rest.eval[i].step, whole.eval[k].step);
            assert_true(rest.eval[i].value == whole.eval[k].value);
            assert_true(rest.eval[i].train == whole.eval[k].train || isnan(whole.eval[k].train));
            assert_int_equal(rest.eval[i].best, whole.eval[k].best);
        }
        check_best(folder, best, value_at(&whole, best));
    }
    /* A run that has ended goes on with more patience alone. */
    record again = {0}, longer = {0};
    (void)snprintf(folder, sizeof(folder), "%s/whole", root);
    (void)snprintf(more, sizeof(more), "%s resume=true", words);
    assert_ok(train(COMMON, more, folder, &again));
    assert_int_equal(again.last, 0);
    assert_ok(train(COMMON, "keep-best=accuracy patience=6 keep=1 resume=true", folder, &longer));
    assert_true(longer.last > whole.last);
    remove_folder(root);
}

/* Learners in lock step decide together, by the mean of their evaluations. */
static void test_learners(void **state)
{
    (void)state;
    char *root = temporary_folder();
    record r = {0};
    assert_ok(train(COMMON,
                    "exchange=average:every=3 ranks=2 batch=5 keep-best=accuracy patience=4", root,
                    &r));
    assert_true(r.last > 0 && r.last < 160);
    remove_folder(root);
}

/* Metrics of counts and of scores have the same bits on any number of ranks; the loss, which is a
 * sum of their numbers, and what follows from it, nearly so. */
static void test_metrics(void **state)
{
    (void)state;
    enum { FIGURES = 9, LOSS = 0, PERPLEXITY = 8 };
    static const char *const ways[] = {"ranks=1", "ranks=2", "ranks=4", "ranks=2 zero=3"};
    record first = {0};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        record r = {0};
        char words[300];
        (void)snprintf(words, sizeof(words),
                       "batch=12 epochs=1 virtual-workers=4 "
                       "metric=auc,top5,precision_macro,recall_macro,iou_macro,perplexity %s",
                       ways[i]);
        assert_ok(train(COMMON, words, NULL, &r));
        if (i == 0) first = r;
        assert_int_equal(r.count, 4);
        for (int k = 0; k < r.count; k++)
            for (int f = 0; f < FIGURES; f++) {
                double off = fabs(r.eval[k].all[f] - first.eval[k].all[f]);
                bool summed = f == LOSS || f == PERPLEXITY;
                if (!(off <= (summed ? 1e-5 * first.eval[k].all[f] : 0)))
                    fail_msg("%s: figure %d after step %d is %.17g, not %.17g", ways[i], f,
                             (int)r.eval[k].step, r.eval[k].all[f], first.eval[k].all[f]);
            }
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words, *sentence;
    } cases[] = {
        {"keep-best=loss", "keep-best chooses by an evaluation, and test data that have chosen no "
                           "longer judge; give --validation SHARE or other data"},
        {"patience=3", "patience chooses by an evaluation"},
        {"validation=0.2 keep-best=r2",
         "keep-best is 'r2', must be of the metrics of classes: loss, "},
        {"metric=auc,rmse", "metric is 'auc,rmse', must be of the metrics of classes: loss, "},
        {"metric=auc,aoc", "metric 'auc,aoc': no metric is named 'aoc'"},
        {"validation=0.2 keep-best=loss exchange=server ranks=2",
         "learners of exchange server are at different steps"},
        {"validation=0.2 patience=1 exchange=gossip ranks=2",
         "patience follows evaluations that all learners make at the same step"},
    };
    char *root = temporary_folder();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        record r = {0};
        weft_status status =
            train("model=mlp data=glyphs:size=9,train=100,test=13", cases[i].words, root, &r);
        assert_refused(status, WEFT_ERR_ARGUMENT, cases[i].sentence);
    }
    record r = {0};
    assert_refused(train(COMMON, "keep-best=loss", NULL, &r), WEFT_ERR_ARGUMENT,
                   "keep-best is 'loss', and there is no --checkpoint DIR that keeps anything");
    assert_ok(train(COMMON, "epochs=2 keep-best=loss patience=9", NULL, &r));
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluations),    cmocka_unit_test(test_patience),
        cmocka_unit_test(test_best_is_tested), cmocka_unit_test(test_learners),
        cmocka_unit_test(test_metrics),        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("watch", tests, setup, teardown);
}
