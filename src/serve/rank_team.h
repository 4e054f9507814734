/* The ranks of one executor: threads, each on its own cores. */
#ifndef WEFT_SERVE_RANK_TEAM_H
#define WEFT_SERVE_RANK_TEAM_H

#include "base/base.h"
#include "weft/comm.h"

typedef struct weft_mesh weft_mesh;

/* Starts ranks 1 and up, each on core set `first` + rank; the caller of weft_mesh_run is rank 0.
 * cores may be NULL. */
weft_status weft_mesh_open(weft_context *context, int ranks, const weft_core_sets *cores, int first,
                           weft_mesh **out) WEFT_NODISCARD;
void weft_mesh_close(weft_mesh **mesh);
/* The communicator of all ranks, for use by this rank; NULL with one rank. */
weft_comm *weft_mesh_world(const weft_mesh *mesh, int rank);
/* Calls work(user, rank) once for each rank, and returns when all have finished. After a failure
 * collective operations fail, with an error. One caller at a time. */
weft_status weft_mesh_run(weft_mesh *mesh, weft_status (*work)(void *user, int rank),
                          void *user) WEFT_NODISCARD;

#endif
