#include "fuzz.h"

#include "formats/formats.h"

/* The first byte chooses how the label is named. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const labels[] = {NULL, "0", "y", "17"};
    weft_csv csv;
    if (size == 0) return 0;
    if (weft_csv_parse("fuzz", data + 1, size - 1, labels[data[0] % 4], &csv) == WEFT_OK)
        weft_csv_free(&csv);
    return 0;
}
