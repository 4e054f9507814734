/* Tests the data of sequences: windows over texts and token files, tokenizers, and pairs of
 * passages. */
#include "base/base.h"
#include "context.h"

static char *folder;

/* Opens the data KIND:PATH and `keys`, which begin with a comma. */
static weft_dataset *open_data(const char *kind, const char *path, const char *keys,
                               const weft_data_stats *stats)
{
    char spec[600];
    weft_dataset *d;
    (void)snprintf(spec, sizeof(spec), "%s:%s%s", kind, path, keys);
    assert_ok(weft_dataset_open(context, spec, NULL, stats, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    assert_ok(weft_dataset_prepare(d, WEFT_TEST));
    return d;
}

/* Opening fails, and the message contains `words`. */
static void expect_refused(const char *kind, const char *path, const char *keys,
                           const weft_data_stats *stats, const char *words)
{
    char spec[600];
    weft_dataset *d = NULL;
    (void)snprintf(spec, sizeof(spec), "%s:%s%s", kind, path, keys);
    weft_status status = weft_dataset_open(context, spec, NULL, stats, &d);
    if (status == WEFT_OK) status = weft_dataset_prepare(d, WEFT_TRAIN);
    assert_true(status != WEFT_OK);
    if (!strstr(weft_last_message(), words))
        fail_msg("'%s' lacks '%s'", weft_last_message(), words);
    weft_dataset_close(&d);
}

/* Each token of the windows of a split is that of `expected`, and each label is the token after
 * it. */
static void check_windows(const weft_dataset *d, weft_split split, const int32_t *expected,
                          int64_t size, int64_t context_size, int64_t stride)
{
    int32_t *x = calloc((size_t)context_size, sizeof(*x)), *y = calloc((size_t)context_size, 4);
    int64_t count = weft_dataset_count(d, split);
    assert_int_equal(count, size > context_size ? (size - context_size - 1) / stride + 1 : 0);
    for (int64_t i = 0; i < count; i++) {
        assert_ok(weft_dataset_read(d, split, i, 0, x));
        assert_ok(weft_dataset_read(d, split, i, 1, y));
        for (int64_t t = 0; t < context_size; t++) {
            assert_int_equal(x[t], expected[i * stride + t]);
            assert_int_equal(y[t], expected[i * stride + t + 1]);
        }
    }
    free(x);
    free(y);
}

static void test_bytes(void **state)
{
    (void)state;
    enum { SIZE = 103 };
    unsigned char text[SIZE];
    int32_t tokens[SIZE];
    char path[256];
    for (int i = 0; i < SIZE; i++) tokens[i] = text[i] = (unsigned char)(i * 89 + 7);
    write_file(folder, "bytes.bin", text, SIZE, path, sizeof(path));
    for (int64_t context_size = 1; context_size <= 9; context_size += 4)
        for (int64_t stride = 1; stride <= 10; stride += 3) {
            char keys[100];
            (void)snprintf(keys, sizeof(keys), ",context=%lld,stride=%lld,test=0.3",
                           (long long)context_size, (long long)stride);
            weft_dataset *d = open_data("text", path, keys, NULL);
            check_windows(d, WEFT_TRAIN, tokens, 72, context_size, stride);
            check_windows(d, WEFT_TEST, tokens + 72, 31, context_size, context_size);
            const weft_data_stats *s = weft_dataset_stats(d);
            assert_true(s->classes == 256 && s->positions == context_size && s->inputs == 1 &&
                        s->input[0].values == 256);
            weft_dataset_close(&d);
        }
}

/* Characters of one to four bytes get tokens in the order of their code points. */
static void test_characters(void **state)
{
    (void)state;
    const char text[] = "zebra \xc3\xa9t\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x9d\nab";
    const int32_t expected[] = {7, 4, 3, 5, 2, 1, 8, 6, 8, 1, 9, 1, 10, 0, 2, 3};
    char path[256], other[256];
    write_file(folder, "text.txt", text, sizeof(text) - 1, path, sizeof(path));
    weft_dataset *d = open_data("text", path, ",unit=char,context=3,stride=1,test=0", NULL);
    check_windows(d, WEFT_TRAIN, expected, 16, 3, 1);
    const weft_data_stats *s = weft_dataset_stats(d);
    assert_int_equal(s->classes, 11);
    /* With the statistics of a training the same characters have the same tokens. */
    write_file(folder, "other.txt", "bazar", 5, other, sizeof(other));
    weft_dataset *e = open_data("text", other, ",test=0", s);
    check_windows(e, WEFT_TRAIN, (int32_t[]){3, 2, 7, 2, 5}, 5, 3, 3);
    weft_dataset_close(&e);
    write_file(folder, "other.txt", "ab\xc3\xbc", 4, other, sizeof(other));
    expect_refused("text", other, "", s, "byte 2: the character '\xc3\xbc' is not among the 11");
    expect_refused("text", other, ",unit=byte", s, "the training data had 'char'");
    expect_refused("text", path, ",context=2", s, "samples of shape [2]");
    weft_dataset_close(&d);
}

static void test_refused_texts(void **state)
{
    (void)state;
    char path[256];
    write_file(folder, "bad.txt",
               "ab\xff"
               "cd",
               5, path, sizeof(path));
    expect_refused("text", path, ",unit=char,context=1", NULL, "byte 2 is not valid UTF-8");
    expect_refused("text", path, ",unit=word", NULL, "'word' is not a unit of text");
    expect_refused("text", path, ",context=5", NULL, "has 5 tokens, and a window of context=5");
    expect_refused("text", path, ",windows=5", NULL, "windows");
    expect_refused("text", "", "", NULL, "give a file");
    write_file(folder, "bad.txt", "", 0, path, sizeof(path));
    expect_refused("text", path, "", NULL, "has 0 tokens");
}

static void test_token_files(void **state)
{
    (void)state;
    const uint16_t halves[] = {5, 0, 40000, 3, 3, 9, 50256};
    const uint32_t words[] = {5, 0, 70000, 3, 3, 9, 50256};
    const int32_t expected[] = {5, 0, 40000, 3, 3, 9, 50256},
                  wide[] = {5, 0, 70000, 3, 3, 9, 50256};
    char path[256];
    write_file(folder, "a.bin", halves, sizeof(halves), path, sizeof(path));
    weft_dataset *d = open_data("tokens", path, ",values=50257,context=2,stride=1,test=0", NULL);
    check_windows(d, WEFT_TRAIN, expected, 7, 2, 1);
    weft_dataset_close(&d);
    expect_refused("tokens", path, ",values=50256,context=2", NULL,
                   "token 6 (byte 12) is 50256, and there are 50256 different tokens");
    expect_refused("tokens", path, ",values=60000,type=uint32", NULL, "no multiple of the 4");
    expect_refused("tokens", path, ",values=60000,type=int8", NULL, "must be one of uint16,uint32");
    expect_refused("tokens", path, "", NULL, "give the number of different tokens");
    write_file(folder, "a.bin", words, sizeof(words), path, sizeof(path));
    d = open_data("tokens", path, ",values=70001,type=uint32,context=3,test=0", NULL);
    check_windows(d, WEFT_TRAIN, wide, 7, 3, 3);
    weft_dataset_close(&d);
}

/* Whether a one-hot passage stands at `at` in the text. */
static bool is_passage(const float *x, const unsigned char *text, int length)
{
    for (int t = 0; t < length; t++)
        for (int c = 0; c < 256; c++)
            if (x[t * 256 + c] != (float)(text[t] == c)) return false;
    return true;
}

static void test_pairs(void **state)
{
    (void)state;
    enum { SIZE = 211, LENGTH = 5 };
    unsigned char text[SIZE];
    char path[256];
    float a[LENGTH * 256], b[LENGTH * 256];
    int follow[2] = {0};
    for (int i = 0; i < SIZE; i++) text[i] = (unsigned char)(i + 17); /* all different */
    write_file(folder, "pairs.txt", text, SIZE, path, sizeof(path));
    weft_dataset *d = open_data("pairs", path, ",length=5,train=90,test=40,share=0.25", NULL);
    for (int split = 0; split < 2; split++)
        for (int64_t i = 0; i < weft_dataset_count(d, (weft_split)split); i++) {
            int32_t label, first = 0, second = 0;
            assert_ok(weft_dataset_read(d, (weft_split)split, i, 0, a));
            assert_ok(weft_dataset_read(d, (weft_split)split, i, 1, b));
            assert_ok(weft_dataset_read(d, (weft_split)split, i, 2, &label));
            while (first < SIZE - LENGTH && !is_passage(a, text + first, LENGTH)) first++;
            while (second < SIZE - LENGTH && !is_passage(b, text + second, LENGTH)) second++;
            if (label == 1) assert_int_equal(second, first + LENGTH);
            follow[label]++;
            int begin = split ? 158 : 0, end = split ? SIZE : 158;
            assert_true(first >= begin && second >= begin && first + LENGTH <= end &&
                        second + LENGTH <= end);
        }
    assert_true(follow[0] > 30 && follow[1] > 30);
    weft_dataset_close(&d);
    expect_refused("pairs", path, ",length=100", NULL, "need 300");
}

static int setup_folder(void **state)
{
    folder = temporary_folder();
    return setup(state);
}

static int teardown_folder(void **state)
{
    remove_folder(folder);
    return teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),         cmocka_unit_test(test_characters),
        cmocka_unit_test(test_refused_texts), cmocka_unit_test(test_token_files),
        cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests_name("windows", tests, setup_folder, teardown_folder);
}
