/* Internals of parsing an inference request: the state of the parser, and helpers for JSON
 * members. */
#ifndef WEFT_SERVE_FRONT_INFER_INTERNAL_H
#define WEFT_SERVE_FRONT_INFER_INTERNAL_H

#include "serve/front/http_internal.h"
#include "serve/front/tensor.h"

typedef struct weft_infer_reader {
    const weft_servable_info *about;
    const char *tensor; /* binary data after the JSON */
    size_t bytes;       /* bytes of binary data; 0 once the input has taken them */
    weft_inference *out;
    /* whether the prediction is wanted in binary form, as said for the output and for the whole
     * request: 1 yes, 0 no, -1 not said */
    int binary, all_binary;
} weft_infer_reader;

/* infer_input.c: reads the value of "inputs", an array of one tensor. */
weft_status weft_infer_inputs(weft_infer_reader *r, weft_json *j) WEFT_NODISCARD;

/* infer_json_fields.c: checks that the next JSON value is of this kind; `what` is its name in
 * messages. ARGUMENT: it is of another kind. */
weft_status weft_infer_must_be(weft_json *j, weft_json_kind kind, const char *what) WEFT_NODISCARD;
weft_status weft_infer_flag(weft_json *j, const char *what, bool *out) WEFT_NODISCARD;
/* Reads an integer of at least `low`. */
weft_status weft_infer_whole(weft_json *j, const char *what, int64_t low,
                             int64_t *out) WEFT_NODISCARD;
/* *out: the index of the key among the `count` known ones; -1: the key is unknown. ARGUMENT: the
 * key occurs for the second time; `seen` has a bit for each known key. */
weft_status weft_infer_key(const weft_json_key *key, const char *const *known, int count,
                           const char *where, unsigned *seen, int *out) WEFT_NODISCARD;
/* Refuses parameters for shared memory with UNSUPPORTED. */
weft_status weft_infer_no_shared_memory(const weft_json_key *key) WEFT_NODISCARD;

#endif
