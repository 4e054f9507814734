/* Makes the actors of elastic gossip peers in the simulator. */
#include "peer_fixture.h"

weft_status coordinator_of_peers(uint64_t run, int peers, double limit, weft_actor **out)
{
    weft_coordinator_options options = {
        .struct_size = sizeof(options), .run = run, .expected = {peers, 0}, .limit = limit};
    return weft_coordinator_create(&options, out);
}

weft_peer_options joining_peer(weft_actor_id id, int64_t count, double *parameters,
                               weft_codec *codec, int64_t steps)
{
    return (weft_peer_options){.struct_size = sizeof(weft_peer_options),
                               .member = {.struct_size = sizeof(weft_member_options),
                                          .key = id,
                                          .requested_slot = -1,
                                          .heartbeat_interval = 1},
                               .seed = 1,
                               .dtype = WEFT_F64,
                               .count = count,
                               .parameters = parameters,
                               .codec = codec,
                               .steps = steps,
                               .min_rto = 0.5};
}
