/* Options of a run that resumes: each that changes training and differs from the checkpoint's is
 * either refused by its name or named in a line, whichever option of the table it is; a run with
 * the options of its checkpoint has no line. */
#include <stddef.h>

#include "exchange_runs.h"
#include "weft/registry.h"
#include "weft/train.h"

static const char BASE[] = "model=mlp data=glyphs:size=9,train=96,test=8 seed=4 threads=1 batch=8 "
                           "lr=0.01 resume=true";

static char notes[8192]; /* all lines of level WEFT_LOG_NOTE, without that of a new run */

static void take_notes(void *user, weft_log_level level, const char *text)
{
    (void)user;
    size_t size = strlen(notes);
    if (level == WEFT_LOG_NOTE && !strstr(text, "starts a new run"))
        (void)snprintf(notes + size, sizeof(notes) - size, "%s\n", text);
}

static const weft_option *row(const weft_option *table, const char *name)
{
    while (strcmp(table->name, name) != 0) table++;
    return table;
}

static bool is_within(const weft_option *o, size_t group, size_t bytes)
{
    return o->offset >= group && o->offset < group + bytes;
}

static bool is_listed(const char *names, const char *name)
{
    char all[400], one[100];
    (void)snprintf(all, sizeof(all), ",%s,", names);
    (void)snprintf(one, sizeof(one), ",%s,", name);
    return strstr(all, one) != NULL;
}

/* The kind of the names that an option takes. */
static weft_kind kind_of(const weft_option *o)
{
    return o->names ? o->names : o->forms;
}

/* Options by which `o` has an effect: a name of its `with` that reads it. */
static void needs(const weft_option *table, const weft_option *o, char *out, size_t size)
{
    const weft_entry *e;
    *out = '\0';
    if (!o->with) return;
    for (int i = 0; (e = weft_context_entry(context, kind_of(row(table, o->with)), i)) && !*out;
         i++)
        if (e->reads && is_listed(e->reads, o->name))
            (void)snprintf(out, size, "%s=%s", o->with, e->name);
    assert_true(*out != '\0');
}

/* A value of the option that is not its default. */
static const char *another(const weft_option *o)
{
    const weft_entry *e = NULL;
    if (o->kind == WEFT_OPT_FLAG) return "true";
    if (o->kind == WEFT_OPT_INT) return "4";
    if (o->kind == WEFT_OPT_REAL) return "0.0078125";
    if (strcmp(o->argument, "PATTERN=X,...") == 0) return "*=0.5";
    for (int i = 0;
         (e = weft_context_entry(context, kind_of(o), i)) && (strcmp(e->name, o->initial) == 0);)
        i++;
    assert_non_null(e);
    return e->name;
}

/* Stops a run after a step, and resumes it with more words. */
static weft_status resume(const char *base, const char *more)
{
    char words[1000], *root = temporary_folder();
    log_of_run l;
    (void)snprintf(words, sizeof(words), "%s %s", BASE, base);
    assert_int_equal(train(words, made(root, "run"), 1, &l), WEFT_ERR_INTERRUPTED);
    notes[0] = '\0';
    (void)snprintf(words, sizeof(words), "%s %s %s", BASE, base, more);
    weft_status status = train(words, made(root, "run"), 0, &l);
    remove_folder(root);
    return status;
}

static void test_every_option(void **state)
{
    (void)state;
    const weft_option *table = weft_train_table(context);
    int rows = 0;
    for (const weft_option *o = table; o->name; o++) {
        char base[200], more[200], name[100], with[100];
        if (!is_within(o, offsetof(weft_train_options, length), sizeof(weft_length_choice)) &&
            !is_within(o, offsetof(weft_train_options, update), sizeof(weft_update_choice)))
            continue;
        needs(table, o, with, sizeof(with));
        /* Its length counts where the schedule depends on it. */
        bool cosine = !strstr(with, "lr-schedule") && strcmp(o->name, "lr-schedule") != 0;
        (void)snprintf(base, sizeof(base), "%s %s%s", with, cosine ? "lr-schedule=cosine" : "",
                       strstr(with, "sgd") ? " momentum=0.25" : "");
        (void)snprintf(more, sizeof(more), "%s=%s", o->name, another(o));
        (void)snprintf(name, sizeof(name), "--%s ", o->name);
        weft_status status = resume(base, more);
        const char *said = status == WEFT_OK ? notes : weft_last_message();
        if (!strstr(said, name)) fail_msg("%s, then %s: '%s'", base, more, said);
        rows++;
    }
    assert_true(rows > 15);
}

static void test_learners(void **state)
{
    (void)state;
    static const char *const pairs[][3] = {
        {"", "ranks=2 exchange=average",
         "--exchange average instead of none, 2 learners instead of 1"},
        {"ranks=2 exchange=average", "exchange=average ranks=1", "1 learner instead of 2"},
        {"ranks=2 exchange=average", "ranks=3", "3 learners instead of 2"},
        {"ranks=2 exchange=easgd", "compress=onebit", "--compress onebit instead of none"},
    };
    for (size_t i = 0; i < WEFT_COUNT(pairs); i++) {
        assert_ok(resume(pairs[i][0], pairs[i][1]));
        if (!strstr(notes, pairs[i][2])) fail_msg("'%s' lacks '%s'", notes, pairs[i][2]);
    }
}

/* No line for options as they were, nor for those that change no result but by rounding. */
static void test_no_line(void **state)
{
    (void)state;
    static const char *const more[] = {"", "ranks=2 mesh=data=2", "device=reference", "keep=1",
                                       "timeout=9"};
    for (size_t i = 0; i < WEFT_COUNT(more); i++) {
        assert_ok(resume("weight-decay=0.3 clip-norm=0.5 label-smoothing=0.1", more[i]));
        assert_string_equal(notes, "");
    }
}

static int begin_notes(void **state)
{
    if (begin(state) != 0) return 1;
    weft_context_set_log(context, take_notes, NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_learners),
        cmocka_unit_test(test_no_line),
    };
    return cmocka_run_group_tests(tests, begin_notes, end);
}
