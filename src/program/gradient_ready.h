/* Gradients that a program hands over. */
#ifndef WEFT_PROGRAM_GRADIENT_READY_H
#define WEFT_PROGRAM_GRADIENT_READY_H

#include "program/program.h"

/* A gradient that somebody outside is told of when instruction `by` has made it, in the layout of
 * its parameter or of the range of it that begins at `begin`. */
typedef struct handed {
    weft_value leaf;
    int buffer, by;
    size_t begin, bytes;
    double flops; /* of a micro-batch, until then */
} handed;

/* Of a value, while a program is lowered: the first leaf whose gradient it is; of a leaf: the next
 * one with the same gradient, and whether it is among those handed over. */
typedef struct handing {
    weft_value first, next;
    bool done;
} handing;

/* In lowering, before the first instruction; when a value has been made in a phase; after
 * the last one. Then when an instruction of a run, or its transfer, has come to its end. */
weft_status weft_handed_begin(weft_program *program) WEFT_NODISCARD;
weft_status weft_handed_made(weft_program *program, weft_value value,
                             weft_phase phase) WEFT_NODISCARD;
weft_status weft_handed_end(weft_program *program) WEFT_NODISCARD;
weft_status weft_handed_tell(const weft_instance *x, int i) WEFT_NODISCARD;

#endif
