/* Internals of checkpoints: the index, as JSON. */
#ifndef WEFT_CHECKPOINT_ABOUT_H
#define WEFT_CHECKPOINT_ABOUT_H

#include <jansson.h>

#include "checkpoint/checkpoint.h"

/* FORMAT: "FILE: damaged checkpoint: WHAT". */
weft_status weft_checkpoint_damaged(const char *file, const char *what) WEFT_NODISCARD;

/* Compares a file with its size and checksum in an index. FORMAT: they differ, or a needed file is
 * missing there. */
weft_status weft_checkpoint_check_file(const char *folder, const char *name, const json_t *files,
                                       bool needed, const weft_bytes *bytes) WEFT_NODISCARD;

json_t *weft_settings_json(const weft_settings *settings);
json_t *weft_stats_json(const weft_data_stats *stats);
/* The inverse functions; `file` is for messages. */
weft_status weft_settings_read(const char *file, const json_t *object, const weft_option *table,
                               weft_settings *out) WEFT_NODISCARD;
weft_status weft_stats_read(const char *file, const json_t *object,
                            weft_data_stats *out) WEFT_NODISCARD;

/* Descriptions of the states of the exchange, and the inverse, from an object that may be NULL. */
json_t *weft_state_words_json(const weft_checkpoint_source *source);
weft_status weft_state_words_read(const char *file, json_t *object,
                                  weft_checkpoint *out) WEFT_NODISCARD;

/* save.c: state i of the exchange of a learner; false past the end, or if it has not arrived. */
bool weft_source_state_at(const weft_checkpoint_source *source, int learner, int i,
                          weft_exchange_state *out);

/* exported.c: exported models. Whether a folder holds one, and opening it as a checkpoint at step 0
 * without state. */
bool weft_exported_is(const char *path);
weft_status weft_exported_open(const char *path, const weft_option *table,
                               weft_checkpoint *out) WEFT_NODISCARD;

#endif
