/* The ranks of one executor: threads on cores of their own. */
#ifndef WEFT_SERVE_MESH_H
#define WEFT_SERVE_MESH_H

#include "base/base.h"
#include "weft/comm.h"

typedef struct weft_mesh weft_mesh;

/* Starts ranks 1 and on, each on set `first` + rank of the cores; rank 0 is whoever runs the mesh.
 * cores may be NULL. */
weft_status weft_mesh_open(weft_context *context, int ranks, const weft_core_sets *cores, int first,
                           weft_mesh **out) WEFT_NODISCARD;
void weft_mesh_close(weft_mesh **mesh);
/* All ranks of it; NULL where there is one. Each is the business of its rank. */
weft_comm *weft_mesh_world(const weft_mesh *mesh, int rank);
/* Calls work(user, rank) once for each rank, and returns when all have ended. After a failure its
 * ranks do nothing in common any more, and say so. One caller at a time. */
weft_status weft_mesh_run(weft_mesh *mesh, weft_status (*work)(void *user, int rank),
                          void *user) WEFT_NODISCARD;

#endif
