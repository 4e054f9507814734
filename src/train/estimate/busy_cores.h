/* Declares threads that keep all cores busy, so that what is measured beside them has the caches,
 * and the share of the memory's bandwidth, that it has in a run whose ranks compute. */
#ifndef WEFT_TRAIN_ESTIMATE_BUSY_CORES_H
#define WEFT_TRAIN_ESTIMATE_BUSY_CORES_H

#include "base/base.h"

typedef struct weft_busy_cores weft_busy_cores;

/* Starts a thread for each core, which rests. */
weft_status weft_busy_cores_start(weft_busy_cores **out) WEFT_NODISCARD;
void weft_busy_cores_end(weft_busy_cores **busy);
/* Has the threads pass over memory, or rest. Returns when all rest. */
void weft_busy_cores_work(weft_busy_cores *busy, bool work);
/* The processor time of this process without that of these threads. Called while they rest, since
 * the system counts the time of a running thread now and then. */
double weft_busy_cores_beside(const weft_busy_cores *busy);

#endif
