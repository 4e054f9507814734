/* The rows of weft selftest. */
#ifndef WEFT_CLI_SELFTEST_H
#define WEFT_CLI_SELFTEST_H

#include <stdbool.h>

/* Two runs, which start with `simulate` where they are simulated. `close`: 0: the same bits; else
 * the largest difference of losses, of the last test and, where one learner does all, of steps. */
typedef struct selftest_row {
    const char *name;
    const char *words; /* of both */
    const char *one, *other;
    double close;
    bool steps;
} selftest_row;

extern const selftest_row selftest_rows[];
extern const int selftest_row_count;

/* Writes the tables and models that they speak of into the working directory. */
bool selftest_write(void);

#endif
