/* The option tables of weft simulate and weft compare: the options of weft train and some of their
 * own, with the reasons why some options of weft train have no effect there. */
#include <stddef.h>

#include "base/registry.h"
#include "base/option_rows.h"
#include "train/train.h"

#define CLUSTER_ROW(text)                                                                          \
    {                                                                                              \
        .name = "cluster", .argument = "FILE", TEXT,                                               \
        .offset = offsetof(weft_simulate_options, cluster), .group = "Cluster", .help = text       \
    }

static const weft_option simulate_rows[] = {
    CLUSTER_ROW(
        "YAML description of learners, their speeds and links, see above; default: -n learners of "
        "10 GFLOP/s on links of 1 Gbit/s and 0.1 ms"),
    {.name = "ranks", .help = "number of learners, unless a cluster file lists them"},
    {.name = "checkpoint", .help = "write DIR/step-N when the simulation is over"},
    {.name = NULL},
};

#define COMPARE(field_) .offset = offsetof(weft_compare_options, field_)
static const weft_option compare_rows[] = {
    CLUSTER_ROW("simulate the runs on this cluster (weft help simulate) instead of running them"),
    OPTION(
        "strategies", "LIST", TEXT, COMPARE(strategies), .group = "Comparison",
        .help =
            "options of each run as NAME=VALUE separated by blanks, with semicolons between runs"),
    OPTION("sweep", "NAME=LOW..HIGH:log:COUNT", TEXT, COMPARE(sweep),
           .help = "a run for each of COUNT values of an option, in equal ratios (or distances: "
                   "linear), with each of the strategies: lr=1e-4..1e-1:log:8"),
    OPTION("target", "LOSS", REAL(NULL, 0, 1e30), COMPARE(target),
           .help =
               "report when each run reaches this training loss; 0: the lowest loss that all runs "
               "reach"),
    OPTION("plot", "FILE", TEXT, COMPARE(plot),
           .help = "plot losses over time and over samples as SVG"),
    {.name = "metric",
     .help =
         "metrics that the table shows, in place of accuracy or R2 (weft help metrics): auc,top5"},
    {.name = "keep-best",
     .help =
         "take the evaluation of --validation that is best by a metric, in place of the last one"},
    {.name = NULL},
};

/* The options of weft train that a simulation, and a comparison, refuse, with the reason. */
static const weft_unused not_simulated[] = {
    {"profile", "a simulation measures nothing"},
    {"unfreeze,phases,rechoose", "a simulation has one phase"},
    {"engine,hosts,max-restarts,timeout,check-collectives,no-bind",
     "a simulation is one process in virtual time"},
    {"checkpoint-every,resume,drop-state", "a simulation is saved when it is over"},
    {"keep-best,patience", "learners of a simulation are at different steps"},
    {"replicas", "no server of a simulation is lost"},
    {"tune", "the time of a simulation is virtual"},
    {"trace", "a simulation's times are not those of its instructions"},
    {.names = NULL},
};
static const weft_unused not_compared[] = {
    {"engine,hosts,max-restarts", "runs are compared within one process"},
    {"checkpoint,checkpoint-every,keep,resume,drop-state",
     "runs that are compared all begin anew, and none is saved"},
    {"metrics,trace", "each run of a comparison would write it in turn"},
    {.names = NULL},
};

weft_status weft_simulate_tables_register(weft_context *context)
{
    WEFT_TRY(weft_context_add_longer(context, weft_train_rows, simulate_rows));
    weft_context_mark_unused(context, simulate_rows, not_simulated);
    WEFT_TRY(weft_context_add_longer(context, weft_train_rows, compare_rows));
    weft_context_mark_unused(context, compare_rows, not_compared);
    return WEFT_OK;
}

const weft_option *weft_simulate_table(const weft_context *context)
{
    WEFT_NEED_ELSE(NULL, context);
    return weft_context_table(context, simulate_rows);
}

weft_status weft_simulate_options_init(const weft_context *context, weft_simulate_options *options)
{
    WEFT_NEED(context, options);
    WEFT_TRY(weft_train_options_init(context, &options->train));
    options->struct_size = sizeof(*options);
    options->cluster = NULL;
    return WEFT_OK;
}

const weft_option *weft_compare_table(const weft_context *context)
{
    WEFT_NEED_ELSE(NULL, context);
    return weft_context_table(context, compare_rows);
}

weft_status weft_compare_options_init(const weft_context *context, weft_compare_options *options)
{
    WEFT_NEED(context, options);
    WEFT_TRY(weft_simulate_options_init(context, &options->base));
    options->struct_size = sizeof(*options);
    options->strategies = options->plot = NULL;
    options->target = 0;
    return WEFT_OK;
}
