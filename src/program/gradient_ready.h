/* Gradients that a program exports. */
#ifndef WEFT_PROGRAM_GRADIENT_READY_H
#define WEFT_PROGRAM_GRADIENT_READY_H

#include "program/program.h"

/* A gradient whose hook is called after instruction `by`, in the layout of its parameter, or of the
 * range of the parameter that begins at `begin`. */
typedef struct exported {
    weft_value leaf;
    int buffer, by;
    size_t begin, bytes;
    double flops; /* of a micro-batch until then */
} exported;

/* State during lowering. For a value: the first leaf whose gradient it is; of a leaf: the next one
 * with the same gradient, and whether its gradient was exported. */
typedef struct exporting {
    weft_value first, next;
    bool done;
} exporting;

/* Called in lowering: before the first instruction, when a phase has made a value, and after the
 * last instruction. Then, in a run, when an instruction or its transfer has finished. */
weft_status weft_exported_gradients_begin(weft_program *program) WEFT_NODISCARD;
weft_status weft_exported_gradients_made(weft_program *program, weft_value value,
                                         weft_phase phase) WEFT_NODISCARD;
weft_status weft_exported_gradients_close(weft_program *program) WEFT_NODISCARD;
weft_status weft_exported_gradients_report(const weft_instance *x, int i) WEFT_NODISCARD;

#endif
