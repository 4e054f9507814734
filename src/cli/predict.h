/* The sink of weft predict, to which each prediction is written as CSV or JSON. */
#ifndef WEFT_CLI_PREDICT_H
#define WEFT_CLI_PREDICT_H

#include "cli.h"
#include "weft/output.h"

/* Digits that distinguish all numbers in single (SINGLE) and double precision (EXACT). */
enum { SINGLE = 9, EXACT = 17 };

typedef struct sink {
    weft_output *to;
    bool json, started;
    int64_t columns;    /* of further outputs in CSV */
    weft_status status; /* of the first write that failed */
    char clash[1024];   /* column of the table that has the name of one of ours; "": none */
} sink;

/* Keeps the first failure of a write. */
void sink_put(sink *s, weft_status status);
/* Writes a number that is not finite: null in JSON, nan or inf in CSV. false: the number is finite.
 */
bool sink_not_finite(sink *s, double value);
void sink_number(sink *s, double value, int digits);
/* Writes numbers with commas between them; numbers NULL: only the commas. */
void sink_numbers(sink *s, const double *numbers, int count, int digits);
/* Writes a number of a further output. */
void sink_value(sink *s, weft_dtype dtype, const void *array, int64_t i);

/* predict_json.c: writes a prediction as an object on a line of its own. */
void sink_json(sink *s, const weft_prediction *p);
/* predict_csv.c: writes a prediction as a row, behind the header that the first one has. */
void sink_csv(sink *s, const weft_prediction *p);
/* Writes the row of the table, and behind it what is predicted; nothing if s->clash is set. */
void sink_joined(sink *s, const weft_prediction *p);

#endif
