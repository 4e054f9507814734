/* YAML that is validated against option tables: a mapping of options and, under one of its keys
 * (list_key), a sequence of mappings (items), which have an option table of their own. */
#ifndef WEFT_FORMATS_YAML_H
#define WEFT_FORMATS_YAML_H

#include "base/base.h"
#include "weft/options.h"

typedef struct weft_yaml weft_yaml;

/* yaml_check.c: finds errors that the schema library (libcyaml) accepts. FORMAT: the text is no
 * YAML, or has a second document, a duplicate key, an alias as a key, or too deep nesting. */
weft_status weft_yaml_check(const char *name, const void *data, size_t size) WEFT_NODISCARD;

/* yaml_aliases.c: sets *out to a text with the same values that has no anchors, aliases and merge
 * keys (<<), and (*lines)[i] to the line of the original in which line i + 2 of it begins; the
 * caller frees both. NULL: the text has none of these. The text must have passed weft_yaml_check.
 * FORMAT: an alias without an anchor before it, within what it stands for, or of too much. */
weft_status weft_yaml_expand(const char *name, const void *data, size_t size, char **out,
                             int **lines) WEFT_NODISCARD;

/* yaml_lists.c: in the items, replaces each list of plain values under a key that takes several
 * numbers (WEFT_OPT_INTS) by one value, such as "3, 5". *out gets the new text; NULL: there is no
 * such list, or the text cannot be parsed. */
weft_status weft_yaml_join(const void *data, size_t size, const char *list_key,
                           const weft_option *items, char **out) WEFT_NODISCARD;

/* yaml_lines.c: the line, from 1, of a key of the outer mapping (item < 0) or of an item of the
 * list under list_key (NULL: there is none); key NULL: the line of the item. 0: the text lacks it.
 */
int weft_yaml_find(const void *text, size_t size, const char *list_key, int item, const char *key);

/* Parses the text. list_key NULL: there is no list, and item_table is ignored. FORMAT: the text
 * does not fit the tables; the message names file and line and, for an unknown key, the nearest
 * key or, without one, all keys and the help of the row at the end of the table. */
weft_status weft_yaml_parse(const char *name, const void *data, size_t size,
                            const weft_option *table, const char *list_key,
                            const weft_option *item_table, weft_yaml **out) WEFT_NODISCARD;
void weft_yaml_free(weft_yaml **yaml);

/* Whether the text has the list, even an empty one. The second function counts its items. */
bool weft_yaml_lists(const weft_yaml *yaml);
int weft_yaml_count(const weft_yaml *yaml);

/* Whether the mapping of an item (item < 0: the outer mapping) has this key of its table. */
bool weft_yaml_gives(const weft_yaml *yaml, int item, const char *key);

/* Sets in `target` all options that the mapping of an item (item < 0: the outer mapping) has. The
 * message for an invalid value names its line. */
weft_status weft_yaml_apply(const weft_yaml *yaml, int item, void *target) WEFT_NODISCARD;

/* The line, from 1, of a key of the outer mapping (item < 0) or of an item; key NULL: the line of
 * the item. Returns 1 if the text does not contain it. */
int weft_yaml_line(const weft_yaml *yaml, int item, const char *key);

#endif
