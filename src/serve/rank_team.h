/* The ranks of one executor: threads, each on its own cores. */
#ifndef WEFT_SERVE_RANK_TEAM_H
#define WEFT_SERVE_RANK_TEAM_H

#include "base/base.h"
#include "weft/comm.h"

typedef struct weft_rank_team weft_rank_team;

/* Starts ranks 1 and up, each on core set `first` + rank; the caller of weft_rank_team_run is rank
 * 0. cores may be NULL. */
weft_status weft_rank_team_open(weft_context *context, int ranks, const weft_core_sets *cores,
                                int first, weft_rank_team **out) WEFT_NODISCARD;
void weft_rank_team_close(weft_rank_team **team);
/* The communicator of all ranks, for use by this rank; NULL with one rank. */
weft_comm *weft_rank_team_world(const weft_rank_team *team, int rank);
/* Calls work(user, rank) once for each rank, and returns when all have finished. After a failure
 * collective operations fail, with an error. One caller at a time. */
weft_status weft_rank_team_run(weft_rank_team *team, weft_status (*work)(void *user, int rank),
                               void *user) WEFT_NODISCARD;

#endif
