/* Rules by which tensors of another program become the parameters of a model (--init), and the
 * parameters become such tensors (weft export): their/name -> our/name. Names are compared with '.'
 * and '/' alike. */
#ifndef WEFT_CHECKPOINT_NAME_MAP_H
#define WEFT_CHECKPOINT_NAME_MAP_H

#include "base/base.h"

typedef struct weft_name_rule {
    char *from, *to;
    char *beside;             /* our name that the model must have, too; NULL: none. Where `to` is
                               * "-": an export has `from`, a counter, for each such name */
    char *op;                 /* the operator that first reads the parameter; NULL: any */
    int rank;                 /* of the tensors it holds for; 0: any */
    int order[WEFT_MAX_RANK]; /* dimension d of ours is dimension order[d] of theirs */
    int parts;                /* 0, or ours is part `part`, from 0, of so many equal ones of */
    int part, cut;            /* theirs along their dimension `cut` */
} weft_name_rule;

typedef struct weft_name_map {
    weft_name_rule *rules;
    size_t count, capacity;
} weft_name_map;

/* Adds the rules of a text of lines behind those that the map has; `file` is for messages. The
 * caller frees the map, also after a failure. FORMAT: a line is no rule, of which the message has
 * the number, or there is none. */
weft_status weft_name_map_add(const char *file, const char *text, size_t size,
                              weft_name_map *map) WEFT_NODISCARD;
/* Adds the rules of a map, which is built in or the name of a file. */
weft_status weft_name_map_open(const char *map, weft_name_map *out) WEFT_NODISCARD;
void weft_name_map_free(weft_name_map *map);
/* The rule that ends a map of the user: a name may stay. */
#define WEFT_NAME_STAYS "* -> *"
/* The text of a built-in map; NULL: there is none of this name. */
const char *weft_name_map_text(const char *name);

enum { WEFT_MAPPED_NAME = 1024 }; /* room for a name that a rule makes */

/* Whether two names are equal, with '.' and '/' alike. */
bool weft_names_alike(const char *a, const char *b);
/* Writes the name that `pattern` of a rule makes of a name that fits its side `side` to out,
 * [WEFT_MAPPED_NAME]; false: the name does not fit, is too long, or leaves a * open. dots: each '/'
 * in the text of a * becomes '.'. */
bool weft_name_rewrite(const char *side, const char *name, const char *pattern, bool dots,
                       char *out);

/* Steps through the elements of ours, in their order, within the tensor of theirs. */
typedef struct weft_rule_walk {
    int rank;
    int64_t dim[WEFT_MAX_RANK], along[WEFT_MAX_RANK], at[WEFT_MAX_RANK];
    int64_t theirs; /* index of the element of theirs that the next one of ours is */
} weft_rule_walk;
void weft_rule_walk_begin(const weft_name_rule *rule, const weft_shape *ours,
                          const weft_shape *theirs, weft_rule_walk *walk);
void weft_rule_walk_next(weft_rule_walk *walk);

#endif
