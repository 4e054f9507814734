/* Inside of data sets: sources give raw samples, the data set normalises them, the loader makes
 * batches. */
#ifndef WEFT_DATA_DATA_H
#define WEFT_DATA_DATA_H

#include "base/base.h"
#include "base/spec.h"
#include "weft/data.h"

typedef struct weft_source weft_source;

/* What is asked of a source besides its specification. */
typedef struct weft_source_wish {
    weft_context *context;
    const weft_data_stats *stats; /* what training saw; NULL: this is training */
    bool unlabelled;              /* the target may be missing */
} weft_source_wish;

typedef struct weft_source_ops {
    const char *kind;
    const char *form; /* how a specification looks */
    const char *help;
    weft_status (*open)(const char *arguments, const weft_source_wish *wish, weft_source **out);
    void (*close)(weft_source *source);
    /* Decodes a part; sets count[split], and classes and names for the training part. */
    weft_status (*prepare)(weft_source *source, weft_split split);
    /* Raw features of sample i. Of tables number j instead, as it stands in the file: numbers far
     * from zero that float32 cannot tell apart differ once the mean of their column is taken off.
     */
    void (*features)(const weft_source *source, weft_split split, int64_t i, float *x);
    double (*number)(const weft_source *source, weft_split split, int64_t i, int64_t j);
    /* The target of sample i, where there is one: its class, or number j of it. */
    int32_t (*label)(const weft_source *source, weft_split split, int64_t i);
    double (*target)(const weft_source *source, weft_split split, int64_t i, int64_t j);
    /* The weight of sample i, finite and at least 0. NULL: the kind has none. */
    double (*weight)(const weft_source *source, weft_split split, int64_t i);
} weft_source_ops;

/* --- stats.c: what the training part teaches --- */

/* Frees what is in it. */
void weft_data_stats_free(weft_data_stats *stats);
weft_status weft_data_stats_copy(const weft_data_stats *from, weft_data_stats *to) WEFT_NODISCARD;
/* What becomes of numbers: as the kind of data asks for, nothing, bytes divided by 255, or what has
 * mean 0 and deviation 1. */
typedef enum weft_normalize {
    WEFT_NORMALIZE_AUTO,
    WEFT_NORMALIZE_NONE,
    WEFT_NORMALIZE_UNIT,
    WEFT_NORMALIZE_STANDARD
} weft_normalize;
/* From a prepared training part. ARGUMENT: labels that are no classes. */
weft_status weft_data_stats_learn(const weft_source *source, weft_normalize normalize,
                                  weft_data_stats *stats) WEFT_NODISCARD;

/* The head of every source. */
struct weft_source {
    const weft_source_ops *ops;
    weft_shape shape;
    int64_t count[2];
    bool prepared[2];
    bool bytes;   /* numbers are 0 .. 255 */
    bool tabular; /* columns of different meaning: statistics for each */
    int64_t all;  /* rows that the class names were found in */
    int classes;  /* of the training part, or all that the source knows of */
    char **class_names;
    const char *found_in;  /* where the class names were found */
    const char *as_target; /* what asks for the same as numbers, "target=price" */
    int targets;           /* numbers of a target; 0: it is a class */
    const char *remedy;    /* what gives samples the shape of training, "layout=cw"; or NULL */
    bool unlabelled;       /* there is no target */
    bool weighted;         /* samples have weights of their own */
    /* Of tables, as in weft_data_stats; the source's own. */
    char **column_names;
    const char *label_name, *weight_name;
    int label_column, weight_column;
};

extern const weft_source_ops weft_source_glyphs, weft_source_idx, weft_source_csv, weft_source_npy;
/* The kinds of data and the ways to normalize them that are built in, to what a context knows. */
weft_status weft_sources_register(weft_context *context) WEFT_NODISCARD;

/* Fails if a path that is to be written (NULL: none) is one of the files of a specification. */
weft_status weft_spec_spares(const char *spec, const char *option, const char *path) WEFT_NODISCARD;

/* Labels that are numbers are classes only if there are few of them: more than ten with fractions,
 * or hardly more rows than numbers, are what somebody has measured. ARGUMENT then. */
weft_status weft_check_measured(const char *where, int64_t distinct, bool whole, int64_t rows,
                                const char *as_target) WEFT_NODISCARD;

/* The target that a specification asks for: label= is a class, target= numbers. `known` is what a
 * checkpoint was trained on, or NULL. ARGUMENT: both are given, or the other one than known. */
weft_status weft_check_target(const char *kind, const char *label, const char *target,
                              const weft_data_stats *known, bool *numbers) WEFT_NODISCARD;

/* The share of the test part that is usual. */
#define WEFT_USUAL_TEST 0.2

/* Samples whose place in a fixed permutation is below `share` are the test part. *rows has all
 * row numbers: count[WEFT_TRAIN] of the training part, then those of the test part. */
weft_status weft_split_rows(int64_t total, double share, int64_t count[2],
                            int64_t **rows) WEFT_NODISCARD;

/* --- layout.c: where the channels of samples are in an array [n, ...] --- */

typedef enum weft_channels {
    WEFT_CHANNELS_FIRST,
    WEFT_CHANNELS_LAST,
    WEFT_CHANNELS_NONE
} weft_channels;

/* As said (layout=, NULL: nothing is), or else, of images, where there is no doubt. Samples of two
 * dimensions have one channel, those of others than three lie as they are to lie. `name` is the
 * file's, for messages. */
weft_status weft_layout_find(const char *name, const weft_shape *file, const char *said,
                             weft_context *context, weft_channels *out) WEFT_NODISCARD;
/* The shape of a sample in memory, where channels come first. */
weft_shape weft_layout_shape(const weft_shape *file, weft_channels channels);
/* What gives samples a shape that is wanted, "layout=cw"; false: no layout does. */
bool weft_layout_suggest(const weft_shape *file, const weft_shape *want, char *out, size_t room);

/* --- loader --- */

/* 1 where samples have none. */
static inline double weft_source_weight(const weft_source *s, weft_split split, int64_t i)
{
    return s->weighted ? s->ops->weight(s, split, i) : 1;
}

/* A batch of `size` samples: the last one of an epoch may have fewer than that; the others then
 * have weight zero and are zero. The weights of the real ones are their own over the sum of all, so
 * 1 / valid where none has been given; where that sum is zero, so are they. Rows that were not
 * asked for hold anything. */
enum { WEFT_BATCH_COLUMNS = 4 };
typedef struct weft_batch {
    int columns; /* those of the data set, then the weights of the samples */
    weft_column column[WEFT_BATCH_COLUMNS];
    void *data[WEFT_BATCH_COLUMNS]; /* [size, shape...] */
    int64_t size, valid;
    int64_t total;       /* valid ones of all parts together */
    double weight;       /* the sum of the own weights of the valid ones */
    int64_t epoch, done; /* samples of the epoch up to its end */
    bool last;           /* of its epoch */
} weft_batch;

typedef struct weft_loader_options {
    weft_split split;
    int64_t batch;
    uint64_t seed;
    bool shuffle;        /* by the permutation of (seed, epoch) */
    int64_t epoch, done; /* where to begin: behind so many samples of that epoch */
    int64_t epochs;      /* ends before this epoch */
    int64_t slots;       /* size of a batch with padding; 0: batch */
    int parts, part;     /* several readers share out the data: each takes `batch` a step; 0: one */
    weft_dtype real;     /* of the weights; 0: f32 */
    int64_t micro, first, rows; /* of every `micro` samples only `rows` from `first`; 0: all */
} weft_loader_options;

/* batch.c: a batch with room for what the options say, and any batch of any epoch made in it: the
 * one behind `begin` samples of that epoch. The part must be prepared. */
weft_status weft_batch_open(const weft_dataset *dataset, const weft_loader_options *options,
                            weft_batch *out) WEFT_NODISCARD;
void weft_batch_make(const weft_dataset *dataset, const weft_loader_options *options, int64_t epoch,
                     int64_t begin, weft_batch *batch);
void weft_batch_close(weft_batch *batch);

typedef struct weft_loader weft_loader;

/* Starts a thread that reads ahead. The part must be prepared. */
weft_status weft_loader_start(const weft_dataset *dataset, const weft_loader_options *options,
                              weft_loader **out) WEFT_NODISCARD;
/* The next batch, valid until the next call; NULL after the last epoch. */
const weft_batch *weft_loader_next(weft_loader *loader);
void weft_loader_stop(weft_loader **loader);

/* The column of a batch that goes to an input of this role and name: the only one of the role, or
 * that of the name. -1: there is none. */
int weft_batch_find(const weft_batch *batch, weft_port_role role, const char *name);
/* Column i from sample `row` on. */
const void *weft_batch_rows(const weft_batch *batch, int column, int64_t row);

#endif
