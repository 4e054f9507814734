/* Internals of data sets: sources provide raw samples, the data set normalises them, the loader
 * makes batches. */
#ifndef WEFT_DATA_DATA_H
#define WEFT_DATA_DATA_H

#include "base/base.h"
#include "base/spec.h"
#include "weft/data.h"

typedef struct weft_source weft_source;

/* The context of opening a source. */
typedef struct weft_source_wish {
    weft_context *context;
    const weft_data_stats *stats; /* statistics of training; NULL: this is for training */
    bool unlabelled;              /* the target may be missing */
} weft_source_wish;

typedef struct weft_source_ops {
    const char *kind;
    const char *form; /* form of a specification */
    const char *help;
    weft_status (*open)(const char *arguments, const weft_source_wish *wish, weft_source **out);
    void (*close)(weft_source *source);
    /* Decodes a split; sets count[split], and classes and names for the training split. */
    weft_status (*prepare)(weft_source *source, weft_split split);
    /* Raw features of sample i. For tables: number j as in the file, since numbers far from zero
     * that float32 cannot distinguish differ after the mean is subtracted. */
    void (*features)(const weft_source *source, weft_split split, int64_t i, float *x);
    double (*number)(const weft_source *source, weft_split split, int64_t i, int64_t j);
    /* The target of sample i, if there is one: its class, or number j. */
    int32_t (*label)(const weft_source *source, weft_split split, int64_t i);
    double (*target)(const weft_source *source, weft_split split, int64_t i, int64_t j);
    /* The weight of sample i, finite and at least 0. NULL: no weights. */
    double (*weight)(const weft_source *source, weft_split split, int64_t i);
} weft_source_ops;

/* --- stats.c: statistics of the training split --- */

/* Frees the contents. */
void weft_data_stats_free(weft_data_stats *stats);
weft_status weft_data_stats_copy(const weft_data_stats *from, weft_data_stats *to) WEFT_NODISCARD;
/* Normalisation: as the kind of data needs, none, bytes divided by 255, or to mean 0 and deviation
 * 1. */
typedef enum weft_normalize {
    WEFT_NORMALIZE_AUTO,
    WEFT_NORMALIZE_NONE,
    WEFT_NORMALIZE_UNIT,
    WEFT_NORMALIZE_STANDARD
} weft_normalize;
/* Computes the statistics of a prepared training split. ARGUMENT: labels that are no classes. */
weft_status weft_data_stats_learn(const weft_source *source, weft_normalize normalize,
                                  weft_data_stats *stats) WEFT_NODISCARD;

/* The head of every source. */
struct weft_source {
    const weft_source_ops *ops;
    weft_shape shape;
    int64_t count[2];
    bool prepared[2];
    bool bytes;   /* numbers are 0 .. 255 */
    bool tabular; /* statistics are computed for each column */
    int64_t all;  /* rows in which the class names were found */
    int classes;  /* of the training split, or all that the source knows */
    char **class_names;
    const char *found_in;  /* where the class names were found */
    const char *as_target; /* the option for numeric targets, "target=price" */
    int targets;           /* numbers of a target; 0: it is a class */
    const char *remedy; /* option that gives samples the shape of training, "layout=cw"; or NULL */
    bool unlabelled;    /* there is no target */
    bool weighted;      /* samples have weights */
    /* For tables, as in weft_data_stats; owned by the source. */
    char **column_names;
    const char *label_name, *weight_name;
    int label_column, weight_column;
};

extern const weft_source_ops weft_source_glyphs, weft_source_idx, weft_source_csv, weft_source_npy;
/* Registers the built-in kinds of data and of normalisation. */
weft_status weft_sources_register(weft_context *context) WEFT_NODISCARD;

/* Fails if a path to be written (NULL: none) is a file of the specification. */
weft_status weft_spec_spares(const char *spec, const char *option, const char *path) WEFT_NODISCARD;

/* Numeric labels are classes only if there are few: more than ten with fractions, or hardly fewer
 * than rows, are taken as measurements, which is an ARGUMENT error. */
weft_status weft_check_measured(const char *where, int64_t distinct, bool whole, int64_t rows,
                                const char *as_target) WEFT_NODISCARD;

/* The kind of target of a specification: label= is a class, target= numbers. known: statistics of
 * the checkpoint, or NULL. ARGUMENT: both are given, or not the kind of `known`. */
weft_status weft_check_target(const char *kind, const char *label, const char *target,
                              const weft_data_stats *known, bool *numbers) WEFT_NODISCARD;

/* Default fraction of the test split. */
#define WEFT_USUAL_TEST 0.2

/* Samples whose position in a fixed permutation is below `share` are the test split. *rows has all
 * row numbers: count[WEFT_TRAIN] of the training split, then those of the test split. */
weft_status weft_split_rows(int64_t total, double share, int64_t count[2],
                            int64_t **rows) WEFT_NODISCARD;

/* --- channel_layout.c: position of the channels in an array [n, ...] --- */

typedef enum weft_channels {
    WEFT_CHANNELS_FIRST,
    WEFT_CHANNELS_LAST,
    WEFT_CHANNELS_NONE
} weft_channels;

/* By layout= (said; NULL: not given), else for images if the shape is unambiguous. Samples of two
 * dimensions have one channel; otherwise channels are first. `name` is the file, for messages. */
weft_status weft_layout_find(const char *name, const weft_shape *file, const char *said,
                             weft_context *context, weft_channels *out) WEFT_NODISCARD;
/* The shape of a sample in memory, with channels first. */
weft_shape weft_layout_shape(const weft_shape *file, weft_channels channels);
/* The layout that gives samples the wanted shape, "layout=cw"; false: none does. */
bool weft_layout_suggest(const weft_shape *file, const weft_shape *want, char *out, size_t room);

/* --- loader --- */

/* 1 if samples have no weights. */
static inline double weft_source_weight(const weft_source *s, weft_split split, int64_t i)
{
    return s->weighted ? s->ops->weight(s, split, i) : 1;
}

/* A batch of `size` samples. The last one of an epoch may have fewer; the others are zero and have
 * weight zero. The weights of real samples are normalised by their sum, so 1 / valid by default,
 * and zero if the sum is. Rows that were not requested are undefined. */
enum { WEFT_BATCH_COLUMNS = 4 };
typedef struct weft_batch {
    int columns; /* columns of the data set, then the sample weights */
    weft_column column[WEFT_BATCH_COLUMNS];
    void *data[WEFT_BATCH_COLUMNS]; /* [size, shape...] */
    int64_t size, valid;
    int64_t total;       /* valid samples of all parts */
    double weight;       /* sum of the samples' own weights */
    int64_t epoch, done; /* samples of the epoch up to the end of the batch */
    bool last;           /* of its epoch */
} weft_batch;

typedef struct weft_loader_options {
    weft_split split;
    int64_t batch;
    uint64_t seed;
    bool shuffle;        /* by the permutation of (seed, epoch) */
    int64_t epoch, done; /* start: after so many samples of that epoch */
    int64_t epochs;      /* ends before this epoch */
    int64_t slots;       /* size of a batch with padding; 0: batch */
    int parts, part; /* several readers share the data: each takes `batch` samples a step; 0: one */
    weft_dtype real; /* of the weights; 0: f32 */
    int64_t micro, first, rows; /* of every `micro` samples only `rows` from `first`; 0: all */
} weft_loader_options;

/* batch.c: allocates a batch for these options, and fills it with the samples of an epoch after the
 * first `begin` ones. The split must be prepared. */
weft_status weft_batch_open(const weft_dataset *dataset, const weft_loader_options *options,
                            weft_batch *out) WEFT_NODISCARD;
void weft_batch_make(const weft_dataset *dataset, const weft_loader_options *options, int64_t epoch,
                     int64_t begin, weft_batch *batch);
void weft_batch_close(weft_batch *batch);

typedef struct weft_loader weft_loader;

/* Starts a thread that reads ahead. The split must be prepared. */
weft_status weft_loader_start(const weft_dataset *dataset, const weft_loader_options *options,
                              weft_loader **out) WEFT_NODISCARD;
/* The next batch, valid until the next call; NULL after the last epoch. */
const weft_batch *weft_loader_next(weft_loader *loader);
void weft_loader_stop(weft_loader **loader);

/* The column for a model input of this role and name: the only one with the role, or the one with
 * the name. -1: none. */
int weft_batch_find(const weft_batch *batch, weft_port_role role, const char *name);
/* Column i from sample `row` on. */
const void *weft_batch_rows(const weft_batch *batch, int column, int64_t row);

#endif
