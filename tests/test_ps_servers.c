/* Tests in the simulator of the statistics of servers. */
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
        if (servers > 1) r.death.who = FIRST_SERVER;
        r.death.when = 15;
        most_updates = 0;
        simulate(&r);
        assert_in_range(most_updates, r.steps, r.learners * r.steps);
        finish(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_updates_count_once),
    };
    return cmocka_run_group_tests(tests, runs_setup, runs_teardown);
}
