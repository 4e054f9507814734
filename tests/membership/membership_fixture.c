/* Creates and runs the actors of membership tests: a coordinator, and members that do not train. */
#include "membership_fixture.h"

#include "membership/client.h"

static weft_status person_begin(weft_actor *a)
{
    return weft_member_begin(((person *)a)->member, a);
}

static crowd *all; /* the crowd of the running test */

static weft_status person_message(weft_actor *a, const weft_message *message)
{
    weft_member_news news;
    weft_status status = weft_member_message(((person *)a)->member, message, &news);
    if (status == WEFT_OK && news == WEFT_NEWS_NONE && message->type == WEFT_RPC_VIEW)
        status = weft_member_receive_view(((person *)a)->member, message, &news);
    if (status == WEFT_ERR_PEER || status == WEFT_ERR_ARGUMENT) {
        (void)snprintf(all->refusal, sizeof(all->refusal), "%s", weft_last_message());
        all->refused++;
        a->done = true;
        return WEFT_OK;
    }
    if (status == WEFT_OK && weft_member_has_left(((person *)a)->member)) a->done = true;
    return status;
}

static weft_status person_timer(weft_actor *a, int timer)
{
    person *p = (person *)a;
    assert_int_equal(timer, WEFT_MEMBER_TIMER);
    WEFT_TRY(weft_member_view(p->member)->over ? weft_member_leave(p->member, false)
                                               : weft_member_timer(p->member));
    a->done = weft_member_has_left(p->member);
    return WEFT_OK;
}

static void person_destroy(weft_actor *a)
{
    weft_member_destroy(&((person *)a)->member);
    free(a);
}

static const weft_actor_ops person_ops = {.name = "person",
                                          .begin = person_begin,
                                          .message = person_message,
                                          .timer = person_timer,
                                          .destroy = person_destroy};

static weft_status make(void *user, weft_actor_id id, int life, weft_actor **out)
{
    crowd *c = user;
    person *p;
    weft_membership_client_options client = {.struct_size = sizeof(client),
                                             .other = c->asked,
                                             .invited = c->sought != 0,
                                             .learner = c->sought != 0,
                                             .run = c->sought,
                                             .wished_slot = c->wished_slot,
                                             .resend_timeout = 1};
    if (id == WEFT_COORDINATOR) return weft_coordinator_create(&c->coordinator, out);
    if (id >= CLIENTS) return weft_membership_client_create(&client, out);
    weft_member_options options = c->members[id];
    options.key += (uint64_t)life;
    WEFT_TRY(WEFT_NEW(&p, 1));
    p->head.ops = &person_ops;
    *out = &p->head;
    return weft_member_create(&options, &p->member);
}

static const weft_sim_link BAD = {
    .latency = 0.02, .jitter = 0.3, .lost = 0.2, .twice = 0.2, .reordered = 0.2};

static weft_status note_configuration(void *user, int slot, const void *configuration, size_t bytes)
{
    crowd *c = user;
    assert_true(slot >= 0);
    assert_true(bytes < sizeof(c->configuration));
    memcpy(c->configuration, configuration, bytes);
    return WEFT_OK;
}

void begin(crowd *c, int learners, int servers, bool replicas, uint64_t seed, bool bad)
{
    static const weft_sim_link good = {.latency = 0.01};
    memset(c, 0, sizeof(*c));
    all = c;
    c->coordinator = (weft_coordinator_options){
        .struct_size = sizeof(c->coordinator),
        .run = 77 + seed,
        .expected = {learners, servers},
        .ranges = servers,
        .replicas = replicas,
        .limit = 10,
        .fingerprint = {.version = "1", .model = "lenet", .data = "1x28x28", .parameters = 5},
        .configuration = "model: lenet",
        .configuration_bytes = 13};
    for (int i = 0; i < MOST; i++)
        c->members[i] =
            (weft_member_options){.struct_size = sizeof(c->members[i]),
                                  .role = i >= LEARNERS ? WEFT_MEMBER_LEARNER : WEFT_MEMBER_SERVER,
                                  .key = (uint64_t)i << 32,
                                  .requested_slot = -1,
                                  .heartbeat_interval = 1,
                                  .welcome = note_configuration,
                                  .user = c};
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = seed,
                                .link = bad ? BAD : good,
                                .make = make,
                                .user = c};
    assert_int_equal(weft_sim_create(&options, &c->sim), WEFT_OK);
    assert_int_equal(weft_sim_add(c->sim, WEFT_COORDINATOR, 0), WEFT_OK);
    for (int k = 0; k < servers; k++)
        assert_int_equal(weft_sim_add(c->sim, (weft_actor_id)(SERVERS + k), 0.1 * k), WEFT_OK);
    for (int i = 0; i < learners; i++)
        assert_int_equal(weft_sim_add(c->sim, (weft_actor_id)(LEARNERS + i), 0.1), WEFT_OK);
}

void until(crowd *c, double seconds)
{
    if (weft_sim_run(c->sim, seconds) != WEFT_OK) fail_msg("%s", weft_last_message());
}

const weft_view *view_of(crowd *c, int id)
{
    const weft_actor *a = weft_sim_actor(c->sim, (weft_actor_id)id);
    assert_non_null(a);
    return id == WEFT_COORDINATOR ? weft_coordinator_view(a)
                                  : weft_member_view(((const person *)a)->member);
}

person *person_of(crowd *c, int id)
{
    return (person *)weft_sim_actor(c->sim, (weft_actor_id)id);
}

void assert_agreed(crowd *c, int members)
{
    const weft_view *v = view_of(c, WEFT_COORDINATOR);
    assert_int_equal(v->member_count, members);
    for (size_t i = 0; i < v->member_count; i++) {
        const weft_view *other = view_of(c, (int)v->members[i].id);
        assert_int_equal(other->number, v->number);
        assert_int_equal(other->run, v->run);
        assert_int_equal(other->member_count, v->member_count);
        assert_int_equal(other->range_count, v->range_count);
        for (int k = 0; k < v->range_count; k++) {
            assert_int_equal(other->ranges[k].primary, v->ranges[k].primary);
            assert_int_equal(other->ranges[k].replica, v->ranges[k].replica);
            assert_int_equal(other->ranges[k].in_sync, v->ranges[k].in_sync);
        }
    }
}
