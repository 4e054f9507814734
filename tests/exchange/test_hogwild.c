/* Hogwild learners, which update the same parameters without locks. Learners that change different
 * elements give the bits of one learner, in whatever order. Where they change the same elements,
 * lost updates are counted. */
#include <math.h>
#include <sched.h>

#include "exchange_runs.h"
#include "hand_learner.h"
#include "ranks.h"
#include "onehot_data.h"

enum { COUNT = 203, STEPS = 400 };

/* --- learners with steps by hand --- */

/* Learners whose steps are a few lines of C, on common parameters. */
typedef struct scene {
    weft_context *context;
    weft_dtype dtype;
    const char *spec;
    bool apart;            /* each changes its own elements; otherwise all add 1 to all */
    double w[COUNT];       /* parameters at the end */
    double figures[4];     /* written, mixed, checked, lost */
    double stale, updates; /* sum of the staleness of all updates; number of updates */
} scene;

static double start_of(int i)
{
    return i / 7.0 - 3;
}

/* The value of element i after a step, rounded as its type stores it. */
static double stepped(weft_dtype dtype, double w, int i, int step)
{
    double next = w - 0.37 * (w - sin(i + 0.1 * step));
    return dtype == WEFT_F32 ? (double)(float)next : next;
}

static weft_status step_once(const scene *s, weft_store *store, int me, int learners, int step)
{
    weft_dtype dtype;
    void *data;
    size_t bytes;
    WEFT_TRY(weft_store_map(store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes));
    for (int i = 0; i < COUNT; i++) {
        double w = weft_number_get(dtype, data, i);
        if (!s->apart) weft_number_put(dtype, data, i, w + 1);
        if (s->apart && i % learners == me)
            weft_number_put(dtype, data, i, stepped(dtype, w, i, step));
    }
    return weft_store_unmap(store, WEFT_ALL_PARAMETERS, data);
}

static void take_figures(scene *s, weft_exchange *e)
{
    static const char *const names[] = {"hogwild_written", "hogwild_mixed", "hogwild_checked",
                                        "hogwild_lost"};
    weft_series f;
    int i = 0;
    for (; i < 4; i++) {
        assert_true(weft_exchange_figure_at(e, i, &f));
        assert_string_equal(f.name, names[i]);
        s->figures[i] = f.numbers[0];
    }
    assert_true(weft_exchange_figure_at(e, i, &f));
    assert_string_equal(f.name, "staleness");
    s->stale = s->updates = 0;
    for (int k = 0; k < f.count; k++) {
        s->stale += k * f.numbers[k];
        s->updates += f.numbers[k];
    }
    assert_false(weft_exchange_figure_at(e, i + 1, &f));
}

static void learn(weft_comm *comm, void *user)
{
    scene *s = user;
    hand_learner l;
    int me = weft_comm_rank(comm), learners = weft_comm_size(comm);
    double w[COUNT];
    float narrow[COUNT];
    void *values = s->dtype == WEFT_F64 ? (void *)w : (void *)narrow;
    for (int i = 0; i < COUNT; i++) narrow[i] = (float)(w[i] = s->apart ? start_of(i) : 0);
    rank_ok(hand_learner_open(s->context, comm, s->dtype, COUNT, values, s->spec, 0, &l));
    weft_exchange *e = l.exchange;
    weft_store *store = l.own.store;
    for (int step = 1; step <= STEPS; step++) {
        weft_step_result result = {.step = step, .last = step == STEPS};
        rank_ok(weft_exchange_before(e, step));
        rank_ok(step_once(s, store, me, learners, step));
        if ((step * (me + 3)) % 5 == 0) sched_yield();
        rank_ok(weft_exchange_after(e, &result));
    }
    rank_ok(weft_exchange_end(e));
    rank_ok(weft_store_read(store, 0, values));
    for (int i = 0; i < COUNT && me == 0; i++)
        s->w[i] = s->dtype == WEFT_F64 ? w[i] : (double)narrow[i];
    if (me == 0) take_figures(s, e);
    hand_learner_close(&l);
}

/* Learners change different elements, which lie beside each other: the result has the bits of one
 * learner that changes all of them. A single learner gives these bits trivially. */
static void test_disjoint_supports(void **state)
{
    (void)state;
    static const char *const specs[] = {"hogwild", "hogwild:sample=1", "hogwild:sample=3"};
    for (int learners = 1; learners <= 5; learners++)
        for (int wide = 0; wide < 2; wide++) {
            scene s = {.context = context,
                       .dtype = wide ? WEFT_F64 : WEFT_F32,
                       .spec = specs[learners % 3],
                       .apart = true};
            on_ranks("threads", learners, learn, &s);
            for (int i = 0; i < COUNT; i++) {
                double w = s.dtype == WEFT_F32 ? (double)(float)start_of(i) : start_of(i);
                for (int step = 1; step <= STEPS; step++) w = stepped(s.dtype, w, i, step);
                if (memcmp(&w, &s.w[i], sizeof(w)) != 0)
                    fail_msg("%d learners: number %d is %.17g, should be %.17g", learners, i,
                             s.w[i], w);
            }
            assert_true(s.figures[1] == 0 && s.figures[3] == 0 && s.figures[0] > 0);
            assert_true(s.figures[0] <= COUNT * STEPS);
            assert_true(s.updates == learners * STEPS);
            assert_true(s.stale <= s.updates * STEPS * (learners - 1));
        }
}

/* All learners add 1 to all elements, and every write is checked: updates are missing at the end
 * exactly if some were seen to be lost. The numbers may differ: two updates that are lost at once
 * count once, and a learner that overwrites such a loss brings back the value that it had read
 * before. */
static void test_lost_updates(void **state)
{
    (void)state;
    for (int learners = 1; learners <= 4; learners++)
        for (int wide = 0; wide < 2; wide++) {
            scene s = {.context = context,
                       .dtype = wide ? WEFT_F64 : WEFT_F32,
                       .spec = "hogwild:sample=1"};
            double sum = 0, all = (double)learners * STEPS * COUNT;
            on_ranks("threads", learners, learn, &s);
            for (int i = 0; i < COUNT; i++) sum += s.w[i];
            assert_true(s.figures[0] == all && s.figures[2] == all);
            if (learners == 1) assert_true(sum == all && s.figures[1] == 0 && s.stale == 0);
            if ((sum == all) != (s.figures[3] == 0))
                fail_msg("%d learners: %g of %g updates are missing, %g were seen to be lost",
                         learners, all - sum, all, s.figures[3]);
            s.spec = "hogwild:sample=4";
            on_ranks("threads", learners, learn, &s);
            /* With sample=4 each step checks one of four blocks in turn. */
            assert_true(s.figures[2] == all / 4);
        }
}

/* --- runs --- */

/* In a table whose rows touch different weights, the result does not depend on which learner reads
 * which row. */
static void test_rows(void **state)
{
    (void)state;
    static const struct {
        const char *alone, *learners;
    } ways[] = {{"batch=5", "ranks=5 batch=5"},
                {"batch=1", "ranks=5 batch=1"},
                {"batch=5", "ranks=10 mesh=data=2 batch=5"},
                {"batch=1", "ranks=10 mesh=tensor=2 batch=1"}};
    char *root = temporary_folder(), data[4400], words[5000], name[40];
    write_rows(root, NULL, 0, 0.2, data, sizeof(data));
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        (void)snprintf(words, sizeof(words),
                       "%s dtype=f64 device=reference optimizer=sgd lr=1 epochs=1 threads=1", data);
        (void)snprintf(name, sizeof(name), "alone-%zu", w);
        const char *a = made(root, name);
        run(words, ways[w].alone, a, 0);
        (void)snprintf(words + strlen(words), sizeof(words) - strlen(words), " exchange=hogwild");
        (void)snprintf(name, sizeof(name), "hogwild-%zu", w);
        const char *b = made(root, name);
        run(words, ways[w].learners, b, 0);
        assert_same(a, b, "parameters", 0, ways[w].learners);
    }
    remove_folder(root);
}

/* A model whose weights are all changed by all learners learns, with every optimizer and mesh. */
static void test_dense(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "ranks=2 optimizer=sgd lr=0.1 momentum=0.8", "ranks=3 optimizer=adam lr=0.002 clip-norm=5",
        "ranks=4 optimizer=adamw lr=0.002 weight-decay=0.01 mesh=data=2 zero=2",
        "ranks=4 optimizer=adam lr=0.002 mesh=tensor=2 device=distant",
        "ranks=4 optimizer=sgd lr=0.2 mesh=pipeline=2 microbatches=4 dtype=f64"};
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        char words[400];
        log_of_run l;
        if (w > 1 && getenv("WEFT_FAST")) break;
        (void)snprintf(words, sizeof(words),
                       "model=mlp data=glyphs:size=12,train=1600,test=400 seed=4 threads=1 "
                       "batch=20 epochs=12 exchange=hogwild device=cpu %s",
                       ways[w]);
        assert_ok(train(words, NULL, 0, &l));
        if (l.test_accuracy < 0.8) fail_msg("%s: accuracy %g", ways[w], l.test_accuracy);
    }
}

/* A run is stopped and resumed with more or fewer learners; options that hogwild cannot have are
 * refused. */
static void test_stop_and_resume(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *folder = made(root, "a");
    log_of_run l;
    static const char words[] = SMALL "batch=4 optimizer=adam lr=0.01 exchange=hogwild";
    run(words, "ranks=2 steps=1000000", folder, 5);
    run(words, "ranks=3 steps=1000 resume=true", folder, 9);
    run(words, "ranks=2 mesh=data=1 steps=100 resume=true", folder, 0);
    assert_refused(train(SMALL "batch=4 steps=2 ranks=2 exchange=hogwild:sample=0", NULL, 0, &l),
                   WEFT_ERR_ARGUMENT, "sample");
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disjoint_supports),
        cmocka_unit_test(test_lost_updates),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_dense),
        cmocka_unit_test(test_stop_and_resume),
    };
    return cmocka_run_group_tests_name("hogwild", tests, begin, end);
}
