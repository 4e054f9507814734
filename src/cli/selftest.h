/* Internals of weft selftest: the pairs of runs that must agree. */
#ifndef WEFT_CLI_SELFTEST_H
#define WEFT_CLI_SELFTEST_H

#include <stdbool.h>

/* Two runs to compare. */
typedef struct selftest_row {
    const char *name;
    const char *words;       /* options of both runs */
    const char *one, *other; /* options of each; "simulate" at the beginning: a simulated run */
    double close; /* largest difference of losses (relative above 1); 0: weights have equal bits */
    bool steps;   /* the loss of each step is compared, too, beside the test loss */
} selftest_row;

extern const selftest_row selftest_rows[];
extern const int selftest_row_count;

/* Writes the data tables and models that the rows use to the working directory. */
bool selftest_write(void);

#endif
