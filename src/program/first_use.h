/* Declares where a program first reads each parameter, so that a run can wait there for parameters
 * that are still being pulled. */
#ifndef WEFT_PROGRAM_FIRST_USE_H
#define WEFT_PROGRAM_FIRST_USE_H

#include "program/program.h"

/* A parameter (store entry), and the floating-point operations of a micro-batch before the program
 * first reads it. */
typedef struct reading {
    int entry;
    double flops;
} reading;

/* Finds the first reads of all parameters; called after the last instruction was added. */
weft_status weft_readings_find(weft_program *program) WEFT_NODISCARD;
/* Calls the listener's hook `needed` for each parameter that instruction i reads first; called
 * before the instruction if parameters may not have arrived yet. */
weft_status weft_reading_report(const weft_instance *x, int i) WEFT_NODISCARD;

#endif
