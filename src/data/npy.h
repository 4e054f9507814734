/* The data source of NumPy arrays: its files, and their checks. */
#ifndef WEFT_DATA_NPY_H
#define WEFT_DATA_NPY_H

#include "data/channel_layout.h"
#include "formats/formats.h"

/* A mapped file. */
typedef struct weft_npy_file {
    char *path; /* NULL: there is no such file */
    weft_bytes bytes;
    weft_npy array;
    weft_channels channels; /* in the file of an input; in memory they are first */
} weft_npy_file;

typedef struct weft_npy_source {
    weft_source head;
    weft_npy_file input[WEFT_MAX_INPUTS]; /* [head.inputs], whose names the head has */
    bool named; /* the specification names the inputs; else there is one, of real numbers */
    weft_npy_file labels, weights;
    bool numbers; /* `labels` has numeric targets, or several labels of 0 and 1 (head.binary) */
    int64_t
        one_hot; /* columns of `labels`, of which that of the class has a 1; 0: it has classes */
    /* row numbers of the files: those of the training split, then of the test split */
    int64_t *rows;
    char remedy[64], reading[64];
} weft_npy_source;

/* FORMAT: the file has not as many samples as the inputs; what: the word for one of its entries. */
weft_status weft_npy_check_rows(const weft_npy_source *source, const weft_npy_file *file,
                                const char *what) WEFT_NODISCARD;
/* npy_check.c and npy_labels.c: check the arrays against each other, and set in the head of the
 * source the inputs, classes, targets and positions. FORMAT: a shape or a number is wrong; the
 * message names the file and the sample. */
weft_status weft_npy_check_inputs(weft_npy_source *source, const char *layout,
                                  const weft_source_request *request) WEFT_NODISCARD;
weft_status weft_npy_check_labels(weft_npy_source *source, double ignore,
                                  const weft_source_request *request) WEFT_NODISCARD;
weft_status weft_npy_check_weights(weft_npy_source *source,
                                   const weft_source_request *request) WEFT_NODISCARD;

/* npy_spec.c: reads SAMPLES,LABELS,key=value,... or NAME=FILE,...,label=FILE,key=value,... */
typedef struct weft_npy_spec {
    char *layout;
    double test;   /* below 0: not given */
    double ignore; /* NaN: not given */
} weft_npy_spec;
weft_status weft_npy_parse_spec(const char *arguments, const weft_source_request *request,
                                weft_npy_source *source, weft_npy_spec *out) WEFT_NODISCARD;

#endif
