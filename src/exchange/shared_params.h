/* Parameters that several ranks of a learner share (replicated shards). Where ranks receive them
 * from outside the learner, one rank per shard, the leader, does so and broadcasts: independent
 * pulls could return different versions. */
#ifndef WEFT_EXCHANGE_SHARED_PARAMS_H
#define WEFT_EXCHANGE_SHARED_PARAMS_H

#include "exchange/exchange.h"

typedef struct weft_shared_params weft_shared_params;

/* Collective over the ranks of the learner. UNSUPPORTED: ranks have different layouts of the same
 * shard. */
weft_status weft_shared_params_open(weft_comm *learner, weft_store *store,
                                    weft_shared_params **out) WEFT_NODISCARD;
void weft_shared_params_close(weft_shared_params **copies);
/* Whether this rank is the lowest with some parameter; any other rank gets all from others. */
bool weft_shared_params_is_leader(const weft_shared_params *copies);
/* Whether one rank, the first, has all parameters; equal on all ranks. */
bool weft_shared_params_are_unsharded(const weft_shared_params *copies);
/* Whether this rank is the lowest with that parameter, counted in the order of the store. */
bool weft_shared_params_is_leader_with(const weft_shared_params *copies, int64_t parameter);
/* This rank's parameters, laid out like WEFT_ALL_PARAMETERS of its store: the store itself, if the
 * host can write there. So they are written only when nothing reads the store. */
void *weft_shared_params_parameters(const weft_shared_params *copies);
/* Copies the store's parameters there. */
weft_status weft_shared_params_read(const weft_shared_params *copies) WEFT_NODISCARD;
/* Broadcasts the shared parameters to the other ranks, and copies all into the store. Collective
 * over the ranks of the learner. */
weft_status weft_shared_params_write(const weft_shared_params *copies) WEFT_NODISCARD;

/* Broadcasts parameter by parameter while a program runs. *can: ranks that share parameters read
 * theirs in the same order. Collective over the ranks. */
weft_status weft_shared_params_follow(weft_shared_params *copies, const weft_program *program,
                                      bool *can) WEFT_NODISCARD;
/* Parameters are about to arrive. `_broadcast_one`: those of an entry of the store have arrived;
 * the store gets them, and so do the ranks that share it. Collective over these. */
weft_status weft_shared_params_begin(const weft_shared_params *copies) WEFT_NODISCARD;
weft_status weft_shared_params_broadcast_one(const weft_shared_params *copies,
                                             int entry) WEFT_NODISCARD;

#endif
