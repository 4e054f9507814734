/* Tests in the simulator of the statistics of servers, and of servers that end with an error. */
#include "actor/rpc.h"
#include "ps_fixture.h"

/* A coordinator whose view is read after each message. */
static const weft_actor_ops *watched;
static weft_actor_ops watching;
static int64_t most_updates; /* largest number of updates that a server has reported */

static weft_status watch(weft_actor *actor, const weft_message *message)
{
    weft_status status = watched->message(actor, message);
    const weft_view *v = weft_coordinator_view(actor);
    for (size_t i = 0; i < v->member_count; i++)
        if (v->members[i].role == WEFT_MEMBER_SERVER)
            most_updates = WEFT_MAX(most_updates, v->members[i].figures.clock);
    return status;
}

static weft_status make_watched(void *user, weft_actor_id id, int life, weft_actor **out)
{
    WEFT_TRY(make(user, id, life, out));
    if (id != WEFT_COORDINATOR) return WEFT_OK;
    watched = (*out)->ops;
    watching = *watched;
    watching.message = watch;
    (*out)->ops = &watching;
    return WEFT_OK;
}

/* A server that has several ranges, since another one is lost, reports an update of a learner
 * once. */
static void test_updates_count_once(void **state)
{
    (void)state;
    for (int servers = 1; servers <= 2; servers++) {
        run r = draw("async", -1, -1, 3, servers, 7);
        r.make = make_watched;
        r.replicas = servers > 1;
        if (servers > 1) r.deaths[0].who = FIRST_SERVER;
        r.deaths[0].when = 15;
        most_updates = 0;
        simulate(&r);
        assert_in_range(most_updates, r.steps, r.learners * r.steps);
        finish(&r);
    }
}

/* A server that fails when it handles its n-th message, and is given up then. */
static int fails_at;
static const weft_actor_ops *served;
static weft_actor_ops serving;

static weft_status fail_then(weft_actor *actor, const weft_message *message)
{
    return actor->id == FIRST_SERVER && --fails_at == 0 ? weft_server_give_up(actor)
                                                        : served->message(actor, message);
}

static bool stopped_first; /* the coordinator has noted that the server has left */

static weft_status note_stop(weft_actor *actor, const weft_message *message)
{
    weft_status status = watched->message(actor, message);
    const weft_view *v = weft_coordinator_view(actor);
    for (size_t i = 0; i < v->event_count; i++) {
        assert_int_not_equal(v->events[i].kind, WEFT_MEMBER_SILENT);
        stopped_first = stopped_first || (v->events[i].kind == WEFT_MEMBER_STOPPED &&
                                          v->events[i].id == FIRST_SERVER);
    }
    return status;
}

static weft_status make_failing(void *user, weft_actor_id id, int life, weft_actor **out)
{
    bool coordinator = id == WEFT_COORDINATOR;
    WEFT_TRY(make(user, id, life, out));
    if (id >= FIRST_LEARNER) return WEFT_OK;
    *(coordinator ? &watched : &served) = (*out)->ops;
    weft_actor_ops *ops = coordinator ? &watching : &serving;
    *ops = *(*out)->ops;
    ops->message = coordinator ? note_stop : fail_then;
    (*out)->ops = ops;
    return WEFT_OK;
}

/* A server that fails hands its ranges over before anybody waits for its failure timeout. All
 * learners end with the bits of an undisturbed run. */
static void test_failed_server(void **state)
{
    (void)state;
    for (int n = 80; n < 110; n++)
        for (int bad = 0; bad < 2; bad++) {
            run r = draw("bsp", -1, -1, 2, 3, (uint64_t)n), whole = r;
            if (bad) r.link = BAD;
            r.replicas = true;
            r.make = make_failing;
            fails_at = n;
            stopped_first = false;
            simulate(&r);
            finish(&r);
            assert_true(fails_at < 0 && stopped_first);
            simulate(&whole);
            finish(&whole);
            for (int i = 0; i < r.learners; i++)
                assert_memory_equal(r.w[i], whole.w[i], sizeof(r.w[i]));
        }
}

/* Learner 1 sends the words of a job that stops again and again: a pull that asks all learners to
 * end, and an old push with an end clock. */
static int words_left;
static weft_status ask_all_to_end(void *user)
{
    const run *r = user;
    weft_actor *learner = weft_sim_actor(r->sim, FIRST_LEARNER + 1);
    if (!learner || weft_ps_client_clock(learner) < 5 || words_left == 0) return WEFT_OK;
    words_left--;
    /* Fields 3 and 6 of a pull are its clock and the request; field 8 of a push is the end clock.
     */
    uint8_t clock = (uint8_t)(weft_ps_client_clock(learner) + 1);
    const uint8_t pull[] = {0x18, clock, 0x30, true}, push[] = {0x40, clock};
    weft_message message = {.type = WEFT_RPC_PULL, .head = pull, .head_bytes = sizeof(pull)};
    WEFT_TRY(weft_actor_send(learner, FIRST_SERVER, &message));
    message = (weft_message){.type = WEFT_RPC_PUSH, .head = push, .head_bytes = sizeof(push)};
    return weft_actor_send(learner, FIRST_SERVER, &message);
}

/* Where learners come and go, one of them cannot make the others end: all take all steps. */
static void test_learners_end_alone(void **state)
{
    (void)state;
    static const char *const policies[] = {"bsp", "async"};
    for (int p = 0; p < 2; p++) {
        run r = draw(policies[p], -1, -1, 3, 2, 5);
        r.goes_on = true;
        r.link.bandwidth = 1e9;
        r.check = ask_all_to_end;
        words_left = 20;
        simulate(&r);
        for (int i = 0; i < r.learners; i++)
            assert_false(
                weft_ps_client_halted(weft_sim_actor(r.sim, (weft_actor_id)(FIRST_LEARNER + i))));
        finish(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates_count_once),
        cmocka_unit_test(test_failed_server),
        cmocka_unit_test(test_learners_end_alone),
    };
    return cmocka_run_group_tests(tests, runs_setup, runs_teardown);
}
