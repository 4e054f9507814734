/* Decimal numbers of JSON: read with the results of strtof and strtod in the C locale, and written
 * with the fewest digits that read back as the same number. */
#ifndef WEFT_SERVE_FRONT_DECIMAL_H
#define WEFT_SERVE_FRONT_DECIMAL_H

#include "base/base.h"

/* A scanned number, +-digits * 10^exponent; `text` is its source. */
typedef struct weft_decimal {
    const char *text;
    size_t size;
    uint64_t digits; /* the first 19 significant ones */
    int64_t exponent;
    bool minus;
    bool whole; /* without point and exponent */
    bool more;  /* more digits follow, not all of them 0 */
} weft_decimal;

/* The end of the number that begins at `at` (RFC 8259); NULL: none begins there. */
const char *weft_decimal_scan(const char *at, const char *end, weft_decimal *out);
/* Round to nearest even; infinite on overflow. */
float weft_decimal_float(const weft_decimal *d);
double weft_decimal_double(const weft_decimal *d);
/* false: not an integer, or beyond 64 bits and a sign. 2.0 and 1e2 are integers. */
bool weft_decimal_whole(const weft_decimal *d, bool *minus, uint64_t *out);

/* Writes the shortest decimal that reads back as the value (single: as this float), of equally
 * short ones the nearest; "null" if the value is not finite. Returns the number of bytes, without a
 * zero byte. */
enum { WEFT_DECIMAL_ROOM = 32 };
size_t weft_decimal_write(double value, bool single, char *out);

#endif
