/* Compares optimizers, learning-rate schedules, gradient clipping and evaluation metrics of runs
 * with the same computed independently, in plain C. */
#include <math.h>

#include "onehot_data.h"
#include "trainer_runs.h"

/* --- optimizers, schedules and clipping, with all training rows in one batch --- */

/* A setting of optimizer, schedule and clipping: as options, and as numbers for the oracle. */
typedef struct course {
    const char *words;
    rule how;
    double rate, clip; /* clip 0: no clipping */
    int kind, warmup, every;
    double gamma, floor;
} course;

enum { COURSE_STEPS = 7 };

static const course courses[] = {
    {"optimizer=sgd lr=1", {.name = "sgd"}, 1, 0, 0, 0, 1, 1, 0},
    {"optimizer=sgd lr=0.5 momentum=0.9 weight-decay=0.1",
     {"sgd", .9, .1, 0, 0, 0},
     .5,
     0,
     0,
     0,
     1,
     1,
     0},
    {"optimizer=sgd lr=0.5 momentum=0.9 nesterov=true",
     {"nesterov", .9, 0, 0, 0, 0},
     .5,
     0,
     0,
     0,
     1,
     1,
     0},
    {"optimizer=adam lr=0.1 weight-decay=0.2",
     {"adam", 0, .2, .9, .999, 1e-8},
     .1,
     0,
     0,
     0,
     1,
     1,
     0},
    {"optimizer=adamw lr=0.1 weight-decay=0.2 beta1=0.8 beta2=0.9 epsilon=0.01",
     {"adamw", 0, .2, .8, .9, .01},
     .1,
     0,
     0,
     0,
     1,
     1,
     0},
    {"optimizer=sgd lr=1 clip-norm=0.01", {.name = "sgd"}, 1, .01, 0, 0, 1, 1, 0},
    {"optimizer=sgd lr=1 clip-norm=100", {.name = "sgd"}, 1, 100, 0, 0, 1, 1, 0},
    {"optimizer=sgd lr=1 clip-norm=0.15 lr-schedule=step decay-every=2 gamma=0.5 warmup=2",
     {.name = "sgd"},
     1,
     .15,
     1,
     2,
     2,
     .5,
     0},
    {"optimizer=sgd lr=1 lr-schedule=step decay-every=3 gamma=0.1",
     {.name = "sgd"},
     1,
     0,
     1,
     0,
     3,
     .1,
     0},
    {"optimizer=sgd lr=1 lr-schedule=cosine warmup=3 lr-floor=0.1",
     {.name = "sgd"},
     1,
     0,
     2,
     3,
     1,
     1,
     .1},
};

/* Devices, meshes and ways to cut the batch, all of which must give the same weights. */
static const char *const ways[] = {"device=reference",
                                   "device=cpu",
                                   "device=reference microbatches=5",
                                   "device=reference virtual-workers=6 ranks=2",
                                   "device=reference virtual-workers=6 ranks=2 zero=2",
                                   "device=cpu virtual-workers=12 ranks=3 zero=3",
                                   "device=cpu virtual-workers=10 ranks=5",
                                   "device=reference ranks=3 zero=3",
                                   "device=reference ranks=2 mesh=tensor=2",
                                   "device=cpu ranks=4 mesh=data=2,tensor=2 zero=1"};

/* The learning rate as it should be: linear warm-up to the rate; after it constant, dropped by
 * gamma every so many steps, or half a cosine down to the floor over the remaining steps. */
static double rate_of(const course *c, int step, int total)
{
    int at = step - c->warmup;
    if (at < 0) return c->rate * (step + 1) / c->warmup;
    if (c->kind == 1) return c->rate * pow(c->gamma, at / c->every);
    if (c->kind == 0) return c->rate;
    if (step >= total) return c->floor;
    return c->floor + (c->rate - c->floor) * (1 + cos(M_PI * at / (total - c->warmup))) / 2;
}

/* The norm of the mean loss's gradient, over the training rows. */
static double norm_of(const row rows[ROWS], const bool test[ROWS])
{
    double sum = 0;
    for (int i = 0; i < ROWS; i++) {
        numbers p;
        softmax_of(rows[i].w, p);
        for (int c = 0; c < CLASSES && !test[i]; c++)
            sum += pow((p[c] - (c == label_of(i))) / TRAIN_ROWS, 2);
    }
    return sqrt(sum);
}

static void check_course(const course *c, const char *how, const char *folder,
                         const row start[ROWS], const bool test[ROWS], const log_of_run *l)
{
    row rows[ROWS], now[ROWS];
    memcpy(rows, start, sizeof(rows));
    for (int step = 1; step <= COURSE_STEPS; step++) {
        double norm = norm_of(rows, test), rate = rate_of(c, step - 1, COURSE_STEPS), loss = 0;
        double scale = c->clip > 0 && norm > c->clip ? c->clip / norm : 1;
        read_rows(folder, step, 0, NULL, now);
        if (fabs(l->rate[step - 1] - rate) > 1e-12)
            fail_msg("%s: step %d: the rate is %.15g, not %.15g", c->words, step, l->rate[step - 1],
                     rate);
        for (int i = 0; i < ROWS; i++) {
            if (!test[i]) loss += loss_of(rows[i].w, label_of(i)) / TRAIN_ROWS;
            update_row(&c->how, &rows[i], label_of(i), test[i] ? 0 : 1.0 / TRAIN_ROWS, scale, rate,
                       step);
            if (distance(rows[i].w, now[i].w) > 1e-9)
                fail_msg("%s %s: step %d: row %d is %g away", c->words, how, step, i,
                         distance(rows[i].w, now[i].w));
        }
        if (fabs(loss - l->loss[step - 1]) > 1e-9)
            fail_msg("%s %s: step %d: the loss is %.15g, not %.15g", c->words, how, step,
                     l->loss[step - 1], loss);
    }
}

static void test_courses(void **state)
{
    (void)state;
    char *folder = temporary_folder(), data[4400], base[4500];
    row start[ROWS];
    bool test[ROWS];
    write_rows(folder, NULL, 0, 0.2, data, sizeof(data));
    (void)snprintf(base, sizeof(base), "%s dtype=f64", data);
    initial_rows(folder, base, start);
    find_test_rows(folder, base, start, test);
    for (size_t n = 0; n < sizeof(courses) / sizeof(courses[0]); n++)
        for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
            char words[8000], path[4200];
            log_of_run l;
            (void)snprintf(words, sizeof(words),
                           "%s %s %s batch=%d steps=%d checkpoint-every=1 keep=1000 threads=1",
                           base, courses[n].words, ways[w], TRAIN_ROWS, COURSE_STEPS);
            (void)snprintf(path, sizeof(path), "%s/%zu-%zu", folder, n, w);
            assert_ok(train(words, path, 0, &l));
            assert_int_equal(l.steps, COURSE_STEPS);
            check_course(&courses[n], ways[w], path, start, test, &l);
        }
    remove_folder(folder);
}

/* --- metrics of an evaluation --- */

typedef struct figures {
    int samples, right;
    double loss, f1;
    int64_t confusion[CLASSES][CLASSES];
} figures;

static figures figures_of(const row rows[ROWS], const int *which, int count)
{
    figures f = {.samples = count};
    int present = 0;
    for (int n = 0; n < count; n++) {
        int i = which[n], label = label_of(i), best = best_of(rows[i].w);
        f.loss += loss_of(rows[i].w, label) / count;
        f.right += best == label;
        f.confusion[label][best]++;
    }
    for (int c = 0; c < CLASSES; c++) {
        double hit = 0, told = 0, true_ones = 0;
        for (int n = 0; n < count; n++) {
            bool is = label_of(which[n]) == c, said = best_of(rows[which[n]].w) == c;
            hit += is && said;
            told += said;
            true_ones += is;
        }
        if (told + true_ones == 0) continue;
        double precision = told > 0 ? hit / told : 0, recall = true_ones > 0 ? hit / true_ones : 0;
        present++;
        if (hit > 0) f.f1 += 2 * precision * recall / (precision + recall);
    }
    f.f1 /= present;
    return f;
}

static void check_report(const figures *want, const weft_report *r)
{
    assert_int_equal(r->samples, want->samples);
    assert_int_equal(r->classes, CLASSES);
    assert_true(fabs(r->loss - want->loss) < 2e-6);
    assert_true(fabs(r->accuracy - (double)want->right / want->samples) < 1e-12);
    assert_true(fabs(r->f1_macro - want->f1) < 1e-12);
    assert_memory_equal(r->confusion, want->confusion, sizeof(want->confusion));
}

typedef struct seen {
    const row *rows;
    const int *which;
    int count;
} seen;

static void on_prediction(void *user, const weft_prediction *said)
{
    seen *s = user;
    numbers p;
    assert_true(said->sample >= s->count); /* the row in the file */
    int i = s->which[s->count++];
    assert_int_equal(said->classes, CLASSES);
    assert_int_equal(said->targets, 0);
    assert_int_equal(said->label, label_of(i));
    assert_int_equal(said->predicted, best_of(s->rows[i].w));
    assert_null(said->class_names); /* named by their own numbers */
    softmax_of(s->rows[i].w, p);
    for (int c = 0; c < CLASSES; c++)
        assert_true(fabs((double)said->probabilities[c] - p[c]) < 1e-6);
}

/* Evaluates and predicts one part of the data. data NULL: the data of the run. which: the rows of
 * that part, in the order of the file. */
static void check_part(const char *checkpoint, const char *data, const char *split,
                       const row rows[ROWS], const int *which, int count)
{
    weft_eval_options e = {0};
    weft_report r;
    figures want = figures_of(rows, which, count);
    seen s = {rows, which, 0};
    assert_ok(weft_options_init(weft_eval_table(), &e));
    assert_ok(weft_options_set(weft_eval_table(), &e, "checkpoint", checkpoint));
    assert_ok(weft_options_set(weft_eval_table(), &e, "split", split));
    assert_ok(weft_options_set(weft_eval_table(), &e, "batch", "4"));
    if (data) assert_ok(weft_options_set(weft_eval_table(), &e, "data", data));
    assert_ok(weft_evaluate(context, &e, &r));
    check_report(&want, &r);
    weft_report_free(&r);
    assert_ok(weft_predict(context, &e, on_prediction, &s));
    assert_int_equal(s.count, count);
    weft_options_free(weft_eval_table(), &e);
}

static void test_figures(void **state)
{
    (void)state;
    char *folder = temporary_folder(), data[4400], words[8000], path[4200];
    row start[ROWS], rows[ROWS];
    bool test[ROWS], seen_classes[CLASSES] = {false};
    int tested[ROWS], trained[ROWS], some[ROWS], counts[3] = {0};
    log_of_run l;
    write_rows(folder, NULL, 0, 0.2, data, sizeof(data));
    initial_rows(folder, data, start);
    find_test_rows(folder, data, start, test);
    (void)snprintf(path, sizeof(path), "%s/run", folder);
    for (int ranks = 1; ranks <= 3; ranks++) {
        (void)snprintf(path, sizeof(path), "%s/run-%d", folder, ranks);
        (void)snprintf(words, sizeof(words), "%s batch=7 optimizer=sgd lr=3 steps=3 ranks=%d", data,
                       ranks);
        assert_ok(train(words, path, 0, &l));
        read_rows(path, 3, 0, NULL, rows);
        memset(counts, 0, sizeof(counts));
        for (int i = 0; i < ROWS; i++) (test[i] ? tested : trained)[counts[!test[i]]++] = i;
        figures want = figures_of(rows, tested, counts[0]);
        assert_true(fabs(l.test_loss - want.loss) < 2e-6 && fabs(l.test_f1 - want.f1) < 1e-12);
        assert_true(fabs(l.test_accuracy - (double)want.right / want.samples) < 1e-12);
        check_part(path, NULL, "test", rows, tested, counts[0]);
        check_part(path, NULL, "train", rows, trained, counts[1]);
    }
    /* A data set in which class 4 is neither a label nor a prediction, and in which mistakes are
     * more frequent than right predictions, so that no two metrics agree by chance. */
    for (int i = 0; i < ROWS; i++) {
        int label = label_of(i), best = best_of(rows[i].w);
        if (label == CLASSES - 1 || best == CLASSES - 1 || (label == best && i % 2)) continue;
        seen_classes[label] = seen_classes[best] = true;
        some[counts[2]++] = i;
    }
    assert_true(counts[2] > 5 && seen_classes[0] && !seen_classes[CLASSES - 1]);
    write_rows(folder, some, counts[2], 1, words, sizeof(words));
    char *spec = strstr(words, "csv:");
    *strchr(spec, ' ') = '\0';
    check_part(path, spec, "test", rows, some, counts[2]);
    remove_folder(folder);
}

/* Compares the learning rates of schedules on every device, also for steps past the end. */
static void test_rates(void **state)
{
    (void)state;
    static const course kinds[] = {{"constant", {0}, .7, 0, 0, 3, 1, 1, 0},
                                   {"step", {0}, .7, 0, 1, 4, 3, .5, 0},
                                   {"cosine", {0}, .7, 0, 2, 3, 1, 1, .1},
                                   {"cosine from the start", {0}, .7, 0, 2, 0, 1, 1, 0}};
    enum { TOTAL = 8, PAST = 14 };
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
            const course *c = &kinds[k];
            weft_graph *graph;
            weft_store *store;
            weft_instance *program;
            weft_optimizer_options o;
            weft_optimizer_values values;
            weft_shape one = weft_shape_of(1, (int64_t[]){1});
            assert_ok(weft_graph_create(context, WEFT_F64, &graph));
            weft_value w = weft_graph_leaf(graph, WEFT_VALUE_PARAM, "w", WEFT_F64, &one,
                                           (weft_init){WEFT_INIT_CONSTANT, 1});
            weft_attr axes = WEFT_ATTR_INT("axes", 0);
            weft_value loss = weft_graph_node(graph, "reduce_sum", "loss", &w, 1, &axes, 1);
            assert_ok(weft_graph_differentiate(graph, loss));
            weft_optimizer_options_init(&o);
            o.name = "sgd";
            o.lr = c->rate;
            o.schedule = c->kind;
            o.warmup = c->warmup;
            o.total = 0;
            if (c->kind == 2)
                assert_refused(weft_optimizer_build(graph, &o, &values), WEFT_ERR_ARGUMENT,
                               "total is 0, must be at least 1 step");
            o.total = TOTAL;
            o.every = c->every;
            o.gamma = c->gamma;
            o.floor = c->floor;
            assert_ok(weft_optimizer_build(graph, &o, &values));
            assert_ok(weft_store_create(context, built_in(WEFT_KIND_DEVICE, d), 1, &store));
            assert_ok(weft_instance_build(store, graph, &values.learning_rate, 1, &program));
            for (int step = 0; step < PAST; step++) {
                assert_ok(weft_instance_run(program, WEFT_PHASE_MICRO));
                assert_ok(weft_instance_run(program, WEFT_PHASE_UPDATE));
                double rate = *(const double *)weft_instance_output(program, values.learning_rate);
                if (fabs(rate - rate_of(c, step, TOTAL)) > 1e-12)
                    fail_msg("%s: the rate of step %d is %.15g, not %.15g", c->words, step, rate,
                             rate_of(c, step, TOTAL));
            }
            weft_instance_destroy(&program);
            weft_store_destroy(&store);
            weft_graph_destroy(&graph);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_courses),
    };
    return cmocka_run_group_tests_name("numbers", tests, setup, teardown);
}
