/* First uses of parameters by a program. */
#ifndef WEFT_PROGRAM_FIRST_USE_H
#define WEFT_PROGRAM_FIRST_USE_H

#include "program/program.h"

/* A parameter entry, and the floating-point operations of a micro-batch before its first use. */
typedef struct reading {
    int entry;
    double flops;
} reading;

/* Call it after the last instruction was added. */
weft_status weft_readings_find(weft_program *program) WEFT_NODISCARD;
/* Calls the hook before instruction i of an instance whose parameters may be outstanding. */
weft_status weft_reading_tell(const weft_instance *x, int i) WEFT_NODISCARD;
/* Floating-point operations of a micro-batch up to and including instruction i. Gradients that are
 * clipped are made in the update phase, after all other computation. */
double weft_program_flops_until(const weft_program *program, int i);

#endif
