/* Internals of weft load: the table, the JSON and the plot of a load test. */
#ifndef WEFT_CLI_LOAD_H
#define WEFT_CLI_LOAD_H

#include "weft/load.h"
#include "weft/output.h"

/* load_report.c: formats a duration into 32 bytes; returns out. */
const char *span_text(double seconds, char *out, size_t size);
/* The label of a stage: its rate ("200"), its outstanding requests ("4 at once"), or "as
 * recorded". */
const char *load_text(const weft_load_result *f, char *out, size_t size);
/* Responses with status 200 a second. */
double load_achieved(const weft_load_result *f);
void print_load_table(const weft_load *load);
void print_load_json(const weft_load *load, const weft_load_options *options);
/* The arrival process of a load at rates. */
const char *load_arrivals(const weft_load_options *options);

/* load_plot.c: plots quantiles of latency against the rate, and latency by percentile, as SVG. */
weft_status plot_load(const weft_load *load, weft_output *to);

#endif
