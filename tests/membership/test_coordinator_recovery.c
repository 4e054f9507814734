/* Tests the recovery of a restarted coordinator in the simulator: it continues the same run with
 * the members' view, unless the run is over or lost, or its options differ. */
#include "membership/status.h"
#include "membership_fixture.h"

static void test_coordinator_comes_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        crowd c;
        begin(&c, 4, 2, true, seed, seed > 2);
        until(&c, 40);
        uint64_t run = view_of(&c, WEFT_COORDINATOR)->run;
        int64_t number = view_of(&c, WEFT_COORDINATOR)->number;
        c.coordinator.run = 1;                 /* a restarted coordinator draws another run id */
        c.coordinator.done = seed % 2 ? 7 : 0; /* whether it knows that the run has taken steps */
        assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 41), WEFT_OK);
        assert_int_equal(weft_sim_kill(c.sim, LEARNERS, 50), WEFT_OK);
        until(&c, 60);
        assert_int_equal(view_of(&c, LEARNERS + 1)->member_count, 6); /* the loss goes unnoticed */
        assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 60), WEFT_OK);
        /* A learner that joins before the coordinator has recovered the view waits. */
        assert_int_equal(weft_sim_add(c.sim, LEARNERS + 9, 60), WEFT_OK);
        until(&c, 120);
        assert_agreed(&c, 6);
        const weft_view *v = view_of(&c, WEFT_COORDINATOR);
        assert_int_equal(v->run, run);
        assert_true(v->number > number && v->running);
        assert_null(weft_view_find(v, LEARNERS));
        assert_non_null(weft_view_find(v, LEARNERS + 9));
        assert_int_equal(v->range_count, 2);
        assert_int_equal(c.refused, 0);
        weft_sim_destroy(&c.sim);
    }
}

/* If all members are lost together with the coordinator, the run is lost, unless it had taken no
 * step: then it begins with new members. */
static void test_nobody_is_left(void **state)
{
    (void)state;
    for (int64_t done = 0; done <= 7; done += 7) {
        crowd c;
        begin(&c, 2, 1, false, 1, false);
        until(&c, 40);
        const weft_actor_id all[] = {WEFT_COORDINATOR, LEARNERS, LEARNERS + 1, SERVERS};
        for (size_t i = 0; i < WEFT_COUNT(all); i++)
            assert_int_equal(weft_sim_kill(c.sim, all[i], 41), WEFT_OK);
        c.coordinator.done = done;
        c.coordinator.run = 1;
        assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 42), WEFT_OK);
        for (size_t i = 1; i < WEFT_COUNT(all); i++)
            assert_int_equal(weft_sim_restart(c.sim, all[i], 42), WEFT_OK);
        until(&c, 120);
        const weft_view *v = view_of(&c, WEFT_COORDINATOR);
        assert_int_equal(v->running, done == 0);
        if (done > 0)
            assert_non_null(strstr(v->fault, "that had the parameters of step 7 are lost"));
        else
            assert_agreed(&c, 3);
        weft_sim_destroy(&c.sim);
    }
}

/* A recovered view has the steps of the members when the view was made, perhaps long ago; a
 * restarted coordinator shows their present steps. */
static void test_figures_are_new(void **state)
{
    (void)state;
    crowd c;
    begin(&c, 2, 0, false, 1, false);
    until(&c, 40);
    assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 41), WEFT_OK);
    until(&c, 50);
    weft_member_set_stats(person_of(&c, LEARNERS)->member, &(weft_member_stats){.clock = 3000});
    assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 60), WEFT_OK);
    double t = 60;
    do until(&c, t += 0.01);
    while (t < 120 && !view_of(&c, WEFT_COORDINATOR)->running);
    weft_view *v = (weft_view *)(uintptr_t)view_of(&c, WEFT_COORDINATOR);
    assert_true(v->running);
    assert_int_equal(weft_view_find(v, LEARNERS)->figures.clock, 3000);
    assert_int_equal(weft_view_find(v, LEARNERS + 1)->figures.clock, 0);
    weft_sim_destroy(&c.sim);
}

#define TERMS(text_) .given = (text_), .bytes = sizeof(text_)

/* The run configuration with which a run began, and those of coordinators that take the first one's
 * place. */
static const char terms_begun[] = "batch\0"
                                  "10\0"
                                  "@begun.step\0"
                                  "0";
static const struct {
    const char *given;
    size_t bytes;
    const char *says; /* NULL: it is the same run */
} terms_of_next[] = {
    {TERMS("batch\0"
           "10\0"
           "@begun.step\0"
           "7"),
     NULL},
    {TERMS("@begun.step\0"
           "0\0"
           "batch\0"
           "10"),
     NULL},
    {NULL, 0, NULL},
    {TERMS("batch\0"
           "20\0"
           "@begun.step\0"
           "0"),
     "batch is 10 there and 20 here"},
    {TERMS("@begun.step\0"
           "0"),
     "batch is 10 there and not given here"},
    {TERMS("batch\0"
           "10\0"
           "@steps\0"
           "5"),
     "steps is not given there and 5 here"},
    {TERMS("batch\0"
           "1\n2"),
     "batch differs"},
    {TERMS("batch"), "its run configuration has another format"},
};

/* A coordinator with other options does not continue a run: it fails, and the members go on without
 * it. */
static void test_other_options(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_COUNT(terms_of_next); i++) {
        crowd c;
        begin(&c, 2, 0, false, i, false);
        c.coordinator.configuration = terms_begun;
        c.coordinator.configuration_bytes = sizeof(terms_begun);
        until(&c, 40);
        c.coordinator.configuration = terms_of_next[i].given;
        c.coordinator.configuration_bytes = terms_of_next[i].bytes;
        assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 41), WEFT_OK);
        assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 60), WEFT_OK);
        weft_status status = weft_sim_run(c.sim, 120);
        if (terms_of_next[i].says) {
            assert_int_equal(status, WEFT_ERR_PEER);
            if (!strstr(weft_last_message(), terms_of_next[i].says))
                fail_msg("'%s'", weft_last_message());
        } else {
            assert_int_equal(status, WEFT_OK);
            assert_agreed(&c, 2);
        }
        assert_int_equal(c.refused, 0); /* the members go on */
        weft_sim_destroy(&c.sim);
    }
}

/* Fails unless the status of the run has these steps of learners, counted from the beginning of
 * training, and these updates of servers. */
static void assert_steps(crowd *c, int64_t step, int64_t updates)
{
    weft_cluster_status s;
    int64_t most[2] = {0, 0};
    assert_int_equal(weft_cluster_describe(view_of(c, WEFT_COORDINATOR), 0, &s), WEFT_OK);
    for (int i = 0; i < s.count; i++) {
        int64_t *of = &most[strcmp(s.members[i].role, "server") == 0];
        *of = WEFT_MAX(*of, s.members[i].step);
    }
    assert_int_equal(s.step, step);
    assert_int_equal(s.steps, 200);
    assert_int_equal(most[0], step);
    assert_int_equal(most[1], updates);
    weft_cluster_status_free(&s);
}

/* Later joiners receive the run configuration with which the run began, and not that of a restarted
 * coordinator that has found a newer checkpoint. The steps of learners count from there. */
static void test_where_it_began(void **state)
{
    (void)state;
    static const char first[] = "exchange\0server\0@begun.step\0"
                                "5";
    static const char newer[] = "exchange\0server\0@begun.step\0"
                                "90";
    crowd c;
    begin(&c, 2, 1, false, 1, false);
    c.coordinator.configuration = first;
    c.coordinator.configuration_bytes = sizeof(first);
    c.coordinator.steps = 200;
    until(&c, 38);
    weft_member_set_stats(person_of(&c, LEARNERS)->member, &(weft_member_stats){.clock = 50});
    weft_member_set_stats(person_of(&c, SERVERS)->member, &(weft_member_stats){.clock = 60});
    until(&c, 40);
    assert_steps(&c, 55, 60);
    c.coordinator.configuration = newer;
    c.coordinator.configuration_bytes = sizeof(newer);
    assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 41), WEFT_OK);
    assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 42), WEFT_OK);
    assert_int_equal(weft_sim_add(c.sim, LEARNERS + 9, 60), WEFT_OK);
    until(&c, 120);
    assert_agreed(&c, 4);
    assert_memory_equal(c.configuration, first, sizeof(first));
    assert_steps(&c, 55, 60);
    weft_sim_destroy(&c.sim);
}

/* Learners finish all steps and leave while a restarted coordinator has not recovered the view yet.
 * The coordinator does not wait for them: the run is over, and both have finished. */
static void test_leave_during_recovery(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        crowd c;
        begin(&c, 2, 1, false, seed, seed > 2);
        until(&c, 40);
        assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 41), WEFT_OK);
        assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 45), WEFT_OK);
        until(&c, 47);
        for (int i = 0; i < 2; i++)
            assert_int_equal(weft_member_leave(person_of(&c, LEARNERS + i)->member, true), WEFT_OK);
        until(&c, 70);
        const weft_view *v = view_of(&c, WEFT_COORDINATOR);
        assert_true(v->over);
        assert_int_equal(weft_view_count(v, WEFT_MEMBER_LEARNER), 0);
        int finished = 0;
        for (size_t i = 0; i < v->event_count; i++)
            finished += v->events[i].kind == WEFT_MEMBER_FINISHED &&
                        v->events[i].role == WEFT_MEMBER_LEARNER;
        assert_int_equal(finished, 2);
        weft_sim_destroy(&c.sim);
    }
}

/* Learners that have finished leave while the coordinator is down, so that the restarted one learns
 * of the run from their Leave only. A learner that joins then is told that the run is over, and
 * does not wait in a new run for others that never join. */
static void test_leave_before_recovery(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        crowd c;
        begin(&c, 2, 0, false, seed, seed > 2);
        until(&c, 40);
        assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 41), WEFT_OK);
        until(&c, 42);
        for (int i = 0; i < 2; i++) {
            weft_member *m = person_of(&c, LEARNERS + i)->member;
            weft_member_set_stats(m, &(weft_member_stats){.clock = 8});
            assert_int_equal(weft_member_leave(m, true), WEFT_OK);
        }
        until(&c, 44);
        c.coordinator.run = 1;
        /* The coordinator resumes from a checkpoint that the learners have written meanwhile. */
        if (seed % 2) {
            c.coordinator.fingerprint.checkpoint = 9;
            c.members[LEARNERS + 5].fingerprint.checkpoint = 9;
            c.coordinator.fingerprint.step = 7;
        }
        assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 44), WEFT_OK);
        assert_int_equal(weft_sim_add(c.sim, LEARNERS + 5, 44), WEFT_OK);
        until(&c, 80);
        const weft_view *v = view_of(&c, WEFT_COORDINATOR);
        assert_true(v->over);
        assert_int_equal(v->run, 77 + seed);
        assert_int_equal(v->member_count, 0);
        assert_int_equal(c.refused, 1);
        assert_non_null(strstr(c.refusal, "this run is over"));
        weft_sim_destroy(&c.sim);
    }
}

/* New learners reach a restarted coordinator before the members of the run do. They begin a run of
 * their own, and the members of the first run go on without a coordinator. */
static void test_other_run(void **state)
{
    (void)state;
    static const weft_sim_link cut = {.lost = 1};
    static const weft_sim_link good = {.latency = 0.01};
    crowd c;
    begin(&c, 2, 0, false, 1, false);
    until(&c, 40);
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft_sim_connect(c.sim, LEARNERS + i, WEFT_COORDINATOR, &cut), WEFT_OK);
    c.coordinator.run = 1;
    assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 41), WEFT_OK);
    assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 42), WEFT_OK);
    for (int i = 5; i < 7; i++) assert_int_equal(weft_sim_add(c.sim, LEARNERS + i, 42), WEFT_OK);
    until(&c, 50);
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft_sim_connect(c.sim, LEARNERS + i, WEFT_COORDINATOR, &good), WEFT_OK);
    until(&c, 120);
    assert_int_equal(c.refused, 0);
    assert_int_equal(view_of(&c, WEFT_COORDINATOR)->run, 1);
    assert_int_equal(view_of(&c, LEARNERS + 5)->run, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(view_of(&c, LEARNERS + i)->run, 78);
        assert_true(weft_member_coordinator_unreachable(person_of(&c, LEARNERS + i)->member));
    }
    weft_sim_destroy(&c.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coordinator_comes_again),
        cmocka_unit_test(test_figures_are_new),
        cmocka_unit_test(test_other_options),
        cmocka_unit_test(test_where_it_began),
        cmocka_unit_test(test_leave_during_recovery),
        cmocka_unit_test(test_leave_before_recovery),
        cmocka_unit_test(test_other_run),
        cmocka_unit_test(test_nobody_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
