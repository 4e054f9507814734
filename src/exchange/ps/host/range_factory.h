/* Ranges for the servers of a run, wherever these run: as threads, as processes, in the
 * simulator. */
#ifndef WEFT_EXCHANGE_PS_HOST_RANGE_FACTORY_H
#define WEFT_EXCHANGE_PS_HOST_RANGE_FACTORY_H

#include "exchange/exchange.h"
#include "exchange/ps/ps.h"

/* All that is pointed to stays the caller's and outlives the ranges. */
typedef struct weft_range_factory_options {
    weft_context *context;
    const weft_store *store; /* on the device that makes the updates */
    const weft_optimizer_options *optimizer;
    weft_ps_options options;
    weft_dtype dtype;
    int64_t count; /* of all ranges */
    int range_count;
    const char *codec, *back; /* as in weft_exchange_site */
    weft_gap_list gaps;       /* padding of the parameters */
} weft_range_factory_options;

typedef struct weft_range_factory weft_range_factory;
/* One allocation: after the server is destroyed, free() will do. */
weft_status weft_range_factory_create(const weft_range_factory_options *options,
                                      weft_range_factory **out) WEFT_NODISCARD;
/* `open` and `close` of one server: with the state of the update, and the downlink. */
weft_status weft_range_factory_open(void *factory, int number, weft_served *out) WEFT_NODISCARD;
void weft_range_factory_close(void *factory, int number);
/* The range of that number; NULL: it is not open. */
weft_range *weft_range_factory_range(const weft_range_factory *factory, int number);
/* The state of an open range: of its update, and the reference of its downlink. */
const struct iovec *weft_range_factory_states(const weft_range_factory *factory, int number,
                                              int *count);
/* The downlink codec, from --compress and --compress-downlink as given. */
const char *weft_range_factory_back(bool adds, const char *codec, const char *back);

/* host_process.c: the server of a process. */
weft_status weft_ps_exchange_serve(const weft_ps_options *options, weft_serving *site,
                                   weft_actor **out) WEFT_NODISCARD;
/* host_sim.c: the actors of a simulated run. */
weft_status weft_ps_exchange_simulate(const weft_ps_options *options,
                                      const struct weft_sim_exchange_options *sim_options,
                                      struct weft_sim_exchange **out) WEFT_NODISCARD;

#endif
