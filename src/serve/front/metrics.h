/* Internals of the metrics. */
#ifndef WEFT_SERVE_FRONT_METRICS_H
#define WEFT_SERVE_FRONT_METRICS_H

#include "serve/front/http_internal.h"
#include "serve/compute_stats.h"

/* metrics_process.c: writes the metrics of the process under the standard names of Prometheus
 * clients. A metric that the system does not report is left out. */
void weft_metrics_process(weft_text *text);

#endif
