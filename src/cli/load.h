/* Load that is made, as people see it. */
#ifndef WEFT_CLI_LOAD_H
#define WEFT_CLI_LOAD_H

#include "weft/load.h"
#include "weft/output.h"

/* load_words.c: a time as people read it, into 32 bytes; returns out. */
const char *span_text(double seconds, char *out, size_t size);
/* What is at rate i on the left of a row: "200", "4 at once", "as recorded". */
const char *load_text(const weft_load_figures *f, char *out, size_t size);
/* Answers with status 200 a second. */
double load_achieved(const weft_load_figures *f);
void print_load_table(const weft_load *load);
void print_load_json(const weft_load *load, const weft_load_options *options);

/* load_plot.c: quantiles against the rate, and each rate's latency by percentile, as SVG. */
weft_status plot_load(const weft_load *load, weft_output *to);

#endif
