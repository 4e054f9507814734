/* Tests the coordinator in the simulator: the joins that it rejects, the slots that it gives, and
 * the report of a peer that no peer has the state of the run. */
#include "membership.pb-c.h"
#include "membership_fixture.h"
#include "actor/rpc.h"

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        weft_fingerprint print;
        weft_member_role role;
        const char *says;
    } wrong[] = {
        {{.version = "2"}, WEFT_MEMBER_LEARNER, "this run is of version 1, not of 2"},
        {{.version = "1", .model = "mlp"},
         WEFT_MEMBER_LEARNER,
         "this run trains the model lenet, not mlp"},
        {{.version = "1", .data = "9"}, WEFT_MEMBER_LEARNER, "this run's data are 1x28x28, not 9"},
        {{.version = "1", .parameters = 6},
         WEFT_MEMBER_LEARNER,
         "its parameters have another memory layout"},
        {{.version = "1", .parameters = 5}, WEFT_MEMBER_SERVER, "this run has no servers"},
    };
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++) {
        crowd c;
        bool serves = wrong[i].role == WEFT_MEMBER_SERVER;
        begin(&c, serves ? 3 : 2, !serves, false, i, false);
        c.members[50].role = wrong[i].role;
        c.members[50].fingerprint = wrong[i].print;
        assert_int_equal(weft_sim_add(c.sim, 50, 20), WEFT_OK);
        until(&c, 30);
        assert_agreed(&c, 3);
        assert_int_equal(c.refused, 1);
        if (!strstr(c.refusal, wrong[i].says)) fail_msg("'%s'", c.refusal);
        weft_sim_destroy(&c.sim);
    }
    crowd c;
    begin(&c, 2, 1, false, 1, false);
    c.coordinator.most = 3;
    assert_int_equal(weft_sim_add(c.sim, 50, 20), WEFT_OK);
    until(&c, 30);
    assert_string_equal(c.refusal, "the coordinator refuses this learner: there are 3 members, and "
                                   "there may be no more");
    weft_sim_destroy(&c.sim);
}

/* A process joins with the actor id of a member in the view, whose death the coordinator has not
 * noticed yet: the join is rejected. */
static void test_twice(void **state)
{
    (void)state;
    crowd c;
    begin(&c, 2, 1, false, 1, false);
    assert_int_equal(weft_sim_kill(c.sim, LEARNERS, 20), WEFT_OK);
    assert_int_equal(weft_sim_restart(c.sim, LEARNERS, 21), WEFT_OK);
    until(&c, 25);
    assert_int_equal(c.refused, 1);
    assert_non_null(strstr(c.refusal, "a member with number 30 exists already"));
    weft_sim_destroy(&c.sim);
}

/* A slot is given to one member at a time: a join that requests a taken slot is rejected. */
static void test_slot_taken(void **state)
{
    (void)state;
    crowd c;
    begin(&c, 2, 1, false, 1, false);
    weft_removal removal = {.removed = false};
    c.members[50].requested_slot = 1;
    c.members[50].removal = &removal;
    assert_int_equal(weft_sim_add(c.sim, 50, 20), WEFT_OK);
    until(&c, 30);
    assert_agreed(&c, 3);
    assert_string_equal(c.refusal,
                        "the coordinator refuses this learner: there is a learner 1 already");
    assert_true(removal.ask_again && !removal.removed);
    weft_sim_destroy(&c.sim);
}

/* A run begins with the first slots, also if a process for which one was reserved never joins: a
 * learner with a later slot asks again, since the samples of a slot without a learner are left
 * out. */
static void test_slot_vacant(void **state)
{
    (void)state;
    for (int request = 2; request < 4; request++) {
        crowd c;
        weft_removal removal = {.removed = false};
        begin(&c, 2, 1, false, 1, false);
        c.coordinator.expected[WEFT_MEMBER_LEARNER] = 3;
        c.members[50].requested_slot = request;
        c.members[50].removal = &removal;
        assert_int_equal(weft_sim_add(c.sim, 50, 10), WEFT_OK);
        until(&c, 20);
        assert_int_equal(c.refused, request == 3);
        assert_int_equal(view_of(&c, WEFT_COORDINATOR)->running, request == 2);
        assert_true(removal.ask_again == (request == 3) && !removal.removed);
        if (request == 3)
            assert_string_equal(c.refusal, "the coordinator refuses this learner: the run has not "
                                           "begun, and has no learner 2 yet");
        weft_sim_destroy(&c.sim);
    }
}

/* A process joins with the id of the run to whose options it was invited, and asks again if the
 * coordinator is of another run: one that has replaced the first coordinator while the process
 * waited for its run to begin, or one that has recovered a run since its answer. */
static void test_invited_to_another_run(void **state)
{
    (void)state;
    for (int under_way = 0; under_way < 2; under_way++) {
        crowd c;
        weft_removal removal = {.removed = false};
        begin(&c, 2, 1, false, 1, false);
        if (!under_way) c.coordinator.expected[WEFT_MEMBER_LEARNER] = 4;
        c.members[50].run = under_way ? 1 : 78;
        c.members[50].removal = &removal;
        if (!under_way) {
            assert_int_equal(weft_sim_add(c.sim, 50, 10), WEFT_OK);
            until(&c, 20);
            assert_int_equal(c.refused, 0);
            assert_int_equal(weft_member_slot(person_of(&c, 50)->member), 2);
            c.coordinator.run = 1;
            assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 21), WEFT_OK);
            assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 22), WEFT_OK);
        } else {
            assert_int_equal(weft_sim_add(c.sim, 50, 20), WEFT_OK);
        }
        until(&c, 40);
        assert_int_equal(c.refused, 1);
        assert_int_equal(view_of(&c, WEFT_COORDINATOR)->member_count, 3);
        assert_null(weft_view_find(view_of(&c, WEFT_COORDINATOR), 50));
        assert_non_null(strstr(c.refusal, "its run is not the one to which"));
        assert_true(removal.ask_again && !removal.removed);
        weft_sim_destroy(&c.sim);
    }
}

/* A peer reports that no peer has the state of the run. If no steps are known, the peers begin the
 * run with initial parameters; if the peer knows of steps, the state is lost and the run has a
 * fault. */
static void test_lost_before_heartbeats(void **state)
{
    (void)state;
    for (int stepped = 0; stepped < 2; stepped++) {
        crowd c;
        begin(&c, 2, 0, false, 1, false);
        assert_int_equal(weft_sim_add(c.sim, LEARNERS + 5, 20), WEFT_OK);
        until(&c, 30);
        assert_true(weft_view_find(view_of(&c, WEFT_COORDINATOR), LEARNERS + 5)->lacks_state);
        assert_int_equal(weft_member_report_state_lost(person_of(&c, LEARNERS)->member, stepped),
                         WEFT_OK);
        until(&c, 40);
        const weft_view *v = view_of(&c, WEFT_COORDINATOR);
        assert_int_equal(v->fault != NULL, stepped);
        if (!stepped) assert_false(weft_view_find(v, LEARNERS + 5)->lacks_state);
        weft_sim_destroy(&c.sim);
    }
}

/* A handler of a Reject: keeps its reason. */
static weft_status keep_reason(void *self, const weft_message *message, const void *content)
{
    const Weft__Reject *no = content;
    (void)message;
    (void)snprintf(self, 64, "%s", no->reason);
    return WEFT_OK;
}

/* Texts of other machines become printable where they arrive, also in members and events of a
 * view. */
static void test_texts(void **state)
{
    (void)state;
    static char hostile[] = "\x1b]0;a\x07\nb\xff\xc3\xa9", *const clean = "?]0;a??b?\xc3\xa9";
    const weft_rpc_handler handlers[] = {
        {.type = 1, .kind = &weft__reject__descriptor, .handle = keep_reason}, {.handle = NULL}};
    Weft__Reject no = WEFT__REJECT__INIT;
    uint8_t bytes[512];
    char kept[64];
    no.reason = hostile;
    weft_message message = {.type = 1, .head = bytes, .head_bytes = weft__reject__pack(&no, bytes)};
    assert_int_equal(weft_rpc_dispatch(handlers, kept, &message), WEFT_OK);
    assert_string_equal(kept, clean);

    Weft__Member one = WEFT__MEMBER__INIT, *members[] = {&one};
    Weft__MemberEvent event = WEFT__MEMBER_EVENT__INIT, *events[] = {&event};
    Weft__View view = WEFT__VIEW__INIT;
    one.host = one.address = event.host = hostile;
    view.n_members = view.n_events = 1;
    view.members = members;
    view.events = events;
    Weft__View *read = weft__view__unpack(NULL, weft__view__pack(&view, bytes), bytes);
    assert_non_null(read);
    weft_rpc_clean(&read->base);
    assert_string_equal(read->members[0]->host, clean);
    assert_string_equal(read->members[0]->address, clean);
    assert_string_equal(read->events[0]->host, clean);
    weft__view__free_unpacked(read, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_slot_taken),
        cmocka_unit_test(test_slot_vacant),
        cmocka_unit_test(test_invited_to_another_run),
        cmocka_unit_test(test_lost_before_heartbeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
