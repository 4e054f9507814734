/* Parameters that several ranks of a learner share (replicated shards). One rank per shard, the
 * leader, receives them from outside the learner and broadcasts them to the other ranks, since
 * independent pulls could return different versions. */
#ifndef WEFT_EXCHANGE_SHARED_PARAMS_H
#define WEFT_EXCHANGE_SHARED_PARAMS_H

#include "exchange/exchange.h"

typedef struct weft_shared_params weft_shared_params;

/* Finds the shards that ranks of the learner share. Collective over these ranks. UNSUPPORTED: ranks
 * have different layouts of the same shard. */
weft_status weft_shared_params_open(weft_comm *learner, weft_store *store,
                                    weft_shared_params **out) WEFT_NODISCARD;
void weft_shared_params_close(weft_shared_params **copies);
/* Whether this rank is the leader of any shard; a rank that leads none gets all parameters from
 * other ranks. */
bool weft_shared_params_is_leader(const weft_shared_params *copies);
/* Whether rank 0 has all parameters of the learner, so that no parameter is sharded; equal on all
 * ranks. */
bool weft_shared_params_are_unsharded(const weft_shared_params *copies);
/* Whether this rank is the leader for its shard of parameter number `parameter`, counted among the
 * parameters in the order of the store. */
bool weft_shared_params_is_leader_with(const weft_shared_params *copies, int64_t parameter);
/* This rank's parameters, laid out like WEFT_ALL_PARAMETERS of its store. If the host can write the
 * store's memory, they are that memory, so the caller writes them only when nothing reads the
 * store. */
void *weft_shared_params_parameters(const weft_shared_params *copies);
/* Copies the store's parameters into weft_shared_params_parameters. */
weft_status weft_shared_params_read(const weft_shared_params *copies) WEFT_NODISCARD;
/* Broadcasts the shared parameters from their leaders to the other ranks; each rank copies all its
 * parameters into its store. Collective over the ranks of the learner. */
weft_status weft_shared_params_write(const weft_shared_params *copies) WEFT_NODISCARD;

/* Checks whether shared parameters can be broadcast one by one while the program runs. *can: ranks
 * that share parameters read theirs in the same order. Collective over the ranks of the learner. */
weft_status weft_shared_params_follow(weft_shared_params *copies, const weft_program *program,
                                      bool *can) WEFT_NODISCARD;
/* `_begin`: parameters are about to arrive one by one. `_broadcast_one`: the parameter of a store
 * entry has arrived at its leader, which broadcasts it; each rank that shares it copies it into its
 * store. `_broadcast_one` is collective over these ranks. */
weft_status weft_shared_params_begin(const weft_shared_params *copies) WEFT_NODISCARD;
weft_status weft_shared_params_broadcast_one(const weft_shared_params *copies,
                                             int entry) WEFT_NODISCARD;

#endif
