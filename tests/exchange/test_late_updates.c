/* A policy whose versions do not wait for the slowest learner (backup workers, Chen et al. 2016):
 * each of the three fates of its late updates, against sums on paper, and through a snapshot of the
 * range to a replica. */
#include "one_context.h"
#include "range_fixture.h"

enum { COUNT = 5, LEARNERS = 3 };

/* A version has the updates of all learners but one. */
static int all_but_one(const weft_server_pending *w)
{
    int enough = WEFT_MAX(w->learners - 1, 1);
    return w->of_clock >= enough ? w->of_clock : 0;
}

/* A learner begins when the version of its last step is there. */
static bool after_version(const weft_server_waiting *w)
{
    return w->clock <= w->made;
}

static weft_late discarded(int64_t clocks)
{
    assert_true(clocks >= 0);
    return WEFT_LATE_DISCARD;
}

static weft_late applied(int64_t clocks)
{
    return clocks < 2 ? WEFT_LATE_APPLY : WEFT_LATE_DISCARD;
}

static weft_late kept(int64_t clocks)
{
    (void)clocks;
    return WEFT_LATE_KEEP;
}

static weft_late (*const fates[])(int64_t clocks) = {discarded, applied, kept};

/* Pushes, as learner l, numbers that are all x. */
static void push_all(learner *l, weft_range *r, double x)
{
    for (int i = 0; i < COUNT; i++) l->w[i] = x + l->target * (i + 1);
    l->version = weft_range_version(r);
    push(l, r, COUNT);
}

static double value(weft_range *r)
{
    const double *w = weft_range_parameters(r);
    for (int i = 1; i < COUNT; i++) assert_true(w[i] == w[0]);
    return w[0];
}

static weft_range *copy_of(weft_range *r, descent *d, weft_policy policy)
{
    weft_buffer *saved;
    size_t used;
    weft_range *copy = open_range(d, policy, 0);
    assert_int_equal(weft_range_save(r, &saved), WEFT_OK);
    assert_int_equal(weft_range_load(copy, saved->data, saved->bytes, &used), WEFT_OK);
    assert_int_equal(used, saved->bytes);
    /* No part of it may be missing. */
    for (size_t bytes = 0; bytes < saved->bytes; bytes += 8)
        assert_int_equal(weft_range_load(copy, saved->data, bytes, &used), WEFT_ERR_FORMAT);
    weft_buffer_unref(&saved);
    weft_range_destroy(&r);
    return copy;
}

/* The updates of the range's statistics, which are those of the learners. */
static int64_t counted(const weft_range *r)
{
    size_t bins;
    int64_t updates = 0, met = 0, of_one, stale;
    const int64_t *staleness = weft_range_staleness(r, &bins);
    for (size_t i = 0; i < bins; i++) updates += staleness[i];
    for (int l = 0; l < LEARNERS; l++) {
        weft_range_met(r, (weft_actor_id)l + 1, &of_one, &stale);
        met += of_one;
    }
    assert_int_equal(met, updates);
    return updates;
}

/* Learner 3 is late by one step, then by two; `copies`: a replica goes on in between. Returns the
 * number of updates in versions. */
static int64_t run(int fate, bool copies, double after[4])
{
    const weft_server_policy_ops rule = {
        .rounds = true, .complete = all_but_one, .may_begin = after_version, .late = fates[fate]};
    const weft_policy policy = {.rule = &rule, .bound = WEFT_NO_BOUND};
    descent d = {.lr = 1, .count = COUNT};
    weft_range *r = open_range(&d, policy, LEARNERS);
    learner l[LEARNERS];
    for (int i = 0; i < LEARNERS; i++) l[i] = begin_learner(context, i + 1, COUNT);
    push_all(&l[0], r, 8);
    assert_int_equal(weft_range_version(r), 0);
    push_all(&l[1], r, 4); /* the version of clock 1: -6 */
    after[0] = value(r);
    push_all(&l[2], r, 16); /* late for clock 1 */
    after[1] = value(r);
    if (copies) r = copy_of(r, &d, policy);
    push_all(&l[1], r, 2);
    push_all(&l[0], r, 2); /* the version of clock 2: -2 */
    after[2] = value(r);
    push_all(&l[0], r, 1);
    push_all(&l[1], r, 1);  /* the version of clock 3: -1 */
    push_all(&l[2], r, 32); /* late for clock 2 */
    push_all(&l[2], r, 64); /* late for clock 3 */
    if (copies) r = copy_of(r, &d, policy);
    push_all(&l[2], r, 0);
    push_all(&l[0], r, 0); /* the version of clock 4 */
    after[3] = value(r);
    assert_int_equal(weft_range_pending(r), 0);
    int64_t updates = counted(r);
    for (int i = 0; i < LEARNERS; i++) end_learner(&l[i]);
    weft_range_destroy(&r);
    return updates;
}

static void test_fates(void **state)
{
    (void)state;
    static const double right[][4] = {
        {-6, -6, -8, -9}, {-6, -22, -24, -121}, {-6, -6, -16, -65}, /* 16 / 2, then (32 + 64) / 2 */
    };
    for (int fate = 0; fate < 3; fate++)
        for (int copies = 0; copies < 2; copies++) {
            double after[4];
            int64_t updates = run(fate, copies, after);
            assert_int_equal(updates, fates[fate] == discarded ? 11 - 3 : 11);
            for (int i = 0; i < 4; i++) assert_true(after[i] == right[fate][i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fates)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
