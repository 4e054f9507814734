/* Who takes part in a run, in the simulator: everybody comes to the same view, whatever links lose,
 * and whoever dies, the coordinator among them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "actor/sim.h"
#include "exchange/cluster/member.h"

enum { MOST = 64 };

/* --- an actor that is a member and nothing else --- */

typedef struct person {
    weft_actor head;
    weft_member *member;
} person;

/* How each actor is made, by number; what is said of it when it is gone. */
typedef struct crowd {
    weft_sim *sim;
    weft_coordinator_options coordinator;
    weft_member_options members[MOST];
    uint64_t key_of_life[MOST]; /* added for each life */
    char configuration[32];     /* as somebody was given it */
    char refusal[400];
    int refused;
} crowd;

static weft_status person_begin(weft_actor *a)
{
    return weft_member_begin(((person *)a)->member, a);
}

static crowd *all; /* of the test that runs */

static weft_status person_letter(weft_actor *a, const weft_letter *letter)
{
    weft_member_news news;
    weft_status status = weft_member_letter(((person *)a)->member, letter, &news);
    if (status == WEFT_ERR_PEER) {
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
                                          .letter = person_letter,
                                          .timer = person_timer,
                                          .destroy = person_destroy};

static weft_status make(void *user, weft_actor_id id, int life, weft_actor **out)
{
    crowd *c = user;
    person *p;
    if (id == WEFT_COORDINATOR) return weft_coordinator_create(&c->coordinator, out);
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

/* Servers are 10, 11, ..., learners 30, 31, ... */
enum { SERVERS = 10, LEARNERS = 30 };

static void begin(crowd *c, int learners, int servers, bool replicas, uint64_t seed, bool bad)
{
    static const weft_sim_link good = {.latency = 0.01};
    memset(c, 0, sizeof(*c));
    all = c;
    c->coordinator = (weft_coordinator_options){.struct_size = sizeof(c->coordinator),
                                                .run = 77 + seed,
                                                .expected = {learners, servers, 0},
                                                .ranges = servers,
                                                .replicas = replicas,
                                                .limit = 10,
                                                .fingerprint = {"1", "lenet", "1x28x28", 5},
                                                .configuration = "model: lenet",
                                                .configuration_bytes = 13};
    for (int i = 0; i < MOST; i++)
        c->members[i] =
            (weft_member_options){.struct_size = sizeof(c->members[i]),
                                  .role = i >= LEARNERS ? WEFT_MEMBER_LEARNER : WEFT_MEMBER_SERVER,
                                  .key = (uint64_t)i << 32,
                                  .wish = -1,
                                  .beat = 1,
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

static void until(crowd *c, double seconds)
{
    if (weft_sim_run(c->sim, seconds) != WEFT_OK) fail_msg("%s", weft_last_message());
}

static const weft_view *view_of(crowd *c, int id)
{
    const weft_actor *a = weft_sim_actor(c->sim, (weft_actor_id)id);
    assert_non_null(a);
    return id == WEFT_COORDINATOR ? weft_coordinator_view(a)
                                  : weft_member_view(((const person *)a)->member);
}

static person *person_of(crowd *c, int id)
{
    return (person *)weft_sim_actor(c->sim, (weft_actor_id)id);
}

/* Whoever is there has the coordinator's view. */
static void assert_agreed(crowd *c, int members)
{
    const weft_view *v = view_of(c, WEFT_COORDINATOR);
    assert_int_equal(v->member_count, members);
    for (size_t i = 0; i < v->member_count; i++) {
        const weft_view *other = view_of(c, (int)v->members[i].id);
        assert_int_equal(other->number, v->number);
        assert_int_equal(other->run, v->run);
        assert_int_equal(other->member_count, v->member_count);
        assert_int_equal(other->range_count, v->range_count);
        for (int k = 0; k < v->range_count; k++)
            assert_memory_equal(&other->ranges[k], &v->ranges[k], sizeof(v->ranges[k]));
    }
}

/* --- coming and going --- */

static void test_all_come(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        crowd c;
        begin(&c, 4, 3, seed % 2, seed, seed > 2);
        for (int i = 0; i < 4; i++) c.members[LEARNERS + i].wish = 3 - i;
        until(&c, 60);
        assert_agreed(&c, 7);
        const weft_view *v = view_of(&c, WEFT_COORDINATOR);
        assert_true(v->running && !v->over && !v->fault);
        for (int i = 0; i < 4; i++) /* everybody has what he wished for */
            assert_int_equal(weft_view_find(v, (weft_actor_id)(LEARNERS + i))->slot, 3 - i);
        assert_string_equal(c.configuration, "model: lenet");
        for (int k = 0; k < 3; k++) {
            const weft_keeper *r = &v->ranges[k];
            assert_int_equal(weft_view_find(v, r->primary)->slot, k);
            assert_int_equal(r->replica != WEFT_NOBODY, seed % 2);
            assert_true(r->replica != r->primary);
        }
        weft_sim_destroy(&c.sim);
    }
}

/* Until everybody is there it does not begin, and says who is missing. */
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
                        "2 of 4 learners have come");
    assert_int_equal(weft_sim_add(c.sim, LEARNERS + 2, 100), WEFT_OK);
    assert_int_equal(weft_sim_add(c.sim, LEARNERS + 3, 101), WEFT_OK);
    until(&c, 110);
    assert_agreed(&c, 5);
    assert_null(weft_member_waits_for(person_of(&c, LEARNERS)->member));
    weft_sim_destroy(&c.sim);
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
        /* Its slot is given to the next who comes; its number to nobody. */
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
        assert_non_null(strstr(c.refusal, "has gone; come with another one"));
        weft_sim_destroy(&c.sim);
    }
}

/* Who sleeps for long is not taken back; when it is the coordinator that slept nobody is blamed. */
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
    assert_non_null(strstr(c.refusal, "was silent for more than 10 s and counts as gone"));
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
        assert_false(view_of(&c, WEFT_COORDINATOR)->over); /* somebody may take its place */
        assert_int_equal(weft_member_leave(person_of(&c, LEARNERS + 1)->member, true), WEFT_OK);
        until(&c, 120);
        assert_true(weft_sim_actor(c.sim, WEFT_COORDINATOR)->done);
        for (int k = 0; k < 2; k++) assert_true(person_of(&c, SERVERS + k)->head.done);
        weft_sim_destroy(&c.sim);
    }
}

/* The last one is lost when the other has done its steps: nothing is left to be done. But in a job
 * the first learner tells what the run came to, so whoever comes in its place finds the servers. */
static void test_lost_at_the_end(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        crowd c;
        begin(&c, 2, 2, false, 1, false);
        c.coordinator.first = first != 0; /* which is made when the run begins */
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

/* --- who is not taken --- */

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        weft_fingerprint print;
        weft_member_role role;
        const char *says;
    } wrong[] = {
        {{"2", NULL, NULL, 0}, WEFT_MEMBER_LEARNER, "this run is of version 1, not of 2"},
        {{"1", "mlp", NULL, 0}, WEFT_MEMBER_LEARNER, "this run trains the model lenet, not mlp"},
        {{"1", NULL, "9", 0}, WEFT_MEMBER_LEARNER, "this run's data are 1x28x28, not 9"},
        {{"1", NULL, NULL, 6}, WEFT_MEMBER_LEARNER, "its parameters lie in memory in another way"},
        {{"1", NULL, NULL, 5}, WEFT_MEMBER_PEER, "this run has no peers"},
    };
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++) {
        crowd c;
        begin(&c, 2, 1, false, i, false);
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
    assert_string_equal(c.refusal, "the coordinator refuses learner 50: there are 3 members, and "
                                   "there may be no more");
    weft_sim_destroy(&c.sim);
}

/* A second one of a number that is there (its first life is not known to be over). */
static void test_twice(void **state)
{
    (void)state;
    crowd c;
    begin(&c, 2, 1, false, 1, false);
    assert_int_equal(weft_sim_kill(c.sim, LEARNERS, 20), WEFT_OK);
    assert_int_equal(weft_sim_restart(c.sim, LEARNERS, 21), WEFT_OK);
    until(&c, 25);
    assert_int_equal(c.refused, 1);
    assert_non_null(strstr(c.refusal, "there is a member of the number 30 already"));
    weft_sim_destroy(&c.sim);
}

/* --- servers --- */

/* The replica of who dies takes its place, if it is whole; and gets another one. */
static void test_keepers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        crowd c;
        begin(&c, 1, 3, true, seed, seed > 2);
        until(&c, 40);
        const weft_keeper before[] = {view_of(&c, LEARNERS)->ranges[0],
                                      view_of(&c, LEARNERS)->ranges[1],
                                      view_of(&c, LEARNERS)->ranges[2]};
        for (int t = 0; t < 20; t++) { /* which is not sent again by the member itself */
            for (int k = 0; k < 3; k++)
                assert_int_equal(weft_member_ready(person_of(&c, (int)before[k].primary)->member, k,
                                                   before[k].replica),
                                 WEFT_OK);
            until(&c, 41 + t);
        }
        assert_true(view_of(&c, LEARNERS)->ranges[0].ready);
        weft_actor_id dies = before[0].primary;
        assert_int_equal(weft_sim_kill(c.sim, dies, 65), WEFT_OK);
        until(&c, 120);
        assert_agreed(&c, 3);
        const weft_view *v = view_of(&c, LEARNERS);
        assert_null(v->fault);
        for (int k = 0; k < 3; k++) {
            const weft_keeper *r = &v->ranges[k];
            assert_int_equal(r->primary,
                             before[k].primary == dies ? before[k].replica : before[k].primary);
            assert_true(r->replica != WEFT_NOBODY && r->replica != dies &&
                        r->replica != r->primary);
            if (before[k].primary == dies || before[k].replica == dies) assert_false(r->ready);
        }
        /* Another one before that is whole: its range is lost. */
        weft_actor_id owner = v->ranges[0].primary;
        assert_int_equal(weft_sim_kill(c.sim, owner, 121), WEFT_OK);
        until(&c, 170);
        assert_non_null(view_of(&c, LEARNERS)->fault);
        assert_non_null(strstr(view_of(&c, LEARNERS)->fault, "and with it range 0 of 3"));
        weft_sim_destroy(&c.sim);
    }
}

/* --- the coordinator --- */

static void test_coordinator_comes_again(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        crowd c;
        begin(&c, 4, 2, true, seed, seed > 2);
        until(&c, 40);
        uint64_t run = view_of(&c, WEFT_COORDINATOR)->run;
        int64_t number = view_of(&c, WEFT_COORDINATOR)->number;
        c.coordinator.run = 1; /* the next one draws another */
        assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 41), WEFT_OK);
        assert_int_equal(weft_sim_kill(c.sim, LEARNERS, 50), WEFT_OK);
        until(&c, 60);
        assert_int_equal(view_of(&c, LEARNERS + 1)->member_count, 6); /* nobody is told */
        assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 60), WEFT_OK);
        /* One who comes before it knows waits. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_come),
        cmocka_unit_test(test_somebody_is_missing),
        cmocka_unit_test(test_silent_are_dropped),
        cmocka_unit_test(test_sleepers),
        cmocka_unit_test(test_leaving),
        cmocka_unit_test(test_lost_at_the_end),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_keepers),
        cmocka_unit_test(test_coordinator_comes_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
