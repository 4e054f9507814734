/* Compares the decimals that are read and written, those of JSON and others, with the C library. */
#include <float.h>
#include <math.h>

#include "base/decimal.h"
#include "support.h"

static void check_read(const char *text)
{
    weft_decimal d;
    size_t size = strlen(text);
    float f = strtof(text, NULL);
    double x = strtod(text, NULL);
    if (weft_decimal_scan(text, text + size, &d) != text + size)
        fail_msg("'%s' is no number", text);
    float got_f = weft_decimal_float(&d);
    double got_x = weft_decimal_double(&d);
    if (memcmp(&f, &got_f, sizeof(f)) != 0)
        fail_msg("'%s' is %a as a float, got %a", text, (double)f, (double)got_f);
    if (memcmp(&x, &got_x, sizeof(x)) != 0) fail_msg("'%s' is %a, got %a", text, x, got_x);
}

static void check_written(double value, bool single)
{
    char text[WEFT_DECIMAL_ROOM + 1], other[64];
    size_t size = weft_decimal_write(value, single, text);
    assert_true(size <= WEFT_DECIMAL_ROOM);
    text[size] = '\0';
    weft_decimal d;
    if (weft_decimal_scan(text, text + size, &d) != text + size)
        fail_msg("%a is written as '%s', no number", value, text);
    double back = single ? (double)strtof(text, NULL) : strtod(text, NULL);
    if (memcmp(&back, &value, sizeof(back)) != 0)
        fail_msg("%a is written as '%s', which is %a", value, text, back);
    /* Counts the digits that the C library needs for a text that reads back as the same number.
     * weft_decimal_write may not need more. */
    int need = 1, digits = 0;
    for (;; need++) {
        (void)snprintf(other, sizeof(other), "%.*e", need - 1, value);
        if ((single ? (double)strtof(other, NULL) : strtod(other, NULL)) == value) break;
    }
    bool begun = false;
    int zeros = 0;
    for (const char *c = text; *c && *c != 'e'; c++) {
        begun |= *c >= '1' && *c <= '9';
        if (!begun || *c == '.') continue;
        zeros = *c == '0' ? zeros + 1 : 0;
        digits++;
    }
    if (digits - zeros > need)
        fail_msg("%a is written as '%s', and '%s' would do", value, text, other);
}

/* Numbers at the limits of float and double, and half way between two of them. */
static const char *const known_decimals[] = {
    "0",
    "-0",
    "0.0",
    "-0.0e5",
    "0e999999999999999999999",
    "1",
    "-1",
    "0.1",
    "0.5",
    "255",
    "16777217",
    "16777217.0000000000000000000000001",
    "16777219",
    "33554431",
    "0.000001",
    "9007199254740993",
    "9007199254740993.0000000000000000000000000001",
    "9007199254740992.5",
    "1e22",
    "1e23",
    "8.5e23",
    "3.4028234663852886e38",
    "3.4028235677973366e38",
    "3.4028236e38",
    "1.7976931348623157e308",
    "1.7976931348623158e308",
    "1.8e308",
    "1e400",
    "-1e400",
    "1e-400",
    "2.2250738585072011e-308",
    "2.2250738585072014e-308",
    "4.9e-324",
    "2.4703282292062327e-324",
    "2.4703282292062328e-324",
    "1.401298464324817e-45",
    "7.0064923216240853e-46",
    "7.0064923216240854e-46",
    "1.1754943508222875e-38",
    "18446744073709551615",
    "18446744073709551616",
    "1234567890123456789012345678901234567890",
    "1e99999999999999999999",
    "1e-99999999999999999999",
    "0.00000000000000000000000000000000000000000000012345",
    "12345678901234567890e-20",
    "99999999999999999999999",
    "0.1E+1",
    "1E-1",
    "1.00000005960464477539062500000000000000000000000000000001",
    "1.000000059604644775390625",
    "1.00000005960464477539062499999999999999999999999999"};

static const char *const no_decimals[] = {"",    "-",  "+1",  ".5",   "1.",  "01",  "-01", "1e",
                                          "1e+", "e5", "0x1", "1.e5", "NaN", "inf", "--1", "1,5"};

static void test_decimals_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_COUNT(known_decimals); i++) check_read(known_decimals[i]);
    for (size_t i = 0; i < WEFT_COUNT(no_decimals); i++) {
        weft_decimal d;
        size_t size = strlen(no_decimals[i]);
        const char *end = weft_decimal_scan(no_decimals[i], no_decimals[i] + size, &d);
        if (end == no_decimals[i] + size) fail_msg("'%s' is a number", no_decimals[i]);
    }
}

/* Numbers that people write and JSON does not have are read as by the C library. */
static void test_loose_decimals(void **state)
{
    (void)state;
    static const char *const loose[] = {"+1",
                                        ".5",
                                        "5.",
                                        "-.5",
                                        "01",
                                        "-007.50",
                                        "5.e3",
                                        "+.5e3",
                                        "0000",
                                        "-00.00e9",
                                        "+0018446744073709551616",
                                        ".000000000000000000000000000001"};
    static const char *const none[] = {"",       "-",       "+",   ".",     "-.",    "+-5", "--1",
                                       "1e",     "1e+",     "e5",  "0x10",  "0x1p3", "1_0", "1,5",
                                       "1.2.3",  "5f",      "1d5", "1e5.0", " 1",    "1 ",  "0b1",
                                       "nan(1)", "infinit", ".e5", "\u0661"};
    char text[80];
    double x;
    for (size_t i = 0; i < WEFT_COUNT(loose) + WEFT_COUNT(known_decimals); i++) {
        const char *known =
            i < WEFT_COUNT(loose) ? loose[i] : known_decimals[i - WEFT_COUNT(loose)];
        (void)snprintf(text, sizeof(text), "%s%s",
                       i < WEFT_COUNT(loose) || *known == '-' ? "" : "+00", known);
        double want = strtod(text, NULL);
        if (!weft_parse_real(text, &x)) fail_msg("'%s' is no number", text);
        if (memcmp(&x, &want, sizeof(x)) != 0) fail_msg("'%s' is %a, got %a", text, want, x);
    }
    for (size_t i = 0; i < WEFT_COUNT(none); i++)
        if (weft_parse_real(none[i], &x)) fail_msg("'%s' is a number", none[i]);
    assert_true(weft_parse_real("-Infinity", &x) && x == -INFINITY);
    assert_true(weft_parse_real("INF", &x) && x == INFINITY);
    assert_true(weft_parse_real("nan", &x) && isnan(x));
}

/* Decimals with many zeros, and with more digits than a double needs. */
static void test_decimals_long(void **state)
{
    (void)state;
    static char text[5000];
    for (int zeros = 0; zeros < 1200; zeros += 97) {
        size_t used = (size_t)snprintf(text, sizeof(text), "0.");
        memset(text + used, '0', (size_t)zeros);
        used += (size_t)zeros;
        (void)snprintf(text + used, sizeof(text) - used, "12345678901234567890123e%d", zeros);
        check_read(text);
        memset(text, '9', (size_t)zeros + 1);
        (void)snprintf(text + zeros + 1, 32, "e-%d", zeros);
        check_read(text);
        /* Half way between two doubles, in odd rounds with a 1 after a thousand further zeros. */
        used = (size_t)snprintf(text, sizeof(text),
                                "1.00000000000000011102230246251565404236316680908203125");
        memset(text + used, '0', 1000);
        text[used + 1000] = zeros % 2 ? '1' : '0';
        text[used + 1001] = '\0';
        check_read(text);
    }
}

static uint64_t bits64(weft_random *r)
{
    uint64_t high = weft_random_u32(r);
    return high << 32 | weft_random_u32(r);
}

static void test_decimals_random(void **state)
{
    (void)state;
    char text[64];
    weft_random r;
    weft_random_start(&r, 7, 1);
    for (int i = 0; i < 300000; i++) {
        int digits = (int)(weft_random_u32(&r) % 24) + 1, used = 0;
        if (weft_random_u32(&r) % 2) text[used++] = '-';
        text[used++] = (char)('1' + weft_random_u32(&r) % 9);
        int point = (int)(weft_random_u32(&r) % 24);
        for (int k = 0; k < digits; k++) {
            if (k == point) text[used++] = '.';
            text[used++] = (char)('0' + weft_random_u32(&r) % 10);
        }
        int exponent = (int)(weft_random_u32(&r) % 80) - 40;
        text[used] = 0;
        if (i % 3 == 0) (void)snprintf(text + used, sizeof(text) - (size_t)used, "e%d", exponent);
        check_read(text);
    }
    /* Texts that lie half way between two floats, or beside it. */
    for (int i = 0; i < 100000; i++) {
        uint32_t u = (weft_random_u32(&r) % (60U << 23)) + (97U << 23);
        float a, b;
        memcpy(&a, &u, sizeof(a));
        u++;
        memcpy(&b, &u, sizeof(b));
        (void)snprintf(text, sizeof(text), "%.*e", 10 + (int)(weft_random_u32(&r) % 20),
                       ((double)a + (double)b) / 2);
        check_read(text);
    }
}

static void test_decimals_written(void **state)
{
    (void)state;
    weft_random r;
    weft_random_start(&r, 8, 1);
    static const double known[] = {0.0,       -0.0,           1,    -1,     0.1,     0.3,
                                   2.0 / 3,   1e22,           1e23, 5e-324, DBL_MAX, DBL_MIN,
                                   123456789, 1e15,           1e16, 1e17,   123456,  0.00001,
                                   0.000001,  9.999999999e22, 100};
    for (size_t i = 0; i < WEFT_COUNT(known); i++) {
        check_written(known[i], false);
        if (fabs(known[i]) <= (double)FLT_MAX) check_written((double)(float)known[i], true);
    }
    for (int e = -1074; e <= 1023; e++) check_written(ldexp(1, e), false);
    for (int e = -149; e <= 127; e++) check_written(ldexp(1, e), true);
    for (int i = 0; i < 60000; i++) {
        uint64_t bits = bits64(&r);
        double x;
        float f;
        uint32_t u = (uint32_t)bits;
        memcpy(&x, &bits, sizeof(x));
        memcpy(&f, &u, sizeof(f));
        if (isfinite(x)) check_written(x, false);
        if (isfinite(f)) check_written((double)f, true);
        /* Numbers such as probabilities, from 0 to 1. */
        check_written(weft_random_unit(&r), false);
        check_written((double)(float)weft_random_unit(&r), true);
    }
    char text[WEFT_DECIMAL_ROOM];
    assert_int_equal(weft_decimal_write(NAN, false, text), 4);
    assert_memory_equal(text, "null", 4);
    assert_int_equal(weft_decimal_write(0.1F, true, text), 3);
    assert_memory_equal(text, "0.1", 3);
}

static void check_whole(const char *text, bool whole, bool minus, uint64_t size)
{
    weft_decimal d;
    bool got_minus;
    uint64_t got = 0;
    assert_non_null(weft_decimal_scan(text, text + strlen(text), &d));
    assert_int_equal(weft_decimal_whole(&d, &got_minus, &got), whole);
    if (!whole) return;
    assert_int_equal(got, size);
    assert_int_equal(got_minus, minus);
}

static void test_decimals_whole(void **state)
{
    (void)state;
    check_whole("0", true, false, 0);
    check_whole("-12", true, true, 12);
    check_whole("18446744073709551615", true, false, UINT64_MAX);
    check_whole("18446744073709551616", false, false, 0);
    check_whole("99999999999999999999", false, false, 0);
    check_whole("184467440737095516150", false, false, 0);
    check_whole("9223372036854775808", true, false, 1ULL << 63);
    check_whole("1.5", false, false, 0);
    check_whole("2.0", true, false, 2);
    check_whole("25e1", true, false, 250);
    check_whole("1e30", false, false, 0);
    check_whole("1e-1", false, false, 0);
    check_whole("0e999999", true, false, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decimals_known),   cmocka_unit_test(test_loose_decimals),
        cmocka_unit_test(test_decimals_long),    cmocka_unit_test(test_decimals_random),
        cmocka_unit_test(test_decimals_written), cmocka_unit_test(test_decimals_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
