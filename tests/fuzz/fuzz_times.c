/* Fuzzes tables of measured times: a table that is accepted gives estimates above 0, and its text
 * is accepted again. */
#include "fuzz.h"

#include <math.h>

#include "cost/times.h"

static void must(bool right)
{
    if (!right) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_times *t, *again;
    char *text;
    if (weft_times_read((const char *)data, size, "fuzz", &t) != WEFT_OK) {
        must(weft_last_message()[0]);
        return 0;
    }
    static const char *const kinds[] = {"dense f32 fast", "conv", "step"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const weft_timed what = {kinds[i], "", (int)i + 1, 2, 1e6 * (double)i, 1e5};
        weft_estimate e = weft_times_estimate(t, &what);
        must(e.seconds > 0 && !isnan(e.error) && e.by < WEFT_ESTIMATES);
    }
    must(weft_times_text(t, &text) == WEFT_OK);
    must(weft_times_read(text, strlen(text), "again", &again) == WEFT_OK);
    free(text);
    weft_times_free(&again);
    weft_times_free(&t);
    return 0;
}
