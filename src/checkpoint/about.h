/* Inside of checkpoints: what an index says, as JSON. */
#ifndef WEFT_CHECKPOINT_ABOUT_H
#define WEFT_CHECKPOINT_ABOUT_H

#include <jansson.h>

#include "checkpoint/checkpoint.h"

/* FORMAT: "FILE: damaged checkpoint: WHAT". */
weft_status weft_checkpoint_damaged(const char *file, const char *what) WEFT_NODISCARD;

/* Compares a file that was read with its size and checksum among those of an index. FORMAT: they
 * differ, or it is needed and not among them. */
weft_status weft_checkpoint_check_file(const char *folder, const char *name, const json_t *files,
                                       bool needed, const weft_bytes *bytes) WEFT_NODISCARD;

json_t *weft_settings_json(const weft_settings *settings);
json_t *weft_stats_json(const weft_data_stats *stats);
/* Back again; `file` is for messages. */
weft_status weft_settings_read(const char *file, const json_t *object, const weft_option *table,
                               weft_settings *out) WEFT_NODISCARD;
weft_status weft_stats_read(const char *file, const json_t *object,
                            weft_data_stats *out) WEFT_NODISCARD;

/* What the states of an exchange (NULL: there is none) are, in words; and back again, from an
 * object that may be NULL. */
json_t *weft_state_words_json(weft_exchange *exchange);
weft_status weft_state_words_read(const char *file, json_t *object,
                                  weft_checkpoint *out) WEFT_NODISCARD;

/* exported.c: a model and its weights without a run. Whether a folder holds such a thing, and
 * what it holds as a checkpoint at step 0 that has no state. */
bool weft_exported_is(const char *path);
weft_status weft_exported_open(const char *path, const weft_option *table,
                               weft_checkpoint *out) WEFT_NODISCARD;

#endif
