/* Declares the measuring of a machine: runs of small networks with traces, and transfers between
 * ranks. */
#ifndef WEFT_TRAIN_ESTIMATE_MEASURE_H
#define WEFT_TRAIN_ESTIMATE_MEASURE_H

#include "comm/comm.h"
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
enum { WEFT_MEASURED_NETWORKS = 13 };
/* The networks; NULL past the end. */
const weft_measured_network *weft_measured_network_at(int i);

/* The requests to end a measuring, of the caller and, in a rank, of its supervisor. */
typedef struct weft_measure_end {
    const weft_stop *stop; /* may be NULL */
    weft_supervisor_channel line;
    const char *output; /* the file that is not written then */
} weft_measure_end;
/* INTERRUPTED: to end is asked for. Asked between any two times, as all functions do that get
 * `end`, which may be NULL. */
weft_status weft_measure_go_on(weft_measure_end *end) WEFT_NODISCARD;

/* Trains a network for some steps and adds the times of its instructions. text: a file for networks
 * of texts. *sample: seconds of the first rank in a step, for each sample that its threads have. */
weft_status weft_measure_network(weft_context *context, const weft_measured_network *network,
                                 weft_measured_setting setting, const char *text,
                                 weft_measure_end *end, weft_times *times,
                                 double *sample) WEFT_NODISCARD;
/* Adds the times of transfers between the ranks of an engine; ranks 0: all that there are. *first:
 * this process has the first rank. Collective over the ranks. */
weft_status weft_measure_transfers(weft_context *context, const char *engine, int ranks,
                                   weft_measure_end *end, weft_times *times,
                                   bool *first) WEFT_NODISCARD;
/* Adds the times of passes over memory and of codecs, by so many threads at once. */
weft_status weft_measure_work(weft_context *context, int threads, weft_measure_end *end,
                              weft_times *times) WEFT_NODISCARD;

/* Adds the processor times of messages between actors: encrypted, as between machines, and over an
 * ipc socket. */
weft_status weft_measure_messages(weft_measure_end *end, weft_times *times) WEFT_NODISCARD;

/* The measuring of this machine; the caller makes and frees the table. */
typedef struct weft_measuring {
    weft_context *context;
    const weft_measure_options *options;
    weft_measure_end end;
    weft_measure_fn fn; /* may be NULL */
    void *user;
    double begun; /* when the seconds of the options began */
    weft_times *times;
    double
        seconds[WEFT_MEASURED_NETWORKS]; /* of a sample on one core, with a rank on each; 0: none */
} weft_measuring;
weft_status weft_measure_rates(weft_measuring *rates) WEFT_NODISCARD;

/* --- several machines --- */

typedef struct weft_measured_machine {
    char name[256], processor[200];
    double cores, memory, spread;           /* of each; spread: as weft_times_spread */
    double seconds[WEFT_MEASURED_NETWORKS]; /* as weft_measuring */
} weft_measured_machine;

/* Measures the links between the ranks of a communicator, of which each is on a machine of its own;
 * collective. seconds: for all. latency, bandwidth: [ranks], in seconds and bytes a second from
 * this rank to each other one; the caller has set them to 0. */
weft_status weft_measure_links(weft_comm *comm, double seconds, weft_measure_end *end,
                               double *latency, double *bandwidth) WEFT_NODISCARD;
/* All ranks get the machines of all; collective. all: [ranks]. */
weft_status weft_machines_gather(weft_comm *comm, const weft_measured_machine *own,
                                 weft_measured_machine *all) WEFT_NODISCARD;
/* Appends the text of a cluster file, and warns of machines that are busy or unlike. latency,
 * bandwidth: [count, count]. times: name of the file of times, those of the first machine. */
weft_status weft_machines_text(weft_context *context, const weft_measured_machine *all, int count,
                               const double *latency, const double *bandwidth, const char *times,
                               weft_text *out) WEFT_NODISCARD;

#endif
