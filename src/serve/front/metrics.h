/* Inside of the metrics: those of the process. */
#ifndef WEFT_SERVE_FRONT_METRICS_H
#define WEFT_SERVE_FRONT_METRICS_H

#include "serve/front/front.h"
#include "serve/spent.h"

/* metrics_process.c: under the names that every Prometheus client has for them; those of which the
 * system does not tell are left out. */
void weft_metrics_process(weft_text *text);

#endif
