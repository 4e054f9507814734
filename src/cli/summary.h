/* The layers of a model (weft inspect --summary). */
#ifndef WEFT_CLI_SUMMARY_H
#define WEFT_CLI_SUMMARY_H

#include <stdbool.h>

#include "weft/train.h"

/* Prints the layers of a checkpoint, or of the model of the options, whose data, or else the shape
 * `input` and `classes`, give the samples. Returns the exit code. */
int summary_print(weft_context *context, const weft_train_options *options, const char *checkpoint,
                  const char *input, int classes, bool json);

#endif
