/* A range factory opens the ranges of a server, whether the server runs as a thread, as a process,
 * or in the simulator. */
#ifndef WEFT_EXCHANGE_PS_HOST_RANGE_FACTORY_H
#define WEFT_EXCHANGE_PS_HOST_RANGE_FACTORY_H

#include "exchange/exchange.h"
#include "exchange/ps/ps.h"
#include "exchange/segments.h"

/* All pointers stay the caller's and outlive the ranges. */
typedef struct weft_range_factory_options {
    weft_context *context;
    const weft_store *store; /* like a learner's, on the device that applies the updates */
    const weft_optimizer_options *optimizer;
    weft_ps_options options;
    weft_dtype dtype;
    int64_t count; /* parameters of all ranges together */
    int range_count;
    weft_segment_list segments; /* of all parameters; see weft_segments_of */
    const char *codec, *back;   /* as in weft_exchange_setup */
    weft_gap_list gaps;         /* padding of the parameters */
} weft_range_factory_options;

typedef struct weft_range_factory weft_range_factory;
/* The factory is one allocation: the caller releases it with free() after the server is
 * destroyed. */
weft_status weft_range_factory_create(const weft_range_factory_options *options,
                                      weft_range_factory **out) WEFT_NODISCARD;
/* The functions `open` and `close` of weft_server_options. A range is opened with its optimizer,
 * the state of that, and its downlink. */
weft_status weft_range_factory_open(void *factory, int number, weft_served *out) WEFT_NODISCARD;
void weft_range_factory_close(void *factory, int number);
/* The range of that number; NULL: it is not open. */
weft_range *weft_range_factory_range(const weft_range_factory *factory, int number);
/* The state of an open range, as in weft_served: optimizer state, and that of its downlink. */
const struct iovec *weft_range_factory_states(const weft_range_factory *factory, int number,
                                              int *count);
/* The specification of the downlink codec, from --compress and --compress-downlink as given; "none"
 * if the servers add updates (easgd). */
const char *weft_range_factory_back(bool adds, const char *codec, const char *back);

/* host_process.c: creates the server of a server process. */
weft_status weft_ps_exchange_serve(const weft_ps_options *options, weft_serving *setup,
                                   weft_actor **out) WEFT_NODISCARD;
/* host_sim.c: opens the actors of a simulated run. */
weft_status weft_ps_exchange_simulate(const weft_ps_options *options,
                                      const struct weft_sim_exchange_options *sim_options,
                                      struct weft_sim_exchange **out) WEFT_NODISCARD;

#endif
