/* YAML validated against option tables: a mapping of options and, under one key, a sequence of
 * mappings. The schema of the YAML library is generated from the tables. */
#ifndef WEFT_FORMATS_YAML_H
#define WEFT_FORMATS_YAML_H

#include "base/base.h"
#include "weft/options.h"

typedef struct weft_yaml weft_yaml;

/* yaml_check.c: errors that the schema library ignores. FORMAT: no YAML, a second document, or a
 * duplicate key. */
weft_status weft_yaml_check(const char *name, const void *data, size_t size) WEFT_NODISCARD;

/* yaml_lists.c: replaces lists of plain values under keys that take several numbers (WEFT_OPT_INTS)
 * by one value, "3, 5"; NULL: there are none, or the text cannot be parsed. */
weft_status weft_yaml_join(const void *data, size_t size, const char *list_key,
                           const weft_option *items, char **out) WEFT_NODISCARD;

/* Parses the text. list_key may be NULL; then item_table is ignored. FORMAT: names file, line and
 * error, with the nearest known key. */
weft_status weft_yaml_parse(const char *name, const void *data, size_t size,
                            const weft_option *table, const char *list_key,
                            const weft_option *item_table, weft_yaml **out) WEFT_NODISCARD;
void weft_yaml_free(weft_yaml **yaml);

/* Whether the list exists, even if empty; and its number of items. */
bool weft_yaml_lists(const weft_yaml *yaml);
int weft_yaml_count(const weft_yaml *yaml);

/* Whether the mapping has a key of its table. */
bool weft_yaml_gives(const weft_yaml *yaml, int item, const char *key);

/* Sets all options of the mapping in target (item < 0: the outer mapping). An invalid value is
 * reported with its line. */
weft_status weft_yaml_apply(const weft_yaml *yaml, int item, void *target) WEFT_NODISCARD;

/* Line (from 1) of a key of the outer mapping (item < 0) or of an item; NULL key: of the item. */
int weft_yaml_line(const weft_yaml *yaml, int item, const char *key);

#endif
