/* Writes shortest decimals. Starts with FLT_DIG or DBL_DIG digits, with which every decimal
 * survives the conversion to the type and back, and adds digits until the result reads back as the
 * same number. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/decimal.h"

__extension__ typedef unsigned __int128 wide;

enum { MOST_FIVES = 27, MOST_DIGITS = 17 };

static uint64_t power(uint64_t of, int n)
{
    uint64_t x = 1;
    while (n-- > 0) x *= of;
    return x;
}

static uint64_t nearest(wide x, wide over)
{
    uint64_t whole = (uint64_t)(x / over);
    wide left = x % over, other = over - left;
    return whole + (left > other || (left == other && (whole & 1)));
}

/* m * 2^twos * 10^shift, rounded to the nearest integer. false: the computation does not fit into
 * 128 bits. */
static bool scaled(uint64_t m, int twos, int shift, uint64_t *out)
{
    wide x = m, over = 1;
    if (shift > MOST_FIVES || shift < -MOST_FIVES) return false;
    if (shift >= 0)
        x *= power(5, shift);
    else
        over *= power(5, -shift);
    twos += shift;
    /* m has 53 bits, and 5^27 has 63. */
    if (twos > (shift >= 0 ? 10 : 74) || twos < (shift >= 0 ? -125 : -62)) return false;
    if (twos >= 0)
        x <<= twos;
    else
        over <<= -twos;
    *out = nearest(x, over);
    return true;
}

/* Computes the n digits of m * 2^twos with scaled(). *first: the estimated power of ten of the
 * first digit, which may be one too small and is corrected. false: not possible in 128 bits. */
static bool exactly(uint64_t m, int twos, int n, int *first, uint64_t *digits)
{
    if (!scaled(m, twos, n - 1 - *first, digits)) return false;
    if (*digits >= power(10, n) && !scaled(m, twos, n - 1 - ++*first, digits)) return false;
    return *digits >= power(10, n - 1) && *digits < power(10, n);
}

/* The nearest decimal of n digits, digits * 10^(first - n + 1); the C library computes it where
 * scaled() cannot. */
static void digits_of(double value, int n, int *first, uint64_t *digits)
{
    char text[40];
    int twos;
    uint64_t m = (uint64_t)ldexp(frexp(value, &twos), 53);
    if (exactly(m, twos - 53, n, first, digits)) return;
    (void)snprintf(text, sizeof(text), "%.*e", n - 1, value);
    char *e = strchr(text, 'e');
    *first = (int)strtol(e + 1, NULL, 10);
    *digits = 0;
    for (const char *at = text; at < e; at++)
        if (*at >= '0' && *at <= '9') *digits = 10 * *digits + (uint64_t)(*at - '0');
}

static bool reads_back(double value, bool single, uint64_t digits, int exponent)
{
    char text[40];
    if (exponent < -MOST_FIVES || exponent > MOST_FIVES) {
        (void)snprintf(text, sizeof(text), "%llue%d", (unsigned long long)digits, exponent);
        return single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value;
    }
    weft_decimal d = {.digits = digits, .exponent = exponent};
    return single ? weft_decimal_float(&d) == (float)value : weft_decimal_double(&d) == value;
}

/* Whether the digits, or the next larger ones, read back as the value. Below a power of two
 * floating-point numbers are denser than above, so the nearest decimal may fail where the next
 * larger one succeeds. */
static bool fits(double value, bool single, uint64_t *digits, int exponent)
{
    int ignored;
    if (reads_back(value, single, *digits, exponent)) return true;
    if (frexp(value, &ignored) != 0.5 || !reads_back(value, single, *digits + 1, exponent))
        return false;
    ++*digits;
    return true;
}

/* Finds the fewest digits that read back as the value, without trailing zeros; returns their
 * number. */
static int shortest(double value, bool single, int *first, uint64_t *digits)
{
    int n = single ? FLT_DIG : DBL_DIG, most = single ? 9 : MOST_DIGITS, guess = *first;
    if (value < (single ? (double)FLT_MIN : DBL_MIN)) n = 1; /* subnormals have fewer bits */
    for (; n <= most; n++) {
        *first = guess;
        digits_of(value, n, first, digits);
        if (fits(value, single, digits, *first - n + 1)) break;
    }
    n = WEFT_MIN(n, most);
    if (*digits >= power(10, n)) { /* carried beyond n digits */
        ++*first;
        *digits /= 10;
    }
    while (n > 1 && *digits % 10 == 0) {
        *digits /= 10;
        n--;
    }
    return n;
}

/* Places the decimal point; `first` is the power of ten of the first digit. */
static size_t place(const char *digits, int n, int first, char *out)
{
    size_t used = 0;
    if (first < -5 || first > 16) {
        out[used++] = digits[0];
        if (n > 1) out[used++] = '.';
        memcpy(out + used, digits + 1, (size_t)n - 1);
        used += (size_t)n - 1;
        return used + (size_t)snprintf(out + used, 8, "e%d", first);
    }
    for (int at = WEFT_MIN(first, 0); at < n || at <= first; at++) {
        if (at == first + 1) out[used++] = '.';
        out[used++] = at < 0 || at >= n ? '0' : digits[at];
    }
    return used;
}

size_t weft_decimal_write(double value, bool single, char *out)
{
    char text[24];
    int twos, first;
    uint64_t digits = 0;
    size_t used = 0;
    if (single) value = (double)(float)value;
    if (!isfinite(value)) {
        static const char none[] = {'n', 'u', 'l', 'l'};
        memcpy(out, none, sizeof(none));
        return sizeof(none);
    }
    if (signbit(value)) out[used++] = '-';
    value = fabs(value);
    if (value == 0) {
        out[used++] = '0';
        return used;
    }
    (void)frexp(value, &twos);
    first = (int)floor((twos - 1) * 0.30102999566398119521);
    int n = shortest(value, single, &first, &digits);
    for (int i = n; i-- > 0; digits /= 10) text[i] = (char)('0' + digits % 10);
    return used + place(text, n, first, out + used);
}
