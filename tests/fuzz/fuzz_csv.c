#include "fuzz.h"

#include "formats/formats.h"

/* Fuzzes the CSV parser. The first byte chooses how the label column is named, which columns are
 * already known, and which column has the sample weights. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const labels[] = {NULL, "0", "y", "17"};
    static const char *const weights[] = {NULL, NULL, "w", "1"};
    static char a[] = "a", b[] = "b", *const names[] = {a, b};
    static const weft_csv_known known[] = {
        {.place = -1, .id_place = -1},
        {.features = 2, .place = 1, .id_place = 0},
        {.features = 2, .names = names, .label = "y", .id = "i"},
        {.features = 2, .names = names, .label = "y", .place = 2, .unlabelled = true},
        {.place = -1, .measured = true, .id_given = "2"},
        {.features = 2,
         .names = names,
         .label = "y",
         .place = 1,
         .unlabelled = true,
         .measured = true}};
    weft_csv csv;
    if (size == 0) return 0;
    if (weft_csv_parse("fuzz", data + 1, size - 1, labels[data[0] % 4], weights[data[0] / 24 % 4],
                       &known[data[0] / 4 % 6], &csv) == WEFT_OK)
        weft_csv_free(&csv);
    return 0;
}
