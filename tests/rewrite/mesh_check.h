/* Trains a graph on a mesh and compares every rank with the training of one rank. */
#ifndef WEFT_TESTS_MESH_CHECK_H
#define WEFT_TESTS_MESH_CHECK_H

#include "graph_fixture.h"

/* The engine of the ranks, and the number of its processes; 0: the ranks are threads. */
extern const char *engine;
extern int processes;
extern int checked; /* number of meshes that were run */

/* Fails unless ten steps on the ranks of s->mesh give the losses and parameters in `want` up to
 * rounding, and then an evaluation by the same plan the same loss. */
void check_mesh(const setting *s, const result *want);

#endif
