/*
 * Ports: the role of an array that a model reads or makes.
 *
 * A model declares inputs and outputs, and a data set has columns; each has a name and a role. A
 * model input gets the column with its role; if there are several, the one with its name.
 */
#ifndef WEFT_PORT_H
#define WEFT_PORT_H

#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_port_role {
    /* Columns: one element for each sample of a batch. */
    WEFT_PORT_FEATURES, /* inputs of the model */
    WEFT_PORT_TARGET,   /* the correct output: a class number (i32), or numbers (real) */
    WEFT_PORT_WEIGHTS,  /* weights of the samples: those of a step's whole batch add up to one */
    /* For a whole batch. */
    WEFT_PORT_POSITION, /* position of its first sample in the whole batch of the step */
    /* Outputs. */
    WEFT_PORT_LOGITS,     /* the last layer */
    WEFT_PORT_PREDICTION, /* class probabilities, or numbers in the form of targets */
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
