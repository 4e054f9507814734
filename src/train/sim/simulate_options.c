/* What simulations and comparisons are told besides the options of a run. */
#include <stddef.h>

#include "base/registry.h"
#include "train/option_macros.h"
#include "train/train.h"

#define CLUSTER_ROW(text)                                                                          \
    {                                                                                              \
        .name = "cluster", .argument = "FILE", TEXT,                                               \
        .offset = offsetof(weft_simulate_options, cluster), .group = "What to run on",             \
        .help = text                                                                               \
    }

const weft_option weft_simulate_rows[] = {
    CLUSTER_ROW(
        "YAML that describes learners, their speeds and their links, see above; unless given, "
        "-n learners of 10 GFLOP/s on links of 1 Gbit/s and 0.1 ms"),
    {.name = NULL},
};

#define COMPARE(field_) .offset = offsetof(weft_compare_options, field_)
const weft_option weft_compare_rows[] = {
    CLUSTER_ROW("runs are simulated on this cluster (weft help simulate) instead of real"),
    {.name = "strategies",
     .argument = "LIST",
     TEXT,
     COMPARE(strategies),
     .group = "What to compare",
     .help =
         "options of each run as NAME=VALUE with blanks between them, and semicolons between runs"},
    {.name = "target",
     .argument = "LOSS",
     REAL,
     COMPARE(target),
     .low = 0,
     .high = 1e30,
     .help = "say when each comes to this training loss; 0: to the lowest that all come to"},
    {.name = "plot",
     .argument = "FILE",
     TEXT,
     COMPARE(plot),
     .help = "write losses against time and against samples as SVG"},
    {.name = NULL},
};

const weft_option *weft_simulate_table(const weft_context *context)
{
    return weft_context_table(context, weft_simulate_rows);
}

weft_status weft_simulate_options_init(const weft_context *context, weft_simulate_options *options)
{
    WEFT_TRY(weft_train_options_init(context, &options->train));
    options->cluster = NULL;
    return WEFT_OK;
}

const weft_option *weft_compare_table(const weft_context *context)
{
    return weft_context_table(context, weft_compare_rows);
}

weft_status weft_compare_options_init(const weft_context *context, weft_compare_options *options)
{
    WEFT_TRY(weft_simulate_options_init(context, &options->base));
    options->strategies = options->plot = NULL;
    options->target = 0;
    return WEFT_OK;
}
