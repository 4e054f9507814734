/* Computes exact sums of squares. They do not depend on the order of additions, and so not on the
 * layout or distribution of a tensor.
 *
 * A square, rounded to a double, is a mantissa of 53 bits times a power of two. For each power the
 * mantissas are summed separately, in two halves that cannot overflow (Neal 2015, "Fast exact
 * summation using small and large superaccumulators"). The result is a list of digits, which may be
 * added to other digits without rounding. */
#include <math.h>

#include "base/base.h"

enum { BITS = 14, BELOW = 1074, MANTISSA = 52 };
#define DIGIT_MASK (((uint64_t)1 << BITS) - 1)
#define HALF_MASK (((uint64_t)1 << 32) - 1)

void weft_exact_clear(weft_exact *sum)
{
    memset(sum, 0, sizeof(*sum));
}

static void add_square(weft_exact *sum, int lane, double x)
{
    double square = x * x;
    uint64_t bits;
    memcpy(&bits, &square, sizeof(bits));
    unsigned power = (unsigned)(bits >> MANTISSA) & 2047;
    uint64_t mantissa = (bits & (((uint64_t)1 << MANTISSA) - 1)) | (uint64_t)(power > 0)
                                                                       << MANTISSA;
    sum->low[lane][power] += mantissa & HALF_MASK;
    sum->high[lane][power] += mantissa >> 32;
}

/* Uses both lanes, so that neighbours with the same power need not wait for each other. */
#define ADD_ALL(type)                                                                              \
    do {                                                                                           \
        const type *from = data;                                                                   \
        for (int64_t i = begin; i + 1 < end; i += 2) {                                             \
            add_square(sum, 0, (double)from[i]);                                                   \
            add_square(sum, 1, (double)from[i + 1]);                                               \
        }                                                                                          \
        if ((end - begin) % 2) add_square(sum, 0, (double)from[end - 1]);                          \
    } while (0)

void weft_exact_squares(weft_exact *sum, weft_dtype dtype, const void *data, int64_t begin,
                        int64_t end)
{
    if (dtype == WEFT_F32) ADD_ALL(float);
    if (dtype == WEFT_F64) ADD_ALL(double);
}

/* Adds value times 2^bit, in units of the last digit. */
static void add_at(uint64_t *digit, uint64_t value, int bit)
{
    int d = bit / BITS, shift = bit % BITS;
    digit[d] += (value << shift) & DIGIT_MASK;
    value >>= BITS - shift;
    for (d++; value > 0; d++, value >>= BITS) digit[d] += value & DIGIT_MASK;
}

static void carry(uint64_t *digit, double *out)
{
    uint64_t over = 0;
    for (int d = 0; d < WEFT_EXACT_DIGITS; d++) {
        over += digit[d];
        out[d] = (double)(over & DIGIT_MASK);
        over >>= BITS;
    }
}

void weft_exact_digits(const weft_exact *sums, int count, double *digits)
{
    enum { NO_NUMBER = 2047 };
    uint64_t digit[WEFT_EXACT_DIGITS] = {0}, endless = 0;
    for (int k = 0; k < 2 * count; k++) {
        const weft_exact *s = &sums[k / 2];
        int lane = k % 2;
        for (int power = 0; power < NO_NUMBER; power++) {
            int bit = power > 0 ? power - 1 : 0;
            if (s->low[lane][power]) add_at(digit, s->low[lane][power], bit);
            if (s->high[lane][power]) add_at(digit, s->high[lane][power], bit + 32);
        }
        endless |= s->high[lane][NO_NUMBER];
    }
    carry(digit, digits);
    if (endless) digits[0] = INFINITY; /* stays infinite in every sum */
}

void weft_exact_add(const double *a, const double *b, double *out)
{
    uint64_t digit[WEFT_EXACT_DIGITS];
    if (!isfinite(a[0] + b[0])) {
        memset(out, 0, WEFT_EXACT_DIGITS * sizeof(*out));
        out[0] = INFINITY;
        return;
    }
    for (int d = 0; d < WEFT_EXACT_DIGITS; d++) digit[d] = (uint64_t)a[d] + (uint64_t)b[d];
    carry(digit, out);
}

double weft_exact_root(const double *digits)
{
    double whole[WEFT_EXACT_DIGITS], zero[WEFT_EXACT_DIGITS] = {0}, value = 0;
    int top = WEFT_EXACT_DIGITS - 1, last;
    if (!isfinite(digits[0])) return INFINITY;
    weft_exact_add(digits, zero, whole); /* normalises digits of a sum over ranks */
    while (top > 0 && whole[top] == 0) top--;
    last = WEFT_MAX(top - 5, 0); /* 70 to 84 bits */
    for (int d = top; d >= last; d--) value = value * (double)(DIGIT_MASK + 1) + whole[d];
    return ldexp(sqrt(value), (BITS * last - BELOW) / 2); /* an even exponent */
}
