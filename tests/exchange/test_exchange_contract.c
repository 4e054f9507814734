/* The contract of exchanges, checked for every exchange of the context: those of the library, those
 * of fake_exchanges.h, and that of a plug-in. */
#include "exchange_runs.h"
#include "weft/registry.h"

/* --- properties of all exchanges --- */

/* The specification with which an exchange is tested: its name, unless it needs options. */
static const char *spec_of(const char *name)
{
    if (strcmp(name, "average") == 0) return "average:every=2,outer=nesterov,state=average";
    if (strcmp(name, "fail") == 0) return "fail:moment=never";
    if (strcmp(name, "slowmo") == 0) return "slowmo:every=2,beta=0.6";
    return name;
}

static const weft_entry *exchange_at(int i)
{
    return weft_context_entry(context, WEFT_KIND_EXCHANGE, i);
}

static bool lockstep(const weft_entry *e)
{
    return ((const weft_exchange_ops *)e->ops)->lockstep;
}

/* In lock step, a run that is stopped where the learners synchronize and then resumed leaves the
 * same bits in all files as a run without a stop. */
static void test_stop_and_resume(void **state)
{
    (void)state;
    static const char *const ways[] = {"ranks=2 dtype=f64 device=reference",
                                       "ranks=3 dtype=f64 device=distant", "ranks=2 device=cpu",
                                       "ranks=4 mesh=data=2 dtype=f64 device=reference",
                                       "ranks=4 mesh=tensor=2 device=cpu"};
    static const char *const files[] = {"state", "learners", "exchange"};
    char *root = temporary_folder(), words[500], name[60];
    const weft_entry *e;
    for (int i = 0; (e = exchange_at(i)); i++)
        for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]) && lockstep(e); w++) {
            if (strcmp(e->name, "oneshot") == 0) continue; /* synchronizes only at the end */
            (void)snprintf(words, sizeof(words), SMALL "batch=5 steps=7 optimizer=adam exchange=%s",
                           spec_of(e->name));
            (void)snprintf(name, sizeof(name), "%s-%zu-a", e->name, w);
            const char *a = made(root, name);
            name[strlen(name) - 1] = 'b';
            const char *b = made(root, name);
            run(words, ways[w], a, 0);
            run(words, ways[w], b, 4);
            (void)snprintf(words + strlen(words), sizeof(words) - strlen(words), " resume=true");
            run(words, ways[w], b, 0);
            assert_same(a, b, "parameters", 0, e->name);
            for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++)
                assert_same_or_none(a, b, files[f], e->name);
        }
    remove_folder(root);
}

/* The model begins with dropout, which reads no parameters, so servers do not hold back its forward
 * pass: when one learner is stopped, another one has already begun the next step. The resumed run
 * goes on at the step of the first one, with the dropout masks of that step. */
static void test_stop_ahead(void **state)
{
    (void)state;
    static const char *const net =
        "layers:\n  - {type: dropout, rate: 0.2}\n  - {type: dense, units: outputs}\n";
    static const char *const ways[] = {"ranks=2 dtype=f64 device=reference", "ranks=3 device=cpu",
                                       "ranks=4 mesh=data=2 device=cpu"};
    char *root = temporary_folder(), words[5000], file[4300], name[20];
    write_file(root, "net.yaml", net, strlen(net), file, sizeof(file));
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        (void)snprintf(name, sizeof(name), "a%zu", w);
        const char *a = made(root, name);
        *name = 'b';
        const char *b = made(root, name);
        (void)snprintf(
            words, sizeof(words),
            "model=%s data=glyphs:size=9,train=96,test=8 seed=4 threads=1 batch=5 steps=6 "
            "servers=2 exchange=server:policy=bsp",
            file);
        run(words, ways[w], a, 0);
        run(words, ways[w], b, 2);
        (void)snprintf(words + strlen(words), sizeof(words) - strlen(words), " resume=true");
        run(words, ways[w], b, 0);
        assert_same(a, b, "parameters", 0, ways[w]);
    }
    remove_folder(root);
}

/* The specification with which a codec is tested: its name, unless its defaults send too little. */
static const char *codec_of(const char *name)
{
    if (strcmp(name, "topk") == 0) return "topk:ratio=0.1";
    return name;
}

/* A run is stopped at any moment, while its learners are at different steps. All learners end with
 * the same step, so state of a single learner (masks, running statistics, residuals) is resumed
 * with the same bits too. */
static void test_stop_any_time(void **state)
{
    (void)state;
    static const char *const files[] = {"parameters", "state", "learners", "exchange"};
    static const char *const net =
        "layers:\n  - {type: dense, units: 9}\n  - {type: batch_norm}\n  - {type: relu}\n"
        "  - {type: dropout, rate: 0.2}\n  - {type: dense, units: outputs}\n";
    char *root = temporary_folder(), file[4300], words[5000], name[20];
    write_file(root, "net.yaml", net, strlen(net), file, sizeof(file));
    for (int i = 0; built_in(WEFT_KIND_CODEC, i); i += getenv("WEFT_FAST") ? 3 : 1) {
        const char *codec = codec_of(built_in(WEFT_KIND_CODEC, i));
        const char *a = made(root, "whole");
        (void)snprintf(words, sizeof(words),
                       "model=%s data=glyphs:size=9,train=96,test=8 seed=4 threads=1 dtype=f64 "
                       "device=reference batch=5 steps=40 optimizer=sgd lr=0.1 servers=2 "
                       "exchange=server:policy=bsp compress=%s compress-downlink=%s",
                       file, codec, i % 2 ? codec : "none");
        run(words, "ranks=3", a, 0);
        for (int k = 0; k < 2; k++) {
            (void)snprintf(name, sizeof(name), "part%d", k);
            const char *b = made(root, name);
            stop_delay = 1e-4 * (1 + i + 5 * k);
            run(words, "ranks=3", b, 8 + i % 2);
            stop_delay = 0;
            run(words, "ranks=3 resume=true", b, 0);
            for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++)
                assert_same(a, b, files[f], 0, codec);
            remove_folder(strdup(b));
        }
        remove_folder(strdup(a));
    }
    remove_folder(root);
}

/* With a single learner, each exchange leaves the bits of a run without an exchange. */
static void test_one_learner(void **state)
{
    (void)state;
    char *root = temporary_folder(), words[500];
    const weft_entry *e;
    const char *plain = made(root, "plain");
    run(EXACT "batch=5 steps=4", "ranks=1", plain, 0);
    for (int i = 0; (e = exchange_at(i)); i++) {
        const char *folder = made(root, e->name);
        (void)snprintf(words, sizeof(words), EXACT "batch=5 steps=4 exchange=%s", spec_of(e->name));
        run(words, "ranks=1", folder, 0);
        assert_same(plain, folder, "parameters", 0, e->name);
        assert_same(plain, folder, "state", 0, e->name);
    }
    remove_folder(root);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    static const char *const wrong[] = {"nonsense=1", "nonsense", "=", ",", "every=0.5,every"};
    const weft_entry *e;
    char spec[100];
    for (int i = 0; (e = exchange_at(i)); i++)
        for (size_t w = 0; w < sizeof(wrong) / sizeof(wrong[0]); w++) {
            (void)snprintf(spec, sizeof(spec), "%s:%s", e->name, wrong[w]);
            assert_refused(weft_exchange_check(context, spec), WEFT_ERR_ARGUMENT, e->name);
            assert_null(strchr(weft_last_message(), '\n'));
        }
    assert_refused(weft_exchange_check(context, "som"), WEFT_ERR_ARGUMENT, "did you mean 'sum'");
}

/* ZeRO shards the learner's own update, so an exchange that owns the update refuses it. */
static void test_zero_and_owners(void **state)
{
    (void)state;
    log_of_run l;
    assert_refused(
        train(EXACT "batch=4 steps=2 exchange=sum ranks=4 mesh=data=2 zero=1", NULL, 0, &l),
        WEFT_ERR_ARGUMENT, "give --zero 0");
}

/* A learner that fails in a hook ends the other learners, which do not hang, and the run reports
 * that failure. */
static void test_failures(void **state)
{
    (void)state;
    static const char *const moments[] = {"begin", "before", "ready", "poll", "after", "end"};
    static const char *const ways[] = {"ranks=2", "ranks=3", "ranks=4 mesh=data=2"};
    char words[500];
    for (size_t m = 0; m < sizeof(moments) / sizeof(moments[0]); m++)
        for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
            log_of_run l;
            (void)snprintf(words, sizeof(words),
                           EXACT "batch=5 steps=3 timeout=60 exchange=fail:at=2,moment=%s %s",
                           moments[m], ways[w]);
            assert_refused(train(words, NULL, 0, &l), WEFT_ERR_IO, "learner 1 failed in");
        }
}

/* --- state --- */

static void test_state(void **state)
{
    (void)state;
    static const char *const ways[] = {"ranks=2",
                                       "ranks=3",
                                       "ranks=4 mesh=data=2",
                                       "ranks=4 mesh=tensor=2",
                                       "ranks=4 mesh=data=2 zero=2",
                                       "ranks=4 mesh=pipeline=2"};
    char *root = temporary_folder();
    const char *folder = made(root, "keep");
    run(EXACT "batch=4 steps=3 exchange=keep", ways[0], folder, 0);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        char words[300];
        exchanges_forget();
        (void)snprintf(words, sizeof(words), EXACT "batch=4 exchange=keep resume=true steps=%zu",
                       w + 4);
        last_note[0] = '\0';
        run(words, ways[w], folder, 0);
        assert_int_equal(seen.wrong, 0);
        assert_true(seen.restored >= 2);
        assert_int_equal(seen.fresh, strcmp(ways[w], "ranks=3") == 0);
        assert_null(strstr(last_note, " lacks "));
    }
    remove_folder(root);
}

/* If the checkpoint lacks the exchange's state, nothing is lost, and no note is logged. If it has
 * state that the run would lose, or state of another form, the run is refused with a message. */
static void test_state_of_others(void **state)
{
    (void)state;
    assert_ok(exchanges_register_odd(context));
    char *root = temporary_folder();
    const char *folder = made(root, "others");
    log_of_run l;
    run(EXACT "batch=4 steps=2 exchange=oneshot", "ranks=2", folder, 0);
    last_note[0] = '\0';
    run(EXACT "batch=4 steps=4 exchange=keep resume=true", "ranks=2", folder, 0);
    assert_null(strstr(last_note, "without which exchange keep starts"));
    assert_refused(
        train(EXACT "batch=4 steps=6 ranks=2 exchange=oneshot resume=true", folder, 0, &l),
        WEFT_ERR_ARGUMENT, "of --exchange keep, which this run would lose; go on with these");
    assert_refused(train(EXACT "batch=4 steps=6 ranks=1 resume=true", folder, 0, &l),
                   WEFT_ERR_ARGUMENT, "of --exchange keep, which this run would lose");
    run(EXACT "batch=4 steps=8 exchange=keep resume=true", "ranks=2", folder, 0);
    folder = made(root, "odd");
    run(EXACT "batch=4 steps=2 exchange=odd:what=one", "ranks=2", folder, 0);
    for (size_t i = 0; i < 2; i++) {
        char words[300];
        (void)snprintf(words, sizeof(words),
                       EXACT "batch=4 steps=9 ranks=2 exchange=odd:what=%s resume=true",
                       i ? "wide" : "half");
        assert_refused(train(words, folder, 0, &l), WEFT_ERR_ARGUMENT,
                       i ? "'one' is F64[], this exchange needs F64[3]; add --drop-state"
                         : "has the state 'one' of exchange odd but not 'other'");
    }
    remove_folder(root);
}

/* An exchange with states that a checkpoint could not store or find cannot be opened. */
static void test_bad_states(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *words;
    } cases[] = {{"odd:what=name", "a state is named 'a/b'"},
                 {"odd:what=twice", "two of its states are named 'one'"},
                 {"odd:what=bytes", "its state 'one' has 5 bytes, not 8"},
                 {"odd:what=data", "its state 'one' has 0 bytes, not 8"}};
    char words[300];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        log_of_run l;
        (void)snprintf(words, sizeof(words), EXACT "batch=4 steps=1 ranks=2 exchange=%s",
                       cases[i].spec);
        assert_refused(train(words, NULL, 0, &l), WEFT_ERR_INTERNAL, cases[i].words);
    }
}

static int begin_all(void **state)
{
    int failed = begin(state);
    return failed || weft_plugin_load(context, PLUGINS "/libslowmo.so") != WEFT_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_and_resume), cmocka_unit_test(test_stop_ahead),
        cmocka_unit_test(test_stop_any_time),   cmocka_unit_test(test_one_learner),
        cmocka_unit_test(test_wrong_arguments), cmocka_unit_test(test_zero_and_owners),
        cmocka_unit_test(test_failures),        cmocka_unit_test(test_state),
        cmocka_unit_test(test_state_of_others), cmocka_unit_test(test_bad_states),
    };
    return cmocka_run_group_tests_name("exchange", tests, begin_all, end);
}
