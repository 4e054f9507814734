/* The hooks of an exchange in a step, checked by the exchanges of fake_exchanges.h. */
#include <sys/syscall.h>
#include <unistd.h>

#include "exchange_runs.h"

/* --- hooks of a step --- */

/* The exchange sum, which adds gradients over learners one by one during backward and takes the
 * place of the update with the run's optimizer, is synchronous data parallelism. */
static void test_sums_of_gradients(void **state)
{
    (void)state;
    static const struct {
        const char *together, *learners;
        double close; /* 0: sums in the same order, so the same bits */
    } ways[] = {
        {"ranks=2", "ranks=2", 0},
        {"ranks=3 batch=6", "ranks=3 batch=2", 1e-12},
        {"ranks=4", "ranks=4 batch=2", 1e-12},
        {"ranks=2", "ranks=4 mesh=data=2", 1e-12},
        {"ranks=2", "ranks=4 mesh=tensor=2", 1e-12},
        {"ranks=2", "ranks=4 mesh=pipeline=2 microbatches=2", 1e-12},
        {"ranks=2 microbatches=2", "ranks=2 microbatches=2", 1e-12},
        {"ranks=2", "ranks=4 mesh=data=2 virtual-workers=4", 1e-12},
        {"ranks=2 recompute=true", "ranks=2 recompute=true", 0},
    };
    static const char *const optimizers[] = {
        "optimizer=sgd lr=0.5", "optimizer=sgd lr=0.1 momentum=0.9 nesterov=true weight-decay=0.01",
        "optimizer=adam lr=0.01 lr-schedule=cosine warmup=3",
        "optimizer=adamw lr=0.01 weight-decay=0.1 lr-schedule=step decay-every=2"};
    char *root = temporary_folder(), words[900], name[40];
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (size_t o = 0; o < sizeof(optimizers) / sizeof(optimizers[0]); o++) {
            if (w % 4 != o && getenv("WEFT_FAST")) continue;
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

/* If the loss is not finite, the gradients have been sent already, but no update uses them. */
static void test_no_number(void **state)
{
    (void)state;
    log_of_run l;
    static const char *const ways[] = {"ranks=2", "ranks=4 mesh=data=2", "ranks=2 microbatches=2"};
    char words[300];
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        (void)snprintf(words, sizeof(words),
                       SMALL
                       "device=reference batch=8 steps=60 optimizer=sgd lr=1000000 exchange=sum %s",
                       ways[w]);
        assert_refused(train(words, NULL, 0, &l), WEFT_ERR_NUMERIC, "Nothing was updated");
    }
}

/* The exchange sum is data parallelism also on devices with their own layouts or memory. */
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

/* With the exchange pull, the parameters that learner 0 broadcasts after a step replace the other
 * learners' parameters before the next step. Learner 0 trains as if alone, and all end with its
 * parameters. */
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

/* --- learners without lock step --- */

/* No learner waits for one that has left, and the learner that leaves keeps the parameters of its
 * last step. */
static void test_leaving(void **state)
{
    (void)state;
    char *root = temporary_folder();
    static const char *const ways[] = {"ranks=2", "ranks=3", "ranks=4 mesh=data=2"};
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        void *three;
        exchanges_forget();
        run(EXACT "batch=7 steps=3 exchange=apart", ways[w], NULL, 0);
        three = malloc(seen.bytes);
        memcpy(three, seen.last[1], seen.bytes);
        run(EXACT "batch=7 steps=6 exchange=leave", ways[w], made(root, ways[w]), 0);
        assert_memory_equal(seen.last[1], three, seen.bytes);
        assert_memory_not_equal(seen.last[0], three, seen.bytes);
        free(three);
    }
    remove_folder(root);
}

/* During a run without lock step the first learner saves checkpoints without the others. The last
 * checkpoint has the state of all learners, and the resumed run has the bits of one without a
 * stop. */
static void test_stopping_apart(void **state)
{
    (void)state;
    char *root = temporary_folder();
    tensors t;
    const char *a = made(root, "whole"), *b = made(root, "stopped");
    run(EXACT "batch=7 steps=6 exchange=apart ranks=3", "checkpoint-every=2", a, 0);
    run(EXACT "batch=7 steps=6 exchange=apart ranks=3", "checkpoint-every=2", b, 3);
    assert_true(open_tensors(b, "learners", &t));
    close_tensors(&t);
    run(EXACT "batch=7 steps=6 exchange=apart ranks=3", "checkpoint-every=2 resume=true", b, 0);
    assert_same(a, b, "parameters", 0, "stopped apart");
    assert_same(a, b, "state", 0, "stopped apart");
    remove_folder(root);
}

/* --- a slow disk --- */

static _Atomic int slow_syncs, starved_syncs;
static _Atomic bool disk_is_slow;

/* Takes the place of the C library's function: if the disk is slow, a sync of a run under way ends
 * only after the hook `poll` has been called, or after a minute. */
int fsync(int file)
{
    int before = atomic_load(&seen.polls);
    double until = weft_seconds() + 60;
    if (atomic_load(&disk_is_slow) && atomic_load(&seen.ready) > 0) {
        while (atomic_load(&seen.polls) == before && weft_seconds() < until) usleep(1000);
        atomic_fetch_add(&slow_syncs, 1);
        if (atomic_load(&seen.polls) != before) return (int)syscall(SYS_fsync, file);
        atomic_fetch_add(&starved_syncs, 1);
        atomic_store(&disk_is_slow, false);
    }
    return (int)syscall(SYS_fsync, file);
}

/* While a checkpoint is written to a slow disk, the exchange is polled, so its heartbeats go on;
 * the checkpoint is the same as on a fast disk. */
static void test_slow_disk(void **state)
{
    (void)state;
    static const char *const learners[] = {"ranks=2", "ranks=4 mesh=data=2",
                                           "ranks=4 mesh=tensor=2"};
    char *root = temporary_folder();
    for (size_t w = 0; w < WEFT_COUNT(learners); w++) {
        const char *a = made(root, "fast"), *b = made(root, "slow");
        char command[9000];
        run(EXACT "batch=4 steps=3 exchange=sum optimizer=adam", learners[w], a, 0);
        exchanges_forget();
        atomic_store(&slow_syncs, 0);
        atomic_store(&disk_is_slow, true);
        run(EXACT "batch=4 steps=3 exchange=sum optimizer=adam", learners[w], b, 0);
        atomic_store(&disk_is_slow, false);
        assert_int_equal(atomic_load(&starved_syncs), 0);
        assert_true(atomic_load(&slow_syncs) > 3);
        assert_same(a, b, "parameters", 0, learners[w]);
        assert_same(a, b, "state", 0, learners[w]);
        (void)snprintf(command, sizeof(command), "rm -r '%s' '%s'", a, b);
        assert_int_equal(system(command), 0);
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_of_gradients), cmocka_unit_test(test_sums_on_devices),
        cmocka_unit_test(test_no_number),         cmocka_unit_test(test_parameters_from_elsewhere),
        cmocka_unit_test(test_leaving),           cmocka_unit_test(test_stopping_apart),
        cmocka_unit_test(test_slow_disk),
    };
    return cmocka_run_group_tests_name("moments", tests, begin, end);
}
