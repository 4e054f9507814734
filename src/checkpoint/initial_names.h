/* Internals of initial weights: places by names. Where the data of a run have other features,
 * classes or tokens than those of the checkpoint, or the same in another order, weights follow the
 * names. */
#ifndef WEFT_CHECKPOINT_INITIAL_NAMES_H
#define WEFT_CHECKPOINT_INITIAL_NAMES_H

#include "data/data.h"
#include "weft/model.h"

enum { WEFT_NAMED_INPUTS, WEFT_NAMED_OUTPUTS, WEFT_NAMED_AXES };

/* Positions here, each with its position there. */
typedef struct weft_named_axis {
    const char *what; /* features, classes, targets, tokens, or categories of an embedded column */
    const char *column; /* that column; NULL: none */
    weft_value leaf;    /* its embedding, and the tensor there; NULL: none */
    char *tensor;
    char **name, **their_name;
    int64_t count, theirs, known; /* known: names that are there, too */
    /* [count] below 0: there is none of the name. NULL: positions are the same, or have no names */
    int64_t *from;
} weft_named_axis;

typedef struct weft_initial_names {
    weft_named_axis *of; /* [axes]: inputs, outputs, then columns that are embedded */
    int axes;
    const weft_named_axis *outputs; /* that of the outputs, which may be that of the inputs */
    const weft_graph *graph;
    /* For each value: whether it is computed of parameters and statistics alone; whether it begins
     * anew; whether positions have been mixed before it, or are mixed behind it; and, for each of
     * its dimensions, the axis along it, from 1. */
    bool *weight, *anew, *mixed, *mixes;
    int (*along)[WEFT_MAX_RANK];
    bool changed; /* while these are found */
} weft_initial_names;

/* Compares the names of data. *out: NULL if weights stay where they are. */
weft_status weft_initial_names_find(const weft_data_stats *here, const weft_data_stats *there,
                                    const weft_graph *graph, const weft_model_values *values,
                                    weft_initial_names **out) WEFT_NODISCARD;
void weft_initial_names_free(weft_initial_names **names);
/* initial_embeddings.c: the names of what the first layers read, and an axis for each column that
 * is embedded. */
weft_status weft_initial_feature_names(const weft_data_stats *stats, char ***out,
                                       int64_t *count) WEFT_NODISCARD;
weft_status weft_initial_read_columns(const weft_data_stats *here, const weft_data_stats *there,
                                      weft_initial_names *names) WEFT_NODISCARD;
/* named_dimensions.c: finds the axes along the dimensions of all values. */
weft_status weft_named_dimensions_find(const weft_data_stats *here, weft_initial_names *names,
                                       const weft_model_values *values) WEFT_NODISCARD;

/* The axis along dimension d of a leaf; NULL, also without names: its positions stay. */
const weft_named_axis *weft_initial_axis(const weft_initial_names *names, weft_value leaf, int d);
/* Whether a leaf begins anew as a whole, since its positions are not those of names, or since none
 * of its names is there. */
bool weft_initial_anew(const weft_initial_names *names, weft_value leaf);
/* Makes the shape of a leaf that of its tensor there. */
void weft_initial_shape_there(const weft_initial_names *names, weft_value leaf, weft_shape *shape);
/* Moves *from, the place of element at[] of a leaf in a tensor with the strides `along`, to the
 * place of its names; false: one of them is not there. */
bool weft_initial_move(const weft_initial_names *names, weft_value leaf, int rank,
                       const int64_t *at, const int64_t *along, int64_t *from);
/* Appends clauses about names that are others or in another order, and about features that are
 * normalised otherwise (names NULL: about these alone). */
void weft_initial_names_tell(const weft_initial_names *names, const weft_data_stats *here,
                             const weft_data_stats *there, weft_text *text);

#endif
