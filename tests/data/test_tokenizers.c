/* Tokenizers of byte-pair encoding: the tokens of texts that tests/golden/bpe.py took from another
 * implementation, decoding, and merges against the plain definition. */
#include <dlfcn.h>
#include <jansson.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>

#include "data/bpe_merge.h"
#include "data/text_split.h"
#include "data/tokenizer.h"
#include "support.h"

static weft_tokenizer *golden(const char *name)
{
    char path[512];
    weft_tokenizer *t;
    (void)snprintf(path, sizeof(path), "%s/golden/bpe_%.16s.json", WEFT_TESTS_DIR, name);
    assert_ok(weft_tokenizer_learn(path, "text", NULL, &t));
    return t;
}

static size_t unhex(const char *hex, unsigned char *out)
{
    size_t n = 0;
    for (; hex[0] && hex[1] && hex[0] != '-'; hex += 2) {
        char two[3] = {hex[0], hex[1], 0};
        out[n++] = (unsigned char)strtoul(two, NULL, 16);
    }
    return n;
}

/* The tokens of a line are those of the text, and give it back; `prefix`: behind a space. */
static void check_line(const weft_tokenizer *t, const char *hex, char *numbers, bool prefix)
{
    static unsigned char text[1 << 16];
    weft_bytes bytes = {.data = text, .size = unhex(hex, text)};
    int32_t *tokens;
    int64_t count, n = 0;
    size_t at = 0;
    assert_ok(weft_tokenizer_encode(t, "text", &bytes, &tokens, &count));
    for (char *number = strtok(numbers, " \n"); number; number = strtok(NULL, " \n")) {
        if (n >= count || tokens[n] != atoi(number))
            fail_msg("token %lld of %s is not %s", (long long)n, hex, number);
        n++;
    }
    assert_int_equal(n, count);
    for (int64_t i = 0; i < count && !prefix; i++) {
        size_t size;
        const char *piece = t->ops->decode(t, tokens[i], &size);
        assert_true(at + size <= bytes.size);
        assert_memory_equal(piece, text + at, size);
        at += size;
    }
    if (!prefix) assert_int_equal(at, bytes.size);
    free(tokens);
}

static void test_golden(void **state)
{
    (void)state;
    static char line[1 << 17], last[16];
    char path[512];
    int lines = 0;
    weft_tokenizer *t = NULL;
    (void)snprintf(path, sizeof(path), "%s/golden/tokens.txt", WEFT_TESTS_DIR);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        char *hex = strchr(line, ' '), *numbers;
        assert_non_null(hex);
        *hex++ = '\0';
        numbers = hex + strcspn(hex, " \n");
        if (*numbers) *numbers++ = '\0';
        if (strcmp(line, last) != 0) {
            weft_tokenizer_free(&t);
            t = golden(line);
            (void)snprintf(last, sizeof(last), "%.15s", line);
        }
        check_line(t, hex, numbers, strcmp(last, "gpt2") == 0);
        lines++;
    }
    weft_tokenizer_free(&t);
    (void)fclose(file);
    assert_int_equal(lines, 123);
}

static weft_status add_piece(void *user, const unsigned char *piece, size_t size)
{
    weft_text hex = {0};
    char *text;
    for (size_t i = 0; i < size; i++) weft_text_add(&hex, "%02x", piece[i]);
    WEFT_TRY(weft_text_take(&hex, &text));
    (void)json_array_append_new(user, json_string(text));
    free(text);
    return WEFT_OK;
}

static weft_status cut_pieces(const json_t *line, json_t *pieces)
{
    weft_bpe_spec spec;
    weft_text_split *split = NULL;
    const json_t *text = json_object_get(line, "text");
    json_t *file = json_pack("{s:{s:{s:i,s:i},s:[]},s:O}", "model", "vocab", "a", 0, "b", 1,
                             "merges", "pre_tokenizer", json_object_get(line, "pre_tokenizer"));
    char *whole = json_dumps(file, 0);
    weft_status status = weft_bpe_parse("tokenizer.json", whole, strlen(whole), &spec);
    if (status == WEFT_OK) {
        status = weft_text_split_create("tokenizer.json", spec.cut, spec.cuts, &split);
        if (status == WEFT_OK)
            status =
                weft_text_split_run(split, "text", (const unsigned char *)json_string_value(text),
                                    json_string_length(text), add_piece, pieces);
        weft_text_split_free(&split);
        weft_bpe_spec_free(&spec);
    }
    free(whole);
    json_decref(file);
    return status;
}

/* Texts are cut as tests/golden/pieces.py says, or as the file that WEFT_PIECES names. */
static void test_pieces(void **state)
{
    (void)state;
    static char line[1 << 20];
    char path[512];
    const char *other = getenv("WEFT_PIECES");
    int lines = 0, differ = 0;
    (void)snprintf(path, sizeof(path), "%s/golden/pieces.jsonl", WEFT_TESTS_DIR);
    FILE *file = fopen(other ? other : path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        json_t *wanted = json_loads(line, JSON_ALLOW_NUL, NULL), *pieces = json_array();
        assert_non_null(wanted);
        weft_status status = cut_pieces(wanted, pieces);
        const json_t *expected = json_object_get(wanted, "pieces");
        bool same = json_is_null(expected) ? status != WEFT_OK
                                           : status == WEFT_OK && json_equal(pieces, expected);
        char *found = json_dumps(pieces, JSON_COMPACT);
        if (!same)
            print_error("%.300s\n  has %.300s: %s\n", line, found,
                        status ? weft_last_message() : "OK");
        free(found);
        json_decref(pieces);
        json_decref(wanted);
        differ += !same;
        lines++;
    }
    (void)fclose(file);
    print_message("%d texts, %d of other pieces\n", lines, differ);
    assert_true(lines > 100);
    assert_int_equal(differ, 0);
}

/* Merges by the definition: the pair of least rank, and of these the first, again and again. */
static int64_t merge_plainly(const weft_bpe_merge *merge, int merges, int32_t *token, int64_t n)
{
    for (;;) {
        int best = merges;
        int64_t at = -1;
        for (int64_t i = 0; i + 1 < n; i++)
            for (int m = 0; m < best; m++)
                if (merge[m].left == token[i] && merge[m].right == token[i + 1]) {
                    best = m;
                    at = i;
                }
        if (at < 0) return n;
        token[at] = merge[best].result;
        for (int64_t i = at + 1; i + 1 < n; i++) token[i] = token[i + 1];
        n--;
    }
}

static void test_merges(void **state)
{
    (void)state;
    enum { LETTERS = 3, MERGES = 12, LONGEST = 60 };
    weft_random r;
    weft_random_start(&r, 8, 0);
    for (int run = 0; run < 500; run++) {
        weft_bpe_merge merge[MERGES];
        weft_bpe_merges *merges;
        weft_bpe_scratch scratch = {0};
        bool used[LETTERS + MERGES][LETTERS + MERGES] = {{false}};
        int count = 0;
        while (count < MERGES) {
            int32_t left = (int32_t)(weft_random_u32(&r) % (uint32_t)(LETTERS + count)),
                    right = (int32_t)(weft_random_u32(&r) % (uint32_t)(LETTERS + count));
            if (used[left][right]) continue;
            used[left][right] = true;
            merge[count] = (weft_bpe_merge){left, right, LETTERS + count};
            count++;
        }
        assert_ok(weft_bpe_merges_create(merge, count, &merges));
        for (int text = 0; text < 20; text++) {
            int32_t token[LONGEST], plain[LONGEST];
            int64_t n = 1 + weft_random_u32(&r) % LONGEST, expected;
            for (int64_t i = 0; i < n; i++)
                token[i] = plain[i] = (int32_t)(weft_random_u32(&r) % LETTERS);
            expected = merge_plainly(merge, count, plain, n);
            assert_ok(weft_bpe_merge_all(merges, &scratch, token, &n));
            assert_int_equal(n, expected);
            assert_memory_equal(token, plain, (size_t)n * sizeof(*token));
        }
        weft_bpe_scratch_free(&scratch);
        weft_bpe_merges_free(&merges);
    }
}

/* A text of one long piece, whose plain merging would take a time that grows with its square. */
static void test_long_piece(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    weft_tokenizer *t = golden("split");
    unsigned char *text = malloc(SIZE);
    int32_t *tokens;
    int64_t count;
    size_t bytes = 0;
    assert_non_null(text);
    memset(text, 'a', SIZE);
    assert_ok(weft_tokenizer_encode(t, "text", &(weft_bytes){.data = text, .size = SIZE}, &tokens,
                                    &count));
    for (int64_t i = 0; i < count; i++) {
        size_t size;
        (void)t->ops->decode(t, tokens[i], &size);
        bytes += size;
    }
    assert_int_equal(bytes, SIZE);
    free(tokens);
    free(text);
    weft_tokenizer_free(&t);
}

/* Oniguruma brings its own regcomp, whose flags differ: programs must find that of the C library.
 */
static void test_posix_regex(void **state)
{
    (void)state;
    regex_t regex;
    assert_int_equal(regcomp(&regex, "^(a|b)+$", REG_EXTENDED | REG_NOSUB), 0);
    assert_int_equal(regexec(&regex, "abba", 0, NULL, 0), 0);
    assert_int_not_equal(regexec(&regex, "abc", 0, NULL, 0), 0);
    regfree(&regex);
    Dl_info info = {0};
    assert_true(dladdr(dlsym(RTLD_DEFAULT, "regcomp"), &info) != 0);
    assert_null(strstr(info.dli_fname, "onig"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_pieces), cmocka_unit_test(test_merges),
        cmocka_unit_test(test_posix_regex), cmocka_unit_test(test_long_piece)};
    return cmocka_run_group_tests_name("tokenizers", tests, NULL, NULL);
}
