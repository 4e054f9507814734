/* Fuzzes the JSON reader against Jansson: both accept the same texts, numbers have the bits of
 * strtod and strtof, and each text is either JSON as a whole or refused with a message. */
#include "fuzz.h"

#include <jansson.h>
#include <math.h>

#include "serve/front/json.h"

static void must(bool right)
{
    if (!right) abort();
}

/* Compares the number at the beginning of the data, which end at its last byte. */
static void look_at_number(const uint8_t *data, size_t size)
{
    weft_decimal d;
    char text[512], again[WEFT_DECIMAL_ROOM + 1];
    const char *end = weft_decimal_scan((const char *)data, (const char *)data + size, &d);
    if (!end || d.size >= sizeof(text)) return;
    memcpy(text, data, d.size);
    text[d.size] = '\0';
    double x = weft_decimal_double(&d), y = strtod(text, NULL);
    float f = weft_decimal_float(&d), g = strtof(text, NULL);
    must(memcmp(&x, &y, sizeof(x)) == 0 && memcmp(&f, &g, sizeof(f)) == 0);
    again[weft_decimal_write(x, false, again)] = '\0';
    must(!isfinite(x) || strtod(again, NULL) == x);
    again[weft_decimal_write((double)f, true, again)] = '\0';
    must(!isfinite(f) || strtof(again, NULL) == f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_json j;
    weft_json_start(&j, (const char *)data, size);
    weft_status status = weft_json_skip(&j);
    if (status == WEFT_OK) status = weft_json_finish(&j);
    must(status == WEFT_OK || (status == WEFT_ERR_FORMAT && weft_last_message()[0]));
    json_error_t error;
    json_t *tree = json_loadb((const char *)data, size,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    /* Jansson refuses numbers that are too large, accepts deeper nesting, and stops at a zero byte
     * behind a value. */
    bool large = !tree && strstr(error.text, "overflow"), zero = memchr(data, 0, size) != NULL;
    must(zero || (status == WEFT_OK ? tree || large
                                    : !tree || strstr(weft_last_message(), "in each other")));
    json_decref(tree);
    look_at_number(data, size);
    return 0;
}
