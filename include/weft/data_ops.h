/*
 * The interface between Weft and the implementations of data sources, for programs and plug-ins
 * that add one (weft/registry.h, weft/plugin.h: an entry of kind WEFT_KIND_DATA whose `ops` is a
 * weft_data_ops).
 *
 * A source has samples in a training, a test and maybe a validation split. Opening it says what
 * they are, and `read` writes one of them to where the library keeps it: bytes as bytes, numbers as
 * f32, tokens and classes as i32. Nothing is read ahead of time except for statistics, if the user
 * asks for --normalize standard. Samples are numbered from 0 in each split; the library shuffles
 * them, cuts batches and normalises numbers.
 *
 * Several threads call `read` at once, also for one sample, and each rank has threads of its own.
 * Samples must depend on the key alone, so that a run has the same bits on any number of
 * threads, and when it goes on from a checkpoint. Functions return WEFT_OK or fail with a message
 * (services->fail). A failure in the middle of a run ends it with that message and the name of the
 * source and the sample; checkpoints that are written stay.
 */
#ifndef WEFT_DATA_OPS_H
#define WEFT_DATA_OPS_H

#include "weft/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The samples of a source. All fields are 0 when `open` gets it, and the source keeps the
 * texts. */
typedef struct weft_data_form {
    int inputs;
    /* The inputs of a sample, with the dtype that `read` writes: U8 (from 0 to 255), F32, or I32
     * for tokens from 0 to values - 1. */
    weft_input input[WEFT_MAX_INPUTS];
    int64_t count[2]; /* samples of WEFT_TRAIN, at least one, and of WEFT_TEST */
    /* The target: a class, or one for each position, or numbers; of the data of a prediction maybe
     * none. */
    int classes;                    /* number of classes; 0: the target is numbers */
    const char *const *class_names; /* [classes]; NULL: the numbers from 0 */
    int64_t positions;              /* positions with a class each; 0: one class */
    int targets;                    /* numbers of a target, at most 64 */
    bool unlabelled;                /* there is no target */
    bool weighted;                  /* samples have weights */
    int threads;                    /* that read samples of one rank at the same time; 0: one */
    int64_t validation;             /* samples of WEFT_VALIDATION; 0: no such split */
} weft_data_form;

/* The key of a read, from which a source takes its random numbers (services->random). */
typedef struct weft_sample_key {
    uint64_t seed; /* of the run */
    /* The epoch of the training from 0; -1: the sample as it is, for tests and statistics, without
     * random changes. */
    int64_t epoch;
    weft_split split;
    int64_t sample;
} weft_sample_key;

/* The parts of a sample that are wanted, to be written; NULL: not wanted. */
typedef struct weft_sample {
    void *input[WEFT_MAX_INPUTS];
    int64_t bytes[WEFT_MAX_INPUTS]; /* that input[k] has room for, and that are expected */
    /* To be set to the bytes that were written to input[k]; others than expected are refused. */
    int64_t written[WEFT_MAX_INPUTS];
    int32_t *label;  /* [1], or [positions] */
    double *targets; /* [targets] */
    double *weight;  /* [1]: at least 0 */
} weft_sample;

typedef struct weft_data_ops {
    size_t struct_size; /* sizeof(weft_data_ops) */
    /* Opens the source of "NAME:arguments", and says what its samples are. trained: the statistics
     * of the training for which later data are opened; NULL: the data are for training. *state is
     * the source's own. Nothing is to be closed after a failure. */
    weft_status (*open)(weft_context *context, const char *arguments,
                        const weft_data_stats *trained, void **state, weft_data_form *form);
    void (*close)(void *state);
    weft_status (*read)(void *state, const weft_sample_key *key, weft_sample *sample);
} weft_data_ops;

#ifdef __cplusplus
}
#endif
#endif
