/* Internals of the metrics: those of the process. */
#ifndef WEFT_SERVE_FRONT_METRICS_H
#define WEFT_SERVE_FRONT_METRICS_H

#include "serve/front/http_internal.h"
#include "serve/compute_stats.h"

/* metrics_process.c: metrics under the standard names of Prometheus clients; those that the system
 * does not report are left out. */
void weft_metrics_process(weft_text *text);

#endif
