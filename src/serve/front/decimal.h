/* Numbers in decimal, as JSON has them: read as strtof and strtod would read them in the C locale,
 * and written with the fewest digits that read back the same. */
#ifndef WEFT_SERVE_FRONT_DECIMAL_H
#define WEFT_SERVE_FRONT_DECIMAL_H

#include "base/base.h"

/* A number that has been looked at: +-digits * 10^exponent, of which `text` is what was written. */
typedef struct weft_decimal {
    const char *text;
    size_t size;
    uint64_t digits; /* the first 19 that count */
    int64_t exponent;
    bool minus;
    bool whole; /* neither a point nor an exponent */
    bool more;  /* further digits follow, not all of them 0 */
} weft_decimal;

/* Where the number that begins at `at` ends (RFC 8259); NULL: there is none. */
const char *weft_decimal_scan(const char *at, const char *end, weft_decimal *out);
/* To the nearest, of two equally near to the even one; infinite where it is too large. */
float weft_decimal_float(const weft_decimal *d);
double weft_decimal_double(const weft_decimal *d);
/* false: it is not whole, or beyond 64 bits and a sign. Such as 2.0 and 1e2 are whole. */
bool weft_decimal_whole(const weft_decimal *d, bool *minus, uint64_t *out);

/* The shortest decimal that reads back as the value, of equally short ones the nearest; single:
 * that reads back as this float. "null" where it is not finite. How many bytes; there is no zero
 * byte behind them. */
enum { WEFT_DECIMAL_ROOM = 32 };
size_t weft_decimal_write(double value, bool single, char *out);

#endif
