/* Members that a run has removed, in the simulator: they find their run again. */
#include "membership/client.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_former_member_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
