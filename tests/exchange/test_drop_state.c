/* Which run may resume whose checkpoint, for all pairs of exchanges, codecs and numbers of
 * learners: the table in docs/guide/training.md. Without --drop-state a run resumes with the
 * complete state, or is refused with a message that names the option. With the option every run
 * resumes, and begins with the loss to which the checkpoint evaluates. */
#include <math.h>

#include "base/registry.h"
#include "exchange_runs.h"

#define NET                                                                                        \
    "layers:\n  - {type: dense, units: 7}\n  - {type: relu}\n  - {type: dense, units: classes}\n"
/* Variants of exchanges whose options change the state that a checkpoint stores. */
static const char *const variants[] = {"average:every=2,outer=nesterov"};
enum { STEPS = 2, MOST_WAYS = 100 };

typedef struct way {
    char words[200];
    const weft_exchange_ops *ops; /* NULL: a single learner, without an exchange */
    char codec[32];
    bool outer, residual; /* has state of an outer optimizer; of a codec */
} way;
static way ways[MOST_WAYS];
static int way_count;
static char dropped[512]; /* the last log line about dropped state */
static char absent[512];  /* the last log line about missing state alone */

static void listen_in(void *user, weft_log_level level, const char *text)
{
    (void)user;
    (void)level;
    char *to = strstr(text, "dropped from") ? dropped : strstr(text, " lacks ") ? absent : NULL;
    if (to) (void)snprintf(to, sizeof(dropped), "%s", text);
}

/* A context logs a sentence only once, so each run whose log is read has a context of its own. */
static void listen_anew(void)
{
    dropped[0] = absent[0] = '\0';
    (void)teardown(NULL);
    assert_int_equal(setup(NULL), 0);
    weft_context_set_log(context, listen_in, NULL);
}

/* --- the ways to train --- */

static bool keeps_state(const char *name)
{
    weft_codec *codec;
    weft_codec_state s;
    assert_ok(weft_codec_open(context, name, WEFT_F64, 8, &codec));
    bool keeps = weft_codec_state_of(codec, 0, &s);
    weft_codec_close(&codec);
    return keeps;
}

static void add_way(const char *spec, const char *codec, int learners)
{
    const char *arguments;
    assert_true(way_count < MOST_WAYS);
    way *w = &ways[way_count++];
    assert_ok(weft_exchange_find(context, spec, &w->ops, &arguments));
    weft_exchange_plan plan = {.learners = learners, .servers = 1, .codec = codec};
    /* An exchange may refuse the momentum of a codec. */
    bool fits = !codec || weft_exchange_fits(context, spec, &plan) == WEFT_OK;
    (void)snprintf(w->codec, sizeof(w->codec), "%s%s", codec ? codec : "none",
                   fits ? "" : ":momentum=0");
    (void)snprintf(w->words, sizeof(w->words), "ranks=%d exchange=%s%s%s%s", learners, spec,
                   codec ? " compress=" : "", codec ? codec : "", fits ? "" : ":momentum=0");
    w->outer = strstr(spec, "outer=");
    w->residual = codec && keeps_state(codec);
}

static void add_exchange(const char *spec)
{
    const weft_entry *e = weft_registry_look(context, WEFT_KIND_EXCHANGE, spec, strcspn(spec, ":"));
    for (int learners = 2; learners <= 3; learners++) {
        if (!weft_entry_reads(e, "compress")) add_way(spec, NULL, learners);
        for (int i = 0; weft_entry_reads(e, "compress") && built_in(WEFT_KIND_CODEC, i); i++)
            add_way(spec, built_in(WEFT_KIND_CODEC, i), learners);
    }
}

static void list_ways(void)
{
    way_count = 0;
    (void)snprintf(ways[way_count].codec, sizeof(ways[0].codec), "none");
    (void)snprintf(ways[way_count++].words, sizeof(ways[0].words), "ranks=1");
    for (int i = 0; built_in(WEFT_KIND_EXCHANGE, i); i++)
        add_exchange(built_in(WEFT_KIND_EXCHANGE, i));
    for (size_t i = 0; i < WEFT_COUNT(variants); i++) add_exchange(variants[i]);
}

/* Whether `to` can resume a checkpoint of `from` with its complete state, by the table of the
 * guide. */
static bool goes_on_fully(const way *from, const way *to)
{
    bool at_servers = from->ops && from->ops->owns_update;
    if (at_servers != (to->ops && to->ops->owns_update)) return false;
    if (from->outer && !to->outer) return false;
    if (from->residual && (from->ops != to->ops || strcmp(from->codec, to->codec) != 0))
        return false;
    /* With a codec, servers also store the parameters that they have sent to learners. */
    return !at_servers || strcmp(from->codec, "none") == 0 || strcmp(to->codec, "none") != 0;
}

/* --- checks --- */

static double evaluate(const char *folder)
{
    weft_eval_options e = {0};
    weft_report r = {0};
    char latest[4300];
    (void)snprintf(latest, sizeof(latest), "%s/latest", folder);
    assert_ok(weft_options_init(weft_eval_table(), &e));
    assert_ok(weft_options_set(weft_eval_table(), &e, "checkpoint", latest));
    assert_ok(weft_evaluate(context, &e, &r));
    double loss = r.loss;
    weft_report_free(&r);
    weft_options_free(weft_eval_table(), &e);
    return loss;
}

/* Resumes the checkpoint of `from` with `to`. No step is left to take, so the run changes neither
 * the parameters nor the checkpoint. */
static void check_pair(const char *words, const way *from, const way *to, const char *folder,
                       double loss)
{
    char all[5400];
    log_of_run l;
    bool fully = goes_on_fully(from, to);
    listen_anew();
    (void)snprintf(all, sizeof(all), "%s %.199s resume=true", words, to->words);
    weft_status status = train(all, folder, 0, &l);
    if (fully != (status == WEFT_OK))
        fail_msg("%s, then %s: %s", from->words, to->words,
                 fully ? weft_last_message() : "goes on and should be refused");
    if (!fully && !strstr(weft_last_message(), "add --drop-state"))
        fail_msg("%s, then %s: no way on in '%s'", from->words, to->words, weft_last_message());
    if (fully && !(fabs(l.test_loss - loss) < 1e-12))
        fail_msg("%s, then %s: loss %.17g, not %.17g", from->words, to->words, l.test_loss, loss);
    if (absent[0]) fail_msg("%s, then %s: %s", from->words, to->words, absent);
    (void)snprintf(all, sizeof(all), "%s %.199s resume=true drop-state=true", words, to->words);
    listen_anew();
    status = train(all, folder, 0, &l);
    if (status != WEFT_OK)
        fail_msg("%s, then %s, drop-state: %s", from->words, to->words, weft_last_message());
    if (!(fabs(l.test_loss - loss) < 1e-12))
        fail_msg("%s, then %s, drop-state: loss %.17g, not %.17g", from->words, to->words,
                 l.test_loss, loss);
    if (fully ? dropped[0] || absent[0] : !dropped[0])
        fail_msg("%s, then %s: '%s%s' is logged", from->words, to->words, dropped, absent);
}

static void test_pairs(void **state)
{
    (void)state;
    char *root = temporary_folder(), file[4300], words[5000], name[20];
    write_file(root, "net.yaml", NET, strlen(NET), file, sizeof(file));
    (void)snprintf(words, sizeof(words),
                   "model=%s data=glyphs:size=8,train=24,test=8 seed=4 threads=1 dtype=f64 "
                   "device=reference batch=4 steps=%d",
                   file, STEPS);
    list_ways();
    for (int from = 0; from < way_count; from++) {
        if (!in_full() && from % 4 != 1) continue;
        (void)snprintf(name, sizeof(name), "%d", from);
        const char *folder = made(root, name);
        run(words, ways[from].words, folder, 0);
        double loss = evaluate(folder);
        for (int to = 0; to < way_count; to++)
            if (in_full() || (from + to) % 11 == 0)
                check_pair(words, &ways[from], &ways[to], folder, loss);
    }
    remove_folder(root);
}

/* The log line names each part of the state that is dropped, the number of learners that have it,
 * and the option to which it belongs, and then the state that is missing in its place. Without
 * dropped state there is no line. The run then takes its steps, and its checkpoint can
 * be resumed without the option. */
static void test_going_on(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *sentence;
    } cases[] = {
        {"ranks=3 exchange=gossip compress=onebit", "ranks=2 exchange=average",
         "dropped from the checkpoint of step 2: the message counts of onebit (3 learners), the "
         "residuals of onebit (3 learners)"},
        {"ranks=2 exchange=average:every=2,outer=nesterov", "ranks=1",
         "dropped from the checkpoint of step 2: the last mean of outer=nesterov, the momentum of "
         "outer=nesterov"},
        {"ranks=2 exchange=server", "ranks=3 exchange=easgd",
         "dropped from the checkpoint of step 2: the optimizer state of the servers"},
        {"ranks=2 exchange=oneshot", "ranks=2 exchange=server",
         "dropped from the checkpoint of step 2: the state of --optimizer adam (2 learners); it "
         "lacks the optimizer state of the servers, without which exchange server starts"},
        {"ranks=2 exchange=gossip compress=onebit", "ranks=3 exchange=server optimizer=sgd",
         "dropped from the checkpoint of step 2: the state of --optimizer adam (2 learners), the "
         "message counts of onebit (2 learners), the residuals of onebit (2 learners); it "
         "lacks the optimizer state of the servers, without which exchange server starts"},
        {"ranks=2 exchange=oneshot", "ranks=2 exchange=gossip compress=onebit", ""},
        {"ranks=1", "ranks=2 exchange=average:every=2,outer=nesterov", ""},
        {"ranks=1", "ranks=1 optimizer=sgd momentum=0.9",
         "dropped from the checkpoint of step 2: the state of --optimizer adam"},
    };
    char *root = temporary_folder(), words[300], name[20];
    for (size_t i = 0; i < WEFT_COUNT(cases); i++) {
        log_of_run l;
        (void)snprintf(name, sizeof(name), "on%zu", i);
        const char *folder = made(root, name);
        run(EXACT "batch=4 steps=2", cases[i].from, folder, 0);
        listen_anew();
        run(EXACT "batch=4 steps=5 resume=true drop-state=true", cases[i].to, folder, 0);
        assert_string_equal(dropped[0] ? dropped : absent, cases[i].sentence);
        (void)snprintf(words, sizeof(words), EXACT "batch=4 steps=7 resume=true %s", cases[i].to);
        assert_ok(train(words, folder, 0, &l));
        assert_int_equal(l.steps, 2);
    }
    remove_folder(root);
}

/* An optimizer whose moments are dropped also counts its updates from 1 again, so its first step
 * has the full learning rate; moments of zero that count as old would make the step shorter. */
static void test_moments_are_new(void **state)
{
    (void)state;
    char *root = temporary_folder();
    double before[10], after[10];
    const char *folder = made(root, "new");
    tensors t;
    run(EXACT "batch=4 steps=9 lr=0.01 exchange=server", "ranks=2", folder, 0);
    for (int k = 0; k < 2; k++) {
        if (k)
            run(EXACT "batch=4 steps=10 lr=0.01 resume=true drop-state=true", "ranks=1", folder, 0);
        assert_true(open_tensors(folder, "parameters", &t));
        const weft_tensor *bias = weft_safetensors_find(&t.all, "fc3/bias");
        assert_non_null(bias);
        memcpy(k ? after : before, bias->data, sizeof(before));
        close_tensors(&t);
    }
    for (int i = 0; i < 10; i++) assert_true(fabs(fabs(after[i] - before[i]) - 0.01) < 1e-5);
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pairs),
                                       cmocka_unit_test(test_going_on),
                                       cmocka_unit_test(test_moments_are_new)};
    return cmocka_run_group_tests_name("drop state", tests, setup, teardown);
}
