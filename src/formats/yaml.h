/* YAML checked against option tables: a mapping of options, and under one key a sequence of
 * mappings. The schema that is handed to the YAML library is made from the tables. */
#ifndef WEFT_FORMATS_YAML_H
#define WEFT_FORMATS_YAML_H

#include "base/base.h"
#include "weft/options.h"

typedef struct weft_yaml weft_yaml;

/* yaml_check.c: what the schema library passes over in silence. FORMAT: text that is not YAML, a
 * second document, a key that is given twice. */
weft_status weft_yaml_check(const char *name, const void *data, size_t size) WEFT_NODISCARD;

/* yaml_lists.c: the same text with lists of plain values under the keys of items that take several
 * numbers (WEFT_OPT_INTS) as one value, "3, 5"; NULL: there are none, or not what can be parsed. */
weft_status weft_yaml_join(const void *data, size_t size, const char *list_key,
                           const weft_option *items, char **out) WEFT_NODISCARD;

/* Parses. list_key may be NULL; then item_table is not looked at. FORMAT: file, line and what is
 * wrong, with the nearest known key. */
weft_status weft_yaml_parse(const char *name, const void *data, size_t size,
                            const weft_option *table, const char *list_key,
                            const weft_option *item_table, weft_yaml **out) WEFT_NODISCARD;
void weft_yaml_free(weft_yaml **yaml);

/* Items of the list, and whether it is there, be it empty. */
bool weft_yaml_lists(const weft_yaml *yaml);
int weft_yaml_count(const weft_yaml *yaml);

/* Whether the mapping gives a key of its table. */
bool weft_yaml_gives(const weft_yaml *yaml, int item, const char *key);

/* Sets in target every option that the mapping gives (item < 0: the outer one). A value that an
 * option refuses is reported with its line. */
weft_status weft_yaml_apply(const weft_yaml *yaml, int item, void *target) WEFT_NODISCARD;

/* Line (from 1) of a key of the outer mapping (item < 0) or of an item; NULL key: of the item. */
int weft_yaml_line(const weft_yaml *yaml, int item, const char *key);

#endif
