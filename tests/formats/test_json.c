/* Tests the server's JSON reader against the grammar of RFC 8259, and the values that it reads. */
#include "serve/front/json.h"
#include "support.h"

static weft_status skip_all(const char *text, size_t size)
{
    weft_json j;
    /* The text lies in memory of exactly its size, so that a sanitizer notices a read beyond it. */
    char *own = malloc(size ? size : 1);
    assert_non_null(own);
    memcpy(own, text, size);
    weft_json_start(&j, own, size);
    weft_status status = weft_json_skip(&j);
    if (status == WEFT_OK) status = weft_json_finish(&j);
    free(own);
    return status;
}

static void test_json_right(void **state)
{
    (void)state;
    static const char *const right[] = {"null",
                                        " true ",
                                        "\t\n\r false",
                                        "0",
                                        "-0.5e+3",
                                        "\"\"",
                                        "[]",
                                        "{}",
                                        "[[],{},[1,2],{\"a\":[]}]",
                                        "{\"a\":1,\"a\":2}",
                                        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\uD83D\\uDE00\"",
                                        "\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\x7F\"",
                                        "\"\\u0000\"",
                                        "{\"\":0}",
                                        "[1 , 2\n,\t3 ]",
                                        "{ \"a\" : { \"b\" : [ { } ] } }",
                                        "\"\xEF\xBF\xBF\"",
                                        "\"\xF4\x8F\xBF\xBF\""};
    for (size_t i = 0; i < WEFT_COUNT(right); i++)
        if (skip_all(right[i], strlen(right[i])) != WEFT_OK)
            fail_msg("%s: %s", right[i], weft_last_message());
    char deep[2 * WEFT_JSON_DEPTH + 4];
    memset(deep, '[', WEFT_JSON_DEPTH);
    memset(deep + WEFT_JSON_DEPTH, ']', WEFT_JSON_DEPTH);
    assert_ok(skip_all(deep, sizeof(deep) - 4));
    memset(deep, '[', sizeof(deep));
    assert_refused(skip_all(deep, sizeof(deep)), WEFT_ERR_FORMAT, "more than 128");
}

static const char *const not_json[] = {
    "",
    " ",
    "[",
    "]",
    "{",
    "}",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1,,2]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{'a':1}",
    "{1:1}",
    "{\"a\" 1}",
    "[}",
    "{]",
    "[1}",
    "nul",
    "nulll",
    "True",
    "truefalse",
    "NaN",
    "Infinity",
    "-",
    "+1",
    "01",
    "1.",
    ".1",
    "1e",
    "0x10",
    "1 1",
    "\"",
    "\"a",
    "\"\\\"",
    "\"\\x\"",
    "\"\\u12\"",
    "\"\\u12G4\"",
    "\"\\uD800\"",
    "\"\\uDC00\"",
    "\"\\uD800\\u0041\"",
    "\"\\uD800\\uD800\"",
    "\"\n\"",
    "\"\t\"",
    "\"\x1F\"",
    "\"\x80\"",
    "\"\xC0\x80\"",
    "\"\xC3\"",
    "\"\xE0\x80\x80\"",
    "\"\xED\xA0\x80\"",
    "\"\xF0\x80\x80\x80\"",
    "\"\xF4\x90\x80\x80\"",
    "\"\xF8\x88\x80\x80\x80\"",
    "\"\xFF\"",
    "\xEF\xBB\xBF{}",
    "[1]x",
    "/**/1",
    "[1]//",
    "\f1",
    "{\"a\":1 \"b\":2}",
    "[\"a\":1]",
    "\"\xE2\x82\"",
};

static void test_json_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_COUNT(not_json); i++) {
        if (skip_all(not_json[i], strlen(not_json[i])) != WEFT_ERR_FORMAT)
            fail_msg("'%s' is JSON", not_json[i]);
        assert_non_null(strstr(weft_last_message(), "must"));
    }
    assert_int_equal(skip_all("\"a\0b\"", 5), WEFT_ERR_FORMAT);
    assert_refused(skip_all("[1,x]", 5), WEFT_ERR_FORMAT,
                   "byte 4 is 'x', where a value must stand");
    assert_refused(skip_all("[1", 2), WEFT_ERR_FORMAT,
                   "ends after 2 bytes, where a comma or ] must follow");
}

/* Each beginning of a JSON text is refused, and none is read beyond its end. */
static void test_json_cut(void **state)
{
    (void)state;
    static const char whole[] = "{\"a\\u00e4\xE2\x82\xAC\":[1.5e-3,-0,true,false,null,"
                                "\"\\uD83D\\uDE00\\n\"],\"b\":{\"c\":{}}}";
    for (size_t size = 0; size < sizeof(whole) - 1; size++)
        assert_int_equal(skip_all(whole, size), WEFT_ERR_FORMAT);
    assert_ok(skip_all(whole, sizeof(whole) - 1));
}

static void test_json_values(void **state)
{
    (void)state;
    static const char text[] =
        "{\"n\\u0061me\" : \"\\uD83D\\uDE00\\t\\u00E4x\", \"flag\":true, \"list\":[1,[2,3],4],"
        "\"zero\":\"a\\u0000b\", \"long\":\"0123456789\"}";
    weft_json j;
    weft_json_key key;
    weft_decimal d;
    char *out, cut[5];
    bool flag;
    size_t size;
    weft_json_start(&j, text, sizeof(text) - 1);
    assert_ok(weft_json_enter(&j));
    assert_true(weft_json_member(&j, &key) && weft_json_is(&key, "name"));
    assert_false(weft_json_is(&key, "nam"));
    assert_ok(weft_json_text(&j, &out));
    assert_string_equal(out, "\xF0\x9F\x98\x80\t\xC3\xA4x");
    free(out);
    assert_true(weft_json_member(&j, &key) && weft_json_is(&key, "flag"));
    assert_ok(weft_json_flag(&j, &flag));
    assert_true(flag);
    assert_true(weft_json_member(&j, &key) && weft_json_is(&key, "list"));
    assert_ok(weft_json_enter(&j));
    assert_true(weft_json_item(&j));
    assert_ok(weft_json_number(&j, &d));
    assert_true(weft_decimal_float(&d) == 1);
    assert_true(weft_json_item(&j));
    assert_int_equal(weft_json_peek(&j), WEFT_JSON_ARRAY);
    assert_ok(weft_json_skip(&j));
    assert_true(weft_json_item(&j));
    assert_ok(weft_json_skip(&j));
    assert_false(weft_json_item(&j));
    assert_ok(j.status);
    assert_true(weft_json_member(&j, &key) && weft_json_is(&key, "zero"));
    assert_refused(weft_json_text(&j, &out), WEFT_ERR_ARGUMENT, "no meaning here");
    assert_null(out);
    assert_true(weft_json_member(&j, &key) && weft_json_is(&key, "long"));
    assert_ok(weft_json_cut(&j, cut, sizeof(cut), &size));
    assert_string_equal(cut, "0123");
    assert_int_equal(size, 10);
    assert_false(weft_json_member(&j, &key));
    assert_ok(j.status);
    assert_ok(weft_json_finish(&j));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_right),
        cmocka_unit_test(test_json_wrong),
        cmocka_unit_test(test_json_cut),
        cmocka_unit_test(test_json_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
