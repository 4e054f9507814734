/* Tests pipeline schedules: the actions of each stage, and the predicted makespan and bubble, which
 * must be those of the longest path through the dependencies of actions and, for equal stages, of
 * the formula. */
#include <math.h>

#include "support.h"
#include "weft/plan.h"

enum { STAGES = 6, MICRO = 9 };

static const char *const kinds[] = {"gpipe", "1f1b"};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Calls `look` for each schedule with each number of stages and micro-batches. */
static void each(void (*look)(const char *kind, int stages, int micro))
{
    for (int k = 0; k < KINDS; k++)
        for (int stages = 1; stages <= STAGES; stages++)
            for (int micro = 1; micro <= MICRO; micro++) look(kinds[k], stages, micro);
}

static void check_actions(const char *kind, int stages, int micro)
{
    bool gpipe = strcmp(kind, "gpipe") == 0;
    for (int stage = 0; stage < stages; stage++) {
        weft_schedule s;
        int forward[MICRO] = {0}, backward[MICRO] = {0}, under_way = 0, most = 0, turned = 0;
        assert_ok(weft_schedule_make(fresh_context(), kind, stages, stage, micro, &s));
        assert_int_equal(s.count, 2 * micro);
        for (int i = 0; i < s.count; i++) {
            const weft_action *a = &s.actions[i];
            assert_true(a->micro >= 0 && a->micro < micro);
            if (a->phase == WEFT_PHASE_FORWARD) {
                forward[a->micro]++;
                most = ++under_way > most ? under_way : most;
                turned += under_way < i + 1; /* a forward after some backward */
            } else {
                assert_int_equal(forward[a->micro], 1); /* forward comes before backward */
                backward[a->micro]++;
                under_way--;
            }
        }
        for (int m = 0; m < micro; m++) assert_true(forward[m] == 1 && backward[m] == 1);
        int room = stages == 1              ? 1
                   : gpipe                  ? micro
                   : stages - stage < micro ? stages - stage
                                            : micro;
        if (s.slots != most || most != room)
            fail_msg("%s, stage %d of %d, %d micro-batches: %d under way, %d slots, should be %d",
                     kind, stage, stages, micro, most, s.slots, room);
        if (gpipe && stages > 1) assert_int_equal(turned, 0);
        weft_schedule_free(&s);
    }
}

/* The end of the last action by fixed-point iteration. An action begins when the action before it
 * in its stage has ended, and the one of the neighbouring stage whose result it needs. */
static double longest_way(const weft_schedule *s, int stages, const double *forward,
                          const double *backward)
{
    static double end[STAGES][2][MICRO];
    double last = 0;
    memset(end, 0, sizeof(end));
    for (bool moved = true; moved;) {
        moved = false;
        for (int p = 0; p < stages; p++) {
            double before = 0;
            for (int i = 0; i < s[p].count; i++) {
                int m = s[p].actions[i].micro, back = s[p].actions[i].phase == WEFT_PHASE_BACKWARD;
                double needed = !back             ? (p == 0 ? 0 : end[p - 1][0][m])
                                : p == stages - 1 ? end[p][0][m]
                                                  : end[p + 1][1][m];
                double until = fmax(before, needed) + (back ? backward[p] : forward[p]);
                moved = moved || until > end[p][back][m];
                before = end[p][back][m] = until;
                last = fmax(last, until);
            }
        }
    }
    return last;
}

static void expect_times(const char *kind, int stages, int micro, const double *forward,
                         const double *backward, double want)
{
    double makespan, bubble, work = 0;
    for (int p = 0; p < stages; p++) work += micro * (forward[p] + backward[p]);
    assert_ok(weft_schedule_check(fresh_context(), kind, stages, micro, forward, backward,
                                  &makespan, &bubble));
    if (fabs(makespan - want) > 1e-9 * want || fabs(bubble - (1 - work / (want * stages))) > 1e-9)
        fail_msg("%s, %d stages, %d micro-batches: takes %g, bubble %g; should be %g, %g", kind,
                 stages, micro, makespan, bubble, want, 1 - work / (want * stages));
    assert_ok(
        weft_schedule_check(fresh_context(), kind, stages, micro, forward, backward, NULL, NULL));
}

static void check_times(const char *kind, int stages, int micro)
{
    weft_schedule s[STAGES];
    double forward[STAGES], backward[STAGES];
    for (int p = 0; p < stages; p++)
        assert_ok(weft_schedule_make(fresh_context(), kind, stages, p, micro, &s[p]));
    for (int way = 0; way < 4;
         way++) { /* different stages; way 1: one has no forward, way 2: one has no backward */
        for (int p = 0; p < stages; p++) {
            forward[p] = way == 1 && p == stages / 2 ? 0 : 1 + (p * 7 + way * 3) % 5;
            backward[p] = way == 2 && p == stages / 3 ? 0 : 1 + (p * 5 + way) % 4;
        }
        expect_times(kind, stages, micro, forward, backward,
                     longest_way(s, stages, forward, backward));
    }
    for (int p = 0; p < stages; p++) {
        forward[p] = 2;
        backward[p] = 3;
        weft_schedule_free(&s[p]);
    }
    expect_times(kind, stages, micro, forward, backward, 5.0 * (micro + stages - 1));
}

static void actions_are_whole(void **state)
{
    (void)state;
    each(check_actions);
}

static void times_are_those_of_the_longest_way(void **state)
{
    (void)state;
    each(check_times);
}

static void what_cannot_run_is_refused(void **state)
{
    (void)state;
    double forward[] = {1, 0, 1}, backward[] = {1, 0, 0}, makespan;
    weft_schedule s;
    assert_refused(
        weft_schedule_check(fresh_context(), "gpipe", 3, 2, forward, backward, &makespan, NULL),
        WEFT_ERR_ARGUMENT, "stage 1 of 3 has nothing to do");
    assert_refused(weft_schedule_make(fresh_context(), "1f2b", 3, 0, 2, &s), WEFT_ERR_ARGUMENT,
                   "'1f2b'");
    assert_refused(
        weft_schedule_check(fresh_context(), "1f2b", 1, 2, forward, backward, &makespan, NULL),
        WEFT_ERR_ARGUMENT, "'1f2b'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(actions_are_whole),
        cmocka_unit_test(times_are_those_of_the_longest_way),
        cmocka_unit_test(what_cannot_run_is_refused),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
