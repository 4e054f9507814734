/* Decimal numbers, those of JSON and those that people write: reading gives the same bits as strtof
 * and strtod in the C locale; writing gives the fewest digits that read back as the same number. */
#ifndef WEFT_BASE_DECIMAL_H
#define WEFT_BASE_DECIMAL_H

#include "base/base.h"

/* A scanned decimal number: +-digits * 10^exponent. `text` points to its source. */
typedef struct weft_decimal {
    const char *text;
    size_t size;
    uint64_t digits; /* the first 19 significant digits */
    int64_t exponent;
    bool minus;
    bool whole; /* the text has neither a point nor an exponent */
    bool more;  /* more digits follow, not all of them 0 */
} weft_decimal;

/* Scans the number that begins at `at` (grammar of RFC 8259) and returns its end; NULL: no number
 * begins there. */
WEFT_PRIVATE_API const char *weft_decimal_scan(const char *at, const char *end, weft_decimal *out);
/* As weft_decimal_scan, of what people and programs write in tables: also +5, 007, .5 and 5. */
const char *weft_decimal_scan_loosely(const char *at, const char *end, weft_decimal *out);
/* The nearest float or double, ties to even; infinite if the number is too large. */
WEFT_PRIVATE_API float weft_decimal_float(const weft_decimal *d);
WEFT_PRIVATE_API double weft_decimal_double(const weft_decimal *d);
/* Splits an integer into sign and magnitude; 2.0 and 1e2 are integers, too. false: the number is no
 * integer, or its magnitude needs more than 64 bits. */
WEFT_PRIVATE_API bool weft_decimal_whole(const weft_decimal *d, bool *minus, uint64_t *out);

/* Writes the shortest decimal that reads back as the value (single: as this float), of equally
 * short ones the nearest; "null" if the value is not finite. Returns the number of bytes, without a
 * zero byte. */
enum { WEFT_DECIMAL_ROOM = 32 };
WEFT_PRIVATE_API size_t weft_decimal_write(double value, bool single, char *out);

#endif
