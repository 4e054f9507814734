/* Declares rank teams: the threads that run a program together, one for each rank of a mesh, each
 * on cores of its own. */
#ifndef WEFT_TRAIN_RANK_TEAM_H
#define WEFT_TRAIN_RANK_TEAM_H

#include "base/base.h"
#include "weft/comm.h"
#include "weft/plan.h"

typedef struct weft_rank_team weft_rank_team;

/* Starts a thread for each rank from 1 on, bound to the core set `first` + rank. The thread that
 * calls weft_rank_team_run is rank 0. cores NULL: the threads are not bound to cores. */
WEFT_PRIVATE_API weft_status weft_rank_team_open(weft_context *context, int ranks,
                                                 const weft_core_sets *cores, int first,
                                                 weft_rank_team **out) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_rank_team_close(weft_rank_team **team);
/* Sets *out to a rank's communicators for the axes of a plan, which belong to the team. All ranks
 * call this in one round: the first time it splits them off, for this plan and no other. */
weft_status weft_rank_team_comms(weft_rank_team *team, int rank, const weft_plan *plan,
                                 const weft_comms **out) WEFT_NODISCARD;
/* Calls work(user, rank) once for each rank, each in its thread, and returns when all calls have
 * returned. If one rank fails, the collective operations of all ranks fail, and each later call
 * reports the failure, until weft_rank_team_restart. At most one caller at a time. */
WEFT_PRIVATE_API weft_status weft_rank_team_run(weft_rank_team *team,
                                                weft_status (*work)(void *user, int rank),
                                                void *user) WEFT_NODISCARD;
WEFT_PRIVATE_API bool weft_rank_team_has_failed(const weft_rank_team *team);
/* Ends the threads and communicators of a team and starts new ones. Nobody may use the old
 * communicators any more. If it fails, the team has failed again. */
WEFT_PRIVATE_API weft_status weft_rank_team_restart(weft_context *context,
                                                    weft_rank_team *team) WEFT_NODISCARD;

#endif
