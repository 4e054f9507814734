#include "fuzz.h"

#include <math.h>

#include "checkpoint/about.h"
#include "data/data.h"
#include "formats/table.h"

/* The statistics of index.json and model.json: what is read can be computed with. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_error_t error;
    weft_data_stats stats = {0};
    json_t *object = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, &error);
    if (!object) return 0;
    if (weft_stats_read("fuzz", object, &stats) == WEFT_OK) {
        if (weft_shape_elements(&stats.input[0].shape) < 1) abort();
        for (int i = 0; i < stats.features; i++)
            if (!isfinite(stats.mean[i]) || !(stats.deviation[i] > 0)) abort();
        double row[64] = {0};
        for (int f = 0; stats.table && stats.table->columns <= 64 && f < stats.table->features; f++)
            if (!isfinite(weft_table_feature(stats.table, row, f))) abort();
        for (int i = 0; i < stats.targets; i++)
            if (!isfinite(stats.target_mean[i]) || !(stats.target_deviation[i] > 0)) abort();
        json_decref(weft_stats_json(&stats));
    }
    weft_data_stats_free(&stats);
    json_decref(object);
    return 0;
}
