/* Members that a run has removed or that have left it, in the simulator: they find their run again,
 * are told when its state is lost, and their steps count. */
#include "membership/client.h"
#include "membership/status.h"
#include "membership_fixture.h"

/* A member that was removed asks a restarted coordinator for its run before any member has sent a
 * heartbeat. The coordinator looks for the run: the answer is that of the run that goes on, and
 * comes after one failure timeout if no member is left. */
static void test_former_member_asks(void **state)
{
    (void)state;
    static const weft_sim_link cut = {.lost = 1};
    static const weft_sim_link good = {.latency = 0.01};
    const weft_actor_id all[] = {LEARNERS, LEARNERS + 1, SERVERS};
    for (int left = 0; left < 2; left++) {
        crowd c;
        begin(&c, 2, 1, false, 1, false);
        until(&c, 40);
        c.coordinator.run = 1;
        c.sought = view_of(&c, WEFT_COORDINATOR)->run;
        assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 41), WEFT_OK);
        for (size_t i = 0; i < WEFT_COUNT(all); i++)
            assert_int_equal(left ? weft_sim_connect(c.sim, all[i], WEFT_COORDINATOR, &cut)
                                  : weft_sim_kill(c.sim, all[i], 41),
                             WEFT_OK);
        assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 42), WEFT_OK);
        assert_int_equal(weft_sim_add(c.sim, CLIENTS, 43), WEFT_OK);
        until(&c, 50);
        assert_false(weft_sim_actor(c.sim, CLIENTS)->done);
        for (size_t i = 0; left && i < WEFT_COUNT(all); i++)
            assert_int_equal(weft_sim_connect(c.sim, all[i], WEFT_COORDINATOR, &good), WEFT_OK);
        until(&c, left ? 70 : 57);
        const weft_actor *client = weft_sim_actor(c.sim, CLIENTS);
        assert_true(client->done);
        assert_int_equal(weft_membership_client_run(client), left ? c.sought : 1);
        if (left) assert_agreed(&c, 3);
        assert_int_equal(c.refused, 0);
        /* A former member of another run, or of this one, is answered without delay then. */
        c.sought = 5;
        assert_int_equal(weft_sim_add(c.sim, CLIENTS + 1, 70), WEFT_OK);
        until(&c, 73);
        assert_true(weft_sim_actor(c.sim, CLIENTS + 1)->done);
        weft_sim_destroy(&c.sim);
    }
}

/* Peers that were removed come back when the last one has left: none has the state of the run, so
 * they are not advised to join again, but how to begin the run again. */
static void test_all_peers_come_back(void **state)
{
    (void)state;
    static const weft_sim_link cut = {.lost = 1};
    static const weft_sim_link good = {.latency = 0.01};
    for (int64_t clock = 0; clock < 2; clock++) {
        crowd c;
        weft_removal removal = {.removed = false};
        begin(&c, 3, 0, false, 1, false);
        c.coordinator.advice = "ADVICE";
        for (int i = 0; i < 2; i++) c.members[LEARNERS + i].removal = &removal;
        until(&c, 30);
        for (int i = 0; i < 3; i++)
            weft_member_set_stats(person_of(&c, LEARNERS + i)->member,
                                  &(weft_member_stats){.clock = clock});
        until(&c, 35);
        for (int i = 0; i < 2; i++)
            assert_int_equal(weft_sim_connect(c.sim, LEARNERS + i, WEFT_COORDINATOR, &cut),
                             WEFT_OK);
        until(&c, 52);
        assert_int_equal(view_of(&c, WEFT_COORDINATOR)->member_count, 1);
        assert_int_equal(weft_member_leave(person_of(&c, LEARNERS + 2)->member, false), WEFT_OK);
        until(&c, 53);
        assert_int_equal(view_of(&c, WEFT_COORDINATOR)->member_count, 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(weft_sim_connect(c.sim, LEARNERS + i, WEFT_COORDINATOR, &good),
                             WEFT_OK);
        until(&c, 60);
        assert_int_equal(c.refused, 2);
        assert_int_equal(removal.removed, clock == 0);
        bool told =
            strstr(c.refusal, "no learner is left that has the state of the run; ADVICE") != NULL;
        assert_int_equal(told, clock > 0);
        weft_sim_destroy(&c.sim);
    }
}

/* The step of the run does not fall when the learner leaves that has taken the most steps, or when
 * the coordinator is restarted. */
static void test_step_never_falls(void **state)
{
    (void)state;
    crowd c;
    begin(&c, 2, 1, false, 1, false);
    c.coordinator.steps = 200;
    until(&c, 38);
    weft_member *first = person_of(&c, LEARNERS)->member;
    weft_member_set_stats(first, &(weft_member_stats){.clock = 50});
    weft_member_set_stats(person_of(&c, LEARNERS + 1)->member, &(weft_member_stats){.clock = 30});
    until(&c, 40);
    weft_member_set_stats(first, &(weft_member_stats){.clock = 52});
    assert_int_equal(weft_member_leave(first, false), WEFT_OK);
    for (int times = 0; times < 2; times++) {
        weft_cluster_status s;
        until(&c, times ? 80 : 42);
        assert_int_equal(weft_cluster_describe(view_of(&c, WEFT_COORDINATOR), 0, &s), WEFT_OK);
        assert_int_equal(s.learners, 1);
        assert_int_equal(s.members[0].step, 30);
        assert_int_equal(s.step, 52);
        weft_cluster_status_free(&s);
        if (times) break;
        assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 43), WEFT_OK);
        assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 44), WEFT_OK);
    }
    weft_sim_destroy(&c.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_former_member_asks),
        cmocka_unit_test(test_all_peers_come_back),
        cmocka_unit_test(test_step_never_falls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
