/* Declares the measuring of a machine: runs of small networks with traces, and transfers between
 * ranks. */
#ifndef WEFT_TRAIN_ESTIMATE_MEASURE_H
#define WEFT_TRAIN_ESTIMATE_MEASURE_H

#include "cost/times.h"
#include "train/trainer.h"
#include "weft/estimate.h"

/* A way to use the cores of the machine: so many ranks of so many threads. */
typedef struct weft_measured_setting {
    int threads, ranks;
} weft_measured_setting;

/* A network that is measured. */
typedef struct weft_measured_network {
    const char *model, *data, *batch, *microbatches, *steps;
} weft_measured_network;
/* The networks; NULL past the end. */
const weft_measured_network *weft_measured_network_at(int i);

/* Trains a network for some steps and adds the times of its instructions. text: a file for networks
 * of texts. */
weft_status weft_measure_network(weft_context *context, const weft_measured_network *network,
                                 weft_measured_setting setting, const char *text,
                                 weft_times *times) WEFT_NODISCARD;
/* Adds the times of transfers between the ranks of an engine; ranks 0: all that there are. *first:
 * this process has the first rank. Collective over the ranks. */
weft_status weft_measure_transfers(weft_context *context, const char *engine, int ranks,
                                   weft_times *times, bool *first) WEFT_NODISCARD;
/* Adds the times of passes over memory and of codecs, by so many threads at once. */
weft_status weft_measure_work(weft_context *context, int threads, weft_times *times) WEFT_NODISCARD;

#endif
