/*
 * Data sets: samples in a training, a test and maybe a validation split, as columns. Every data set
 * has a column of features, and most have a target: a class number, or numeric values. All samples
 * of a column have one shape.
 *
 * A data set is named by a specification:
 *   glyphs[:size=28,train=20000,test=5000,seed=1]                drawn digits, built in
 *   idx:DIR                                                      MNIST's file names, plain or gzip
 *   images:DIR[,size=N|HxW,gray,test=0.2,broken=0.01,cache=256]  JPEG, PNG, WebP in class folders
 *   images:DIR,masks[,classes=N,size=N|HxW,gray,test=0.2,cache=256] pictures in images/, and a PNG
 *                                                                of the classes of pixels in masks/
 *   tar:FILES[,size=N|HxW,gray,test=0.2|FILES,...]               archives, as of WebDataset
 *   mnist[:DIR], fashion-mnist[:DIR], cifar10[:DIR]              where weft_data_folder says
 *   csv:FILES[,label=COLUMN|target=COLUMN,weight=COLUMN,id=COLUMN,test=0.2|FILES] plain or gzip;
 *   further keys say how texts, dates and missing values become features (docs/guide/training.md)
 *   npy:SAMPLES,LABELS[,weight=FILE,layout=hwc|chw,test=0.2]     NumPy arrays
 *   npy:SAMPLES,target=FILE[,weight=FILE,layout=hwc|chw,test=0.2]
 *   npy:NAME=FILE,NAME=FILE,...,label=FILE|target=FILE[,...]     several inputs
 *   reconstruct:DATA                                             other data, whose features are the
 *                                                                target, too
 *   text:FILE[,unit=byte|char|FILE.json,context=256,stride=CONTEXT,test=0.1] windows over a text
 *   tokens:FILE,values=N[,type=uint16|uint32,context=...,stride=...,test=...]
 *
 * label= gives classes, target= numbers to predict, weight= sample weights, id= identifiers of
 * rows; test= is the fraction of samples in the test split.
 *
 * weft_dataset_prepare decodes a split. Plain IDX and NPY files are mapped, so they may be larger
 * than memory. They must not become shorter while the data set is open: reading behind their new
 * end is a SIGBUS, which ends a program that does not handle it (the command weft does, with a
 * message). Reading a prepared split is thread-safe.
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
struct weft_table;

/* The test split is for the final judgement alone. The validation split, which most data sets lack,
 * is for choices during a run. */
typedef enum weft_split { WEFT_TRAIN = 0, WEFT_TEST = 1, WEFT_VALIDATION = 2 } weft_split;
#define WEFT_SPLITS 3

/* The range of real features, in some samples that are spread over a split. */
typedef struct weft_range {
    double low, high; /* low > high: not known */
    bool whole;       /* all are whole numbers */
} weft_range;

/* Statistics of the features and the target of the training split. A checkpoint saves them, so that
 * later data are normalised in the same way: features x become (x - mean) / deviation, and numeric
 * targets likewise with their own mean and deviation. */
typedef struct weft_data_stats {
    int inputs; /* at least 1; tables have one */
    weft_input input[WEFT_MAX_INPUTS];
    /* Length of mean and deviation: 1, for all real inputs, or of the only input one for each
     * channel, or for each element. */
    int features;
    double *mean, *deviation;
    /* Whether features are pixels from 0 to 255, not fractions from 0 to 1: the data are bytes, or
     * features in the range are at least 2. */
    bool bytes;
    weft_range range;   /* of the features of the training, by which later data in other units are
                           found */
    int classes;        /* number of classes; 0: the target is numeric */
    char **class_names; /* [classes]; NULL: labels are the numbers from 0 */
    /* Names of the feature columns of a table with a header, in the order of the shape, and of the
     * target column. NULL: none. */
    char **column_names;
    char *label_name;
    /* Number of the target column of a table, from 1, not counting weights; 0: none or unknown. */
    int label_column;
    char *weight_name; /* name of the column of sample weights; NULL: none */
    int weight_column; /* its number in a table, from 1, not counting identifiers; 0: none */
    char *id_name;     /* name of the column of identifiers; NULL: none */
    int id_column;     /* its number in a table, from 1, counting all columns; 0: none */
    int targets;       /* numbers of a target; 0: the target is a class */
    /* Number of positions of a sample, each of which has a class of its own, such as the next
     * token; 0: a sample has one target. */
    int64_t positions;
    char *tokenizer; /* description of the tokenizer of a text; NULL: none */
    char *reading; /* how bytes of the file are read, "tokens:type=uint32"; NULL: it says itself */
    double *target_mean, *target_deviation; /* [targets] */
    /* How the columns of a table with texts, dates or gaps became features, which are then more
     * than the columns; NULL: each column is a number. The library makes and frees it. */
    struct weft_table *table;
    char **target_names; /* [targets], of several targets of a table with a header; NULL: none */
    /* Each target is a label of 0 or 1, of which any may be 1 (multi-label); target_mean is 0,
     * target_deviation 1. */
    bool binary;
    uint64_t room[5]; /* of later versions: 0 */
} weft_data_stats;

/* Opens a data set. normalize is "none", "unit" (bytes / 255), "standard" (training mean and
 * deviation) or "auto" (bytes as unit, tables as standard, others as none). If stats is not NULL,
 * it is copied and replaces the statistics of the data, and normalize is ignored; columns of a
 * table, including weights, are then matched to it by name, or without names by position. ARGUMENT:
 * an unknown kind or key, or columns that do not match; FORMAT, IO: the message names the file and
 * the position. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_open(weft_context *context, const char *spec,
                                                      const char *normalize,
                                                      const weft_data_stats *stats,
                                                      weft_dataset **out);
/* As weft_dataset_open, with a validation split. validation is a share of the training split above
 * 0 and below 1, as "0.1", whose samples a permutation by `seed` takes out of the training split;
 * or the specification of other data with the same columns, which are normalised by the statistics
 * of the training: all samples of a file, unless it has test=, else the test split. NULL: the data
 * set has the validation split of its source, or none. ARGUMENT: the share would be none or all of
 * the samples, the source has a validation split of its own, or its samples overlap, as windows
 * with a short stride do. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_open_validated(
    weft_context *context, const char *spec, const char *normalize, const weft_data_stats *stats,
    const char *validation, uint64_t seed, weft_dataset **out);
/* As weft_dataset_open, for data to be predicted: target and weights are optional, and weights are
 * ignored. A table may lack the target column, a NumPy specification the file of the target, an IDX
 * folder the files of labels. Without a target all samples of a table or of arrays are in the test
 * split, unless test= is given. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_open_unlabelled(weft_context *context,
                                                                 const char *spec,
                                                                 const weft_data_stats *stats,
                                                                 weft_dataset **out);
WEFT_API void weft_dataset_close(weft_dataset **dataset);

/* From now on the context keeps each data set that is opened without statistics until it is itself
 * destroyed, and later openings with the same specification and normalization get the same one, so
 * several runs, one after another, read their data once. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_keep(weft_context *context);

/* Sets *out to the folder in which data sets with a name of their own, such as "cifar10", are
 * looked for, and into which `weft fetch` puts them: $XDG_DATA_HOME/weft/NAME, or else
 * ~/.local/share/weft/NAME. The caller frees it with weft_free. IO: HOME is not set. */
WEFT_API WEFT_NODISCARD weft_status weft_data_folder(const char *name, char **out);

/* Sets *out to a description of the columns of a table: types, missing values, ranges, and what
 * became of them as features; release it with weft_free. NULL: the data are no table. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_summary(const weft_dataset *dataset, char **out);

/* The colour of a class in pictures of masks, as red, green and blue: bits of its number are spread
 * over them, so that near numbers differ (the colours of PASCAL VOC). */
static inline void weft_class_color(int number, unsigned char color[3])
{
    color[0] = color[1] = color[2] = 0;
    for (int i = 0; i < 24 && number >> i; i++)
        color[i % 3] = (unsigned char)(color[i % 3] | (number >> i & 1) << (7 - i / 3));
}

/* The shape of one sample's first input: [channels, height, width], [features], [positions]. */
WEFT_API weft_shape weft_dataset_shape(const weft_dataset *dataset);

/* Sets *out to column i: first the inputs (f32, or i32 for tokens), then, if there is a target, a
 * class (i32, a scalar, or one for each position) or numbers (f32, one dimension). false past the
 * end. Valid once a split has been prepared. */
WEFT_API bool weft_dataset_column(const weft_dataset *dataset, int i, weft_column *out);

/* Decodes a split, unless that has been done, and checks its samples; those of mapped files of more
 * than 64 MiB are checked as they are read instead. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_prepare(weft_dataset *dataset, weft_split split);

/* The number of samples of a prepared split; 0: the data set has no such split. */
WEFT_API int64_t weft_dataset_count(const weft_dataset *dataset, weft_split split);

/* The statistics of the data set, for a checkpoint; the data set owns them. They are valid once the
 * training split has been prepared, or any split if statistics were given. */
WEFT_API const weft_data_stats *weft_dataset_stats(const weft_dataset *dataset);

/* Whether the samples have a target. */
WEFT_API bool weft_dataset_labelled(const weft_dataset *dataset);

/* Writes the entry of sample i of a prepared split in a column, normalised, to `to`, in the
 * column's shape and type; a label that is ignored is -1. FORMAT: it has a number that is not
 * finite, or a token or class out of range, in whose place 0 is written; the message names the file
 * or the split, the sample and the element. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_read(const weft_dataset *dataset, weft_split split,
                                                      int64_t i, int column, void *to);

/* Sets the augmentations that pictures of the training have, as weft_samples_choice.augment gives
 * them; NULL: none. One that moves pixels moves the class that each may have. The training
 * split must be prepared. ARGUMENT: the samples are no pictures, or would be mixed and do
 * not have one class each, or pixels would be moved that have weights, or an augmentation is wrong;
 * then there are none. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_set_augment(weft_dataset *dataset,
                                                             const char *list);

/* As weft_dataset_read of the training split, with the random changes that batches of this seed and
 * epoch have (weft_dataset_set_augment, sources that draw). MEMORY: there is none for them. */
WEFT_API WEFT_NODISCARD weft_status weft_dataset_draw(const weft_dataset *dataset, uint64_t seed,
                                                      int64_t epoch, int64_t i, int column,
                                                      void *to);

/* The weight of sample i of a prepared split, in the loss and in all metrics; 1 if the samples have
 * no weights. position: of the label whose weight is wanted, if each position has a label; else 0.
 * Labels that are ignored, which weft_dataset_read gives as -1, count nowhere whatever it is. */
WEFT_API double weft_dataset_weight(const weft_dataset *dataset, weft_split split, int64_t i,
                                    int64_t position);
/* Whether the samples have weights. */
WEFT_API bool weft_dataset_weighted(const weft_dataset *dataset);

/* Number j of the numeric target of sample i, in the units of the file (not normalised). */
WEFT_API double weft_dataset_target(const weft_dataset *dataset, weft_split split, int64_t i,
                                    int j);

#ifdef __cplusplus
}
#endif
#endif
