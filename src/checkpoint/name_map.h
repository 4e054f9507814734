/* Rules by which tensors of another program become the parameters of a model: their/name ->
 * our/name. Names are compared with '.' and '/' alike. */
#ifndef WEFT_CHECKPOINT_NAME_MAP_H
#define WEFT_CHECKPOINT_NAME_MAP_H

#include "base/base.h"

typedef struct weft_name_rule {
    char *from, *to;
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
void weft_name_map_free(weft_name_map *map);
/* The text of a built-in map; NULL: there is none of this name. */
const char *weft_name_map_text(const char *name);

/* Whether two names are equal, with '.' and '/' alike. */
bool weft_names_alike(const char *a, const char *b);
/* Writes our name for a tensor's name by a rule to `out`; false: the rule is for other names or
 * ranks, or the name is too long. */
bool weft_name_rule_apply(const weft_name_rule *rule, const char *name, int rank, char *out,
                          size_t size);

#endif
