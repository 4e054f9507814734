/* Declares the gradients that a program exports to an exchange, and when each is ready. */
#ifndef WEFT_PROGRAM_GRADIENT_READY_H
#define WEFT_PROGRAM_GRADIENT_READY_H

#include "program/program.h"

/* An exported gradient. The hook `ready` is called for it after instruction `by`. The gradient is
 * in the layout of its parameter, or of a range of the parameter, which begins at byte `begin`. */
typedef struct exported {
    weft_value leaf;
    int buffer, by;
    size_t begin, bytes;
    double flops; /* operations of a micro-batch until then */
} exported;

/* State of a value during lowering. first: the first leaf whose exported gradient the value is. For
 * a leaf, next: the next leaf with the same gradient; done: its gradient was exported. */
typedef struct exporting {
    weft_value first, next;
    bool done;
} exporting;

/* The first three are called in lowering: before the first instruction, after a value was made, and
 * after the last instruction. weft_exported_gradients_report is called in a run, when instruction i
 * (a transfer: its end) has finished, and calls the hook for each gradient that it completes. */
weft_status weft_exported_gradients_begin(weft_program *program) WEFT_NODISCARD;
weft_status weft_exported_gradients_made(weft_program *program, weft_value value,
                                         weft_phase phase) WEFT_NODISCARD;
weft_status weft_exported_gradients_close(weft_program *program) WEFT_NODISCARD;
weft_status weft_exported_gradients_report(const weft_instance *x, int i) WEFT_NODISCARD;

#endif
