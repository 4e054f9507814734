/* The rows of weft selftest. */
#ifndef WEFT_CLI_SELFTEST_H
#define WEFT_CLI_SELFTEST_H

#include <stdbool.h>

/* Two runs to compare; the options of simulated ones begin with `simulate`. close 0: equal bits;
 * else the largest difference of losses, of the last test and, if a single learner trains, of the
 * steps. */
typedef struct selftest_row {
    const char *name;
    const char *words; /* of both */
    const char *one, *other;
    double close;
    bool steps;
} selftest_row;

extern const selftest_row selftest_rows[];
extern const int selftest_row_count;

/* Writes the data tables and models that the rows use to the working directory. */
bool selftest_write(void);

#endif
