/* Every engine that options offer has a row of its own, and what the rows say of jobs holds
 * together: which processes a job starts, what a look at a run changes, what a launcher changes. */
#include "one_context.h"

#include <stdlib.h>
#include <string.h>

#include "train/engine/engine.h"
#include "weft/registry.h"

/* Options of a run of an engine with what several machines and restarts need. */
static weft_train_options options_of(const char *engine)
{
    const weft_option *table = weft_train_table(context);
    static const char *const words[][2] = {{"ranks", "4"},
                                           {"exchange", "server"},
                                           {"mesh", "tensor=2"},
                                           {"hosts", "a,b"},
                                           {"max-restarts", "3"}};
    weft_train_options o = {0};
    assert_int_equal(weft_train_options_init(context, &o), WEFT_OK);
    assert_int_equal(weft_options_set(table, &o, "engine", engine), WEFT_OK);
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        assert_int_equal(weft_options_set(table, &o, words[i][0], words[i][1]), WEFT_OK);
    return o;
}

static void engines(void **state)
{
    (void)state;
    const weft_entry *e;
    const char *usual = NULL;
    int count = 0, in_threads = 0;
    for (int i = 0; (e = weft_context_entry(context, WEFT_KIND_ENGINE, i)); i++) {
        if (e->implied) continue;
        const weft_train_engine *engine = weft_train_engine_of(e->name);
        assert_non_null(engine->name);
        assert_string_equal(engine->name, e->name);
        assert_true(!engine->plan == !engine->done);
        assert_true(engine->processes || (!engine->launched && !engine->members));
        weft_train_options o = options_of(e->name);
        char *text;
        assert_int_equal(weft_job_text(&o, &text), WEFT_OK);
        assert_true(!text == !engine->processes);
        if (text) assert_true(strncmp(text, "2 learners as processes", 23) == 0);
        assert_true(weft_job_needs_supervisor(&o)); /* it has restarts */
        weft_free(text);
        assert_int_equal(weft_train_engine_look(context, &o), WEFT_OK);
        assert_null(weft_train_engine_of(o.job.engine)->processes);
        assert_true(!o.job.hosts == engine->launched);
        assert_true((o.job.max_restarts == 0) == engine->members);
        o.job.max_restarts = 0;
        assert_false(weft_job_needs_supervisor(&o));
        usual = engine->processes ? usual : engine->name;
        in_threads += !engine->processes;
        weft_options_free(weft_train_table(context), &o);
        count++;
    }
    assert_true(count >= 3);
    assert_int_equal(in_threads, 1);
    assert_non_null(usual);
}

static void of_a_launcher(void **state)
{
    (void)state;
    weft_train_options o = {0};
    assert_int_equal(weft_train_options_init(context, &o), WEFT_OK);
    assert_int_equal(weft_job_fit_launcher(context, &o), WEFT_OK);
    assert_null(weft_train_engine_of(o.job.engine)->processes);
    setenv("PMI_RANK", "1", 1);
    assert_int_equal(weft_job_fit_launcher(context, &o), WEFT_OK);
    assert_true(weft_train_engine_of(o.job.engine)->launched);
    assert_int_equal(o.job.ranks, 0);
    unsetenv("PMI_RANK");
    weft_options_free(weft_train_table(context), &o);
}

/* The communicator of a plug-in opens its ranks in this process, and no supervisor is needed. */
static void of_a_plugin(void **state)
{
    (void)state;
    const weft_train_engine *engine = weft_train_engine_of("of-a-plug-in");
    assert_true(engine->hosted && !engine->processes && !engine->alone && !engine->plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(engines), cmocka_unit_test(of_a_launcher),
                                       cmocka_unit_test(of_a_plugin)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
