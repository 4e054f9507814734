/* Tests one range of a server by direct calls: learners that join and leave, pushes that are
 * repeated, damaged or too early, saving and loading, and the options of policies. */
#include <math.h>

#include "one_context.h"
#include "exchange/ps/ps.h"
#include "range_fixture.h"

/* --- joining, leaving and repeated pushes --- */

static void test_members(void **state)
{
    (void)state;
    descent d = {.lr = 1, .count = 2};
    weft_range *r = open_range(&d, policy_of("bsp", -1, -1, NULL), 3);
    learner l[4];
    for (int i = 0; i < 4; i++) l[i] = begin_learner(context, i + 1, 2);
    push(&l[0], r, 2);
    push(&l[2], r, 2);
    assert_int_equal(weft_range_version(r), 0);
    assert_false(weft_range_may_begin(r, weft_range_slowest(r), 1));
    /* The learner that the others wait for leaves: the version is made of the pushed updates. */
    assert_int_equal(weft_range_leave(r, 2), WEFT_OK);
    assert_int_equal(weft_range_version(r), 1);
    assert_true(weft_range_may_begin(r, weft_range_slowest(r), 1));
    const double *w = weft_range_parameters(r);
    assert_true(w[0] == (0.25 + 0.75) / 2 && w[1] == 2 * w[0]);
    assert_int_equal(weft_range_leave(r, 2), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_range_join(r, 2, 2, 0), WEFT_ERR_ARGUMENT);
    /* A new learner begins at the clock of the slowest one, and the others wait for it. */
    assert_int_equal(weft_range_join(r, 4, 1, 0), WEFT_OK);
    assert_int_equal(weft_range_slowest(r), 1);
    for (int i = 0; i < 4; i++) fetch(&l[i], r, 2);
    push(&l[0], r, 2);
    push(&l[2], r, 2);
    assert_int_equal(weft_range_version(r), 1);
    l[3].clock = 2;
    weft_buffer *blob = gradient(&l[3], 2);
    weft_push_result fate;
    weft_push late = {4, 1, 2, 1, blob, 0, 1, false};
    assert_int_equal(weft_range_push(r, &late, &fate), WEFT_OK);
    assert_int_equal(fate, WEFT_PUSH_ACCEPTED);
    assert_int_equal(weft_range_version(r), 2);
    weft_buffer_unref(&blob);
    /* The update of a learner that has pushed and then leaves counts. */
    push(&l[0], r, 2);
    assert_int_equal(weft_range_leave(r, 1), WEFT_OK);
    assert_int_equal(push_as(&l[0], r, 2, 4), WEFT_PUSH_UNKNOWN_CLIENT);
    assert_int_equal(weft_range_leave(r, 3), WEFT_OK);
    assert_int_equal(weft_range_leave(r, 4), WEFT_OK);
    assert_int_equal(weft_range_version(r), 3);
    for (int i = 0; i < 4; i++) end_learner(&l[i]);
    weft_range_destroy(&r);
}

/* Without a bound a new learner begins after the step of the fastest learner, also when that one
 * has left: a suspended learner does not set the run back. */
static void test_begins_at_the_run(void **state)
{
    (void)state;
    const char *const policies[] = {"async", "softsync", "ssp", "bsp"};
    for (int i = 0; i < 4; i++) {
        descent d = {.lr = 1, .count = 2};
        weft_policy policy = policy_of(policies[i], i == 1 ? 1 : -1, i == 2 ? 9 : -1, NULL);
        weft_range *r = open_range(&d, policy, 2);
        learner fast = begin_learner(context, 1, 2);
        for (int k = 0; k < (i == 3 ? 1 : 5); k++) push(&fast, r, 2);
        int64_t run = policy.bound == WEFT_NO_BOUND ? 5 : 0;
        assert_int_equal(weft_range_join(r, 7, 2, 0), WEFT_OK);
        assert_int_equal(weft_range_clock(r, 7), run);
        assert_int_equal(weft_range_join(r, 8, 3, 6), WEFT_OK);
        assert_int_equal(weft_range_clock(r, 8), 6);
        for (weft_actor_id id = 8; id > 0; id--)
            if (id == 8 || id == 7 || id <= 2) assert_int_equal(weft_range_leave(r, id), WEFT_OK);
        assert_int_equal(weft_range_join(r, 9, 1, 0), WEFT_OK);
        assert_true(weft_range_clock(r, 9) >= run);
        end_learner(&fast);
        weft_range_destroy(&r);
    }
}

static void test_exactly_once(void **state)
{
    (void)state;
    descent d = {.lr = 0.5, .count = 2};
    weft_range *r = open_range(&d, policy_of("async", -1, -1, NULL), 1);
    learner l = begin_learner(context, 1, 2);
    double once[2];
    push(&l, r, 2);
    memcpy(once, weft_range_parameters(r), sizeof(once));
    assert_int_equal(push_as(&l, r, 2, 1), WEFT_PUSH_DUPLICATE);
    assert_int_equal(push_as(&l, r, 2, 3), WEFT_PUSH_OUT_OF_ORDER);
    assert_memory_equal(once, weft_range_parameters(r), sizeof(once));
    assert_int_equal(weft_range_version(r), 1);
    assert_int_equal(push_as(&l, r, 2, 2), WEFT_PUSH_ACCEPTED);
    assert_int_equal(push_as(&l, r, 2, 3), WEFT_PUSH_ACCEPTED);
    assert_int_equal(weft_range_version(r), 3);
    end_learner(&l);
    weft_range_destroy(&r);
}

/* With a policy of one update of each learner per version, the update of a learner that has left is
 * replaced by that of the learner that took its slot and computed the same step again, whichever
 * of the others pushes first; an update whose slot has no new learner counts. */
static void test_same_slot(void **state)
{
    (void)state;
    static const struct {
        int slot;   /* of the new learner; 0: there is none */
        bool first; /* the new learner pushes before the other one */
        double mean;
    } cases[] = {{2, true, (0.25 + 1) / 2},
                 {2, false, (0.25 + 1) / 2},
                 {3, true, (0.25 + 0.5 + 1) / 3},
                 {0, false, (0.25 + 0.5) / 2}};
    for (size_t c = 0; c < WEFT_COUNT(cases); c++) {
        descent d = {.lr = 1, .count = 2};
        weft_range *r = open_range(&d, policy_of("bsp", -1, -1, NULL), 2);
        learner l[3];
        for (int i = 0; i < 3; i++) l[i] = begin_learner(context, i < 2 ? i + 1 : 4, 2);
        push(&l[1], r, 2);
        assert_int_equal(weft_range_leave(r, 2), WEFT_OK);
        if (cases[c].slot) assert_int_equal(weft_range_join(r, 4, cases[c].slot, 0), WEFT_OK);
        if (cases[c].slot) push(&l[cases[c].first ? 2 : 0], r, 2);
        assert_int_equal(weft_range_version(r), 0);
        push(&l[cases[c].slot && !cases[c].first ? 2 : 0], r, 2);
        assert_int_equal(weft_range_version(r), 1);
        assert_true(((const double *)weft_range_parameters(r))[0] == cases[c].mean);
        for (int i = 0; i < 3; i++) end_learner(&l[i]);
        weft_range_destroy(&r);
    }
}

/* The last update of a learner, sent again after the learner has left, is known as a duplicate; a
 * new update is refused. */
static void test_resent_after_leave(void **state)
{
    (void)state;
    descent d = {.lr = 0.5, .count = 2};
    weft_range *r = open_range(&d, policy_of("async", -1, -1, NULL), 1);
    learner l = begin_learner(context, 1, 2);
    push(&l, r, 2);
    assert_int_equal(weft_range_leave(r, 1), WEFT_OK);
    assert_int_equal(push_as(&l, r, 2, 1), WEFT_PUSH_DUPLICATE);
    assert_int_equal(push_as(&l, r, 2, 2), WEFT_PUSH_UNKNOWN_CLIENT);
    assert_int_equal(push_as(&l, r, 2, 3), WEFT_PUSH_UNKNOWN_CLIENT);
    assert_int_equal(weft_range_version(r), 1);
    end_learner(&l);
    weft_range_destroy(&r);
}

/* A damaged push changes nothing, and the sequence number can be used again by an intact push. */
static void test_damage(void **state)
{
    (void)state;
    descent d = {.lr = 0.5, .count = 2};
    weft_range *r = open_range(&d, policy_of("async", -1, -1, NULL), 1);
    learner l = begin_learner(context, 1, 2);
    weft_buffer *blob = gradient(&l, 2);
    weft_push_result fate;
    weft_push cut = {1, 1, 1, 0, blob, 0, 1, false}, newer = {1, 1, 1, 5, blob, 0, 1, false},
              none = {1, 1, 1, 0, NULL, 0, 1, false}, back = {1, 1, 0, 0, blob, 0, 1, false};
    blob->bytes--;
    assert_int_equal(weft_range_push(r, &cut, &fate), WEFT_ERR_FORMAT);
    blob->bytes++;
    assert_int_equal(weft_range_push(r, &newer, &fate), WEFT_ERR_FORMAT);
    assert_non_null(strstr(weft_last_message(), "was computed on version 5, but the newest is 0"));
    assert_int_equal(weft_range_push(r, &none, &fate), WEFT_ERR_FORMAT);
    assert_int_equal(weft_range_push(r, &back, &fate), WEFT_ERR_FORMAT);
    assert_int_equal(weft_range_version(r), 0);
    push(&l, r, 2);
    assert_int_equal(weft_range_version(r), 1);
    weft_buffer_unref(&blob);
    end_learner(&l);
    weft_range_destroy(&r);
}

/* An update with a number whose square overflows changes nothing, and names its sender. */
static void test_overflow(void **state)
{
    (void)state;
    descent d = {.lr = 1e-200, .count = 2};
    weft_range *r = open_range(&d, policy_of("async", -1, -1, NULL), 1);
    learner l = begin_learner(context, 1, 2);
    weft_push_result fate;
    for (int large = 1; large >= 0; large--) {
        l.target = large ? 1e160 : 1e150;
        weft_buffer *blob = gradient(&l, 2);
        weft_push next = {1, 1, 1, 0, blob, 0, 1, false};
        assert_int_equal(weft_range_push(r, &next, &fate), large ? WEFT_ERR_FORMAT : WEFT_OK);
        if (large)
            assert_non_null(strstr(weft_last_message(),
                                   "learner 1 has a number whose square is not finite in f64"));
        assert_int_equal(weft_range_version(r), !large);
        weft_buffer_unref(&blob);
    }
    end_learner(&l);
    weft_range_destroy(&r);
}

/* A push for a step that the policy did not allow the learner to begin is refused, so the number of
 * waiting updates is bounded; even the largest clocks cause no overflow. */
static void test_ahead(void **state)
{
    (void)state;
    static const int64_t most = INT64_MAX;
    for (int bound = 0; bound < 3; bound++) {
        descent d = {.lr = 0.5, .count = 2};
        weft_range *r = open_range(&d, policy_of("ssp", -1, bound, NULL), 2);
        learner l = begin_learner(context, 1, 2);
        weft_push_result fate;
        weft_buffer *blob = gradient(&l, 2);
        for (int i = 0; i <= bound; i++) push(&l, r, 2);
        weft_push next = {1, l.sequence + 1, bound + 2, 0, blob, 0, 1, false}, last = next;
        assert_int_equal(weft_range_push(r, &next, &fate), WEFT_ERR_FORMAT);
        assert_non_null(
            strstr(weft_last_message(),
                   "which its policy does not allow it to begin: the slowest learner is at 0"));
        last.clock = most;
        assert_int_equal(weft_range_push(r, &last, &fate), WEFT_ERR_FORMAT);
        assert_int_equal(weft_range_clock(r, 1), bound + 1);
        assert_true(weft_range_may_begin(r, weft_range_slowest(r), -most - 1) &&
                    weft_range_may_begin(r, weft_range_slowest(r), bound));
        assert_false(weft_range_may_begin(r, weft_range_slowest(r), bound + 1) ||
                     weft_range_may_begin(r, weft_range_slowest(r), most));
        weft_buffer_unref(&blob);
        end_learner(&l);
        weft_range_destroy(&r);
    }
}

/* After halt, a version is not made if the first learner that leaves has no update in it, whether
 * the other learners pushed theirs before that or do so later. */
static void test_halt(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        descent d = {.lr = 0.5, .count = 2};
        weft_range *r = open_range(&d, policy_of("bsp", -1, -1, NULL), 3);
        learner l[3];
        for (int i = 0; i < 3; i++) l[i] = begin_learner(context, i + 1, 2);
        for (int i = 0; i < 3; i++) push(&l[i], r, 2);
        if (early) push(&l[1], r, 2);
        weft_range_halt(r, 1);
        assert_int_equal(weft_range_leave(r, 1), WEFT_OK);
        if (!early) push(&l[1], r, 2);
        push(&l[2], r, 2);
        assert_int_equal(weft_range_clock(r, 3), 2);
        for (weft_actor_id i = 2; i <= 3; i++) assert_int_equal(weft_range_leave(r, i), WEFT_OK);
        assert_int_equal(weft_range_version(r), 1);
        for (int i = 0; i < 3; i++) end_learner(&l[i]);
        weft_range_destroy(&r);
    }
}

/* A range that is saved between two versions and loaded again, in place of one with a pending
 * update, continues with the same bits; saved data that is cut off is refused. */
static void test_state(void **state)
{
    (void)state;
    static const char *const names[] = {"bsp", "softsync"};
    for (int p = 0; p < 2; p++) {
        descent d = {.lr = 0.5, .count = 3};
        weft_range *a = open_range(&d, policy_of(names[p], p ? 3 : -1, -1, NULL), 3);
        weft_range *b = open_range(&d, policy_of(names[p], p ? 3 : -1, -1, NULL), 2);
        learner l[3], early = begin_learner(context, 1, 3);
        weft_buffer *blob;
        size_t used, sizes[2];
        push(&early, b, 3);
        end_learner(&early);
        assert_int_equal(weft_range_pending(b), 1);
        for (int i = 0; i < 3; i++) l[i] = begin_learner(context, i + 1, 3);
        for (int t = 0; t < 6; t++) {
            push(&l[t % 3], a, 3);
            fetch(&l[t % 3], a, 3);
        }
        assert_int_equal(weft_range_pending(a), 0);
        assert_int_equal(weft_range_save(a, &blob), WEFT_OK);
        for (size_t cut = 0; cut < blob->bytes; cut++)
            assert_int_equal(weft_range_load(b, blob->data, cut, &used), WEFT_ERR_FORMAT);
        assert_int_equal(weft_range_version(b), 0);
        assert_int_equal(weft_range_load(b, blob->data, blob->bytes, &used), WEFT_OK);
        assert_int_equal(used, blob->bytes);
        assert_int_equal(weft_range_pending(b), 0);
        weft_buffer_unref(&blob);
        for (int t = 6; t < 12; t++) {
            learner before = l[t % 3];
            push(&l[t % 3], a, 3);
            l[t % 3] = before;
            push(&l[t % 3], b, 3);
        }
        assert_int_equal(weft_range_version(a), 4);
        assert_int_equal(weft_range_version(b), 4);
        assert_memory_equal(weft_range_parameters(a), weft_range_parameters(b), 3 * sizeof(double));
        const int64_t *x = weft_range_staleness(a, &sizes[0]);
        const int64_t *y = weft_range_staleness(b, &sizes[1]);
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(x, y, sizes[0] * sizeof(*x));
        for (int i = 0; i < 3; i++) end_learner(&l[i]);
        weft_range_destroy(&a);
        weft_range_destroy(&b);
    }
}

/* --- options --- */

static void test_policies(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double count, bound;
        const char *scale;
        double beta;
        const char *says;
    } wrong[] = {
        {"asinc", -1, -1, NULL, -1, "no server policy is named 'asinc'; did you mean 'async'"},
        {"async", 3, -1, NULL, -1, "policy=async has no c; softsync has one"},
        {"softsync", -1, -1, NULL, -1, "policy=softsync needs c="},
        {"bsp", -1, 2, NULL, -1, "policy=bsp has no bound; ssp has one"},
        {"ssp", -1, -1, NULL, -1, "policy=ssp needs bound="},
        {"async", -1, -1, "linear", -1, "scale is 'linear', must be one of none,inverse,exp"},
        {"async", -1, -1, "inverse", 0.5, "beta is an option of scale=exp"},
    };
    weft_policy p;
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++) {
        assert_int_equal(weft_policy_make(context, wrong[i].name, wrong[i].count, wrong[i].bound,
                                          wrong[i].scale, wrong[i].beta, &p),
                         WEFT_ERR_ARGUMENT);
        if (!strstr(weft_last_message(), wrong[i].says)) fail_msg("'%s'", weft_last_message());
    }
    p = policy_of("softsync", 4, -1, "exp");
    assert_true(weft_policy_rate(&p, 0) == 1);
    assert_true(fabs(weft_policy_rate(&p, 3) - exp(-1.5)) < 1e-15);
    p = policy_of("async", -1, -1, "inverse");
    assert_true(weft_policy_rate(&p, 1) == 1 && weft_policy_rate(&p, 4) == 0.25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_begins_at_the_run),
        cmocka_unit_test(test_exactly_once),
        cmocka_unit_test(test_same_slot),
        cmocka_unit_test(test_resent_after_leave),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_halt),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_policies),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
