/* Tests runs that resume with another number of learners, and learners on devices with different
 * memory layouts: each sample is read once in an epoch, and parameters are not permuted. */
#include <math.h>

#include "onehot_data.h"
#include "trainer_runs.h"

/* A run stops in the middle of an epoch and resumes with other learners. The rest of the epoch has
 * as many steps as there are batches of unread samples, and by its end every training sample has
 * been read. */
static void test_middle_of_an_epoch(void **state)
{
    (void)state;
    enum { BATCH = 4 };
    static const struct {
        const char *before, *after;
        int done, left; /* steps before and after resuming */
    } ways[] = {
        {"ranks=1", "ranks=2 exchange=average:every=1", 2, 3},
        {"ranks=2 exchange=average:every=1", "ranks=1", 1, 5},
        {"ranks=3 exchange=average:every=1", "ranks=2 exchange=average:every=2", 1, 2},
        {"ranks=2", "ranks=4 exchange=average:every=1 mesh=data=2", 3, 2},
        {"ranks=2 exchange=average:every=1", "ranks=4 exchange=oneshot", 3, 1},
    };
    char *root = temporary_folder(), data[4400], words[9000];
    row start[ROWS], now[ROWS];
    bool test[ROWS];
    log_of_run l;
    write_rows(root, NULL, 0, 0.2, data, sizeof(data));
    (void)snprintf(words, sizeof(words), "%s dtype=f64 device=reference threads=1", data);
    initial_rows(root, words, start);
    find_test_rows(root, words, start, test);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        char folder[4200], all[10000];
        int steps = ways[w].done + ways[w].left;
        (void)snprintf(folder, sizeof(folder), "%s/%zu", root, w);
        (void)snprintf(all, sizeof(all), "%s optimizer=sgd lr=1 batch=%d steps=%d %s", words, BATCH,
                       ways[w].done, ways[w].before);
        assert_ok(train(all, folder, 0, &l));
        assert_int_equal(l.steps, ways[w].done);
        (void)snprintf(all, sizeof(all), "%s optimizer=sgd lr=1 batch=%d epochs=1 resume=true %s",
                       words, BATCH, ways[w].after);
        assert_ok(train(all, folder, 0, &l));
        assert_int_equal(l.steps, ways[w].left);
        read_rows(folder, steps, 0, NULL, now);
        for (int i = 0; i < ROWS; i++)
            if ((distance(now[i].w, start[i].w) < 1e-9) != test[i])
                fail_msg("%s, then %s: row %d was %sread", ways[w].before, ways[w].after, i,
                         test[i] ? "" : "not ");
    }
    remove_folder(root);
}

/* Learners whose steps change nothing must have their initial parameters after an average, on every
 * pair of devices. Some devices store the weight of a single output, or the bias, in another
 * layout. */
static void test_orders(void **state)
{
    (void)state;
    enum { WIDTH = 2 };
    static const char *const devices[] = {"cpu,reference", "reference,cpu", "cpu,distant",
                                          "distant,reference"};
    static const char *const exchanges[] = {"oneshot", "average:every=1",
                                            "average:every=1,outer=nesterov,state=average"};
    static const char net[] = "layers:\n  - {type: dense, name: d, units: outputs}\n";
    static const char table[] = "a,b,y\n1,2,3\n2,1,5\n3,5,1\n4,4,2\n";
    static const char *const tensors[] = {"d/weight", "d/bias"};
    static const int counts[] = {WIDTH, 1};
    char *root = temporary_folder(), model[4200], data[4200], words[9000], one[4200], two[4200];
    log_of_run l;
    write_file(root, "net.yaml", net, sizeof(net) - 1, model, sizeof(model));
    write_file(root, "t.csv", table, sizeof(table) - 1, data, sizeof(data));
    (void)snprintf(one, sizeof(one), "%s/one", root);
    (void)snprintf(words, sizeof(words),
                   "model=%s data=csv:%s,target=y,test=0 batch=2 threads=1 optimizer=sgd lr=1e-30 "
                   "momentum=0.5 steps=1",
                   model, data);
    assert_ok(train(words, one, 0, &l));
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++)
        for (size_t e = 0; e < sizeof(exchanges) / sizeof(exchanges[0]); e++) {
            char all[10000];
            (void)snprintf(two, sizeof(two), "%s/%zu-%zu", root, d, e);
            (void)snprintf(all, sizeof(all), "%s ranks=2 device=%s exchange=%s", words, devices[d],
                           exchanges[e]);
            assert_ok(train(all, two, 0, &l));
            for (size_t t = 0; t < sizeof(tensors) / sizeof(tensors[0]); t++) {
                double want[WIDTH], have[WIDTH];
                assert_true(read_tensor(one, 1, "parameters", tensors[t], want, counts[t]));
                assert_true(read_tensor(two, 1, "parameters", tensors[t], have, counts[t]));
                for (int i = 0; i < counts[t]; i++)
                    if (fabs(want[i] - have[i]) > 1e-20)
                        fail_msg("%s on %s: %s[%d] is %g, should be %g", exchanges[e], devices[d],
                                 tensors[t], i, have[i], want[i]);
            }
        }
    remove_folder(root);
}

/* Learners that differ in the checkpoint of `oneshot` go on with an exchange that needs equal ones:
 * it gives them their mean first. Steps that change nothing then leave the mean everywhere. A run
 * that has no step left ends with the mean, too, and saves it. */
static void test_learners_that_differ(void **state)
{
    (void)state;
    enum { BATCH = 4, EPOCH = 4, LEARNERS = 2 };
    static const struct {
        const char *how;
        int epochs;
        bool all; /* the last checkpoint has all learners */
    } ways[] = {
        {"exchange=gossip", 3, false},
        {"exchange=gossip:mode=average", 3, false},
        {"exchange=average:every=3,outer=nesterov", 3, true},
        {"exchange=average:every=3,outer=nesterov device=cpu,reference", 2, true},
        {"exchange=oneshot", 1, true},
        {"exchange=average:every=3", 1, true},
        {"exchange=average:every=3 device=cpu,distant", 1, true},
    };
    char *root = temporary_folder(), data[4400], words[9000];
    row of[LEARNERS][ROWS], now[ROWS];
    log_of_run l;
    write_rows(root, NULL, 0, 0.2, data, sizeof(data));
    (void)snprintf(words, sizeof(words), "%s threads=1 optimizer=sgd batch=%d ranks=%d", data,
                   BATCH, LEARNERS);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        char folder[4200], all[10000];
        (void)snprintf(folder, sizeof(folder), "%s/%zu", root, w);
        (void)snprintf(all, sizeof(all), "%s lr=1 epochs=5 exchange=oneshot", words);
        assert_refused(train(all, folder, 2, &l), WEFT_ERR_INTERRUPTED, "after step 4");
        for (int k = 0; k < LEARNERS; k++) read_rows(folder, EPOCH, k, NULL, of[k]);
        (void)snprintf(all, sizeof(all), "%s lr=1e-30 epochs=%d resume=true %s", words,
                       ways[w].epochs, ways[w].how);
        assert_ok(train(all, folder, 0, &l));
        assert_int_equal(l.steps, (ways[w].epochs - 1) * EPOCH);
        for (int step = ways[w].epochs > 1 ? 2 * EPOCH : EPOCH; step <= ways[w].epochs * EPOCH;
             step += EPOCH)
            for (int k = 0; k < (ways[w].all ? LEARNERS : 1); k++) {
                read_rows(folder, step, k, NULL, now);
                for (int i = 0; i < ROWS; i++)
                    for (int c = 0; c < CLASSES; c++)
                        if (fabs(now[i].w[c] - (of[0][i].w[c] + of[1][i].w[c]) / 2) > 1e-6)
                            fail_msg("%s: learner %d has %g in row %d after step %d, not the mean "
                                     "of %g and %g",
                                     ways[w].how, k, now[i].w[c], i, step, of[0][i].w[c],
                                     of[1][i].w[c]);
            }
    }
    remove_folder(root);
}

/* The mean over the learners of a checkpoint, of the weights and of the first moment. */
static void mean_of(const char *folder, int step, int learners, const char *moment, row mean[ROWS])
{
    row of[ROWS];
    memset(mean, 0, ROWS * sizeof(*mean));
    for (int k = 0; k < learners; k++) {
        read_rows(folder, step, k, moment, of);
        for (int i = 0; i < ROWS; i++)
            for (int c = 0; c < CLASSES; c++) {
                mean[i].w[c] += of[i].w[c] / learners;
                mean[i].m[c] += of[i].m[c] / learners;
            }
    }
}

/* Learners that differ in a checkpoint begin with the mean of all of them, weights and moments, in
 * every run that does not keep them apart: one with another exchange, another number of learners,
 * or one learner. No step is left to take, so the run ends with the mean and saves it. */
static void test_no_work_is_lost(void **state)
{
    (void)state;
    enum { LEARNERS = 3 };
    static const struct {
        const char *optimizer, *after;
    } ways[] = {
        {"adam", "ranks=1"},
        {"adam", "ranks=3"},
        {"adam", "ranks=2 exchange=average:every=2"},
        {"adam", "ranks=5 exchange=oneshot"},
        {"adam", "ranks=3 exchange=gossip"},
        {"adam", "ranks=2 exchange=gossip:mode=average"},
        {"adam", "ranks=3 exchange=hogwild"},
        {"adam", "ranks=3 exchange=easgd"},
        {"sgd", "ranks=3 exchange=server:policy=bsp"},
        {"sgd", "ranks=2 exchange=server:policy=async servers=2"},
    };
    char *root = temporary_folder(), data[4400], words[9000], folder[4200], all[10000];
    row first[ROWS], want[ROWS], have[ROWS];
    log_of_run l;
    write_rows(root, NULL, 0, 0.2, data, sizeof(data));
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        const char *moment = strcmp(ways[w].optimizer, "adam") == 0 ? "m" : NULL;
        (void)snprintf(words, sizeof(words), "%s dtype=f64 threads=1 optimizer=%s lr=0.1 batch=4",
                       data, ways[w].optimizer);
        (void)snprintf(folder, sizeof(folder), "%s/%zu", root, w);
        (void)snprintf(all, sizeof(all), "%s epochs=5 ranks=%d exchange=oneshot", words, LEARNERS);
        assert_refused(train(all, folder, 2, &l), WEFT_ERR_INTERRUPTED, "after step");
        int step = l.steps;
        read_rows(folder, step, 0, moment, first);
        mean_of(folder, step, LEARNERS, moment, want);
        assert_true(distance(first[0].w, want[0].w) > 1e-3);
        (void)snprintf(all, sizeof(all), "%s steps=%d resume=true %s", words, step, ways[w].after);
        assert_ok(train(all, folder, 0, &l));
        assert_int_equal(l.steps, 0);
        read_rows(folder, step, 0, moment, have);
        for (int i = 0; i < ROWS; i++)
            if (distance(have[i].w, want[i].w) > 1e-12 || distance(have[i].m, want[i].m) > 1e-12)
                fail_msg("%s: row %d begins %g and its moment %g from the mean of the learners",
                         ways[w].after, i, distance(have[i].w, want[i].w),
                         distance(have[i].m, want[i].m));
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_middle_of_an_epoch), cmocka_unit_test(test_learners_that_differ),
        cmocka_unit_test(test_no_work_is_lost), cmocka_unit_test(test_orders)};
    return cmocka_run_group_tests_name("other learners", tests, setup, teardown);
}
