/*
 * Ports: the role of an array that a model reads or makes.
 *
 * A model declares inputs and outputs, and a data set has columns; each has a name and a role. A
 * model input gets the column with its role; if several columns have that role, the one with the
 * input's name.
 */
#ifndef WEFT_PORT_H
#define WEFT_PORT_H

#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_port_role {
    /* Columns of a data set: one entry for each sample of a batch. */
    WEFT_PORT_FEATURES, /* the features of a sample */
    WEFT_PORT_TARGET,   /* the correct output: a class number (i32), or numbers (real) */
    WEFT_PORT_WEIGHTS,  /* sample weights, which add up to one over the whole batch of a step */
    /* A scalar that the trainer feeds, from no column. */
    WEFT_PORT_POSITION, /* row of the micro-batch's first sample in the whole batch of the step */
    /* Outputs of a model. */
    WEFT_PORT_LOGITS,     /* output of the last layer */
    WEFT_PORT_PREDICTION, /* probabilities of classes or labels, or numbers, normalised like the
                             targets */
    WEFT_PORT_LOSS,       /* a scalar: weighted sum of the losses of the samples */
    WEFT_PORT_OUTPUT,     /* a further output that the model names */
    WEFT_PORT_ROLES       /* number of roles */
} weft_port_role;

/* The name of a role, "features", "target", ...; NULL past the end. */
WEFT_API const char *weft_port_role_name(int role);

/* An input of a sample: real numbers, or tokens, which are whole numbers from 0 to values - 1. */
enum { WEFT_MAX_INPUTS = 8, WEFT_INPUT_NAME = 32 };
typedef struct weft_input {
    char name[WEFT_INPUT_NAME]; /* of the column, such as "x" */
    weft_dtype dtype;           /* WEFT_F32: real numbers; WEFT_I32: tokens */
    weft_shape shape;           /* of one sample */
    int values;                 /* number of different tokens; 0: real numbers */
    /* 1 + the index of the input that says how many positions (of dimension 0) of a sample count;
     * real numbers behind them are fed as 0. 0: all count. */
    int lengths;
} weft_input;

/* An output of a model. Output 0 is the prediction, which the loss reads; its name is "prediction"
 * unless the model gives it another. */
enum { WEFT_MODEL_OUTPUTS = 8 };
typedef struct weft_model_output {
    char name[WEFT_INPUT_NAME];
    weft_dtype dtype;
    weft_shape shape; /* of one sample */
} weft_model_output;

/* A column of a data set. */
typedef struct weft_column {
    const char *name; /* such as "x" */
    weft_port_role role;
    weft_dtype dtype;
    weft_shape shape; /* shape of one sample's entry */
} weft_column;

#ifdef __cplusplus
}
#endif
#endif
