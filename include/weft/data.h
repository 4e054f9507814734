/*
 * Data sets: samples in a training and a test part, as columns of one shape each. Every data set
 * has features, most have a target: the number of a class, or numbers that were measured.
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
 * Parts are decoded on first use; plain IDX and NPY files are mapped, so they may be larger than
 * memory. Reading is thread-safe once a part is open.
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

/* What the training part taught about features and target. Kept with a checkpoint, so that later
 * data are treated in the same way. x becomes (x - mean) / deviation; so do targets that are
 * numbers. */
typedef struct weft_data_stats {
    weft_shape shape; /* of one sample's features */
    int features;     /* numbers in mean and deviation: 1 for all, or one for each element */
    double *mean, *deviation;
    int classes;        /* 0: the target is numbers */
    char **class_names; /* NULL: the labels are numbers */
    /* Tables with a header: names of the features, in the order of the shape, and of the target.
     * NULL: there are none. */
    char **column_names;
    char *label_name;
    int label_column;  /* of a table, from 1, not counting weights; 0: it is none, or not known */
    char *weight_name; /* the same of the weights of samples, and of all columns of the table */
    int weight_column;
    int targets; /* numbers that are the target of a sample; 0: it is a class */
    double *target_mean, *target_deviation; /* [targets] */
} weft_data_stats;

/* Opens a data set. normalize is "auto", "none", "unit" (bytes / 255) or "standard" (training
 * mean and deviation). stats may be NULL; otherwise it is used (and copied) in place of what the
 * data say, and normalize is not looked at. Columns of a table, that of the weights among them, are
 * then found by their names, or where there are none by their places.
 * ARGUMENT: no such kind or key, columns that do not fit; FORMAT, IO: the message names the file
 * and the place. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_open(weft_context *context, const char *spec,
                                                      const char *normalize,
                                                      const weft_data_stats *stats,
                                                      weft_dataset **out);
/* The same for data that are only to be predicted: they need neither target nor weights, and none
 * are given where there are some. A table may lack its
 * column, a NumPy specification its file, an IDX folder the files of labels. Where
 * there is none all samples are in the test part of a table or of arrays unless test= says
 * otherwise. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_open_unlabelled(weft_context *context,
                                                                 const char *spec,
                                                                 const weft_data_stats *stats,
                                                                 weft_dataset **out);
WEFT_API void weft_dataset_close(weft_dataset **dataset);

/* Shape of one sample's features: [channels, height, width] or [features]. */
WEFT_API weft_shape weft_dataset_shape(const weft_dataset *dataset);

/* Column i: first the features (f32), then the target, if there is one: a class (i32, a scalar) or
 * numbers (f32, one dimension). false past the end. Valid once a part is prepared. */
WEFT_API bool weft_dataset_column(const weft_dataset *dataset, int i, weft_column *out);

/* Decodes a part, if that has not been done, and checks its target. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_prepare(weft_dataset *dataset, weft_split split);

/* Samples of a prepared part. */
WEFT_API int64_t weft_dataset_count(const weft_dataset *dataset, weft_split split);

/* The statistics, for a checkpoint; owned by the data set, valid once the training part (or the
 * test part, if stats were given) is prepared. */
WEFT_API const weft_data_stats *weft_dataset_stats(const weft_dataset *dataset);

/* Whether the data have a target. */
WEFT_API bool weft_dataset_labelled(const weft_dataset *dataset);

/* Writes sample i of a column, normalised, to `to` (elements of the column's shape and type). */
WEFT_API void weft_dataset_read(const weft_dataset *dataset, weft_split split, int64_t i,
                                int column, void *to);

/* The weight of sample i of a prepared part: how often it counts, in the loss and in every figure.
 * 1 where the data give none. */
WEFT_API double weft_dataset_weight(const weft_dataset *dataset, weft_split split, int64_t i);
/* Whether the data give weights. */
WEFT_API bool weft_dataset_weighted(const weft_dataset *dataset);

/* Number j of the target of sample i in its own units, as it stands in the file. Only where the
 * target is numbers. */
WEFT_API double weft_dataset_target(const weft_dataset *dataset, weft_split split, int64_t i,
                                    int j);

#ifdef __cplusplus
}
#endif
#endif
