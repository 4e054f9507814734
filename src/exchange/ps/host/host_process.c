/* Creates the server that runs as a process of its own, with its range factory. */
#include "exchange/ps/host/range_factory.h"

#include "actor/net.h"

/* Seconds between two heartbeats. */
static const double BEAT = 1;

weft_status weft_ps_exchange_serve(const weft_ps_options *options, weft_serving *setup,
                                   weft_actor **out)
{
    int servers = (int)WEFT_MIN(WEFT_MAX(setup->servers, 1), WEFT_MAX(setup->count, 1));
    weft_range_factory_options ranges = {
        .context = setup->context,
        .store = setup->store,
        .optimizer = setup->optimizer,
        .options = *options,
        .dtype = setup->dtype,
        .count = setup->count,
        .range_count = weft_segments_ranges(setup->segments, setup->count, setup->dtype, servers),
        .segments = setup->segments,
        .codec = setup->codec,
        .back = setup->back,
        .gaps = setup->gaps};
    weft_range_factory *factory;
    WEFT_TRY(weft_range_factory_create(&ranges, &factory));
    weft_server_options server = {.struct_size = sizeof(server),
                                  .member = {.struct_size = sizeof(weft_member_options),
                                             .key = weft_draw(),
                                             .requested_slot = setup->wished_slot - 1,
                                             .run = setup->run,
                                             .removal = setup->removal,
                                             .fingerprint = {.version = WEFT_VERSION},
                                             .heartbeat_interval = BEAT},
                                  .first_timeout = 1,
                                  .goes_on = setup->wished_slot == 0,
                                  .open = weft_range_factory_open,
                                  .close = weft_range_factory_close,
                                  .user = factory};
    weft_status status = weft_server_create(&server, out);
    if (status == WEFT_OK)
        setup->own = factory;
    else
        free(factory);
    return status;
}
