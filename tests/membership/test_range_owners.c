/* Tests the owners of ranges in the simulator: when servers die or leave, each range keeps a server
 * that has all of its parameters, or the run has a fault. */
#include "membership_fixture.h"

/* If a server dies, the in-sync replica of each of its ranges becomes primary, and the range gets a
 * new replica. */
static void test_range_owners(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        crowd c;
        begin(&c, 1, 3, true, seed, seed > 2);
        until(&c, 40);
        const weft_range_owner before[] = {view_of(&c, LEARNERS)->ranges[0],
                                           view_of(&c, LEARNERS)->ranges[1],
                                           view_of(&c, LEARNERS)->ranges[2]};
        for (int t = 0; t < 20; t++) { /* reports may be lost, and are not resent */
            for (int k = 0; k < 3; k++)
                assert_int_equal(
                    weft_member_report_in_sync(person_of(&c, (int)before[k].primary)->member, k,
                                               before[k].replica),
                    WEFT_OK);
            until(&c, 41 + t);
        }
        assert_true(view_of(&c, LEARNERS)->ranges[0].in_sync);
        weft_actor_id dies = before[0].primary;
        assert_int_equal(weft_sim_kill(c.sim, dies, 65), WEFT_OK);
        until(&c, 120);
        assert_agreed(&c, 3);
        const weft_view *v = view_of(&c, LEARNERS);
        assert_null(v->fault);
        for (int k = 0; k < 3; k++) {
            const weft_range_owner *r = &v->ranges[k];
            assert_int_equal(r->primary,
                             before[k].primary == dies ? before[k].replica : before[k].primary);
            assert_true(r->replica != WEFT_NOBODY && r->replica != dies &&
                        r->replica != r->primary);
            if (before[k].primary == dies || before[k].replica == dies) assert_false(r->in_sync);
        }
        /* The next primary dies before its new replica is in sync: the range is lost, and the run
         * has a fault. */
        weft_actor_id owner = v->ranges[0].primary;
        assert_int_equal(weft_sim_kill(c.sim, owner, 121), WEFT_OK);
        until(&c, 170);
        assert_non_null(view_of(&c, LEARNERS)->fault);
        assert_non_null(strstr(view_of(&c, LEARNERS)->fault, "and with it range 0 of 3"));
        weft_sim_destroy(&c.sim);
    }
}

/* Reports that the replicas of all ranges are in sync. */
static void sync_replicas(crowd *c, double now)
{
    const weft_view *v = view_of(c, WEFT_COORDINATOR);
    for (int k = 0; k < v->range_count; k++)
        assert_int_equal(weft_member_report_in_sync(person_of(c, (int)v->ranges[k].primary)->member,
                                                    k, v->ranges[k].replica),
                         WEFT_OK);
    until(c, now);
}

/* Asks a server to leave; whether the coordinator has agreed. */
static bool asks_to_leave(crowd *c, int client, weft_actor_id server, double now)
{
    weft_actor_id id = (weft_actor_id)(CLIENTS + client);
    c->asked = server;
    assert_int_equal(weft_sim_add(c->sim, id, now), WEFT_OK);
    /* The client asks again until the servers with copies were heard. */
    weft_status status = weft_sim_run(c->sim, now + 4);
    if (status == WEFT_OK) {
        assert_int_equal(weft_sim_kill(c->sim, id, now + 4.1), WEFT_OK);
        assert_true(weft_view_find(view_of(c, WEFT_COORDINATOR), server)->dismissed);
        return true;
    }
    assert_int_equal(status, WEFT_ERR_PEER);
    assert_non_null(strstr(weft_last_message(), "no other server has all of its parameters"));
    assert_int_equal(weft_sim_kill(c->sim, id, now + 0.5), WEFT_OK);
    return false;
}

/* Outside a job no client can remove a member by a request for its slot. */
static void test_clients_replace_nobody(void **state)
{
    (void)state;
    enum { SLOTS = 2 };
    for (int learner = 0; learner < 2; learner++) {
        crowd c;
        begin(&c, SLOTS, SLOTS, true, 1, false);
        until(&c, 20);
        for (int slot = 0; slot < SLOTS; slot++) {
            weft_actor_id id = (weft_actor_id)(CLIENTS + slot);
            c.wished_slot = slot + 1;
            c.sought = learner ? view_of(&c, WEFT_COORDINATOR)->run : 0;
            assert_int_equal(weft_sim_add(c.sim, id, 21 + slot), WEFT_OK);
        }
        until(&c, 24);
        assert_agreed(&c, 2 * SLOTS);
        weft_sim_destroy(&c.sim);
    }
}

static int64_t counted; /* processes that the supervisor has started for each slot */

static int64_t count_starts(void *user, weft_member_role role, int slot)
{
    (void)user;
    (void)role;
    (void)slot;
    return counted;
}

/* In a job a client takes the place of a member once for each process that the supervisor has
 * started for the slot since, and never that of a member whose process is the last one. A member
 * itself neither takes the place of another one nor asks it to leave. */
static void test_supervisor_replaces(void **state)
{
    (void)state;
    enum { SLOTS = 2 };
    for (int learner = 0; learner < 2; learner++) {
        crowd c;
        begin(&c, SLOTS, SLOTS, true, 1, false);
        c.coordinator.first = true;
        c.coordinator.starts = count_starts;
        counted = 1;
        until(&c, 20);
        int victim = learner ? LEARNERS : SERVERS, seen = 0;
        weft_member_role role = learner ? WEFT_MEMBER_LEARNER : WEFT_MEMBER_SERVER;
        c.wished_slot =
            weft_view_find(view_of(&c, WEFT_COORDINATOR), (weft_actor_id)victim)->slot + 1;
        c.sought = learner ? view_of(&c, WEFT_COORDINATOR)->run : 0;
        for (int round = 0; round < 3; round++) {
            counted = 1 + (round > 0);
            assert_int_equal(weft_sim_add(c.sim, (weft_actor_id)(CLIENTS + round), 21 + round),
                             WEFT_OK);
            until(&c, 21.9 + round);
            seen = weft_view_count(view_of(&c, WEFT_COORDINATOR), role);
            assert_int_equal(seen, SLOTS - (round > 0));
        }
        weft_sim_destroy(&c.sim);
    }
    /* Query with place, and Leave with other: field 3 and field 1. */
    for (int leave = 0; leave < 2; leave++) {
        crowd c;
        begin(&c, SLOTS, SLOTS, true, 1, false);
        c.coordinator.first = true;
        c.coordinator.starts = count_starts;
        counted = 1;
        until(&c, 20);
        counted = 2;
        const uint8_t head[] = {leave ? 0x08 : 0x18, leave ? SERVERS : 1};
        weft_message message = {.type = leave ? WEFT_RPC_LEAVE : WEFT_RPC_QUERY,
                                .head = head,
                                .head_bytes = sizeof(head)};
        assert_int_equal(
            weft_actor_send(&person_of(&c, LEARNERS + 1)->head, WEFT_COORDINATOR, &message),
            WEFT_OK);
        until(&c, 30);
        assert_agreed(&c, 2 * SLOTS);
        assert_false(weft_member_dismissed(person_of(&c, SERVERS)->member));
        weft_sim_destroy(&c.sim);
    }
}

/* Two of the servers are asked to leave before the first one has left. The second one may not if a
 * range has copies on these two only, since both would take them away. */
static void test_two_servers_asked_to_leave(void **state)
{
    (void)state;
    for (int servers = 2; servers <= 4; servers++)
        for (int second = 1; second < servers; second++) {
            crowd c;
            begin(&c, 1, servers, true, 1, false);
            until(&c, 20);
            sync_replicas(&c, 21);
            bool shared = false;
            const weft_view *v = view_of(&c, WEFT_COORDINATOR);
            for (int k = 0; k < servers; k++) {
                const weft_range_owner *r = &v->ranges[k];
                assert_true(r->in_sync);
                shared = shared || (r->primary + r->replica == (unsigned)(2 * SERVERS + second) &&
                                    (r->primary == SERVERS || r->replica == SERVERS));
            }
            assert_true(shared == (servers < 4 || second != 2));
            assert_true(asks_to_leave(&c, 0, SERVERS, 21));
            assert_int_equal(asks_to_leave(&c, 1, (weft_actor_id)(SERVERS + second), 27), !shared);
            /* After server 0 has left, and the last copies have replicas again, it may. */
            assert_int_equal(weft_member_leave(person_of(&c, SERVERS)->member, false), WEFT_OK);
            until(&c, 40);
            assert_null(view_of(&c, LEARNERS)->fault);
            if (shared && servers > 2) {
                sync_replicas(&c, 41);
                assert_true(asks_to_leave(&c, 2, (weft_actor_id)(SERVERS + second), 41));
            }
            weft_sim_destroy(&c.sim);
        }
}

/* A server whose process is to end leaves when the other one has copies of all its ranges, also if
 * the coordinator restarts meanwhile; the last one stays. */
static void test_server_leaves_if_safe(void **state)
{
    (void)state;
    for (int restart = 0; restart < 2; restart++) {
        crowd c;
        begin(&c, 1, 2, true, 1, false);
        until(&c, 20);
        if (restart) {
            assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 20.1), WEFT_OK);
            assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 20.2), WEFT_OK);
            until(&c, 20.5);
        }
        assert_int_equal(weft_member_leave_if_safe(person_of(&c, SERVERS)->member), WEFT_OK);
        until(&c, 50);
        assert_non_null(weft_member_must_stay(person_of(&c, SERVERS)->member));
        assert_agreed(&c, 3);
        sync_replicas(&c, 60);
        assert_agreed(&c, 2);
        const weft_view *v = view_of(&c, WEFT_COORDINATOR);
        assert_null(v->fault);
        for (int k = 0; k < v->range_count; k++)
            assert_int_equal(v->ranges[k].primary, SERVERS + 1);
        assert_int_equal(v->events[v->event_count - 1].kind, WEFT_MEMBER_STOPPED);
        assert_int_equal(weft_member_leave_if_safe(person_of(&c, SERVERS + 1)->member), WEFT_OK);
        until(&c, 90);
        assert_non_null(weft_member_must_stay(person_of(&c, SERVERS + 1)->member));
        assert_agreed(&c, 2);
        assert_null(view_of(&c, LEARNERS)->fault);
        assert_int_equal(c.refused, 0);
        weft_sim_destroy(&c.sim);
    }
}

/* A server does not leave while the only other copy is on a server that has died and is not removed
 * yet, whether there is a coordinator or not. */
static void test_server_stays_for_a_dead_copy(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        crowd c;
        begin(&c, 1, 2, true, 1, false);
        until(&c, 20);
        sync_replicas(&c, 30);
        assert_int_equal(weft_sim_kill(c.sim, SERVERS + 1, 30.1), WEFT_OK);
        if (alone) assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 30.1), WEFT_OK);
        until(&c, 30.2);
        const weft_member *server = person_of(&c, SERVERS)->member;
        assert_int_equal(weft_member_leave_if_safe(person_of(&c, SERVERS)->member), WEFT_OK);
        for (int t = 31; t <= 90; t++) {
            until(&c, t);
            assert_non_null(weft_member_must_stay(server));
            assert_false(weft_member_has_left(server));
            assert_null(view_of(&c, LEARNERS)->fault);
        }
        if (!alone) assert_agreed(&c, 2);
        weft_sim_destroy(&c.sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range_owners),
        cmocka_unit_test(test_two_servers_asked_to_leave),
        cmocka_unit_test(test_clients_replace_nobody),
        cmocka_unit_test(test_supervisor_replaces),
        cmocka_unit_test(test_server_leaves_if_safe),
        cmocka_unit_test(test_server_stays_for_a_dead_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
