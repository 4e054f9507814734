/* Runs that resume from a checkpoint, in the simulator: members that have loaded this checkpoint,
 * none or another one join in any order, over links that lose messages. The run must begin with the
 * checkpoint's state or not at all. */
#include "membership_fixture.h"

enum { OURS = 7, OTHER = 9, RUNS = 10000, FEW = 600 };

typedef struct draw {
    int learners, servers, late,
        /* `learners` and `servers` are expected before the run begins, `late` learners join later,
         * and `with` of all learners have the checkpoint. */
        with;
    uint64_t state;
} draw;

static int pick(draw *d, int n)
{
    d->state = d->state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((d->state >> 33) % (uint64_t)n);
}

/* Draws what a learner has loaded: the run's checkpoint (two of five), none (two of five), or
 * another one. */
static void give_origin(crowd *c, draw *d, int id)
{
    int origin = pick(d, 5);
    c->members[id].fingerprint.checkpoint = origin < 2 ? OURS : origin < 4 ? 0 : OTHER;
    c->members[id].fingerprint.step = origin < 2 ? 150 : origin < 4 ? 0 : 90;
    d->with += origin < 2;
}

static bool has_state(const weft_view_member *m)
{
    return m->role == WEFT_MEMBER_LEARNER && !m->lacks_state;
}

static void check_view(crowd *c, const draw *d, bool *ran)
{
    const weft_view *v = view_of(c, WEFT_COORDINATOR);
    bool some = false;
    for (size_t i = 0; i < v->member_count; i++) {
        const weft_view_member *m = &v->members[i];
        uint64_t loaded = c->members[m->id].fingerprint.checkpoint;
        some = some || has_state(m);
        if (m->role != WEFT_MEMBER_LEARNER) continue;
        /* Before the run has begun, only members that have loaded its checkpoint count as having
         * the state. */
        if (!v->running) {
            assert_int_equal(m->lacks_state, loaded != OURS);
            assert_true(loaded != OTHER);
            assert_true(d->servers > 0 || !m->lacks_state);
        }
    }
    if (v->running && !*ran) {
        assert_true(some);
        *ran = true;
    }
    if (d->with == 0) assert_false(v->running);
}

static void test_any_order(void **state)
{
    (void)state;
    int runs = getenv("WEFT_FAST") ? FEW : RUNS, began = 0, refused = 0;
    for (int r = 0; r < runs; r++) {
        crowd c;
        draw d = {.state = (uint64_t)r + 1};
        bool ran = false;
        d.learners = 1 + pick(&d, 3);
        d.servers = pick(&d, 3);
        d.late = pick(&d, 4);
        begin(&c, d.learners, d.servers, false, (uint64_t)r, r % 2);
        c.coordinator.fingerprint.checkpoint = OURS;
        c.coordinator.fingerprint.step = 150;
        for (int i = 0; i < d.learners; i++) give_origin(&c, &d, LEARNERS + i);
        for (int i = 0; i < d.late; i++) {
            give_origin(&c, &d, LEARNERS + d.learners + i);
            assert_int_equal(weft_sim_add(c.sim, (weft_actor_id)(LEARNERS + d.learners + i),
                                          1 + pick(&d, 40) / 4.0),
                             WEFT_OK);
        }
        for (double t = 0.25; t < 20; t += 0.25) {
            until(&c, t);
            check_view(&c, &d, &ran);
        }
        began += ran;
        refused += c.refused;
        weft_sim_destroy(&c.sim);
    }
    print_message("%d runs, %d began, %d members were refused\n", runs, began, refused);
    assert_true(began > runs / 10);
    assert_true(refused > runs / 10);
}

static void refused_with(int servers, uint64_t ours, uint64_t theirs, const char *words)
{
    crowd c;
    begin(&c, 1, servers, false, 1, false);
    c.coordinator.fingerprint.checkpoint = ours;
    c.coordinator.fingerprint.step = 150;
    c.members[LEARNERS].fingerprint.checkpoint = theirs;
    c.members[LEARNERS].fingerprint.step = 90;
    until(&c, 5);
    assert_int_equal(c.refused, 1);
    if (!strstr(c.refusal, words)) fail_msg("'%s' does not hold '%s'", c.refusal, words);
    weft_sim_destroy(&c.sim);
}

static void test_sentences(void **state)
{
    (void)state;
    refused_with(0, OURS, 0,
                 "this run resumes from the checkpoint of step 150, which this process has not "
                 "loaded; join with --checkpoint FOLDER --resume");
    refused_with(1, OURS, OTHER,
                 "from another checkpoint, of step 150; this process has loaded one of step 90");
    refused_with(0, OURS, OTHER, "from another checkpoint");
    refused_with(1, 0, OTHER,
                 "this run starts at step 0, but this process has loaded a checkpoint of step 90");
}

/* If no learner has the checkpoint, the run does not begin, and members can say what is missing. */
static void test_waits(void **state)
{
    (void)state;
    crowd c;
    begin(&c, 1, 1, false, 1, false);
    c.coordinator.fingerprint.checkpoint = OURS;
    c.coordinator.fingerprint.step = 150;
    until(&c, 5);
    assert_false(view_of(&c, WEFT_COORDINATOR)->running);
    assert_string_equal(
        weft_member_waits_for(person_of(&c, LEARNERS)->member),
        "no learner has joined with the checkpoint of step 150 (--checkpoint FOLDER --resume)");
    c.members[LEARNERS + 1].fingerprint.checkpoint = OURS;
    assert_int_equal(weft_sim_add(c.sim, LEARNERS + 1, 6), WEFT_OK);
    until(&c, 10);
    assert_true(view_of(&c, WEFT_COORDINATOR)->running);
    weft_sim_destroy(&c.sim);
}

/* A coordinator that resumes from a checkpoint finds members of an earlier run at its address. The
 * coordinator takes over their run if that is at least as far as the checkpoint; otherwise it
 * begins a run from the checkpoint. */
static void test_left_over(void **state)
{
    (void)state;
    static const char begun[] = "model\0lenet\0@begun.step\0"
                                "50"; /* the array includes the final zero byte */
    for (int newer = 0; newer < 2; newer++) {
        crowd c;
        begin(&c, 2, 0, false, 1, false);
        c.coordinator.configuration = begun;
        c.coordinator.configuration_bytes = sizeof(begun);
        until(&c, 20);
        assert_true(view_of(&c, WEFT_COORDINATOR)->running);
        const weft_member_stats stats = {.clock = newer ? 100 : 99};
        weft_member_set_stats(person_of(&c, LEARNERS)->member, &stats);
        until(&c, 25);
        c.coordinator.run = 1;
        c.coordinator.fingerprint.checkpoint = OURS;
        c.coordinator.fingerprint.step = 150;
        assert_int_equal(weft_sim_kill(c.sim, WEFT_COORDINATOR, 26), WEFT_OK);
        assert_int_equal(weft_sim_restart(c.sim, WEFT_COORDINATOR, 27), WEFT_OK);
        for (int i = 5; i < 7; i++) {
            c.members[LEARNERS + i].fingerprint.checkpoint = OURS;
            assert_int_equal(weft_sim_add(c.sim, LEARNERS + i, 28), WEFT_OK);
        }
        until(&c, 80);
        const weft_view *v = view_of(&c, WEFT_COORDINATOR);
        assert_true(v->running);
        assert_int_equal(v->run, newer ? 78 : 1);
        assert_int_equal(v->member_count, newer ? 4 : 2);
        weft_sim_destroy(&c.sim);
    }
}

/* All learners that have loaded the checkpoint are lost before the first step. The run then has a
 * fault: a peer that joined later must not begin it with parameters of its own. */
static void test_checkpoint_lost(void **state)
{
    (void)state;
    crowd c;
    begin(&c, 1, 0, false, 1, false);
    c.coordinator.fingerprint.checkpoint = c.members[LEARNERS].fingerprint.checkpoint = OURS;
    c.coordinator.fingerprint.step = 150;
    assert_int_equal(weft_sim_add(c.sim, LEARNERS + 5, 5), WEFT_OK);
    until(&c, 10);
    assert_int_equal(weft_sim_kill(c.sim, LEARNERS, 10), WEFT_OK);
    until(&c, 40);
    assert_int_equal(weft_member_report_state_lost(person_of(&c, LEARNERS + 5)->member, false),
                     WEFT_OK);
    until(&c, 45);
    const weft_view *v = view_of(&c, WEFT_COORDINATOR);
    assert_non_null(v->fault);
    assert_non_null(strstr(v->fault, "all learners with the checkpoint of step 150"));
    weft_sim_destroy(&c.sim);
}

/* A running run admits learners with the checkpoint from which it resumed, with one that it wrote
 * itself, or with none. A learner with a checkpoint of another run is refused. */
static void test_other_checkpoint(void **state)
{
    (void)state;
    for (int servers = 0; servers < 2; servers++) {
        static const struct {
            uint64_t checkpoint, run;
            bool fits;
        } late[] = {{0, 0, true},      {OURS, 0, true},   {OURS, 5, true},
                    {OTHER, 78, true}, {OTHER, 5, false}, {OTHER, 0, false}};
        crowd c;
        begin(&c, 1, servers, false, 1, false);
        c.coordinator.fingerprint.checkpoint = c.members[LEARNERS].fingerprint.checkpoint = OURS;
        until(&c, 5);
        assert_true(view_of(&c, WEFT_COORDINATOR)->running);
        for (int i = 0; i < 6; i++) {
            int refused = c.refused, id = LEARNERS + 5 + i;
            c.members[id].fingerprint.checkpoint = late[i].checkpoint;
            c.members[id].fingerprint.run = late[i].run;
            c.members[id].fingerprint.step = 90;
            assert_int_equal(weft_sim_add(c.sim, (weft_actor_id)id, 10 * (i + 1)), WEFT_OK);
            until(&c, 10 * (i + 1) + 5);
            assert_int_equal(c.refused - refused, !late[i].fits);
            if (!late[i].fits)
                assert_non_null(strstr(
                    c.refusal,
                    "the checkpoint of step 90 that this process has loaded is of another run"));
        }
        weft_sim_destroy(&c.sim);
    }
}

/* As long as servers are not initialized, only learners with the checkpoint from which the run
 * starts count as having its state. */
static void test_late_parameters(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) { /* the run begins with fresh weights, or resumes */
        crowd c;
        begin(&c, 1, 1, false, 1, false);
        c.coordinator.fingerprint.checkpoint = c.members[LEARNERS].fingerprint.checkpoint =
            k ? OURS : 0;
        const uint64_t theirs[] = {0, OURS, OTHER};
        for (int i = 0; i < 3; i++) {
            c.members[LEARNERS + 5 + i].fingerprint.checkpoint = theirs[i];
            c.members[LEARNERS + 5 + i].fingerprint.run = 78; /* written later by this run */
            assert_int_equal(weft_sim_add(c.sim, (weft_actor_id)(LEARNERS + 5 + i), 5), WEFT_OK);
        }
        until(&c, 10);
        for (int i = 0; i < 3; i++)
            assert_int_equal(
                weft_view_find(view_of(&c, WEFT_COORDINATOR), (weft_actor_id)(LEARNERS + 5 + i))
                    ->lacks_state,
                theirs[i] != c.coordinator.fingerprint.checkpoint);
        weft_sim_destroy(&c.sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),       cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_waits),           cmocka_unit_test(test_left_over),
        cmocka_unit_test(test_checkpoint_lost), cmocka_unit_test(test_late_parameters),
        cmocka_unit_test(test_other_checkpoint)};
    return cmocka_run_group_tests_name("resumed_members", tests, NULL, NULL);
}
