/* Tests the membership protocol in the simulator: when members join, leave, fail or are suspended,
 * all remaining members end with the same view, even if links lose messages. */
#include "actor/rpc.h"
#include "membership/coordinator.h"
#include "membership/status.h"
#include "membership_fixture.h"

static void test_all_come(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        crowd c;
        begin(&c, 4, 3, seed % 2, seed, seed > 2);
        for (int i = 0; i < 4; i++) c.members[LEARNERS + i].requested_slot = 3 - i;
        until(&c, 60);
        assert_agreed(&c, 7);
        const weft_view *v = view_of(&c, WEFT_COORDINATOR);
        assert_true(v->running && !v->over && !v->fault);
        for (int i = 0; i < 4; i++) /* each learner has the slot it requested */
            assert_int_equal(weft_view_find(v, (weft_actor_id)(LEARNERS + i))->slot, 3 - i);
        assert_string_equal(c.configuration, "model: lenet");
        for (int k = 0; k < 3; k++) {
            const weft_range_owner *r = &v->ranges[k];
            assert_int_equal(weft_view_find(v, r->primary)->slot, k);
            assert_int_equal(r->replica != WEFT_NOBODY, seed % 2);
            assert_true(r->replica != r->primary);
        }
        weft_sim_destroy(&c.sim);
    }
}

/* The run begins when all expected members have joined; before, members can say how many are
 * missing. */
static void test_somebody_is_missing(void **state)
{
    (void)state;
    crowd c;
    begin(&c, 2, 1, false, 1, false);
    c.coordinator.expected[WEFT_MEMBER_LEARNER] = 4;
    until(&c, 100);
    assert_false(view_of(&c, WEFT_COORDINATOR)->running);
    assert_int_equal(view_of(&c, LEARNERS)->number, 0);
    assert_string_equal(weft_member_waits_for(person_of(&c, LEARNERS)->member),
                        "2 of 4 learners have joined");
    assert_int_equal(weft_sim_add(c.sim, LEARNERS + 2, 100), WEFT_OK);
    assert_int_equal(weft_sim_add(c.sim, LEARNERS + 3, 101), WEFT_OK);
    until(&c, 110);
    assert_agreed(&c, 5);
    assert_null(weft_member_waits_for(person_of(&c, LEARNERS)->member));
    weft_sim_destroy(&c.sim);
}

/* Sends a message of a type to an actor, whose content is empty, and a view with a
 * fault as its payload. */
static void forge(crowd *c, int from, int to, uint32_t type)
{
    weft_view forged;
    weft_buffer *blob = NULL;
    char fault[] = "forged";
    forged = *view_of(c, LEARNERS);
    forged.number += 1000;
    forged.fault = fault;
    assert_int_equal(weft_view_pack(&forged, NULL, 0, &blob), WEFT_OK);
    /* StateLost names the present view in its first field. */
    const uint8_t view[] = {0x08, (uint8_t)view_of(c, LEARNERS)->number};
    weft_message message = {.type = type, .head = view, .payload = blob};
    message.head_bytes = type == WEFT_RPC_STATE_LOST ? sizeof(view) : 0;
    assert_int_equal(weft_actor_send(&person_of(c, from)->head, (weft_actor_id)to, &message),
                     WEFT_OK);
    weft_buffer_unref(&blob);
}

/* A learner, a server and a process that is no member send every type of message to each actor, in
 * the roles of all others. Whatever is not theirs to send changes nothing: all members go on with
 * the view of the coordinator. */
static void test_roles(void **state)
{
    (void)state;
    static const int all[] = {WEFT_COORDINATOR, SERVERS,      SERVERS + 1,
                              LEARNERS,         LEARNERS + 1, LEARNERS + 5};
    crowd c;
    begin(&c, 2, 2, true, 1, false);
    c.members[LEARNERS + 5].fingerprint.parameters = 9; /* is refused, so it is no member */
    until(&c, 30);
    int forged = 0;
    double now = 30;
    int64_t number = view_of(&c, WEFT_COORDINATOR)->number;
    assert_int_equal(weft_sim_add(c.sim, LEARNERS + 5, now), WEFT_OK);
    until(&c, now += 0.005); /* it exists, and is not refused yet */
    for (size_t from = 1; from < WEFT_COUNT(all); from++)
        for (size_t to = 0; to < WEFT_COUNT(all) - 1; to++)
            for (uint32_t type = 0; type <= WEFT_RPC_TYPES; type++) {
                weft_rpc_role sender =
                    weft_view_role(view_of(&c, LEARNERS), (weft_actor_id)all[from]);
                weft_rpc_role receiver =
                    weft_view_role(view_of(&c, LEARNERS), (weft_actor_id)all[to]);
                if (from == to || weft_rpc_may_send(type, sender, receiver)) continue;
                forge(&c, all[from], all[to], type);
                forged++;
            }
    until(&c, now + 5);
    assert_true(forged > 500);
    assert_agreed(&c, 4);
    assert_null(view_of(&c, LEARNERS)->fault);
    assert_int_equal(view_of(&c, WEFT_COORDINATOR)->number, number);
    assert_int_equal(c.refused, 1); /* the process that is no member */
    weft_sim_destroy(&c.sim);
}

/* Only the coordinator sends what installs a view, admits, refuses or dismisses, and only to
 * members and clients; servers change ranges of servers. */
static void test_table_of_roles(void **state)
{
    (void)state;
    static const weft_rpc_role roles[] = {WEFT_RPC_COORDINATOR, WEFT_RPC_LEARNER, WEFT_RPC_SERVER,
                                          WEFT_RPC_OTHER};
    for (uint32_t type = 1; type < WEFT_RPC_TYPES; type++) {
        int pairs = 0;
        for (int s = 0; s < 4; s++)
            for (int r = 0; r < 4; r++) pairs += weft_rpc_may_send(type, roles[s], roles[r]);
        if (pairs == 0 || pairs > 8) fail_msg("type %u: %d pairs of roles", type, pairs);
        assert_false(weft_rpc_may_send(type, WEFT_RPC_COORDINATOR, WEFT_RPC_COORDINATOR));
        assert_false(weft_rpc_may_send(type, WEFT_RPC_LEARNER, WEFT_RPC_OTHER));
    }
    static const uint32_t coordinators[] = {WEFT_RPC_JOIN_ACK, WEFT_RPC_REJECT,
                                            WEFT_RPC_HEARTBEAT_ACK, WEFT_RPC_LEAVE_ACK};
    for (size_t i = 0; i < WEFT_COUNT(coordinators); i++)
        for (int s = 1; s < 4; s++)
            for (int r = 1; r < 4; r++)
                assert_false(weft_rpc_may_send(coordinators[i], roles[s], roles[r]));
    static const uint32_t servers[] = {WEFT_RPC_APPEND, WEFT_RPC_RANGE_SNAPSHOT,
                                       WEFT_RPC_APPEND_ACK};
    for (size_t i = 0; i < WEFT_COUNT(servers); i++)
        for (int s = 0; s < 4; s++)
            assert_int_equal(weft_rpc_may_send(servers[i], roles[s], WEFT_RPC_SERVER),
                             roles[s] == WEFT_RPC_SERVER);
}

enum { FAULT, OVER, WITHOUT, NAMELESS, FORGERIES };

/* Sends a forged view of a later number from one actor to another: with a fault, of a run that is
 * over, or without a third member. */
static void forge_view(crowd *c, int from, int to, int third, int what)
{
    weft_view v = {.number = 0};
    weft_buffer *blob = NULL;
    assert_int_equal(weft_view_pack(view_of(c, to), NULL, 0, &blob), WEFT_OK);
    assert_int_equal(weft_view_unpack(blob, 0, &v), WEFT_OK);
    weft_buffer_unref(&blob);
    v.number += 1000;
    if (what == FAULT) assert_int_equal(weft_format(&v.fault, "forged"), WEFT_OK);
    v.over = what == OVER;
    if (what == WITHOUT) assert_true(weft_view_remove(&v, (weft_actor_id)third));
    if (!weft_view_find(&v, (weft_actor_id)from))
        assert_int_equal(
            weft_view_add(&v, &(weft_view_member){.id = (weft_actor_id)from, .slot = 7}), WEFT_OK);
    assert_int_equal(weft_view_pack(&v, NULL, 0, &blob), WEFT_OK);
    weft_message message = {.type = WEFT_RPC_VIEW, .head = "", .payload = blob};
    assert_int_equal(weft_actor_send(&person_of(c, from)->head, (weft_actor_id)to, &message),
                     WEFT_OK);
    weft_buffer_unref(&blob);
    weft_view_free(&v);
}

/* A view of another learner, or of a process that is no member, changes nothing as long as the
 * coordinator can be reached. Without a coordinator it says who is there, and never that the run is
 * over or has a fault. */
static void test_views_of_members(void **state)
{
    (void)state;
    for (int alone = 0; alone < 2; alone++)
        for (int what = FAULT; what < (alone ? WITHOUT : NAMELESS); what++)
            for (int member = 0; member < 2; member++) {
                crowd c;
                int from = member ? LEARNERS + 1 : LEARNERS + 5;
                begin(&c, 3, 0, false, 1, false);
                c.members[LEARNERS + 5].fingerprint.parameters = 9; /* it is no member */
                until(&c, 30);
                if (alone) assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 30), WEFT_OK);
                until(&c, 30 + alone * 25);
                if (!member)
                    assert_int_equal(weft_sim_add(c.sim, LEARNERS + 5, 30 + alone * 25), WEFT_OK);
                until(&c, 30 + alone * 25 + 0.005); /* it exists, and is not refused yet */
                forge_view(&c, from, LEARNERS, LEARNERS + 2, what);
                until(&c, 30 + alone * 25 + 5);
                const weft_view *v = view_of(&c, LEARNERS);
                assert_null(v->fault);
                assert_false(v->over);
                assert_non_null(weft_view_find(v, LEARNERS + 2));
                if (!alone) assert_agreed(&c, 3);
                weft_sim_destroy(&c.sim);
            }
}

/* A member says that the state of the run is lost, and the coordinator knows that it is not: a peer
 * reports steps, or a learner has the checkpoint with which the servers begin. */
static void test_state_is_not_lost(void **state)
{
    (void)state;
    for (int servers = 0; servers < 3; servers += 2)
        for (int liar = 0; liar < (servers ? 2 : 1); liar++) {
            crowd c;
            begin(&c, 2, servers, false, 1, false);
            until(&c, 30);
            weft_member_set_stats(person_of(&c, LEARNERS)->member,
                                  &(weft_member_stats){.clock = 3,
                                                       .device_busy = 0.75,
                                                       .device_used = 5,
                                                       .device_total = (uint64_t)1 << 40});
            until(&c, 35);
            const weft_member_stats *told =
                &weft_view_find(view_of(&c, WEFT_COORDINATOR), LEARNERS)->figures;
            assert_true(told->device_busy == 0.75 && told->device_used == 5 &&
                        told->device_total == (uint64_t)1 << 40);
            forge(&c, liar ? SERVERS : LEARNERS + 1, WEFT_COORDINATOR, WEFT_RPC_STATE_LOST);
            until(&c, 40);
            assert_null(view_of(&c, WEFT_COORDINATOR)->fault);
            assert_agreed(&c, 2 + servers);
            weft_sim_destroy(&c.sim);
        }
}

/* The coordinator has no network for a time of any length, from any time on, and hears nobody. The
 * coordinator takes no member for lost, and goes on with all of them when they are back; after 30
 * failure timeouts it ends, and they go on alone. A member that died meanwhile is removed
 * afterwards. */
static void test_coordinator_without_network(void **state)
{
    (void)state;
    static const double lengths[] = {4, 6, 9, 11, 25, 60, 150, 280, 320, 500};
    for (size_t i = 0; i < WEFT_COUNT(lengths); i++)
        for (int dies = 0; dies < 2; dies++)
            for (int servers = 0; servers < 3; servers += 2) {
                crowd c;
                double at = 20 + 1.3 * (double)i, back = at + lengths[i];
                begin(&c, 3, servers, true, i + 1, false);
                for (int id = 0; id < MOST; id++) c.members[id].heartbeat_interval = 2;
                for (int id = SERVERS; id < MOST; id++)
                    assert_int_equal(
                        weft_sim_cut(c.sim, WEFT_COORDINATOR, (weft_actor_id)id, at, back),
                        WEFT_OK);
                if (dies)
                    assert_int_equal(weft_sim_kill(c.sim, LEARNERS + 1, at + lengths[i] / 2),
                                     WEFT_OK);
                until(&c, WEFT_MIN(back, at + 290));
                assert_int_equal(view_of(&c, WEFT_COORDINATOR)->member_count, 3 + servers);
                until(&c, WEFT_MAX(back, at + 320) + 40);
                assert_int_equal(c.refused, 0);
                bool ended = lengths[i] > 300;
                const weft_view *v = view_of(&c, WEFT_COORDINATOR);
                assert_int_equal(weft_sim_actor(c.sim, WEFT_COORDINATOR)->done, ended);
                assert_int_equal(v->fault != NULL, ended);
                assert_null(view_of(&c, LEARNERS)->fault);
                if (!ended) assert_agreed(&c, 3 + servers - dies);
                weft_sim_destroy(&c.sim);
            }
}

/* A member that is silent before the run begins joins again when it is back. */
static void test_silent_before_the_run(void **state)
{
    (void)state;
    crowd c;
    begin(&c, 2, 1, false, 1, false);
    c.coordinator.expected[WEFT_MEMBER_LEARNER] = 3;
    for (int id = SERVERS; id < MOST; id++)
        assert_int_equal(weft_sim_cut(c.sim, WEFT_COORDINATOR, (weft_actor_id)id, 5, 40), WEFT_OK);
    until(&c, 39);
    assert_int_equal(view_of(&c, WEFT_COORDINATOR)->member_count, 0);
    assert_int_equal(weft_sim_add(c.sim, LEARNERS + 2, 50), WEFT_OK);
    until(&c, 60);
    assert_int_equal(c.refused, 0);
    assert_agreed(&c, 4);
    weft_sim_destroy(&c.sim);
}

/* The bytes of a run in which so many learners join, and leave one after the other. */
static double bytes_of(int learners)
{
    crowd c;
    begin(&c, learners, 1, false, 1, false);
    until(&c, 30);
    assert_agreed(&c, learners + 1);
    for (int i = 0; i < learners; i++) {
        assert_int_equal(weft_member_leave(person_of(&c, LEARNERS + i)->member, true), WEFT_OK);
        until(&c, 30 + 0.05 * (i + 1));
        if (i % 10 == 5) until(&c, 30 + 0.05 * (i + 1) + 0.04);
    }
    until(&c, 30 + 0.05 * learners + 5);
    assert_true(view_of(&c, WEFT_COORDINATOR)->over);
    assert_int_equal(c.refused, 0);
    double bytes = (double)weft_sim_stats(c.sim).bytes;
    weft_sim_destroy(&c.sim);
    return bytes;
}

/* Each member is told of each other one a few times, and not of all others at each change: the
 * bytes of views grow with the square of the members. */
static void test_many_members(void **state)
{
    (void)state;
    double before = bytes_of(40);
    for (int learners = 80; learners <= 320; learners *= 2) {
        double bytes = bytes_of(learners);
        print_message("%d learners: %.0f bytes, %.2f times as many\n", learners, bytes,
                      bytes / before);
        assert_true(bytes <= 4.4 * before);
        before = bytes;
    }
}

static void test_silent_are_dropped(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        crowd c;
        begin(&c, 4, 1, false, seed, seed > 2);
        assert_int_equal(weft_sim_kill(c.sim, LEARNERS + 1, 30), WEFT_OK);
        until(&c, 80);
        assert_agreed(&c, 4);
        assert_null(weft_view_find(view_of(&c, LEARNERS), LEARNERS + 1));
        /* The lost learner's slot goes to the next one that joins; its actor id is never given
         * again. */
        assert_int_equal(weft_sim_add(c.sim, LEARNERS + 7, 80), WEFT_OK);
        assert_int_equal(weft_sim_restart(c.sim, LEARNERS + 1, 81), WEFT_OK);
        until(&c, 120);
        assert_agreed(&c, 5);
        const weft_view *v = view_of(&c, LEARNERS);
        int taken = 0;
        for (int slot = 0; slot < 4; slot++)
            for (size_t i = 0; i < v->member_count; i++)
                taken += v->members[i].role == WEFT_MEMBER_LEARNER && v->members[i].slot == slot;
        assert_int_equal(taken, 4);
        assert_int_equal(c.refused, 1);
        assert_non_null(strstr(c.refusal, "has left or was removed; start this process again"));
        weft_sim_destroy(&c.sim);
    }
}

/* While the coordinator is suspended, no member is removed. A learner that is suspended for longer
 * than the failure timeout is removed, and is refused when it continues. */
static void test_sleepers(void **state)
{
    (void)state;
    crowd c;
    begin(&c, 3, 1, false, 1, false);
    assert_int_equal(weft_sim_pause(c.sim, WEFT_COORDINATOR, 20, 60), WEFT_OK);
    until(&c, 90);
    assert_agreed(&c, 4);
    assert_int_equal(c.refused, 0);
    assert_int_equal(weft_sim_pause(c.sim, LEARNERS, 100, 130), WEFT_OK);
    until(&c, 150);
    assert_agreed(&c, 3);
    assert_int_equal(c.refused, 1);
    assert_non_null(strstr(
        c.refusal,
        "no heartbeat for more than 10 s (the failure timeout) and was removed from the run"));
    weft_sim_destroy(&c.sim);
}

/* A learner that is suspended while the run waits for members is removed, too, and joins again when
 * it is awake, since the run has no state yet. */
static void test_asleep_before_the_run(void **state)
{
    (void)state;
    crowd c;
    weft_removal removal = {.removed = false};
    begin(&c, 3, 1, false, 1, false);
    c.coordinator.expected[WEFT_MEMBER_LEARNER] = 4;
    c.members[LEARNERS].removal = &removal;
    assert_int_equal(weft_sim_pause(c.sim, LEARNERS, 20, 50), WEFT_OK);
    until(&c, 45);
    assert_int_equal(view_of(&c, WEFT_COORDINATOR)->member_count, 3);
    until(&c, 70);
    assert_int_equal(view_of(&c, WEFT_COORDINATOR)->member_count, 4);
    assert_int_equal(c.refused, 0);
    assert_false(removal.removed);
    weft_sim_destroy(&c.sim);
}

/* A long name of a model, which may be the path of a file, fits into Join, and is compared. */
static void test_long_name(void **state)
{
    (void)state;
    static char name[5000], other[5000];
    memset(name, 'm', sizeof(name) - 1);
    memset(other, 'm', sizeof(other) - 1);
    other[9] = 'n';
    crowd c;
    begin(&c, 2, 1, false, 1, false);
    c.coordinator.fingerprint.model = name;
    c.members[LEARNERS].fingerprint.model = name;
    c.members[50].fingerprint.model = other;
    assert_int_equal(weft_sim_add(c.sim, 50, 20), WEFT_OK);
    until(&c, 30);
    assert_agreed(&c, 3);
    assert_int_equal(c.refused, 1);
    assert_non_null(strstr(c.refusal, "this run trains the model mmmm"));
    weft_sim_destroy(&c.sim);
}

static void test_leaving(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        crowd c;
        begin(&c, 2, 2, false, seed, seed > 2);
        until(&c, 40);
        assert_int_equal(weft_member_leave(person_of(&c, LEARNERS)->member, false), WEFT_OK);
        until(&c, 60);
        assert_agreed(&c, 3);
        /* Another learner may still join in place of the one that has left. */
        assert_false(view_of(&c, WEFT_COORDINATOR)->over);
        assert_int_equal(weft_member_leave(person_of(&c, LEARNERS + 1)->member, true), WEFT_OK);
        until(&c, 120);
        assert_true(weft_sim_actor(c.sim, WEFT_COORDINATOR)->done);
        for (int k = 0; k < 2; k++) assert_true(person_of(&c, SERVERS + k)->head.done);
        weft_sim_destroy(&c.sim);
    }
}

/* One learner is lost, and the other one then finishes its steps. That ends the run, since no steps
 * are left. But with the option `first`, as in a job, the learner of slot 0 must save the result;
 * if that one is lost, the run goes on, and the servers keep the parameters for its successor. */
static void test_lost_at_the_end(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        crowd c;
        begin(&c, 2, 2, false, 1, false);
        c.coordinator.first = first != 0; /* read when the coordinator is created */
        until(&c, 40);
        int lost = LEARNERS;
        for (int i = 0; i < 2; i++)
            if (weft_member_slot(person_of(&c, LEARNERS + i)->member) == 0) lost = LEARNERS + i;
        int other = 2 * LEARNERS + 1 - lost;
        assert_int_equal(weft_sim_kill(c.sim, (weft_actor_id)lost, 41), WEFT_OK);
        until(&c, 42);
        assert_int_equal(weft_member_leave(person_of(&c, other)->member, true), WEFT_OK);
        until(&c, 120);
        assert_true(view_of(&c, WEFT_COORDINATOR)->over == !first);
        assert_int_equal(weft_view_count(view_of(&c, WEFT_COORDINATOR), WEFT_MEMBER_SERVER),
                         first ? 2 : 0);
        weft_sim_destroy(&c.sim);
    }
}

/* A Reject for a former coordinator at the same address (1) arrives late, and the coordinator
 * ignores it. A Reject for this coordinator (2), or without an id (0), ends the coordinator. */
static void test_late_rejection(void **state)
{
    (void)state;
    for (uint64_t of = 0; of <= 2; of++) {
        crowd c;
        /* the message Reject, with reason (field 1) and coordinator (field 4) */
        const uint8_t head[] = {0x0a, 1, 'x', 0x20, (uint8_t)of};
        begin(&c, 2, 0, false, 2, false);
        c.coordinator.run = 2;
        c.coordinator.done = 5; /* it takes over a run, so it recovers the view first */
        until(&c, 0.05);
        weft_actor *actor = (weft_actor *)weft_sim_actor(c.sim, WEFT_COORDINATOR);
        weft_message message = {
            .from = LEARNERS, .type = WEFT_RPC_REJECT, .head = head, .head_bytes = sizeof(head)};
        assert_int_equal(actor->ops->message(actor, &message), of == 1 ? WEFT_OK : WEFT_ERR_PEER);
        weft_sim_destroy(&c.sim);
    }
}

/* The status of a run that is over reports its last step, even if every learner has left. */
static void test_step_at_the_end(void **state)
{
    (void)state;
    weft_view_member last = {.id = LEARNERS, .role = WEFT_MEMBER_LEARNER, .figures.clock = 99};
    weft_view v = {.running = true, .members = &last, .member_count = 1, .about.steps = 100};
    for (int over = 0; over < 2; over++) {
        weft_cluster_status s;
        v.over = over;
        v.member_count = (size_t)!over;
        assert_int_equal(weft_cluster_describe(&v, 0, &s), WEFT_OK);
        assert_int_equal(s.step, 99 + over);
        weft_cluster_status_free(&s);
    }
    last.figures.clock = 110; /* elastic updates are due every 10 steps, and after the last step */
    v.over = false;
    v.member_count = 1;
    assert_int_equal(weft_view_step(&v, last.figures.clock), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_come),
        cmocka_unit_test(test_many_members),
        cmocka_unit_test(test_coordinator_without_network),
        cmocka_unit_test(test_silent_before_the_run),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_views_of_members),
        cmocka_unit_test(test_state_is_not_lost),
        cmocka_unit_test(test_table_of_roles),
        cmocka_unit_test(test_somebody_is_missing),
        cmocka_unit_test(test_silent_are_dropped),
        cmocka_unit_test(test_sleepers),
        cmocka_unit_test(test_asleep_before_the_run),
        cmocka_unit_test(test_long_name),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_lost_at_the_end),
        cmocka_unit_test(test_late_rejection),
        cmocka_unit_test(test_step_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
