/* Creates the server that runs as a process of its own, with its range factory. */
#include "exchange/ps/host/range_factory.h"

#include "actor/net.h"

/* Seconds between two heartbeats. */
static const double BEAT = 1;

weft_status weft_ps_exchange_serve(const weft_ps_options *options, weft_serving *site,
                                   weft_actor **out)
{
    int servers = (int)WEFT_MIN(WEFT_MAX(site->servers, 1), WEFT_MAX(site->count, 1));
    weft_range_factory_options ranges = {
        .context = site->context,
        .store = site->store,
        .optimizer = site->optimizer,
        .options = *options,
        .dtype = site->dtype,
        .count = site->count,
        .range_count = weft_segments_ranges(site->segments, site->count, site->dtype, servers),
        .segments = site->segments,
        .codec = site->codec,
        .back = site->back,
        .gaps = site->gaps};
    weft_range_factory *factory;
    WEFT_TRY(weft_range_factory_create(&ranges, &factory));
    weft_server_options server = {.struct_size = sizeof(server),
                                  .member = {.struct_size = sizeof(weft_member_options),
                                             .key = weft_draw(),
                                             .requested_slot = site->wished_slot - 1,
                                             .run = site->run,
                                             .removal = site->removal,
                                             .fingerprint = {.version = WEFT_VERSION},
                                             .heartbeat_interval = BEAT},
                                  .first_timeout = 1,
                                  .goes_on = site->wished_slot == 0,
                                  .open = weft_range_factory_open,
                                  .close = weft_range_factory_close,
                                  .user = factory};
    weft_status status = weft_server_create(&server, out);
    if (status == WEFT_OK)
        site->own = factory;
    else
        free(factory);
    return status;
}
