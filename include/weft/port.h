/*
 * Ports: what an array that goes into a model, or comes out of it, is for.
 *
 * A model declares inputs and outputs, a data set has columns; each has a name and a role. Whoever
 * feeds a model gives each input the column of its role; where there are several of a role, the one
 * of the same name.
 */
#ifndef WEFT_PORT_H
#define WEFT_PORT_H

#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_port_role {
    /* Columns: an element of a batch for each sample. */
    WEFT_PORT_FEATURES, /* what a model reads */
    WEFT_PORT_TARGET,   /* what it is to say: the number of a class (i32), or numbers (real) */
    WEFT_PORT_WEIGHTS,  /* how much a sample counts: those of a step's whole batch add up to one */
    /* Of a whole batch. */
    WEFT_PORT_POSITION, /* where its first sample stands in the whole batch of the step */
    /* Outputs. */
    WEFT_PORT_LOGITS,     /* the last layer */
    WEFT_PORT_PREDICTION, /* probabilities of the classes, or numbers as targets are */
    WEFT_PORT_LOSS,       /* a scalar */
    WEFT_PORT_ROLES
} weft_port_role;

/* "features", "target", ...; NULL past the end. */
WEFT_API const char *weft_port_role_name(int role);

/* A column of a data set. */
typedef struct weft_column {
    const char *name; /* "x" */
    weft_port_role role;
    weft_dtype dtype;
    weft_shape shape; /* of one sample */
} weft_column;

#ifdef __cplusplus
}
#endif
#endif
