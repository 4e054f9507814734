/* Declares the use of this machine's cores, by which a command tells whether other programs worked
 * beside what it has measured. */
#ifndef WEFT_CLI_MACHINE_USE_H
#define WEFT_CLI_MACHINE_USE_H

#include <stdbool.h>

/* Times since the machine has started, in ticks of a core. */
typedef struct machine_use {
    double all;  /* of all cores */
    double busy; /* of these, that they worked, or that a host of virtual machines took */
    double own;  /* of this process and of those that it has started and waited for */
} machine_use;

/* From the text of /proc/stat; false: it has no such numbers. own: as above. */
bool machine_use_read(const char *text, double own, machine_use *out);
/* All 0: not known. */
machine_use machine_use_now(void);
/* The share of the cores that others took between two times; 0: not known. */
double machine_use_by_others(const machine_use *before, const machine_use *after);

#endif
