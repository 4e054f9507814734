/* Elastic averaging (EASGD) with learners that the test runs by hand. The centre moves by exactly
 * the opposite of the learners' elastic moves; with alpha 0 each learner trains alone; and all come
 * to rest where forces balance. */
#include <math.h>

#include "exchange_runs.h"
#include "hand_learner.h"
#include "ranks.h"

enum { COUNT = 37, MOST = 4 };

typedef struct scene {
    const char *spec;
    int servers, steps;
    bool exact; /* steps add whole numbers; otherwise they descend on quadratics */
    double middle[MOST], rate;
    double start[COUNT], end[COUNT]; /* the centre before and after the run */
    double given[MOST][COUNT];       /* by learner: sum of what elastic moves took from it */
    double last[MOST][COUNT];        /* by learner: its parameters after its last step */
} scene;

static double stepped(const scene *s, int me, int step, int i, double w)
{
    if (s->exact) return w + (double)((3 * me + 5 * step + i) % 7 - 3);
    return w - s->rate * (w - s->middle[me] * (1 + i));
}

static void learn(weft_comm *comm, void *user)
{
    scene *s = user;
    hand_learner l;
    int me = weft_comm_rank(comm);
    double before[COUNT], w[COUNT];
    rank_ok(hand_learner_open(context, comm, WEFT_F64, COUNT, s->start, s->spec, s->servers, &l));
    weft_exchange *e = l.exchange;
    weft_store *store = l.own.store;
    for (int step = 1; step <= s->steps; step++) {
        weft_step_result result = {.step = step, .last = step == s->steps};
        rank_ok(weft_exchange_before(e, step));
        rank_ok(weft_store_read(store, 0, w));
        for (int i = 0; i < COUNT; i++) before[i] = w[i] = stepped(s, me, step, i, w[i]);
        rank_ok(weft_store_write(store, 0, w));
        rank_ok(weft_exchange_after(e, &result));
        rank_ok(weft_store_read(store, 0, w));
        for (int i = 0; i < COUNT; i++) s->given[me][i] += before[i] - w[i];
        /* A checkpoint between two steps changes nothing for the learner. */
        if (me == 0 && step % 4 == 0) rank_ok(weft_exchange_save(e));
        rank_ok(weft_comm_barrier(comm));
    }
    memcpy(s->last[me], w, sizeof(w));
    rank_ok(weft_exchange_end(e));
    rank_ok(weft_store_read(store, 0, w));
    if (me == 0) memcpy(s->end, w, sizeof(w));
    for (int i = 0; i < COUNT && me > 0; i++) rank_check(isfinite(w[i]));
    hand_learner_close(&l);
}

/* The centre ends at its start plus all that elastic moves took from the learners, to the bit: a
 * few sums of halves of whole numbers are exact. */
static void test_forces_are_conserved(void **state)
{
    (void)state;
    static const char *const specs[] = {"easgd:alpha=0.5", "easgd:alpha=0.25,every=2",
                                        "easgd:every=3,alpha=1"};
    for (int learners = 1; learners <= MOST; learners++)
        for (size_t k = 0; k < sizeof(specs) / sizeof(specs[0]); k++) {
            scene s = {.spec = specs[k], .servers = 1 + (int)k, .steps = 9, .exact = true};
            double moved = 0;
            for (int i = 0; i < COUNT; i++) s.start[i] = i % 5;
            on_ranks("threads", learners, learn, &s);
            for (int i = 0; i < COUNT; i++) {
                double sum = s.start[i];
                for (int l = 0; l < learners; l++) sum += s.given[l][i];
                if (sum != s.end[i])
                    fail_msg("%s: the centre has come to %.17g, by what was given to %.17g", s.spec,
                             s.end[i], sum);
                moved += fabs(s.end[i] - s.start[i]);
            }
            assert_true(moved > 1);
        }
}

/* With alpha 0 no elastic move is made: each learner ends where its own steps lead. */
static void test_alone(void **state)
{
    (void)state;
    scene s = {.spec = "easgd:alpha=0,every=2",
               .servers = 2,
               .steps = 30,
               .rate = 0.3,
               .middle = {1, -2, 0.5, 3}};
    for (int i = 0; i < COUNT; i++) s.start[i] = sin(i);
    on_ranks("threads", MOST, learn, &s);
    assert_memory_equal(s.start, s.end, sizeof(s.end));
    for (int l = 0; l < MOST; l++)
        for (int i = 0; i < COUNT; i++) {
            double w = s.start[i];
            for (int step = 1; step <= s.steps; step++) w = stepped(&s, l, step, i, w);
            assert_true(w == s.last[l][i]);
        }
}

/* At rest the centre is the mean of the learners' minima, and each learner is where its gradient
 * balances the elastic force. Learners move the centre one after the other, so this holds up to
 * about alpha. */
static void test_rest(void **state)
{
    (void)state;
    scene s = {.spec = "easgd:beta=0.08",
               .servers = 2,
               .steps = 700,
               .rate = 0.2,
               .middle = {1, -2, 0.5, 3}};
    double alpha = 0.08 / MOST, middle = (1 - 2 + 0.5 + 3) / MOST;
    on_ranks("threads", MOST, learn, &s);
    for (int i = 0; i < COUNT; i++) {
        assert_true(fabs(s.end[i] - middle * (1 + i)) < 0.1 * (1 + i));
        for (int l = 0; l < MOST; l++) {
            double slope = (1 - alpha) * s.rate; /* the force acts after the step */
            double rest = (slope * s.middle[l] * (1 + i) + alpha * s.end[i]) / (slope + alpha);
            assert_true(fabs(s.last[l][i] - rest) < 0.02 * (1 + i));
        }
    }
    for (int l = 0; l < MOST; l++) s.middle[l] = 1.25;
    on_ranks("threads", MOST, learn, &s);
    for (int i = 0; i < COUNT; i++) assert_true(fabs(s.end[i] - 1.25 * (1 + i)) < 1e-3 * (1 + i));
}

/* Runs are stopped and resumed with other numbers of learners and servers and another mesh. Options
 * that contradict each other are refused, and a longer run reaches its accuracy. */
static void test_runs(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *folder = made(root, "a");
    log_of_run l;
    static const char words[] = SMALL "batch=4 optimizer=adam lr=0.01 exchange=easgd:every=3";
    run(words, "ranks=2 steps=1000000 servers=2", folder, 7);
    run(words, "ranks=3 steps=2000 resume=true servers=3", folder, 9);
    run(words, "ranks=4 mesh=data=2 zero=3 steps=200 resume=true", folder, 0);
    assert_refused(
        train(SMALL "batch=4 steps=2 ranks=2 exchange=easgd:alpha=0.1,beta=0.9", NULL, 0, &l),
        WEFT_ERR_ARGUMENT, "give one of them");
    assert_refused(train(SMALL "batch=4 steps=2 ranks=2 exchange=easgd:alpha=1.5", NULL, 0, &l),
                   WEFT_ERR_ARGUMENT, "alpha is '1.5', must be from 0 to 1");
    assert_ok(train("model=mlp data=glyphs:size=12,train=1600,test=400 seed=4 threads=1 batch=20 "
                    "epochs=25 lr=0.002 ranks=3 exchange=easgd:every=2 compress=threshold "
                    "servers=2",
                    NULL, 0, &l));
    if (l.test_accuracy < 0.85) fail_msg("accuracy %g", l.test_accuracy);
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forces_are_conserved),
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_rest),
        cmocka_unit_test(test_runs),
    };
    return cmocka_run_group_tests_name("easgd", tests, begin, end);
}
