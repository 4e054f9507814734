/* Internals of parsing inference requests: the state of the parser, and helpers. */
#ifndef WEFT_SERVE_FRONT_INFER_INTERNAL_H
#define WEFT_SERVE_FRONT_INFER_INTERNAL_H

#include "serve/front/http_internal.h"
#include "serve/front/tensor.h"

typedef struct weft_infer_reader {
    const weft_servable_info *about;
    const char *tensor; /* binary data after the JSON */
    size_t bytes;       /* of it; 0 once the input has taken it */
    weft_inference *out;
    int binary,
        all_binary; /* whether the output is binary, by output and by request: -1 not given, 0, 1 */
} weft_infer_reader;

/* infer_input.c: reads the value of "inputs". */
weft_status weft_infer_inputs(weft_infer_reader *r, weft_json *j) WEFT_NODISCARD;

/* infer_json_fields.c. The next value must be of this kind (ARGUMENT); messages name it `what`. */
weft_status weft_infer_must_be(weft_json *j, weft_json_kind kind, const char *what) WEFT_NODISCARD;
weft_status weft_infer_flag(weft_json *j, const char *what, bool *out) WEFT_NODISCARD;
/* Reads an integer of at least `low`. */
weft_status weft_infer_whole(weft_json *j, const char *what, int64_t low,
                             int64_t *out) WEFT_NODISCARD;
/* The index of the key in `known`, or -1. ARGUMENT: the key occurred before, by its bit in
 * `seen`. */
weft_status weft_infer_key(const weft_json_key *key, const char *const *known, int count,
                           const char *where, unsigned *seen, int *out) WEFT_NODISCARD;
/* UNSUPPORTED: the parameter asks for shared memory. */
weft_status weft_infer_no_shared_memory(const weft_json_key *key) WEFT_NODISCARD;

#endif
