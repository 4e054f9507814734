/* Requests to stop, which are counted in instructions and events: a run of which nothing is kept
 * ends between any two instructions, measuring between any two times, and a simulation tells of the
 * steps that were. */
#include <stdio.h>
#include <unistd.h>

#include "one_context.h"
#include "support.h"
#include "train/trainer.h"
#include "weft/estimate.h"
#include "weft/simulate.h"

#define SMALL "data=glyphs:size=9,train=48,test=12 model=mlp batch=12 threads=1 steps=4 "

static void set_words(const weft_option *table, void *options, const char *words)
{
    char copy[300], *save = NULL;
    assert_true(snprintf(copy, sizeof(copy), "%s", words) < (int)sizeof(copy));
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, options, w, equals + 1));
    }
}

/* Counts the calls of a hook, of which one asks to stop. */
typedef struct counting {
    weft_stop stop;
    int at, calls;
    int steps, summaries;
    int64_t summarized; /* steps, by the summary */
    int ends[4];        /* calls at the end of each step */
} counting;

static void count(counting *c)
{
    if (++c->calls == c->at) c->stop.wanted = 1;
}

/* --- steps --- */

static weft_status after_instruction(void *user)
{
    count(user);
    return WEFT_OK;
}

static void note_step(void *user, const weft_event *e)
{
    counting *c = user;
    if (e->kind == WEFT_EVENT_STEP && c->steps < 4) c->ends[c->steps] = c->calls;
    c->steps += e->kind == WEFT_EVENT_STEP;
    c->summaries += e->kind == WEFT_EVENT_SUMMARY;
    if (e->kind == WEFT_EVENT_SUMMARY) c->summarized = e->step;
}

/* Runs with a request in the instruction `at`, counted from 1; 0: never. */
static counting run_until(const char *words, int at)
{
    weft_train_options o = {.struct_size = 0};
    const weft_option *table = weft_train_table(context);
    counting c = {.at = at};
    weft_trainer *t;
    assert_ok(weft_train_options_init(context, &o));
    set_words(table, &o, words);
    assert_ok(weft_trainer_create_passing(context, &o, &c.stop, false, &t));
    weft_instance_listen(t->runs[0].rank.instance,
                         &(weft_listener){.poll = after_instruction, .user = &c});
    weft_status status = weft_trainer_run(t, note_step, &c);
    assert_int_equal(status, at ? WEFT_ERR_INTERRUPTED : WEFT_OK);
    assert_int_equal(c.summaries, 1);
    if (at) assert_int_equal(c.summarized, c.steps);
    if (at) assert_non_null(strstr(weft_last_message(), "stopped after step "));
    weft_trainer_destroy(&t);
    weft_options_free(table, &o);
    return c;
}

static void a_run_ends_between_instructions(void **state)
{
    static const char *const ways[] = {SMALL, SMALL "ranks=2 mesh=data=2",
                                       SMALL "ranks=2 mesh=tensor=2",
                                       SMALL "ranks=2 exchange=average:every=2"};
    (void)state;
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        counting whole = run_until(ways[w], 0);
        assert_int_equal(whole.steps, 4);
        for (int at = 1; at < whole.ends[3]; at += 1 + whole.calls / 9) {
            counting c = run_until(ways[w], at);
            int ended = 0;
            while (whole.ends[ended] < at) ended++;
            assert_int_equal(c.calls, at);
            if (at != whole.ends[ended]) assert_int_equal(c.steps, ended);
        }
    }
}

/* --- measuring --- */

static void note_time(void *user, const char *what, double done)
{
    (void)what;
    (void)done;
    count(user);
}

/* A request that comes with a message about what is measured next ends that. */
static void measuring_ends_before_the_next_message(void **state)
{
    (void)state;
    char *root = temporary_folder(), path[600];
    (void)snprintf(path, sizeof(path), "%s/here.yaml", root);
    for (int at = 1; at <= 3; at++) {
        weft_measure_options o = {.output = NULL};
        const weft_option *table = weft_measure_table(context);
        counting c = {.at = at};
        size_t times;
        double spread;
        assert_ok(weft_options_init(table, &o));
        assert_ok(weft_options_set(table, &o, "output", path));
        assert_refused(weft_measure(context, &o, &c.stop, note_time, &c, &times, &spread),
                       WEFT_ERR_INTERRUPTED, "stopped while this machine was measured");
        assert_int_equal(c.calls, at);
        assert_int_equal(access(path, F_OK), -1);
        weft_options_free(table, &o);
    }
    remove_folder(root);
}

/* --- simulations --- */

static void stop_at_step(void *user, const weft_event *e)
{
    note_step(user, e);
    if (e->kind == WEFT_EVENT_STEP) count(user);
}

static char *write_cluster(const char *root)
{
    static char path[600];
    (void)snprintf(path, sizeof(path), "%s/one.times", root);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "weft-times\t1\nversion\t%s\nprocessor\tone\n", weft_version());
    fprintf(f, "time\t1\t1\t1\t1e10\t0\tx\t\ntime\t1\t1\t1\t0\t2e10\ty\t\n"
               "time\t1\t1\t1e-3\t10\t10\tstep\t\nend\t3\n");
    fclose(f);
    (void)snprintf(path, sizeof(path), "%s/two.yaml", root);
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "times: one.times\nbandwidth: 125e6\nmachines:\n  - {count: 2, cores: 1}\n");
    fclose(f);
    return path;
}

static void a_simulation_tells_of_the_steps_that_were(void **state)
{
    static const char *const ways[] = {"ranks=2 mesh=data=2", "exchange=average:every=3",
                                       "exchange=server:policy=async", "exchange=gossip"};
    (void)state;
    char *root = temporary_folder(), *cluster = write_cluster(root);
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        weft_simulate_options o = {.cluster = NULL};
        const weft_option *table = weft_simulate_table(context);
        counting c = {.at = 2};
        assert_ok(weft_simulate_options_init(context, &o));
        set_words(table, &o, SMALL);
        set_words(table, &o, ways[w]);
        assert_ok(weft_options_set(table, &o, "cluster", cluster));
        assert_refused(weft_simulate(context, &o, &c.stop, stop_at_step, &c), WEFT_ERR_INTERRUPTED,
                       "stopped after step 2 of the simulation, which saves nothing");
        assert_int_equal(c.steps, 2);
        assert_int_equal(c.summaries, 1);
        assert_int_equal(c.summarized, 2);
        /* An estimate before it is stopped as well. */
        weft_step_estimate step;
        o.train.job.ranks = 2;
        assert_refused(weft_estimate_step_until(context, &o.train, cluster, &c.stop, &step),
                       WEFT_ERR_INTERRUPTED, "stopped before the step was estimated");
        weft_options_free(table, &o);
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_ends_between_instructions),
        cmocka_unit_test(measuring_ends_before_the_next_message),
        cmocka_unit_test(a_simulation_tells_of_the_steps_that_were),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
