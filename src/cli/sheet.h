/* A sheet of samples of a training, as pictures. */
#ifndef WEFT_CLI_SHEET_H
#define WEFT_CLI_SHEET_H

#include "cli.h"
#include "weft/output.h"

/* Writes pictures of some samples, as a model gets them, to an SVG file, and prints how many
 * samples each class has; the picture on standard output ("-") puts the numbers on standard error.
 * Returns the exit code. */
int sheet_write(weft_context *context, const weft_train_options *options, const char *path);

/* sheet_png.c: writes a picture [height, width, 3] as the text of an SVG image, a PNG in base64.
 * room: sheet_image_bytes. */
size_t sheet_image_bytes(int width, int height);
weft_status sheet_image(weft_output *to, const unsigned char *pixels, int width, int height,
                        unsigned char *room);

#endif
