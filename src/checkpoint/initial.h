/* Internals of initial weights (--init): the opened file, and its tensors in pairs with leaves. */
#ifndef WEFT_CHECKPOINT_INITIAL_H
#define WEFT_CHECKPOINT_INITIAL_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/initial_names.h"
#include "checkpoint/name_map.h"

struct weft_initial {
    char *file;
    weft_name_map map;
    size_t own_rules; /* of a map that is a file of the user: the report tells of them */
    bool folder;
    weft_checkpoint checkpoint; /* of a folder */
    weft_bytes bytes;           /* of a file */
    weft_safetensors tensors;
    weft_data_stats file_stats;   /* in the metadata of the file */
    const weft_data_stats *here;  /* of the data of the run */
    const weft_data_stats *there; /* of the data of the weights; NULL: unknown */
};

/* A tensor, and the rule by which it has its name. */
typedef struct weft_initial_source {
    const weft_tensor *tensor; /* NULL: none */
    const weft_name_rule *rule;
} weft_initial_source;

/* The sources of the leaves of a graph. */
typedef struct weft_initial_pairs {
    const weft_graph *graph;
    weft_value *leaf;        /* [count] parameters and statistics */
    const char **reader;     /* [count] the operator that reads it first; NULL: none does */
    weft_initial_source *of; /* [count] */
    int count;
    const weft_tensor **unused; /* [unused_count] */
    size_t unused_count;
    weft_initial_names *names; /* NULL: positions are those of the file */
    bool *applied;             /* [rules of the map] the rule has named or left out a tensor */
} weft_initial_pairs;

/* initial_pairs.c: takes the leaves of a graph, alone. The caller frees the pairs, also after a
 * failure. */
weft_status weft_initial_leaves(const weft_graph *g, weft_initial_pairs *p) WEFT_NODISCARD;
/* The leaf of this name; below 0: there is none. */
int weft_initial_leaf(const weft_initial_pairs *p, const char *name);
/* Whether the conditions of a rule hold for a leaf; `name` fits the side `side` of the rule. */
bool weft_initial_allows(const weft_initial_pairs *p, const weft_name_rule *rule, int leaf,
                         const char *side, const char *name);
/* ARGUMENT: two tensors are for one leaf. The caller frees the pairs, also after a
 * failure. */
weft_status weft_initial_pair(const weft_initial *w, const weft_graph *g,
                              weft_initial_pairs *p) WEFT_NODISCARD;
void weft_initial_pairs_free(weft_initial_pairs *pairs);
/* Whether leaf i has a tensor of its shape and of real numbers. */
bool weft_initial_fits(const weft_initial_pairs *pairs, int i);
/* initial_embeddings.c: pairs embeddings of columns with those of the columns of their names. */
void weft_initial_pair_columns(const weft_initial *w, weft_initial_pairs *pairs);
/* Sets *out to a sentence; the caller frees it. ARGUMENT: nothing fits. */
weft_status weft_initial_report(const weft_initial *w, const weft_initial_pairs *p,
                                char **out) WEFT_NODISCARD;

#endif
