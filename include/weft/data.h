/*
 * Data sets: samples of one shape with an integer label each, in a training and a test part.
 *
 * A data set is named by a specification:
 *   glyphs[:size=28,train=20000,test=5000,seed=1]       drawn digits, built in
 *   idx:DIR                                             MNIST's file names, plain or gzip
 *   csv:FILE[,label=NAME|INDEX,test=0.2]                plain or gzip, header or not
 *   npy:IMAGES,LABELS[,layout=hwc|chw,test=0.2]         NumPy arrays
 *
 * Parts are decoded on first use; plain IDX and NPY files are mapped, so they may be larger than
 * memory. Reading is thread-safe once a part is open.
 */
#ifndef WEFT_DATA_H
#define WEFT_DATA_H

#include "weft/context.h"
#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_dataset weft_dataset;

typedef enum weft_split { WEFT_TRAIN = 0, WEFT_TEST = 1 } weft_split;

/* What the training part taught about the numbers and labels. Kept with a checkpoint, so that
 * later data are treated in the same way. x becomes (x - mean) / deviation. */
typedef struct weft_data_stats {
    weft_shape shape; /* of one sample */
    int features;     /* numbers in mean and deviation: 1 for all, or one for each element */
    double *mean, *deviation;
    int classes;
    char **class_names; /* NULL: the labels are numbers */
    /* Tables with a header: names of the features, in the order of the shape, and of the label.
     * NULL: there are none. */
    char **column_names;
    char *label_name;
    int label_column; /* of a table, from 1; 0: it is none, or not known */
} weft_data_stats;

/* Opens a data set. normalize is "auto", "none", "unit" (bytes / 255) or "standard" (training
 * mean and deviation). stats may be NULL; otherwise it is used (and copied) in place of what the
 * data say, and normalize is not looked at. Columns of a table are then found by their names.
 * ARGUMENT: no such kind or key, columns that do not fit; FORMAT, IO: the message names the file
 * and the place. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_open(weft_context *context, const char *spec,
                                                      const char *normalize,
                                                      const weft_data_stats *stats,
                                                      weft_dataset **out);
/* The same for data that are only to be predicted: they need no labels. A table may lack the column
 * of the label, a NumPy specification the second file, an IDX folder the files of labels. Where
 * there are none all samples are in the test part of a table or of arrays unless test= says
 * otherwise. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_open_unlabelled(weft_context *context,
                                                                 const char *spec,
                                                                 const weft_data_stats *stats,
                                                                 weft_dataset **out);
WEFT_API void weft_dataset_close(weft_dataset **dataset);

/* Shape of one sample: [channels, height, width] or [features]. */
WEFT_API weft_shape weft_dataset_shape(const weft_dataset *dataset);

/* Decodes a part, if that has not been done, and checks its labels. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_prepare(weft_dataset *dataset, weft_split split);

/* Samples of a prepared part. */
WEFT_API int64_t weft_dataset_count(const weft_dataset *dataset, weft_split split);

/* The statistics, for a checkpoint; owned by the data set, valid once the training part (or the
 * test part, if stats were given) is prepared. */
WEFT_API const weft_data_stats *weft_dataset_stats(const weft_dataset *dataset);

/* Whether the data have labels. */
WEFT_API bool weft_dataset_labelled(const weft_dataset *dataset);

/* Writes sample i, normalised, to x (elements of the shape) and its label, -1 where there is none.
 */
WEFT_API void weft_dataset_read(const weft_dataset *dataset, weft_split split, int64_t i, float *x,
                                int32_t *label);

/* Kinds of data: name, form and one sentence; NULL past the end. */
WEFT_API const char *weft_dataset_kind(int i);
WEFT_API const char *weft_dataset_help(int i);

#ifdef __cplusplus
}
#endif
#endif
