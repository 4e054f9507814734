/* Internals of weft find-lr: the losses of a range test, and their chart. */
#ifndef WEFT_CLI_FIND_LR_H
#define WEFT_CLI_FIND_LR_H

#include <stddef.h>

#include "weft/output.h"

/* The steps of the test: their rates, and their losses as a moving mean that corrects its begin. */
typedef struct lr_test {
    double *rate, *loss;
    size_t count, room;
    double mean;     /* without the correction */
    size_t lowest;   /* step of the smallest loss */
    size_t steepest; /* step of the steepest fall, of the steps up to `lowest`; 0: the loss has not
                        fallen */
} lr_test;

/* find_lr_plot.c: draws the losses against the rates, with the two rates that are suggested. */
weft_status lr_test_plot(const lr_test *t, const char *title, weft_output *to);
/* Prints the losses as a chart of text, a line for some of the steps. */
void lr_test_print(const lr_test *t);

#endif
