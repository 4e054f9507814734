/* Parameters that a program reads. */
#ifndef WEFT_PROGRAM_FIRST_USE_H
#define WEFT_PROGRAM_FIRST_USE_H

#include "program/program.h"

/* An entry of the store, and what a micro-batch has done before it is read. */
typedef struct reading {
    int entry;
    double flops;
} reading;

/* When all instructions are there. */
weft_status weft_readings_find(weft_program *program) WEFT_NODISCARD;
/* Before instruction i of an instance that awaits parameters. */
weft_status weft_reading_tell(const weft_instance *x, int i) WEFT_NODISCARD;
/* Of a micro-batch, up to and with instruction i. Gradients that are clipped are made in the phase
 * of the update: what is counted there comes after all that is computed before. */
double weft_program_flops_until(const weft_program *program, int i);

#endif
