/* Internals of checkpoints: conversion of the index to and from JSON, verification of files against
 * the index, and exported models. */
#ifndef WEFT_CHECKPOINT_ABOUT_H
#define WEFT_CHECKPOINT_ABOUT_H

#include <jansson.h>

#include "checkpoint/checkpoint.h"

/* Fails with FORMAT and the message "FILE: damaged checkpoint: WHAT". */
weft_status weft_checkpoint_damaged(const char *file, const char *what) WEFT_NODISCARD;

/* Compares the contents of a file with the size and checksum that the index (`files`) has for it.
 * A file that the index does not list passes, unless it is `needed`. FORMAT: the size or checksum
 * differs, or the index has no checksum. */
weft_status weft_checkpoint_check_file(const char *folder, const char *name, const json_t *files,
                                       bool needed, const weft_bytes *bytes) WEFT_NODISCARD;

/* Reads an entry of an index, an integer from `least` to `most`; *out keeps its value if the object
 * lacks the entry. FORMAT: it is something else; the message has its value and the bounds. */
weft_status weft_index_integer(const char *file, const json_t *object, const char *name,
                               int64_t least, int64_t most, int64_t *out) WEFT_NODISCARD;

/* The text of an index, with the checksum of the text before it as its last entry. The second
 * function verifies this checksum; an index without one passes, as those of older versions do. */
weft_status weft_index_text(const json_t *index, char **out) WEFT_NODISCARD;
weft_status weft_index_check(const char *file, const weft_bytes *bytes) WEFT_NODISCARD;

json_t *weft_settings_json(const weft_settings *settings);
/* stats_json.c: the format of an index with these statistics, see WEFT_CHECKPOINT_FORMAT. */
int weft_stats_format(const weft_data_stats *stats);
json_t *weft_stats_json(const weft_data_stats *stats);
/* Read settings and data statistics from JSON that the functions above have made; error messages
 * name `file`. */
weft_status weft_settings_read(const char *file, const json_t *object, const weft_option *table,
                               weft_settings *out) WEFT_NODISCARD;
weft_status weft_stats_read(const char *file, const json_t *object,
                            weft_data_stats *out) WEFT_NODISCARD;

/* table_json.c: how a table's columns become features. The second function reads it into
 * statistics, which have shape and names already; object NULL: each column is a feature. */
json_t *weft_table_json(const struct weft_table *table);
weft_status weft_table_read(const char *file, const json_t *object,
                            weft_data_stats *out) WEFT_NODISCARD;

/* Add the entry "splits" to the object of the statistics, and read it: samples and hash of each
 * split. Older checkpoints have no such entry. */
void weft_splits_add(json_t *data, const weft_split_id splits[WEFT_SPLITS]);
weft_status weft_splits_read(const char *file, const json_t *data,
                             weft_split_id splits[WEFT_SPLITS]) WEFT_NODISCARD;

/* The descriptions of the states of the exchange as JSON. The second function reads them; its
 * object may be NULL, since older checkpoints have no descriptions. */
json_t *weft_state_words_json(const weft_checkpoint_source *source);
weft_status weft_state_words_read(const char *file, json_t *object,
                                  weft_checkpoint *out) WEFT_NODISCARD;

/* save.c: state i of the exchange of a learner; false past the end, or if this process has not
 * received that learner's state. */
bool weft_source_state_at(const weft_checkpoint_source *source, int learner, int i,
                          weft_exchange_state *out);

/* exported.c: whether a folder holds an exported model, and a function that opens an exported model
 * as a checkpoint at step 0 without optimizer state. */
bool weft_exported_is(const char *path);
weft_status weft_exported_open(const char *path, const weft_option *table,
                               weft_checkpoint *out) WEFT_NODISCARD;

#endif
