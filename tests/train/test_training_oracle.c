/* Compares every step of runs, also with several learners, with the same computed in plain C: which
 * samples each learner reads, each row's update, and the average of the learners. */
#include <math.h>

#include "onehot_data.h"
#include "trainer_runs.h"

typedef enum keep { KEEP, AVERAGE, RESET } keep;

/* A run: its options, and the same as numbers for the oracle. */
typedef struct scene {
    const char *words;                  /* options besides those of the data */
    int learners, batch, epochs, every; /* every 0: average at the end only */
    rule how;
    double rate;
    keep state;
    bool outer;
    double outer_rate, outer_momentum;
    double tolerance;
} scene;

/* The state that the oracle predicts: rows of each learner. */
typedef struct world {
    row rows[MOST_LEARNERS][ROWS];
    numbers before[ROWS], velocity[ROWS]; /* of the outer optimizer */
} world;

/* Averages row i over the learners, with the outer optimizer if the scene has one: a Nesterov step
 * from the weights of the last average, whose gradient is the difference to the mean. */
static void meet(const scene *s, world *w, int i)
{
    numbers mean = {0}, moment = {0}, second = {0};
    for (int k = 0; k < s->learners; k++)
        for (int c = 0; c < CLASSES; c++) {
            mean[c] += w->rows[k][i].w[c] / s->learners;
            moment[c] += w->rows[k][i].m[c] / s->learners;
            second[c] += w->rows[k][i].v[c] / s->learners;
        }
    for (int c = 0; c < CLASSES && s->outer; c++) {
        double gradient = w->before[i][c] - mean[c];
        w->velocity[i][c] = s->outer_momentum * w->velocity[i][c] + gradient;
        mean[c] =
            w->before[i][c] - s->outer_rate * (gradient + s->outer_momentum * w->velocity[i][c]);
        w->before[i][c] = mean[c];
    }
    for (int k = 0; k < s->learners; k++) {
        row *r = &w->rows[k][i];
        memcpy(r->w, mean, sizeof(mean));
        if (s->state == AVERAGE) memcpy(r->m, moment, sizeof(moment));
        if (s->state == AVERAGE) memcpy(r->v, second, sizeof(second));
        if (s->state == RESET) memset(r->m, 0, sizeof(moment));
        if (s->state == RESET) memset(r->v, 0, sizeof(second));
    }
}

/* Computes row i after a step in which learner `reader` (-1: none) had its sample. If averages
 * reset the optimizers' state, Adam's step count begins anew, too. */
static void advance(const scene *s, world *w, int i, int reader, const int *valid, bool met,
                    int step)
{
    if (s->state == RESET && s->every) step = (step - 1) % s->every + 1;
    for (int k = 0; k < s->learners; k++)
        if (valid[k] > 0) /* a step without samples is none of the optimizer */
            update_row(&s->how, &w->rows[k][i], label_of(i), k == reader ? 1.0 / valid[k] : 0, 1,
                       s->rate, step);
    if (met) meet(s, w, i);
}

/* The name of the first moment in checkpoints; NULL: the optimizer has none. */
static const char *moment_of(const scene *s)
{
    if (s->how.name[0] == 'a') return "m";
    return s->how.momentum > 0 ? "momentum" : NULL;
}

static bool fits(const scene *s, const world *w, row now[MOST_LEARNERS][ROWS], int i)
{
    for (int k = 0; k < s->learners; k++)
        if (distance(w->rows[k][i].w, now[k][i].w) > s->tolerance ||
            (moment_of(s) && distance(w->rows[k][i].m, now[k][i].m) > s->tolerance))
            return false;
    return true;
}

/* Finds the learner that has read each row in a step: the one for which the computed update equals
 * the checkpoint. Fails if there is none. */
static void explain(const scene *s, world *w, row now[MOST_LEARNERS][ROWS], const int *valid,
                    bool met, int step, int reader[ROWS])
{
    for (int i = 0; i < ROWS; i++) {
        world saved = *w;
        reader[i] = -2;
        for (int r = -1; r < s->learners && reader[i] == -2; r++) {
            *w = saved;
            advance(s, w, i, r, valid, met, step);
            if (fits(s, w, now, i)) reader[i] = r;
        }
        if (reader[i] == -2)
            fail_msg("%s: step %d: row %d is what no reading of its sample makes it", s->words,
                     step, i);
    }
}

/* The number of samples that learner k gets if `left` samples are shared out evenly. */
static int share_of(const scene *s, int left, int k)
{
    int all = left < s->batch * s->learners ? left : s->batch * s->learners;
    return all * (k + 1) / s->learners - all * k / s->learners;
}

static void check_steps(const scene *s, const char *folder, const row start[ROWS],
                        const bool test[ROWS], const log_of_run *l)
{
    static world w;
    static row now[MOST_LEARNERS][ROWS];
    int each = s->batch * s->learners, steps = (TRAIN_ROWS + each - 1) / each, order[2][ROWS];
    memset(&w, 0, sizeof(w));
    for (int i = 0; i < ROWS; i++) memcpy(w.before[i], start[i].w, sizeof(numbers));
    for (int k = 0; k < s->learners; k++) memcpy(w.rows[k], start, sizeof(w.rows[k]));
    assert_int_equal(l->steps, steps * s->epochs);
    for (int step = 1; step <= l->steps; step++) {
        int epoch = (step - 1) / steps, left = TRAIN_ROWS - (step - 1) % steps * each;
        int valid[MOST_LEARNERS], got[MOST_LEARNERS] = {0}, reader[ROWS], read = 0;
        bool met = step == l->steps || (s->every && step % s->every == 0);
        double loss = 0;
        for (int k = 0; k < s->learners; k++) {
            valid[k] = share_of(s, left, k);
            read_rows(folder, step, k, moment_of(s), now[k]);
        }
        world before = w;
        explain(s, &w, now, valid, met && s->learners > 1, step, reader);
        if (left == TRAIN_ROWS)
            for (int i = 0; i < ROWS; i++) order[epoch % 2][i] = -1;
        for (int i = 0; i < ROWS; i++) {
            if (reader[i] < 0) continue;
            assert_false(test[i]);
            assert_int_equal(order[epoch % 2][i], -1); /* no sample twice in an epoch */
            order[epoch % 2][i] = step % steps;
            got[reader[i]]++;
            read++;
            if (reader[i] == 0) loss += loss_of(before.rows[0][i].w, label_of(i)) / valid[0];
        }
        assert_int_equal(read, left < each ? left : each);
        /* After an average, rows are equal in all learners and do not show which one has read
         * them. */
        for (int k = 0; k < s->learners && !met; k++) assert_int_equal(got[k], valid[k]);
        /* A learner without a sample reports NaN as loss. */
        if (valid[0] == 0)
            assert_true(isnan(l->loss[step - 1]));
        else if (!met || s->learners == 1)
            assert_true(fabs(loss - l->loss[step - 1]) < 2e-6);
        assert_true(fabs(l->rate[step - 1] - s->rate) < 1e-7);
    }
    if (s->epochs > 1 && steps > 1) assert_memory_not_equal(order[0], order[1], sizeof(order[0]));
}

#define ADAM(kind, share)                                                                          \
    {                                                                                              \
        kind, .decay = share, .beta1 = .9, .beta2 = .99, .epsilon = 1e-3                           \
    }

static const scene scenes[] = {
    {"", 1, 4, 3, 1, {.name = "sgd"}, 1, KEEP, false, 0, 0, 1e-12},
    {"microbatches=2", 1, 4, 2, 1, {.name = "sgd"}, 1, KEEP, false, 0, 0, 1e-12},
    {"ranks=2 zero=2", 1, 7, 2, 1, {"sgd", .momentum = .5}, 1, KEEP, false, 0, 0, 1e-12},
    {"ranks=2", 2, 5, 2, 2, {.name = "sgd"}, 1, KEEP, false, 0, 0, 1e-12},
    {"ranks=3", 3, 3, 3, 2, {"sgd", .momentum = .5}, .5, KEEP, false, 0, 0, 1e-12},
    {"ranks=3", 3, 3, 3, 2, {"sgd", .momentum = .5}, .5, AVERAGE, false, 0, 0, 1e-12},
    {"ranks=3", 3, 3, 3, 2, {"sgd", .momentum = .5}, .5, RESET, false, 0, 0, 1e-12},
    {"ranks=2", 2, 4, 3, 0, {.name = "sgd"}, 1, KEEP, false, 0, 0, 1e-12},
    {"ranks=2", 2, 4, 4, 3, {.name = "sgd"}, 1, KEEP, true, .6, .8, 1e-12},
    {"ranks=3", 3, 2, 3, 2, {"sgd", .momentum = .5}, .5, RESET, true, 1.5, .5, 1e-12},
    {"ranks=4 mesh=data=2", 2, 4, 3, 2, {"sgd", .momentum = .5}, 1, AVERAGE, true, .7, .9, 1e-12},
    {"ranks=4 mesh=tensor=2", 2, 4, 2, 2, {.name = "sgd"}, 1, KEEP, false, 0, 0, 1e-12},
    {"ranks=2", 2, 5, 3, 2, ADAM("adam", 0), .02, KEEP, false, 0, 0, 1e-12},
    {"ranks=2", 2, 5, 3, 2, ADAM("adam", .1), .02, AVERAGE, false, 0, 0, 1e-12},
    {"ranks=2", 2, 5, 3, 3, ADAM("adam", 0), .02, RESET, false, 0, 0, 1e-12},
    {"ranks=4 mesh=data=2 zero=1", 2, 5, 3, 2, ADAM("adamw", .1), .02, RESET, true, .7, .9, 1e-12},
    {"ranks=3 dtype=f32 device=cpu",
     3,
     3,
     2,
     2,
     {"sgd", .momentum = .5},
     .5,
     RESET,
     true,
     .7,
     .9,
     2e-6},
};

static void test_steps_of_learners(void **state)
{
    (void)state;
    static const char *const states[] = {"keep", "average", "reset"};
    char *folder = temporary_folder(), data[4400];
    row start[ROWS];
    bool test[ROWS];
    write_rows(folder, NULL, 0, 0.2, data, sizeof(data));
    char initial[4500];
    (void)snprintf(initial, sizeof(initial), "%s dtype=f64 device=reference", data);
    initial_rows(folder, initial, start);
    find_test_rows(folder, initial, start, test);
    for (size_t n = 0; n < sizeof(scenes) / sizeof(scenes[0]); n++) {
        const scene *s = &scenes[n];
        char words[8000], exchange[200] = "", path[4200];
        log_of_run l;
        if (s->learners > 1 && s->every == 0)
            (void)snprintf(exchange, sizeof(exchange), "exchange=oneshot");
        else if (s->learners > 1)
            (void)snprintf(exchange, sizeof(exchange), "exchange=average:every=%d,state=%s",
                           s->every, states[s->state]);
        if (s->outer)
            (void)snprintf(exchange + strlen(exchange), sizeof(exchange) - strlen(exchange),
                           ",outer=nesterov,lr=%g,momentum=%g", s->outer_rate, s->outer_momentum);
        char how[200];
        bool adam = s->how.epsilon > 0;
        (void)snprintf(how, sizeof(how), adam ? "beta1=%g beta2=%g epsilon=%g" : "momentum=%g",
                       adam ? s->how.beta1 : s->how.momentum, s->how.beta2, s->how.epsilon);
        (void)snprintf(words, sizeof(words),
                       "%s %s batch=%d epochs=%d optimizer=%s %s weight-decay=%g lr=%g "
                       "checkpoint-every=1 keep=1000 threads=1 %s %s",
                       data, strstr(s->words, "f32") ? "" : "dtype=f64 device=reference", s->batch,
                       s->epochs, s->how.name, how, s->how.decay, s->rate, s->words, exchange);
        (void)snprintf(path, sizeof(path), "%s/scene-%zu", folder, n);
        assert_ok(train(words, path, 0, &l));
        check_steps(s, path, start, test, &l);
    }
    remove_folder(folder);
}

/* Reads a tensor of a learner from a checkpoint. */
static void tensor_of(const char *folder, int step, int learner, bool state, const char *tensor,
                      double *out, int count)
{
    char name[100];
    const char *file = state ? "state" : "parameters";
    (void)snprintf(name, sizeof(name), "%d/%s", learner, tensor);
    if (!read_tensor(folder, step, learner ? "learners" : file, learner ? name : tensor, out,
                     count))
        fail_msg("no tensor %s in learner %d", tensor, learner);
}

/* When learners average, running statistics become their mean like weights, and optimizer state is
 * kept, averaged or reset as the option `state` says. The values before the average come from a run
 * without one. */
static void test_state_of_learners(void **state)
{
    (void)state;
    enum { WIDTH = 4, MET = 3, LEARNERS = 2 };
    static const char *const model =
        "layers:\n  - {type: dense, units: 4}\n  - {type: batch_norm}\n  - {type: relu}\n"
        "  - {type: dense, units: classes}\n";
    static const char *const states[] = {"keep", "average", "reset"};
    static const struct {
        const char *name;
        bool statistic, state;
    } tensors[] = {{"batch_norm2/mean", true, true},
                   {"batch_norm2/variance", true, true},
                   {"batch_norm2/gamma/m", false, true},
                   {"batch_norm2/beta/v", false, true},
                   {"batch_norm2/gamma", true, false}};
    char *root = temporary_folder(), path[4200], words[5000], folder[2][4200];
    log_of_run l;
    write_file(root, "net.yaml", model, strlen(model), path, sizeof(path));
    for (int k = KEEP; k <= RESET; k++) {
        for (int met = 0; met < 2; met++) {
            (void)snprintf(folder[met], sizeof(folder[met]), "%s/%d-%d", root, k, met);
            (void)snprintf(words, sizeof(words),
                           "model=%s data=glyphs:size=8,train=80,test=5 batch=8 steps=4 "
                           "checkpoint-every=1 keep=9 ranks=2 dtype=f64 device=reference "
                           "threads=1 exchange=average:every=%d,state=%s",
                           path, met ? MET : 1000, states[k]);
            assert_ok(train(words, folder[met], 0, &l));
        }
        for (size_t t = 0; t < sizeof(tensors) / sizeof(tensors[0]); t++) {
            double apart[LEARNERS][WIDTH], now[WIDTH];
            for (int r = 0; r < LEARNERS; r++)
                tensor_of(folder[0], MET, r, tensors[t].state, tensors[t].name, apart[r], WIDTH);
            assert_memory_not_equal(apart[0], apart[1], sizeof(apart[0]));
            for (int r = 0; r < LEARNERS; r++) {
                tensor_of(folder[1], MET, r, tensors[t].state, tensors[t].name, now, WIDTH);
                for (int c = 0; c < WIDTH; c++) {
                    double want = (apart[0][c] + apart[1][c]) / LEARNERS;
                    if (!tensors[t].statistic && k == KEEP) want = apart[r][c];
                    if (!tensors[t].statistic && k == RESET) want = 0;
                    if (fabs(now[c] - want) > 1e-13)
                        fail_msg("state=%s: %s of learner %d is %.17g, must be %.17g", states[k],
                                 tensors[t].name, r, now[c], want);
                }
            }
        }
    }
    remove_folder(root);
}

/* Running statistics after one step over all 25 training rows, each of which has its feature once:
 * the batch has mean 1/25 and variance 1/25, whether that of the whole batch or the mean over five
 * workers of five samples. The running mean and variance then have a tenth of it. */
static void test_statistics(void **state)
{
    (void)state;
    static const char *const ways[] = {"device=reference",
                                       "device=cpu",
                                       "device=reference ranks=5",
                                       "device=reference virtual-workers=5",
                                       "device=reference virtual-workers=5 ranks=5",
                                       "device=cpu virtual-workers=5 ranks=5 zero=2"};
    static const char net[] = "layers:\n  - {type: batch_norm, name: norm}\n"
                              "  - {type: dense, name: fc, units: classes, bias: false}\n";
    char *folder = temporary_folder(), data[4400], model[4200];
    write_rows(folder, NULL, 0, 0.2, data, sizeof(data));
    write_file(folder, "norm.yaml", net, sizeof(net) - 1, model, sizeof(model));
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        char words[9000], path[4200];
        double mean[ROWS], variance[ROWS];
        int read = 0;
        log_of_run l;
        (void)snprintf(path, sizeof(path), "%s/norm-%zu", folder, w);
        (void)snprintf(words, sizeof(words), "%s model=%s dtype=f64 threads=1 batch=%d steps=1 %s",
                       strchr(data, ' ') + 1, model, TRAIN_ROWS, ways[w]);
        assert_ok(train(words, path, 0, &l));
        assert_true(read_tensor(path, 1, "state", "norm/mean", mean, ROWS));
        assert_true(read_tensor(path, 1, "state", "norm/variance", variance, ROWS));
        for (int i = 0; i < ROWS; i++) {
            double share = mean[i] > 0 ? 0.1 / TRAIN_ROWS : 0;
            read += mean[i] > 0;
            if (fabs(mean[i] - share) > 1e-12 || fabs(variance[i] - 0.9 - share) > 1e-12)
                fail_msg("%s: feature %d has mean %.15g and variance %.15g", ways[w], i, mean[i],
                         variance[i]);
        }
        assert_int_equal(read, TRAIN_ROWS);
    }
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps_of_learners),
                                       cmocka_unit_test(test_state_of_learners),
                                       cmocka_unit_test(test_statistics)};
    return cmocka_run_group_tests_name("learners", tests, setup, teardown);
}
