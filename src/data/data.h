/* Internals of data sets. A source reads raw samples from files, the data set normalises them with
 * the statistics of the training split, and the loader makes batches of them ahead. */
#ifndef WEFT_DATA_DATA_H
#define WEFT_DATA_DATA_H

#include <math.h>
#include <stdatomic.h>

#include "base/base.h"
#include "base/spec.h"
#include "weft/data.h"
#include "weft/data_ops.h"

typedef struct weft_source weft_source;
/* A row of a table as it is in the file. */
typedef struct weft_table_row {
    int count;
    char *const *fields, *const *names; /* [count] */
} weft_table_row;
typedef struct weft_source_ops weft_source_ops;

/* The purpose for which a source is opened. */
typedef struct weft_source_request {
    weft_context *context;
    const weft_source_ops *ops;   /* of the source that is opened */
    const weft_data_stats *stats; /* statistics of the training; NULL: the data are for training */
    bool unlabelled;              /* the data may lack a target, since they are for prediction */
    bool each;                    /* each sample is asked for: none may stand for another */
    bool mirrored;                /* what the file has as a target will not be read */
    bool fields;                  /* those of rows as they are in the file will be asked for */
    bool one_unit;                /* samples in units that differ from each other are refused */
    const char
        *folder; /* files with relative paths are looked for here first; NULL: nowhere else */
    const char *validation; /* see weft_dataset_open_validated; NULL: none is asked for */
    uint64_t seed;          /* of a share of the training split for validation */
    /* Settings of the training that the caller gives the data set next; NULL: none. Users of other
     * ones do not share a data set that is kept. */
    const char *augment, *class_weights;
} weft_source_request;

struct weft_source_ops {
    const char *kind;
    const char *form; /* form of a specification */
    const char *help;
    const char *ends; /* of its files' names, with commas between them; "/": a folder; NULL: any */
    /* Keys, with commas between them, that change each sample or none, so that the identity of the
     * data tells whether a run that resumes has the same; NULL: none. */
    const char *settled;
    weft_status (*open)(const char *arguments, const weft_source_request *request,
                        weft_source **out);
    void (*close)(weft_source *source);
    /* Divides the samples of a file anew; share: of the test split. NULL: the splits are what they
     * are. */
    weft_status (*divide)(weft_source *source, double share);
    /* Reads a split, WEFT_VALIDATION only of a source that `validates`; sets count[split] and, with
     * the training split, classes and class_names. */
    weft_status (*prepare)(weft_source *source, weft_split split);
    /* features: the raw numbers (float) or tokens (int32_t) of an input of sample i, if the source
     * is not tabular. number: element j of
     * sample i of a table, as in the file, in double precision, since float32 may not distinguish
     * numbers far from zero that differ after the mean is subtracted. */
    void (*features)(const weft_source *source, weft_split split, int64_t i, int input, void *x);
    double (*number)(const weft_source *source, weft_split split, int64_t i, int64_t j);
    /* The target of sample i, unless the source is unlabelled: label writes its class, or that of
     * each position, WEFT_LABEL_IGNORED for one that counts nowhere; target gives number j of a
     * numeric target. */
    void (*label)(const weft_source *source, weft_split split, int64_t i, int32_t *label);
    double (*target)(const weft_source *source, weft_split split, int64_t i, int64_t j);
    /* All numbers of a target. NULL: one after the other. */
    void (*targets)(const weft_source *source, weft_split split, int64_t i, double *to);
    /* The weight of sample i, or of one of its positions, finite and at least 0. NULL: no
     * weights. */
    double (*weight)(const weft_source *source, weft_split split, int64_t i, int64_t position);
    /* The row of the file that has sample i, from 0. NULL: i. */
    int64_t (*row)(const weft_source *source, weft_split split, int64_t i);
    /* The name of that file, if the samples are those of several; NULL, also in place of the
     * function: they are not. */
    const char *(*file)(const weft_source *source, weft_split split, int64_t i);
    /* The identifier of sample i; NULL, also in place of the function: there is none. */
    const char *(*id)(const weft_source *source, weft_split split, int64_t i);
    /* The size of the picture that sample i is, before it was scaled and cut; NULL: samples are no
     * such pictures. */
    weft_status (*picture_size)(const weft_source *source, weft_split split, int64_t i, int *width,
                                int *height);
    /* The fields of a sample of a table as they are in the file, until the next call, and the names
     * of the columns (NULL: none); of a source opened with `fields`. NULL: there are none. */
    weft_status (*fields)(const weft_source *source, weft_split split, int64_t i,
                          weft_table_row *out);
    /* Adds a description of the columns of a table. NULL: the data are none. */
    weft_status (*summary)(const weft_source *source, weft_text *text);
    /* A hash of the columns of sample i of a table, without its answers, that is the same for equal
     * rows of tables with the same description. NULL: rows are not compared. */
    uint64_t (*hash)(const weft_source *source, weft_split split, int64_t i);
    /* Writes where element j of a column of sample i is in the file, and what it is there, such as
     * "x.npy: number 3 of sample 17 is nan". The column after the inputs has the targets, the next
     * one the weights. NULL: messages give the row of `file`, or count the samples of the split. */
    void (*describe)(const weft_source *source, weft_split split, int64_t i, int column, int64_t j,
                     char *out, size_t size);
    /* As `features`, with a key for random numbers; returns false, and gives zeros, if the source
     * has failed (weft_source_status). NULL: samples are always the same, and reading cannot
     * fail. */
    bool (*draw)(const weft_source *source, const weft_sample_key *key, int input, void *x);
    /* The first failure of a read of a source that can fail. */
    weft_status (*status)(const weft_source *source);
};

/* "training", "test" or "validation", for messages. */
static inline const char *weft_split_name(weft_split split)
{
    static const char *const names[WEFT_SPLITS] = {"training", "test", "validation"};
    return names[split];
}

/* dataset_id.c: identifies a prepared split by its number of samples and by a hash of the names of
 * classes and columns and of a few samples as they stand in the file; a table, which is in memory,
 * also by all of its rows. The smallest hashes of rows are a sample of them that does not depend on
 * their order (a bottom-k sketch, Cohen 1997). samples 0: not known. */
enum { WEFT_LEAST_ROWS = 64 };
typedef struct weft_split_id {
    int64_t samples;
    uint64_t hash;
    uint64_t rows;                   /* of all rows, in their order; 0: not known */
    uint64_t least[WEFT_LEAST_ROWS]; /* sorted */
    int leasts;
} weft_split_id;
weft_status weft_dataset_identify(const weft_dataset *dataset, weft_split split,
                                  weft_split_id *out) WEFT_NODISCARD;
/* As weft_dataset_identify of the split of a table that has further files, of which those of this
 * one are all files of that split. */
weft_status weft_dataset_identify_file(const weft_dataset *dataset, weft_split split,
                                       weft_split_id *out) WEFT_NODISCARD;
/* Whether a split differs from what it was; then `how` gets a clause for messages, such as "the
 * training part has 206 samples, it had 205". */
bool weft_split_differs(weft_split split, const weft_split_id *then, const weft_split_id *now,
                        char *how, size_t size);
/* Counts those of then->least that are hashes of rows of a prepared split. */
int weft_dataset_find_rows(const weft_dataset *dataset, weft_split split,
                           const weft_split_id *then);
/* Combines the hashes of all splits, which must be prepared: what learners of one run must have in
 * common. */
weft_status weft_dataset_hash(const weft_dataset *dataset, uint64_t *out) WEFT_NODISCARD;

/* repeated.c: a hash of the columns of a row of a table and of what is to be predicted. */
uint64_t weft_dataset_row_hash(const weft_dataset *dataset, weft_split split, int64_t i);
/* Warns of samples of a split, which have parts of their own, that are also samples of
 * the training split. `later` is the training's data set or one that has its statistics. MEMORY:
 * there is none for the hashes of the samples of the split. */
weft_status weft_dataset_note_repeated(const weft_dataset *trained, const weft_dataset *later,
                                       weft_split split) WEFT_NODISCARD;

/* --- stats.c: statistics of the training split --- */

/* `reading` of pictures that are scaled until they cover the size, and of which the middle is
 * taken; further keys may follow. */
#define WEFT_READING_PICTURES "images:fit=cover"
static inline bool weft_reads_pictures(const weft_data_stats *stats)
{
    size_t size = sizeof(WEFT_READING_PICTURES) - 1;
    return stats->reading && strncmp(stats->reading, WEFT_READING_PICTURES, size) == 0 &&
           (!stats->reading[size] || stats->reading[size] == ',');
}

/* Frees the contents of *stats. */
void weft_data_stats_free(weft_data_stats *stats);
weft_status weft_data_stats_copy(const weft_data_stats *from, weft_data_stats *to) WEFT_NODISCARD;
/* How features are normalised, a row of the table in registry.c. */
typedef struct weft_normalization {
    const char *name, *summary;
    bool keeps;    /* all numbers stay as they are, targets too */
    bool unit;     /* bytes are divided by 255 */
    bool measures; /* to mean 0 and deviation 1 of the training split */
    /* [3]: of the channels of a picture in colour, as shares of their range; NULL: not by these. */
    const double *mean, *deviation;
    /* The normalisation that this one stands for with these data; NULL: itself. */
    const struct weft_normalization *(*of)(const weft_source *source);
} weft_normalization;
/* The normalisation of data sets for which none is named. */
extern const weft_normalization *const weft_normalization_usual;
/* range.c: the range of the features of a prepared split. */
weft_status weft_range_measure(const weft_source *source, weft_split split,
                               weft_range *out) WEFT_NODISCARD;
/* A factor by which later features are brought to the units of the training: up / down. */
typedef struct weft_units {
    double up, down;
} weft_units;
/* The type of later features: all of them are bytes; some may be fractions, being floats or truth
 * values; their columns have units of their own. */
typedef struct weft_number_type {
    bool bytes, fractional, table;
} weft_number_type;
static inline weft_range weft_range_none(void)
{
    return (weft_range){.low = INFINITY, .high = -INFINITY, .whole = true};
}
/* Adds features to a range: those of `wide`, or if it is NULL of x. */
WEFT_PRIVATE_API void weft_range_take(const float *x, const double *wide, int64_t count,
                                      weft_range *range);
/* Compares the range of later data with that of the training. Pixels from 0 to 255 and fractions
 * from 0 to 1 are converted into each other; a table that differs so is left alone, unless its type
 * says what it has. ARGUMENT: the unit cannot be told. */
WEFT_PRIVATE_API weft_status weft_range_compare(const weft_data_stats *trained,
                                                const weft_range *now, const weft_number_type *type,
                                                weft_units *out) WEFT_NODISCARD;
/* Whether samples of this type may be in different units, so that each of them is to be checked:
 * alone it would be converted by a factor of its own. */
WEFT_PRIVATE_API bool weft_units_vary(const weft_data_stats *trained, const weft_number_type *type);
/* Whether the range of one sample agrees with the units in which all of them are taken. */
WEFT_PRIVATE_API bool weft_units_fit(const weft_data_stats *trained, const weft_units *units,
                                     const weft_range *row);
/* Fails with ARGUMENT: a sample does not. where: it, for messages. */
WEFT_PRIVATE_API weft_status weft_units_refuse(const char *where,
                                               const weft_range *row) WEFT_NODISCARD;
static inline double weft_in_units(double x, const weft_units *units)
{
    return x * units->up / units->down;
}
/* Features as a model gets them: numbers of a table are normalised in double precision, since they
 * may be far from zero, others in single precision. */
static inline float weft_normalise_wide(double x, double mean, double deviation)
{
    return (float)((x - mean) / deviation);
}
/* The place in mean and deviation for element j of the `size` elements of an input. */
static inline int64_t weft_feature_of(const weft_data_stats *stats, int64_t j, int64_t size)
{
    return j / (size / stats->features);
}
static inline float weft_normalise_single(float x, float shift, float factor)
{
    return (x - shift) * factor;
}

/* Computes mean and deviation of standardised features again. */
weft_status weft_data_stats_measure(const weft_source *source,
                                    weft_data_stats *stats) WEFT_NODISCARD;
/* Computes the statistics of a prepared training split. ARGUMENT: the labels look like measured
 * numbers, not like classes, or a column cannot be normalised. */
weft_status weft_data_stats_learn(const weft_source *source, const weft_normalization *normalize,
                                  weft_data_stats *stats) WEFT_NODISCARD;

/* The head of every source. */
struct weft_source {
    const weft_source_ops *ops;
    int inputs;
    weft_input input[WEFT_MAX_INPUTS];
    int64_t positions;     /* positions of a sample with a class each; 0: one target a sample */
    const char *tokenizer; /* description of the tokenizer of a text; NULL: none */
    int threads;           /* that read samples of a batch at the same time; 0: one */
    bool valid;            /* all elements are known to be usable */
    bool large; /* the files are mapped and of more than WEFT_CHECKED_FIRST bytes: samples are
                   checked as they are read alone, since a check before would read them whole */
    int64_t count[WEFT_SPLITS];
    bool prepared[WEFT_SPLITS];
    bool validates; /* the source has a validation split of its own */
    bool continues; /* each sample begins where the one before has ended */
    bool overlaps;  /* samples of the training share elements, as windows with a short stride */
    bool divided;   /* the specification gives the share of the test split */
    bool apart;     /* the test split is that of files of its own */
    bool whole;     /* features are 64-bit integers or smaller */
    bool bytes;     /* features are whole numbers from 0 to 255 */
    bool flags;     /* some features are truth values */
    bool mirrored;  /* the target is the features */
    bool mixed;     /* those of some inputs are bytes, those of others are not */
    bool tabular; /* mean and deviation are computed for each column; `number` reads the features */
    int64_t all;  /* rows of both splits, in which the class names were found */
    int classes;  /* number of classes; idx counts those of the training split alone */
    char **class_names;
    const char *found_in;  /* where the labels are, for messages: "column 5 (price)" */
    const char *as_target; /* the option that would make them a numeric target, "target=price" */
    int targets;           /* numbers in the target of a sample; 0: the target is a class */
    bool binary;           /* they are labels of 0 and 1 */
    /* How the bytes of the file are read, as stored in a checkpoint: "tokens:type=uint32"; NULL:
     * the file says so itself. */
    const char *reading;
    const char *remedy; /* option that gives samples the shape of training, "layout=cw"; or NULL */
    bool unlabelled;    /* the data have no target */
    bool weighted;      /* samples have weights */
    bool position_weights; /* weights differ between the positions of a sample */
    bool ignores;          /* positions whose label is `ignored` in the file count nowhere */
    int32_t ignored;
    const char *file; /* whose rows are the samples (ops->row), for messages; NULL: none alone */
    /* For tables, as in weft_data_stats; owned by the source. */
    char **column_names;
    const char *label_name, *weight_name, *id_name;
    char **target_names; /* [targets], of several; NULL: none */
    const struct weft_table *table;
    int label_column, weight_column, id_column;
};

/* The label of a position that counts nowhere, as a source gives it; a column of it has -1. */
#define WEFT_LABEL_IGNORED INT32_MIN
/* The least label that may be ignored; the largest is the last class that a label may be. */
#define WEFT_LEAST_IGNORED (-65536)
/* spec.c: takes the label that a source ignores: *label, or if it is NaN that of the training.
 * reading: text of `room` bytes, to which the label is added. */
weft_status weft_source_ignore(weft_source *source, double label,
                               const weft_source_request *request, char *reading,
                               size_t room) WEFT_NODISCARD;

/* Bytes of mapped files up to which all samples are checked before the run as well. */
#define WEFT_CHECKED_FIRST ((size_t)64 << 20)
static inline bool weft_bytes_large(const weft_bytes *bytes)
{
    return bytes->mapped && bytes->size > WEFT_CHECKED_FIRST;
}

/* dataset.c: opens the source of a specification. */
weft_status weft_source_open(const char *spec, const weft_source_request *request,
                             weft_source **out) WEFT_NODISCARD;
extern const weft_source_ops weft_source_reconstruct, weft_source_glyphs, weft_source_idx,
    weft_source_csv, weft_source_csv_parts, weft_source_npy, weft_source_text, weft_source_tokens,
    weft_source_pairs, weft_source_images, weft_source_images_parts, weft_source_tar,
    weft_source_tar_parts, weft_source_cifar10, weft_source_mnist, weft_source_fashion_mnist;
/* Registers the built-in kinds of data and of normalisation. */
weft_status weft_sources_register(weft_context *context) WEFT_NODISCARD;

/* A data set: its source, and how what it reads is normalised. */
struct weft_dataset {
    weft_source *source;
    weft_context *context;
    const weft_normalization *normalize;
    weft_data_stats stats;
    bool kept;        /* by the context (keep.c), which closes it */
    bool given;       /* the caller gave the statistics, such as those of a checkpoint */
    bool predicted;   /* a class that the training had not is as good as none */
    int32_t *relabel; /* [labels]: class number in the given statistics of each label of the
                         source, -1: none; NULL: labels are these numbers */
    int labels;
    bool measured;    /* the statistics are known, and the next three fields are set */
    bool finite;      /* features cannot be other than finite once they are normalised */
    weft_units units; /* of later data, beside those of the training */
    bool one_unit;    /* each sample is checked to be in them */
    /* Specification of a validation split from other data, and the folder of weft_source_request;
     * NULL: none. The data set is opened when the split is prepared, and its test split is this
     * one's validation split. */
    char *validation_spec, *folder;
    weft_dataset *validation;
    struct weft_augment *augment; /* of the pictures of the training; NULL: none */
    atomic_bool starved;          /* there was no memory for an augmentation */
    double *class_weight;         /* [classes]: factors of the weights in training; NULL: none */
};
/* class_weights.c: sets the weights of the classes in training: "balanced", or numbers with commas
 * between them; NULL: none. The training split must be prepared. ARGUMENT: they do not fit the
 * data. */
weft_status weft_dataset_weigh_classes(weft_dataset *dataset, const char *weights) WEFT_NODISCARD;
/* columns.c: as weft_dataset_target, all numbers. */
void weft_dataset_targets(const weft_dataset *dataset, weft_split split, int64_t i, double *to);
/* The data set that holds a split, which is the data set itself or its `validation`; *split becomes
 * the split of that data set. */
const weft_dataset *weft_dataset_part(const weft_dataset *dataset, weft_split *split);
/* keep.c: a data set of `request` that the context keeps, or a new one if it keeps none. With
 * statistics it is always a new one. */
weft_status weft_dataset_open_kept(const char *spec, const char *normalize,
                                   const weft_source_request *request,
                                   weft_dataset **out) WEFT_NODISCARD;
/* The class number of a label of the source in the statistics; -1: there is none. */
int32_t weft_dataset_class(const weft_dataset *dataset, int32_t label);
/* class_match.c: maps the classes of the source, by name, to those of given statistics. ARGUMENT:
 * the training had no such class. */
weft_status weft_dataset_match_classes(weft_dataset *dataset) WEFT_NODISCARD;

/* added_source.c: sources that programs and plug-ins add. */
extern const struct weft_extension weft_sources_extension;
/* The first failure of a read of a source becomes this thread's last message. */
static inline weft_status weft_source_status(const weft_source *source)
{
    return source->ops->status ? source->ops->status(source) : WEFT_OK;
}

/* held_out.c: replaces a source, which has not been prepared, by one whose validation split is a
 * share of the training split of the former, and its training split the rest. Closing it closes the
 * former. ARGUMENT: the source has a validation split, or its samples overlap. */
weft_status weft_source_hold_out(weft_source **source, double share, uint64_t seed) WEFT_NODISCARD;

/* --- samples.c --- */

/* Describes an element in the words of the source, or else in its place (weft_source_ops). */
void weft_source_describe(const weft_source *source, weft_split split, int64_t i, int column,
                          int64_t j, char *out, size_t size);
/* Fails: element j of a column of sample i is not finite. */
weft_status weft_source_not_finite(const weft_source *source, weft_split split, int64_t i,
                                   int column, int64_t j) WEFT_NODISCARD;
/* FORMAT: a weight of sample i is not finite, or negative. */
weft_status weft_source_check_weights(const weft_source *source, weft_split split,
                                      int64_t i) WEFT_NODISCARD;
/* The first number that is not finite; -1: there is none. */
int64_t weft_first_not_finite(const float *x, int64_t count);
/* Reads a column of a sample as weft_dataset_read, without checks of the indices. key: for random
 * numbers of the training, or NULL. Returns the index of the first invalid element, or -1. Invalid
 * are a token or class out of range (replaced by 0, so that it indexes nothing beyond an array), a
 * number that is not finite, and the first number of a sample that is not in the units of the
 * others. */
int64_t weft_dataset_read_column(const weft_dataset *dataset, weft_split split, int64_t i,
                                 const weft_sample_key *key, int column, void *to);
/* Checks all elements of the samples from `begin` up to `end`; key: as weft_dataset_read_column.
 * FORMAT: the message has the first one that is not usable, and where it is. */
weft_status weft_dataset_check(const weft_dataset *dataset, weft_split split, int64_t begin,
                               int64_t end, const weft_sample_key *key) WEFT_NODISCARD;
/* Checks a split, unless its files are large. */
weft_status weft_dataset_check_split(weft_dataset *dataset, weft_split split) WEFT_NODISCARD;

/* As weft_dataset_open, for a purpose. */
weft_status weft_dataset_open_for(const char *spec, const char *normalize,
                                  const weft_source_request *request,
                                  weft_dataset **out) WEFT_NODISCARD;
/* Whether the samples are those of a file that weft_dataset_divide can divide into splits. */
bool weft_dataset_divisible(const weft_dataset *dataset);
/* Divides the samples anew; share: of the test split. All splits must be prepared again. */
weft_status weft_dataset_divide(weft_dataset *dataset, double share) WEFT_NODISCARD;
/* Sets which inputs count up to a length alone (weft_input.lengths, of the inputs in the order of
 * the statistics), and computes the statistics again, unless these were given. The splits must be
 * prepared. */
weft_status weft_dataset_set_lengths(weft_dataset *dataset, const weft_input *input) WEFT_NODISCARD;
/* Whether batches of the training mix samples, so that the loss has two labels of each. */
bool weft_dataset_mixes(const weft_dataset *dataset);
/* MEMORY: there was none for an augmentation. */
weft_status weft_dataset_starved(const weft_dataset *dataset) WEFT_NODISCARD;
/* The number of a sample in its file, from 0, and its identifier (NULL: it has none). */
int64_t weft_dataset_row(const weft_dataset *dataset, weft_split split, int64_t i);
/* The file of a sample, if there are several; else NULL. */
const char *weft_dataset_file(const weft_dataset *dataset, weft_split split, int64_t i);
const char *weft_dataset_id(const weft_dataset *dataset, weft_split split, int64_t i);
/* The size that the picture of a sample has of its own; *width 0: samples are no scaled pictures.
 */
weft_status weft_dataset_picture_size(const weft_dataset *dataset, weft_split split, int64_t i,
                                      int *width, int *height) WEFT_NODISCARD;
/* The row of a sample as it is in the file; count 0: there are no fields. */
weft_status weft_dataset_fields(const weft_dataset *dataset, weft_split split, int64_t i,
                                weft_table_row *out) WEFT_NODISCARD;

/* spec.c: reads "FILE[,key=value,...]" of data `kind`: a copy of the file's path, which the caller
 * frees, and the keys. ARGUMENT: there is no file, or a key is wrong; *path is NULL then. */
weft_status weft_spec_file(const char *kind, const char *arguments, const weft_spec_key *keys,
                           const weft_source_request *request, char **path) WEFT_NODISCARD;
/* Sets *files to the files of a pattern as of a shell, or of several with + between them, in the
 * order of their names; a name that exists is itself. *count 0: one of them has none. The caller
 * frees them by weft_strings_free. */
weft_status weft_spec_files(const char *pattern, char ***files, int64_t *count) WEFT_NODISCARD;
/* Fails as opening the first of the patterns that has no file does. */
weft_status weft_spec_no_file(const char *pattern) WEFT_NODISCARD;
/* Replaces a relative path or pattern by that in the folder of the request, if files are there. */
weft_status weft_spec_locate(const weft_source_request *request, char **path) WEFT_NODISCARD;
/* Sets *value to that of "KIND:key=value" of the training if the later data are of that kind; else
 * to NULL. The caller frees it. */
weft_status weft_spec_held(const weft_source_request *request, const char *kind, const char *key,
                           char **value) WEFT_NODISCARD;

/* Whether two specifications NAME:PIECE,... are the same: keys in any order, a key that is left out
 * as with its default, paths followed, and a column given by number that the other one gives by
 * name, of which the identity of the data tells whether it is the same. form: of the entry
 * (weft_entry), which tells the defaults that are numbers and the keys of columns; or NULL.
 * settled: keys that are not compared (of weft_source_ops); or NULL. folder:
 * relative paths of the second are looked for here first, as by weft_spec_locate; or NULL. */
weft_status weft_spec_same(const char *a, const char *b, const char *form, const char *settled,
                           const char *folder, bool *same) WEFT_NODISCARD;

/* Protects data files from an output option. ARGUMENT: `path`, the value of that option (NULL:
 * unset), is a file that the specification names, also by a pattern. */
weft_status weft_spec_refuse_overwrite(const char *spec, const char *option,
                                       const char *path) WEFT_NODISCARD;

/* Refuses numeric labels that look measured. ARGUMENT: there are more than ten different labels,
 * and some have fractions (not `whole`) or there is more than one label for five rows. */
weft_status weft_check_measured(const char *where, int64_t distinct, bool whole, int64_t rows,
                                const char *as_target) WEFT_NODISCARD;

/* Sets *numbers to whether the target is numeric (target=) or a class (label=). If neither is
 * given, `known`, the statistics of the checkpoint (NULL: none), decides. ARGUMENT: both are given,
 * or one that contradicts `known`. */
weft_status weft_check_target(const char *kind, const char *label, const char *target,
                              const weft_data_stats *known, bool *numbers) WEFT_NODISCARD;

/* Default fraction of the test split. */
#define WEFT_USUAL_TEST 0.2

/* Splits `total` rows and frees the former *rows: the test split gets the rows whose position in a
 * fixed permutation is below share * total. *rows gets all row numbers: first the count[WEFT_TRAIN]
 * rows of the training split, then those of the test split. */
weft_status weft_split_rows(int64_t total, double share, int64_t count[2],
                            int64_t **rows) WEFT_NODISCARD;

/* --- the inputs and targets of a sample --- */

/* The shape of the first input. A source with a single input of real numbers calls
 * weft_source_set_shape. */
static inline const weft_shape *weft_source_shape(const weft_source *s)
{
    return &s->input[0].shape;
}
static inline void weft_source_set_shape(weft_source *s, weft_shape shape)
{
    s->inputs = 1;
    s->input[0] = (weft_input){.name = "x", .dtype = WEFT_F32, .shape = shape};
}
/* The number of classes of a sample: one, or one for each position. */
static inline int64_t weft_source_labels(const weft_source *s)
{
    return s->positions ? s->positions : 1;
}
/* The number of elements of an input of sample i that count: those below its length. */
int64_t weft_source_counted(const weft_source *s, weft_split split, int64_t i, int input);
/* The largest number of elements of an input. */
int64_t weft_source_largest(const weft_source *s);

/* The sum of the weights of the targets of sample i. */
double weft_source_weight_sum(const weft_source *s, weft_split split, int64_t i);

#endif
