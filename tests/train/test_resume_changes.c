/* Options of a run that resumes: each that changes training and differs from the checkpoint's is
 * either refused by its name or named in a line, whichever option of the table it is; a run with
 * the options of its checkpoint, however they are written, has no line. */
#include <stddef.h>

#include "exchange_runs.h"
#include "train/trainer.h"
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
    if (strcmp(o->argument, "HOW") == 0) return "balanced";
    for (int i = 0; (e = weft_context_entry(context, kind_of(o), i)) && o->initial &&
                    strcmp(e->name, o->initial) == 0;)
        i++;
    assert_non_null(e);
    return e->name;
}

/* Stops a run with the words `first` after a step, and resumes it with `second`. */
static weft_status resume_as(const char *first, const char *second)
{
    char words[6000], *root = temporary_folder();
    log_of_run l;
    (void)snprintf(words, sizeof(words), "%s %s", BASE, first);
    assert_int_equal(train(words, made(root, "run"), 1, &l), WEFT_ERR_INTERRUPTED);
    notes[0] = '\0';
    (void)snprintf(words, sizeof(words), "%s %s", BASE, second);
    weft_status status = train(words, made(root, "run"), 0, &l);
    remove_folder(root);
    return status;
}

/* Likewise, with more words after `base`. */
static weft_status resume(const char *base, const char *more)
{
    char words[6000];
    (void)snprintf(words, sizeof(words), "%s %s", base, more);
    return resume_as(base, words);
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
        if (strcmp(o->name, "patience") == 0) continue; /* it needs validation data: test_watch */
        if (strcmp(o->name, "phases") == 0) continue;   /* it has a form of its own: phases.sh */
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
        {"", "loss=focal", "--loss focal instead of the model's own"},
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

static void test_rules(void **state)
{
    (void)state;
    bool of_state;
    for (const weft_option *o = weft_train_table(context); o->name; o++)
        if (weft_resume_rule_of(o->name, &of_state) == WEFT_RESUME_UNKNOWN)
            fail_msg("the table of rules lacks --%s", o->name);
}

/* Appends each key of a form that has a number as its default, as in ":every=1,beta=0.9", but none
 * that only another key permits. */
static void add_defaults(const char *form, char *out, size_t size)
{
    int depth = 0;
    size_t used = 0;
    *out = '\0';
    for (const char *at = form; *at; at++) {
        size_t key = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_"), value;
        char *end;
        depth += (*at == '[') - (*at == ']');
        if (key == 0 || at[key] != '=') {
            at += key > 0 ? key - 1 : 0;
            continue;
        }
        (void)strtod(at + key + 1, &end);
        value = (size_t)(end - at) - key - 1;
        if (value > 0 && strchr(",[]", *end) && depth <= 1)
            used += (size_t)snprintf(out + used, size - used, "%c%.*s", used ? ',' : ':',
                                     (int)(key + 1 + value), at);
        at += key;
    }
}

/* Keys at their defaults are the same as no keys, and the order of keys does not count. */
static void test_keys_at_defaults(void **state)
{
    (void)state;
    static const struct {
        weft_kind kind;
        const char *option, *more;
    } kinds[] = {{WEFT_KIND_OPTIMIZER, "optimizer", ""},
                 {WEFT_KIND_RATE, "lr-schedule", ""},
                 {WEFT_KIND_DATA, "data", "train=96,test=8"},
                 {WEFT_KIND_EXCHANGE, "exchange", "ranks=2"}};
    int keys = 0;
    for (size_t k = 0; k < WEFT_COUNT(kinds); k++) {
        const weft_entry *e;
        for (int i = 0; (e = weft_context_entry(context, kinds[k].kind, i)); i++) {
            char base[200], more[400], defaults[200];
            add_defaults(e->form ? e->form : "", defaults, sizeof(defaults));
            /* Data that are files, and exchanges of other tests, have a word of their own. */
            if (!*defaults || !built_in(kinds[k].kind, i) || strstr(e->form, "FILE")) continue;
            (void)snprintf(base, sizeof(base), "%s=%s %s", kinds[k].option, e->name, kinds[k].more);
            (void)snprintf(more, sizeof(more), "%s=%s%s", kinds[k].option, e->name, defaults);
            if (kinds[k].kind == WEFT_KIND_DATA) {
                (void)snprintf(base, sizeof(base), "data=glyphs:%s", kinds[k].more);
                (void)snprintf(more, sizeof(more), "data=glyphs:size=28,test=8,train=96,seed=1");
            }
            for (int way = 0; way < (in_full() ? 2 : 1); way++) {
                if (resume(way ? more : base, way ? base : more) != WEFT_OK || notes[0])
                    fail_msg("%s, then %s: %s%s", way ? more : base, way ? base : more, notes,
                             weft_last_message());
                keys++;
            }
        }
    }
    assert_true(keys >= 12);
}

/* Validation is a share, which is a number, or data, which are compared as those of the training;
 * where one side has none, the message says so. */
static void test_validation(void **state)
{
    (void)state;
    static const char *const pairs[][3] = {
        {"0.25", "0.250", NULL},
        {"0.25", "25e-2", NULL},
        {"glyphs:size=9,train=96,test=9", "glyphs:train=96,test=9,size=9,seed=1", NULL},
        {"0.25", "0.5", "was made with --validation 0.25, this run has 0.5;"},
        {"0.25", "glyphs:size=9,train=96,test=9", "this run has glyphs:size=9,train=96,test=9;"},
        {"", "0.25", "was made with no --validation, this run has 0.25;"},
        {"0.25", "", "was made with --validation 0.25, this run has none;"}};
    for (size_t i = 0; i < WEFT_COUNT(pairs); i++) {
        char text[2][100];
        for (int k = 0; k < 2; k++)
            (void)snprintf(text[k], sizeof(text[k]), "%s%s", *pairs[i][k] ? "validation=" : "",
                           pairs[i][k]);
        weft_status status = resume_as(text[0], text[1]);
        if (pairs[i][2] ? status == WEFT_OK || !strstr(weft_last_message(), pairs[i][2])
                        : status != WEFT_OK || notes[0])
            fail_msg("%s, then %s: %s", pairs[i][0], pairs[i][1], weft_last_message());
    }
}

/* Built-in models are compared as networks: what their keys mean, and not how they are written. */
static void test_same_network(void **state)
{
    (void)state;
    static const char *const pairs[][3] = {
        {"twin-lstm", "twin-lstm:units=64", NULL},
        {"twin-lstm:units=5", "twin-lstm:units=05", NULL},
        {"twin-lstm:units=5", "twin-lstm:units=6", "was made with --model twin-lstm:units=5"},
        {"twin-lstm:units=5", "mlp", "was made with --model twin-lstm:units=5, this run has mlp"}};
    char text[300], file[4300], base[5000], more[100], *root = temporary_folder();
    for (size_t i = 0; i < sizeof(text); i++) text[i] = (char)('a' + i * i % 23);
    write_file(root, "t.txt", text, sizeof(text), file, sizeof(file));
    for (size_t i = 0; i < WEFT_COUNT(pairs); i++)
        for (int way = 0; way < 2 && !(way && pairs[i][2]); way++) {
            (void)snprintf(base, sizeof(base), "data=pairs:%s,length=4,train=24,test=8 model=%s",
                           file, pairs[i][way]);
            (void)snprintf(more, sizeof(more), "model=%s", pairs[i][1 - way]);
            weft_status status = resume(base, more);
            if (pairs[i][2] ? status == WEFT_OK || !strstr(weft_last_message(), pairs[i][2])
                            : status != WEFT_OK || notes[0])
                fail_msg("%s, then %s: %s", base, more, weft_last_message());
        }
    remove_folder(root);
}

/* A run that has no place for state of its checkpoint is refused, and the message names the options
 * on which that state depends, and no other; with --drop-state it goes on. */
static void test_state(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"lr-multiplier=fc1/*=0", "", "its run had --lr-multiplier fc1/*=0; go on"},
        {"", "lr-multiplier=fc1/*=0", "its run had no --lr-multiplier; go on"},
        {"optimizer=sgd momentum=0.5", "optimizer=sgd momentum=0", "had --momentum 0.5; go on"},
        {"optimizer=sgd", "optimizer=sgd momentum=0.5", "its run had --momentum 0; go on"},
        {"lr-schedule=plateau epochs=3", "lr-schedule=constant",
         "its run had --lr-schedule plateau; go on"},
        {"ranks=2 exchange=server", "ranks=2 exchange=average",
         "its run had --exchange server; go on"},
        {"ranks=2 exchange=average", "ranks=2 exchange=server", "had --exchange average; go on"}};
    for (size_t i = 0; i < WEFT_COUNT(cases); i++) {
        char more[200];
        assert_int_equal(resume_as(cases[i][0], cases[i][1]), WEFT_ERR_ARGUMENT);
        if (!strstr(weft_last_message(), cases[i][2]) ||
            !strstr(weft_last_message(), "add --drop-state"))
            fail_msg("'%s' lacks '%s'", weft_last_message(), cases[i][2]);
        (void)snprintf(more, sizeof(more), "%s drop-state=true", cases[i][1]);
        assert_ok(resume_as(cases[i][0], more));
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
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_keys_at_defaults),
        cmocka_unit_test(test_validation),
        cmocka_unit_test(test_same_network),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_learners),
        cmocka_unit_test(test_no_line),
    };
    return cmocka_run_group_tests(tests, begin_notes, end);
}
