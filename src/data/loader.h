/* Batches of samples, and the loader, which makes them ahead. */
#ifndef WEFT_DATA_LOADER_H
#define WEFT_DATA_LOADER_H

#include "data/data.h"

/* A batch of one learner: `size` rows, of which the first `valid` are samples. The remaining rows
 * are padding: zero, and of weight zero. The weights of the targets, of which a sample has one or
 * one for each position, are divided by their sum, so each is 1 / targets if the data have no
 * weights; if the sum is zero, they are zero. Rows that the
 * loader options do not request are undefined. */
enum { WEFT_BATCH_COLUMNS = WEFT_MAX_INPUTS + 4 };
typedef struct weft_batch {
    /* Columns of the data set, then the sample weights. Samples that are mixed have two more:
     * the labels of the other samples, and the part of each weight that is theirs. */
    int columns;
    int weights; /* the column of the weights */
    weft_column column[WEFT_BATCH_COLUMNS];
    void *data[WEFT_BATCH_COLUMNS]; /* [size, shape...] */
    int64_t size, valid;
    int64_t total;       /* valid samples of all parts in this step */
    int64_t before;      /* those of earlier parts: the place of row 0 in the batch of all parts */
    double weight;       /* sum of the weights of the targets, before the division */
    int64_t epoch, done; /* done: samples of the epoch, of all parts, up to the end of this step */
    bool last;           /* last batch of its epoch */
    int64_t wrong;       /* a sample with an element that is not usable; -1: none */
    bool drawn;          /* samples were read with keys, of this seed */
    uint64_t seed;
    int32_t *label; /* room for those of a sample; NULL: weights do not depend on them */
} weft_batch;

typedef struct weft_loader_options {
    weft_split split;
    int64_t batch; /* samples of a full batch of one part */
    uint64_t seed;
    bool shuffle;        /* samples are permuted, differently for each (seed, epoch) */
    bool streams;        /* each row of a batch continues the row of the batch before */
    int64_t epoch, done; /* start: in epoch `epoch`, after its first `done` samples */
    int64_t epochs;      /* the loader ends before this epoch */
    int64_t slots;       /* rows of a batch, with padding; 0: batch */
    int parts, part; /* `parts` learners share the data and take `batch` samples a step each; this
                        loader is that of number `part`. parts 0: one */
    weft_dtype real; /* type of the weights; 0: f32 */
    /* The loader makes only `rows` of every `micro` rows, from row `first` on; micro 0: all. */
    int64_t micro, first, rows;
} weft_loader_options;

/* batch.c: _open allocates a batch for these options; _make fills it with the next samples of an
 * epoch after its first `begin` samples. The split must be prepared. */
weft_status weft_batch_open(const weft_dataset *dataset, const weft_loader_options *options,
                            weft_batch *out) WEFT_NODISCARD;
/* The bytes that a batch with these options takes, beside the labels of a sample. */
size_t weft_batch_bytes(const weft_dataset *dataset, const weft_loader_options *options);
void weft_batch_make(const weft_dataset *dataset, const weft_loader_options *options, int64_t epoch,
                     int64_t begin, weft_batch *batch);
void weft_batch_close(weft_batch *batch);
/* FORMAT: a sample of the batch has an element that is not usable; the message has it. */
weft_status weft_batch_check(const weft_batch *batch, const weft_dataset *dataset,
                             weft_split split) WEFT_NODISCARD;

typedef struct weft_loader weft_loader;

/* Starts a thread that makes the next batches ahead. The split must be prepared. */
weft_status weft_loader_start(const weft_dataset *dataset, const weft_loader_options *options,
                              weft_loader **out) WEFT_NODISCARD;
/* The bytes of the batches of a loader with these options. */
size_t weft_loader_bytes(const weft_dataset *dataset, const weft_loader_options *options);
/* Waits for the next batch, which is valid until the next call; NULL after the last epoch. */
const weft_batch *weft_loader_next(weft_loader *loader);
void weft_loader_stop(weft_loader **loader);

/* The index of the column for a model input: the column with its role and name, or else the only
 * one with its role; -1: there is none. */
int weft_batch_find(const weft_batch *batch, weft_port_role role, const char *name);
/* The address of row `row` in a column. */
const void *weft_batch_rows(const weft_batch *batch, int column, int64_t row);

#endif
