/* Parameters of which several ranks of a learner have the same part. Where each rank gets its own
 * from elsewhere, they need not get the same: what the first of them got is what counts. */
#ifndef WEFT_EXCHANGE_SHARED_PARAMS_H
#define WEFT_EXCHANGE_SHARED_PARAMS_H

#include "exchange/exchange.h"

typedef struct weft_shared_params weft_shared_params;

/* Collective over the ranks of the learner. UNSUPPORTED: ranks lay the same part in memory in
 * different ways. */
weft_status weft_shared_params_open(weft_comm *learner, weft_store *store,
                                    weft_shared_params **out) WEFT_NODISCARD;
void weft_shared_params_close(weft_shared_params **copies);
/* Whether this rank is the first to have some parameter; who is not gets all from others. */
bool weft_shared_params_is_leader(const weft_shared_params *copies);
/* Whether one rank, the first, has all parameters; the same on all. */
bool weft_shared_params_are_whole(const weft_shared_params *copies);
/* The same of one of them, counted in the order of the store. */
bool weft_shared_params_is_leader_with(const weft_shared_params *copies, int64_t parameter);
/* This rank's parameters as they lie, like WEFT_ALL_PARAMETERS of its store: the store itself, if
 * the host can write there. So they are written only when nothing reads the store. */
void *weft_shared_params_parameters(const weft_shared_params *copies);
/* Brings the store's parameters there. */
weft_status weft_shared_params_read(const weft_shared_params *copies) WEFT_NODISCARD;
/* What is there is what the store has from now on, after the other ranks have been given what they
 * have of them in common. Collective over the ranks of the learner. */
weft_status weft_shared_params_write(const weft_shared_params *copies) WEFT_NODISCARD;

/* The same, parameter by parameter while a program runs. Whether its ranks can do that: all that
 * have parameters in common read what they have in the same order. Collective over them. */
weft_status weft_shared_params_follow(weft_shared_params *copies, const weft_program *program,
                                      bool *can) WEFT_NODISCARD;
/* Numbers are about to come. Then, when those of an entry of the store are there: it has them, and
 * so have the ranks that share it. Collective over these. */
weft_status weft_shared_params_begin(const weft_shared_params *copies) WEFT_NODISCARD;
weft_status weft_shared_params_broadcast_one(const weft_shared_params *copies,
                                             int entry) WEFT_NODISCARD;

#endif
