/* Converts decimal numbers to binary floating point with correct rounding. Most conversions are
 * exact in integers of 128 bits; the C library does the others. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/decimal.h"

/* Every 64-bit compiler that builds this has the type. */
__extension__ typedef unsigned __int128 wide;

enum { MOST_DIGITS = 19, MOST_FIVES = 27, MOST_EXACT = 22 };

static const uint64_t fives[MOST_FIVES + 1] = {
    1u,
    5u,
    25u,
    125u,
    625u,
    3125u,
    15625u,
    78125u,
    390625u,
    1953125u,
    9765625u,
    48828125u,
    244140625u,
    1220703125u,
    6103515625u,
    30517578125u,
    152587890625u,
    762939453125u,
    3814697265625u,
    19073486328125u,
    95367431640625u,
    476837158203125u,
    2384185791015625u,
    11920928955078125u,
    59604644775390625u,
    298023223876953125u,
    1490116119384765625u,
    7450580596923828125u,
};
static const double tens[MOST_EXACT + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                            1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                            1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* --- parsing --- */

static bool is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

/* Reads digits. point: change of the exponent for each digit that is stored in `digits`, 0 before
 * the decimal point and -1 behind it. */
static const char *scan_digits(const char *at, const char *end, int *count, int point,
                               weft_decimal *d)
{
    for (; is_digit(at, end); at++) {
        if (*count < MOST_DIGITS) {
            d->digits = 10 * d->digits + (uint64_t)(*at - '0');
            *count += d->digits != 0;
            d->exponent += point;
        } else {
            d->more |= *at != '0';
            d->exponent += point + 1;
        }
    }
    return at;
}

static const char *scan_exponent(const char *at, const char *end, weft_decimal *d)
{
    const int64_t most =
        1000000000000; /* no request body is long enough to offset such an exponent by digits */
    bool minus = at < end && *at == '-';
    int64_t exponent = 0;
    if (at < end && (*at == '-' || *at == '+')) at++;
    if (!is_digit(at, end)) return NULL;
    for (; is_digit(at, end); at++) exponent = WEFT_MIN(10 * exponent + (*at - '0'), most);
    d->exponent += minus ? -exponent : exponent;
    return at;
}

/* Scans what stands behind the digits before the point. */
static const char *scan_rest(const char *at, const char *end, int count, weft_decimal *d)
{
    if (at < end && *at == '.') {
        d->whole = false;
        at = scan_digits(at + 1, end, &count, -1, d);
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        d->whole = false;
        at = scan_exponent(at + 1, end, d);
    }
    if (at) d->size = (size_t)(at - d->text);
    return at;
}

const char *weft_decimal_scan(const char *at, const char *end, weft_decimal *out)
{
    weft_decimal d = {.text = at, .whole = true, .minus = at < end && *at == '-'};
    int count = 0;
    if (d.minus) at++;
    if (!is_digit(at, end)) return NULL;
    /* A leading zero is allowed in 0 and 0.x alone. */
    at = *at == '0' ? at + 1 : scan_digits(at, end, &count, 0, &d);
    if (is_digit(at, end)) return NULL;
    if (at < end && *at == '.' && !is_digit(at + 1, end)) return NULL;
    at = scan_rest(at, end, count, &d);
    if (at) *out = d;
    return at;
}

const char *weft_decimal_scan_loosely(const char *at, const char *end, weft_decimal *out)
{
    bool sign = at < end && (*at == '-' || *at == '+');
    weft_decimal d = {
        .text = at + (sign && *at == '+'), .whole = true, .minus = sign && *at == '-'};
    int count = 0;
    if (sign) at++;
    if (!is_digit(at, end) && !(at < end && *at == '.' && is_digit(at + 1, end))) return NULL;
    at = scan_digits(at, end, &count, 0, &d);
    at = scan_rest(at, end, count, &d);
    if (at) *out = d;
    return at;
}

static int bits_of(wide x)
{
    uint64_t high = (uint64_t)(x >> 64), low = (uint64_t)x;
    return high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
}

/* x / 2^drop, rounded to nearest even. rest: the exact value is slightly above x, so a tie is
 * rounded up. */
static uint64_t shifted(wide x, int drop, bool rest)
{
    wide half = (wide)1 << (drop - 1), left = x & ((half << 1) - 1);
    uint64_t kept = (uint64_t)(x >> drop);
    return kept + (left > half || (left == half && (rest || (kept & 1))));
}

static double power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* digits * 10^exponent rounded to `bits` significant bits; |exponent| is at most MOST_FIVES. No
 * result is subnormal. */
static double rounded(uint64_t digits, int exponent, int bits)
{
    wide x;
    int twos = exponent;
    bool rest = false;
    if (digits == 0) return 0;
    if (exponent >= 0) {
        x = (wide)digits * fives[exponent];
    } else {
        int room = __builtin_clzll(digits);
        wide from = (wide)(digits << room) << 64;
        x = from / fives[-exponent];
        rest = x * fives[-exponent] != from;
        twos -= room + 64;
    }
    int drop = bits_of(x) - bits;
    double kept = drop > 0 ? (double)shifted(x, drop, rest) : (double)(uint64_t)x;
    return kept * power_of_two(twos + WEFT_MAX(drop, 0));
}

/* Writes the number as an integer with an exponent for the C library; without a decimal point, the
 * locale does not matter. LONGEST digits decide the rounding of any number; a last digit 1 stands
 * for all digits that are cut off. */
static void retell(const weft_decimal *d, char *text, size_t size)
{
    enum { LONGEST = 800 };
    size_t used = 0;
    int64_t exponent = d->exponent;
    bool begun = false, more = false;
    int count = 0;
    if (d->minus) text[used++] = '-';
    for (const char *at = d->text; at < d->text + d->size && *at != 'e' && *at != 'E'; at++) {
        if (*at < '0' || *at > '9') continue;
        begun |= *at != '0';
        if (!begun) continue;
        if (count < LONGEST) {
            text[used++] = *at;
            if (count >= MOST_DIGITS) exponent--;
            count++;
        } else {
            more |= *at != '0';
        }
    }
    if (!begun) text[used++] = '0';
    if (more) {
        text[used++] = '1';
        exponent--;
    }
    exponent = WEFT_MIN(WEFT_MAX(exponent, -99999), 99999);
    (void)snprintf(text + used, size - used, "e%lld", (long long)exponent);
}

static double by_library(const weft_decimal *d, bool single)
{
    char text[832];
    retell(d, text, sizeof(text));
    return single ? (double)strtof(text, NULL) : strtod(text, NULL);
}

static double value_of(const weft_decimal *d, int bits)
{
    bool single = bits == FLT_MANT_DIG;
    if (d->exponent < -MOST_FIVES || d->exponent > MOST_FIVES) return by_library(d, single);
    int exponent = (int)d->exponent;
    double x = rounded(d->digits, exponent, bits);
    /* More digits follow, so the exact value lies between `digits` and `digits` + 1. If these two
     * round differently, the C library decides. */
    if (d->more && rounded(d->digits + 1, exponent, bits) != x) return by_library(d, single);
    if (single && x > FLT_MAX) x = HUGE_VAL;
    return d->minus && x > 0 ? -x : x;
}

/* Converts a number with few digits: digits and power of ten are exact as doubles, so their product
 * or quotient is rounded once (Clinger 1990). */
static bool is_short(const weft_decimal *d, double *out)
{
    if (FLT_EVAL_METHOD != 0 || d->more || d->digits > (uint64_t)1 << 53) return false;
    if (d->exponent < -MOST_EXACT || d->exponent > MOST_EXACT) return false;
    double x = (double)d->digits;
    x = d->exponent < 0 ? x / tens[-d->exponent] : x * tens[d->exponent];
    *out = d->minus ? -x : x;
    return true;
}

double weft_decimal_double(const weft_decimal *d)
{
    double x;
    return is_short(d, &x) ? x : d->digits == 0 ? (d->minus ? -0.0 : 0.0) : value_of(d, 53);
}

float weft_decimal_float(const weft_decimal *d)
{
    enum { BELOW = 53 - FLT_MANT_DIG };
    double x;
    uint64_t bits;
    if (d->digits == 0) return d->minus ? -0.0F : 0.0F;
    if (is_short(d, &x)) {
        /* Rounding to double and then to float is correct unless the double lies exactly halfway
         * between two floats. */
        memcpy(&bits, &x, sizeof(bits));
        if ((bits & ((1ULL << BELOW) - 1)) != 1ULL << (BELOW - 1)) return (float)x;
    }
    return (float)value_of(d, FLT_MANT_DIG);
}

bool weft_decimal_whole(const weft_decimal *d, bool *minus, uint64_t *out)
{
    uint64_t x = d->digits;
    int64_t exponent = d->exponent;
    *minus = d->minus;
    if (d->whole && exponent == 1 && d->size - d->minus == MOST_DIGITS + 1) {
        /* A number of twenty digits: the last one is not in `digits`. The number must be below
         * 2^64. */
        uint64_t last = (uint64_t)(d->text[d->size - 1] - '0');
        *out = 10 * x + last;
        return x < UINT64_MAX / 10 || (x == UINT64_MAX / 10 && last <= UINT64_MAX % 10);
    }
    if (d->more) return false;
    for (; x != 0 && exponent < 0; exponent++) {
        if (x % 10 != 0) return false;
        x /= 10;
    }
    for (; x != 0 && exponent > 0; exponent--) {
        if (x > UINT64_MAX / 10) return false;
        x *= 10;
    }
    *out = x;
    return true;
}
