/*
 * Data sets: samples in a training and a test split, as columns of one shape each. Every data set
 * has features, and most have a target: a class number, or numeric values.
 *
 * A data set is named by a specification:
 *   glyphs[:size=28,train=20000,test=5000,seed=1]            drawn digits, built in
 *   idx:DIR                                                  MNIST's file names, plain or gzip
 *   csv:FILE[,label=COLUMN|target=COLUMN,test=0.2]           plain or gzip, header or not
 *   npy:SAMPLES,LABELS[,layout=hwc|chw,test=0.2]             NumPy arrays
 *   npy:SAMPLES,target=FILE[,layout=hwc|chw,test=0.2]
 *
 * label= is a class, target= a number.
 *
 * Splits are decoded on first use; plain IDX and NPY files are mapped, so they may be larger than
 * memory. Reading a prepared split is thread-safe.
 */
#ifndef WEFT_DATA_H
#define WEFT_DATA_H

#include "weft/context.h"
#include "weft/port.h"
#include "weft/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_dataset weft_dataset;

typedef enum weft_split { WEFT_TRAIN = 0, WEFT_TEST = 1 } weft_split;

/* Statistics of the features and the target of the training split. They are saved with a
 * checkpoint, so that later data are normalised in the same way: x becomes (x - mean) / deviation,
 * and so do numeric targets. */
typedef struct weft_data_stats {
    weft_shape shape; /* of one sample's features */
    int features;     /* numbers in mean and deviation: 1, or one for each element */
    double *mean, *deviation;
    int classes;        /* 0: the target is numeric */
    char **class_names; /* NULL: labels are numbers */
    /* Tables with a header: names of the features, in the order of the shape, and of the target.
     * NULL: none. */
    char **column_names;
    char *label_name;
    int label_column;  /* of a table, from 1, not counting weights; 0: none or unknown */
    char *weight_name; /* column of sample weights, from 1, counting all columns */
    int weight_column;
    int targets;                            /* numbers of a target; 0: it is a class */
    double *target_mean, *target_deviation; /* [targets] */
} weft_data_stats;

/* Opens a data set. normalize is "auto", "none", "unit" (bytes / 255) or "standard" (training mean
 * and deviation). stats may be NULL; otherwise it is copied and replaces the statistics of the
 * data, and normalize is ignored. Columns of a table, including weights, are then matched by name,
 * or without names by position. ARGUMENT: unknown kind or key, or columns that do not match;
 * FORMAT, IO: the message names the file and the position. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_open(weft_context *context, const char *spec,
                                                      const char *normalize,
                                                      const weft_data_stats *stats,
                                                      weft_dataset **out);
/* As above, for data to be predicted: target and weights are optional, and weights are ignored. A
 * table may lack the target column, a NumPy specification its file, an IDX folder the files of
 * labels. Without a target all samples of a table or of arrays are in the test split, unless test=
 * is given. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_open_unlabelled(weft_context *context,
                                                                 const char *spec,
                                                                 const weft_data_stats *stats,
                                                                 weft_dataset **out);
WEFT_API void weft_dataset_close(weft_dataset **dataset);

/* The shape of one sample's features: [channels, height, width] or [features]. */
WEFT_API weft_shape weft_dataset_shape(const weft_dataset *dataset);

/* Column i: first the features (f32), then the target, if there is one: a class (i32, a scalar) or
 * numbers (f32, one dimension). false past the end. Valid when a split has been prepared. */
WEFT_API bool weft_dataset_column(const weft_dataset *dataset, int i, weft_column *out);

/* Decodes a split, unless that has been done, and checks its target. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_prepare(weft_dataset *dataset, weft_split split);

/* Number of samples of a prepared split. */
WEFT_API int64_t weft_dataset_count(const weft_dataset *dataset, weft_split split);

/* The statistics, for a checkpoint; owned by the data set, valid when the training split (or the
 * test split, if stats were given) has been prepared. */
WEFT_API const weft_data_stats *weft_dataset_stats(const weft_dataset *dataset);

/* Whether the data have a target. */
WEFT_API bool weft_dataset_labelled(const weft_dataset *dataset);

/* Writes sample i of a column, normalised, to `to` (elements of the column's shape and type). */
WEFT_API void weft_dataset_read(const weft_dataset *dataset, weft_split split, int64_t i,
                                int column, void *to);

/* The weight of sample i of a prepared split, in the loss and in all metrics; 1 if the data have
 * none. */
WEFT_API double weft_dataset_weight(const weft_dataset *dataset, weft_split split, int64_t i);
/* Whether the data have weights. */
WEFT_API bool weft_dataset_weighted(const weft_dataset *dataset);

/* Number j of the numeric target of sample i, in its own units, as in the file. */
WEFT_API double weft_dataset_target(const weft_dataset *dataset, weft_split split, int64_t i,
                                    int j);

#ifdef __cplusplus
}
#endif
#endif
