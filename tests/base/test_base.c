/* Random numbers, permutations, error messages, option tables, printable text, exact sums. */
#include <math.h>

#include "base/id_index.h"
#include "base/base.h"
#include "support.h"

/* Known answers of Random123 for philox4x32-10. */
static void test_philox(void **state)
{
    (void)state;
    uint32_t out[4];
    weft_philox(0, 0, 0, out);
    assert_int_equal(out[0], 0x6627e8d5u);
    assert_int_equal(out[1], 0xe169c58du);
    assert_int_equal(out[2], 0xbc57ac4cu);
    assert_int_equal(out[3], 0x9b00dbd8u);
    weft_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, out);
    assert_int_equal(out[0], 0x408f276du);
}

static void test_permutation_is_one(void **state)
{
    (void)state;
    const int64_t sizes[] = {1, 2, 3, 7, 100, 1023, 1025};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        char *seen = calloc((size_t)sizes[s], 1);
        int64_t moved = 0;
        for (int64_t i = 0; i < sizes[s]; i++) {
            int64_t to = weft_permute(42, sizes[s], i);
            assert_true(to >= 0 && to < sizes[s] && !seen[to]);
            seen[to] = 1;
            moved += to != i;
        }
        assert_true(sizes[s] < 100 || moved > sizes[s] / 2);
        free(seen);
    }
}

static const char *word(const void *user, int i)
{
    (void)user;
    static const char *const words[] = {"lenet", "mlp", "vgg11", NULL};
    return words[i];
}

static void *fail_elsewhere(void *user)
{
    weft_error_catch(user, weft_fail(WEFT_ERR_IO, "the %s is away", "disk"));
    weft_error_catch(user, weft_fail(WEFT_ERR_FORMAT, "and more"));
    return NULL;
}

/* A weft_error carries a failure from one thread to another, and keeps the first failure. */
static void test_errors_are_kept(void **state)
{
    (void)state;
    weft_error e = {0};
    pthread_t thread;
    assert_int_equal(weft_error_raise(&e), WEFT_OK);
    weft_error_catch(&e, WEFT_OK);
    assert_int_equal(e.status, WEFT_OK);
    assert_int_equal(weft_fail(WEFT_ERR_NUMERIC, "mine"), WEFT_ERR_NUMERIC);
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &e), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(weft_last_message(), "mine");
    assert_int_equal(weft_error_raise(&e), WEFT_ERR_IO);
    assert_string_equal(weft_last_message(), "the disk is away");
}

static const char *letter(const void *user, int i)
{
    (void)user;
    return i == 0 ? "x" : NULL;
}

static void test_nearest(void **state)
{
    (void)state;
    assert_string_equal(weft_nearest("lenot", word, NULL), "lenet");
    assert_string_equal(weft_nearest("vgg-11", word, NULL), "vgg11");
    assert_null(weft_nearest("transformer", word, NULL));
    assert_null(weft_nearest("b", letter, NULL)); /* nothing of it is alike */
    assert_string_equal(weft_nearest("X", letter, NULL), "x");
    assert_string_equal(weft_nearest("x1", letter, NULL), "x");
    assert_null(weft_nearest("lantern", word, NULL)); /* a third may differ, and one letter more */
}

static void test_options(void **state)
{
    (void)state;
    const weft_option *table = weft_train_table(fresh_context());
    weft_train_options o = {0};
    const char *words[1];
    int count;
    assert_ok(weft_train_options_init(fresh_context(), &o));
    assert_string_equal(o.task.model, "lenet");
    char *argv[] = {"--lr=0.5", "-b", "7", "--resume", "run.yaml", "--seed", "9"};
    assert_ok(weft_options_parse(table, &o, 7, argv, 1, words, &count));
    assert_true(o.update.lr == 0.5 && o.length.batch == 7 && o.output.resume && o.task.seed == 9);
    assert_int_equal(count, 1);
    assert_string_equal(words[0], "run.yaml");
    assert_refused(weft_options_set(table, &o, "learnrate", "1"), WEFT_ERR_ARGUMENT, "no option");
    assert_refused(weft_options_set(table, &o, "epoch", "1"), WEFT_ERR_ARGUMENT, "'epochs'");
    assert_refused(weft_options_set(table, &o, "lr", "0"), WEFT_ERR_ARGUMENT, "'lr' is '0'");
    assert_refused(weft_options_set(table, &o, "lr", "-1"), WEFT_ERR_ARGUMENT, "'lr'");
    assert_refused(weft_options_set(table, &o, "lr", "nan"), WEFT_ERR_ARGUMENT, "finite");
    assert_refused(weft_options_set(table, &o, "batch", "3.5"), WEFT_ERR_ARGUMENT, "whole number");
    assert_refused(weft_options_set(table, &o, "optimizer", "adan"), WEFT_ERR_ARGUMENT, "sgd,adam");
    assert_true(o.update.lr == 0.5 && o.length.batch == 7);
    char *bad[] = {"--epochs"};
    assert_refused(weft_options_parse(table, &o, 1, bad, 0, words, &count), WEFT_ERR_ARGUMENT,
                   "needs a value");
    weft_options_free(table, &o);
}

static char said[256];
static int said_count;

static void note_log(void *user, weft_log_level level, const char *text)
{
    (void)user;
    (void)level;
    (void)snprintf(said, sizeof(said), "%s", text);
    said_count++;
}

/* Every option that has a former name is set by that name too, and the log gives the present name
 * once. No former name is the name of another option. */
static void test_former_names(void **state)
{
    (void)state;
    int former = 0;
    for (int t = 0; t < 2; t++) {
        weft_context *context;
        assert_ok(weft_context_create(&context));
        weft_context_set_log(context, note_log, NULL);
        const weft_option *table =
            t ? weft_train_table(context) : weft_cluster_table(context, WEFT_CLUSTER_COORDINATOR);
        for (const weft_option *o = table; o->name; o++) {
            if (!o->formerly) continue;
            for (const weft_option *x = table; x->name; x++)
                assert_string_not_equal(x->name, o->formerly);
            union {
                weft_train_options train;
                weft_cluster_options cluster;
            } target = {0};
            const char *value = o->kind == WEFT_OPT_STRING ? "none" : "3";
            char *text;
            said_count = 0;
            for (int again = 0; again < 2; again++)
                assert_ok(weft_options_set(table, &target, o->formerly, value));
            assert_ok(weft_options_get(table, &target, o->name, &text));
            assert_string_equal(text, value);
            assert_non_null(strstr(said, o->name));
            assert_int_equal(said_count, 1);
            weft_free(text);
            weft_options_free(table, &target);
            former++;
        }
        weft_context_destroy(&context);
    }
    assert_true(former >= 2);
}

/* Option values are shown with the fewest digits that read back as the same number. */
static void test_shortest_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *given, *shown;
    } cases[] = {{"0.1", "0.1"},    {"0.30000000000000004", "0.30000000000000004"},
                 {"1e-8", "1e-08"}, {"0.999999999", "0.999999999"},
                 {"1000", "1000"},  {"0.0010", "0.001"},
                 {"1e-30", "1e-30"}};
    const weft_option *table = weft_train_table(fresh_context());
    weft_train_options o = {0};
    assert_ok(weft_train_options_init(fresh_context(), &o));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *shown;
        assert_ok(weft_options_set(table, &o, "weight-decay", cases[i].given));
        assert_ok(weft_options_get(table, &o, "weight-decay", &shown));
        assert_string_equal(shown, cases[i].shown);
        weft_free(shown);
    }
    weft_options_free(table, &o);
    weft_random random;
    weft_random_start(&random, 7, 1);
    for (int i = 0; i < 2000; i++) {
        char text[32];
        uint64_t bits = (uint64_t)weft_random_u32(&random) << 32 | weft_random_u32(&random);
        double value, back = 0;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value)) continue;
        assert_true(weft_parse_real(weft_real_text(value, text, sizeof(text)), &back));
        assert_true(back == value);
    }
    assert_refused(weft_options_set(table, &o, "epochs", "0"), WEFT_ERR_ARGUMENT,
                   "from 1 to 1000000000");
}

/* Text from outside is printed without control characters, so it cannot steer a terminal. */
static void test_printable(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {{"plain", "plain"},
                 {"", ""},
                 {"M\xc3\xbcller \xe2\x82\xac \xf0\x9f\x8c\xb2", NULL},
                 {"a\x1b[31mb", "a\\x1b[31mb"},
                 {"a\nb\tc\x7f", "a\\x0ab\\x09c\\x7f"},
                 {"\xfc", "\\xfc"},
                 {"a\xc3", "a\\xc3"},
                 {"\xc2\x9b"
                  "1m",
                  "\\xc2\\x9b1m"},           /* a C1 control character */
                 {"\xc0\xaf", "\\xc0\\xaf"}, /* an overlong encoding */
                 {"\xed\xa0\x80", "\\xed\\xa0\\x80"},
                 {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
                 {"a\xe2\x80\xae"
                  "b",
                  "a\\xe2\\x80\\xae"
                  "b"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char shown[64], cut[4];
        const char *want = cases[i].shown ? cases[i].shown : cases[i].text;
        assert_string_equal(weft_printable(cases[i].text, shown, sizeof(shown)), want);
        assert_int_equal(weft_is_printable(cases[i].text), strcmp(want, cases[i].text) == 0);
        assert_true(strlen(weft_printable(cases[i].text, cut, sizeof(cut))) < sizeof(cut));
        assert_int_equal(weft_fail(WEFT_ERR_IO, "%s", cases[i].text), WEFT_ERR_IO);
        assert_string_equal(weft_last_message(), want);
        weft_text text = {0};
        weft_text_add_printable(&text, cases[i].text);
        weft_text_add(&text, "."); /* so that text.data is not NULL */
        assert_int_equal(text.size, strlen(want) + 1);
        assert_memory_equal(text.data, want, strlen(want));
        free(text.data);
    }
}

static weft_status load(weft_train_options *o, const char *text)
{
    return weft_options_load_text(weft_train_table(fresh_context()), o, "run.yaml", text,
                                  strlen(text));
}

static void test_run_files(void **state)
{
    (void)state;
    weft_train_options o = {0};
    assert_ok(weft_train_options_init(fresh_context(), &o));
    assert_ok(load(&o, "# a run\nmodel: mlp\nlr: 0.25\nnesterov: true\nweight-decay: 1e-4\n"));
    assert_string_equal(o.task.model, "mlp");
    assert_true(o.update.lr == 0.25 && o.update.nesterov && o.update.weight_decay == 1e-4);
    assert_ok(load(&o, ""));
    assert_refused(load(&o, "model: mlp\nlrr: 1\n"), WEFT_ERR_FORMAT,
                   "run.yaml:2: no key is named 'lrr'");
    assert_refused(load(&o, "\"sequence entry '-2147483648'\": 1\n"), WEFT_ERR_FORMAT,
                   "run.yaml:1: no key is named 'sequence entry '-2147483648''");
    assert_refused(load(&o, "lr: 1\n\"  in mapping field 'lr'\": 1\n"), WEFT_ERR_FORMAT,
                   "run.yaml:2: no key is named '  in mapping field 'lr''");
    assert_refused(load(&o, "\"\\n  in mapping field 'lr'\": 1\n"), WEFT_ERR_FORMAT,
                   "run.yaml:1: no key is named '");
    assert_refused(load(&o, "\"\": 1\n"), WEFT_ERR_FORMAT, "run.yaml:1: no key is named ''");
    assert_refused(load(&o, "model: mlp\n\nlr: x\n"), WEFT_ERR_ARGUMENT, "run.yaml:3: option 'lr'");
    assert_refused(load(&o, "model: [a, b]\n"), WEFT_ERR_FORMAT, "run.yaml:1: 'model'");
    assert_refused(load(&o, "model: mlp\n lr: 2\n"), WEFT_ERR_FORMAT, "run.yaml:2: is not YAML");
    assert_refused(load(&o, "? [a]\n: 1\n"), WEFT_ERR_FORMAT, "run.yaml:1: must be a mapping");
    assert_refused(load(&o, "- a\n- b\n"), WEFT_ERR_FORMAT, "mapping");
    assert_refused(load(&o, "a: &x 1\nmodel: *x\n"), WEFT_ERR_FORMAT, "run.yaml");
    assert_string_equal(o.task.model, "mlp");
    weft_options_free(weft_train_table(fresh_context()), &o);
}

static void count_part(void *user, int64_t begin, int64_t end)
{
    char *seen = user;
    for (int64_t i = begin; i < end; i++) seen[i]++;
}

static void test_parallel_covers_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        char seen[1001] = {0};
        weft_parallel(threads, 1001, 10, count_part, seen);
        for (int i = 0; i < 1001; i++) assert_int_equal(seen[i], 1);
    }
}

/* The root of the sum of squares of x, added in pieces of `each` elements; back: from the last
 * piece to the first. */
static double root_of(weft_dtype dtype, const void *x, int64_t count, int64_t each, bool back)
{
    double digits[WEFT_EXACT_DIGITS] = {0}, piece[WEFT_EXACT_DIGITS];
    weft_exact *sums;
    assert_ok(WEFT_NEW(&sums, 2));
    for (int64_t p = 0; p * each < count; p++) {
        int64_t begin = p * each, end = WEFT_MIN(begin + each, count);
        if (back) {
            begin = WEFT_MAX((int64_t)0, count - (p + 1) * each);
            end = count - p * each;
        }
        weft_exact_clear(&sums[0]);
        weft_exact_clear(&sums[1]);
        weft_exact_squares(&sums[0], dtype, x, begin, begin + (end - begin) / 3);
        weft_exact_squares(&sums[1], dtype, x, begin + (end - begin) / 3, end);
        weft_exact_digits(sums, 2, piece);
        if (p % 2) /* adds the digits in f32, as a sum over ranks does */
            for (int d = 0; d < WEFT_EXACT_DIGITS; d++)
                digits[d] = (double)((float)digits[d] + (float)piece[d]);
        else
            weft_exact_add(digits, piece, digits);
    }
    free(sums);
    return weft_exact_root(digits);
}

/* The order of addition and the cut into pieces change no bit, for numbers of any size. A sum of
 * squares that has an exact root gives that root. */
static void test_exact_sums(void **state)
{
    (void)state;
    enum { COUNT = 1001 };
    static double x[COUNT];
    static float y[COUNT];
    weft_random random;
    weft_random_start(&random, 7, 0);
    for (int spread = 0; spread <= 500; spread += 100) {
        for (int i = 0; i < COUNT; i++) {
            int power = (int)weft_random_between(&random, -spread, spread);
            x[i] = ldexp(weft_random_between(&random, -1, 1), power);
            y[i] = (float)ldexp(x[i], -power + power / 4);
        }
        double want = root_of(WEFT_F64, x, COUNT, COUNT, false);
        double small = root_of(WEFT_F32, y, COUNT, COUNT, false), about = 0;
        for (int i = 0; i < COUNT; i++) about += (double)y[i] * (double)y[i];
        assert_true(fabs(small / sqrt(about) - 1) < 1e-13);
        static const int64_t cuts[] = {1, 2, 7, 64, 333, 1000};
        for (size_t c = 0; c < WEFT_COUNT(cuts); c++)
            for (int back = 0; back < 2; back++) {
                assert_true(root_of(WEFT_F64, x, COUNT, cuts[c], back) == want);
                assert_true(root_of(WEFT_F32, y, COUNT, cuts[c], back) == small);
            }
    }
    for (int power = -535; power <= 508; power += 3) {
        double pair[] = {ldexp(3, power), 0, -ldexp(4, power)};
        assert_true(root_of(WEFT_F64, pair, 3, 3, false) == ldexp(5, power));
    }
    /* One large number and many that a rounded sum would lose. */
    float odd[COUNT] = {4096};
    for (int i = 1; i < COUNT; i++) odd[i] = 1.0f / 4096;
    double exact = sqrt(4096.0 * 4096.0 + (COUNT - 1) / (4096.0 * 4096.0));
    assert_true(root_of(WEFT_F32, odd, COUNT, 10, false) == exact);
    assert_true(root_of(WEFT_F64, (double[]){0, 0}, 2, 1, false) == 0);
    /* Each digit alone gives its root, also digits that no sum of squares of doubles reaches. */
    for (int d = 0; d < WEFT_EXACT_DIGITS; d++) {
        double digits[WEFT_EXACT_DIGITS] = {0}; /* digit d counts multiples of 2^(14 d - 1074) */
        digits[d] = 9;
        assert_true(weft_exact_root(digits) == ldexp(3, (14 * d - 1074) / 2));
    }
    assert_true(root_of(WEFT_F64, (double[]){1, INFINITY, 2}, 3, 1, false) == INFINITY);
    assert_true(root_of(WEFT_F64, (double[]){NAN, 1, NAN}, 3, 1, true) == INFINITY);
}

/* A hash table of ids, with ids that come and go, against an array. */
static void test_id_index(void **state)
{
    (void)state;
    enum { IDS = 300 };
    size_t places[IDS];
    weft_id_index index = {0};
    weft_random random;
    weft_random_start(&random, 47, 0);
    for (int i = 0; i < IDS; i++) places[i] = WEFT_NO_PLACE;
    for (int step = 0; step < 20000; step++) {
        uint32_t id = weft_random_u32(&random) % IDS, what = weft_random_u32(&random) % 5;
        if (what > 2) {
            weft_id_index_remove(&index, id * 7919);
            places[id] = WEFT_NO_PLACE;
        } else {
            places[id] = weft_random_u32(&random) % 1000;
            assert_int_equal(weft_id_index_put(&index, id * 7919, places[id]), WEFT_OK);
        }
        if (step % 5000 == 4999) {
            weft_id_index_clear(&index);
            for (int i = 0; i < IDS; i++) places[i] = WEFT_NO_PLACE;
        }
        size_t count = 0;
        for (uint32_t i = 0; i < IDS; i++) count += places[i] != WEFT_NO_PLACE;
        assert_int_equal(index.count, count);
        for (uint32_t i = step % 7; i < IDS; i += 7)
            assert_true(weft_id_index_find(&index, i * 7919) == places[i]);
    }
    weft_id_index_free(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_id_index),
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_permutation_is_one),
        cmocka_unit_test(test_errors_are_kept),
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_former_names),
        cmocka_unit_test(test_shortest_numbers),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_run_files),
        cmocka_unit_test(test_parallel_covers_once),
        cmocka_unit_test(test_exact_sums),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
