/* Inside of reading requests for inference: the body while it is read, and what its parts share. */
#ifndef WEFT_SERVE_FRONT_INFER_H
#define WEFT_SERVE_FRONT_INFER_H

#include "serve/front/front.h"
#include "serve/front/tensor.h"

typedef struct weft_infer_reader {
    const weft_served_about *about;
    const char *tensor; /* bytes behind the JSON */
    size_t bytes;       /* of them, until somebody has taken them */
    weft_inference *out;
    int binary, all_binary; /* of the output, of the request: -1 not said, 0, 1 */
} weft_infer_reader;

/* infer_input.c: the value of "inputs". */
weft_status weft_infer_inputs(weft_infer_reader *r, weft_json *j) WEFT_NODISCARD;

/* infer_parts.c. What stands next must be of a kind (ARGUMENT), in sentences that name it `what`.
 */
weft_status weft_infer_must_be(weft_json *j, weft_json_kind kind, const char *what) WEFT_NODISCARD;
weft_status weft_infer_flag(weft_json *j, const char *what, bool *out) WEFT_NODISCARD;
/* A whole number of at least `low`. */
weft_status weft_infer_whole(weft_json *j, const char *what, int64_t low,
                             int64_t *out) WEFT_NODISCARD;
/* Which of the known names it is, -1: none. ARGUMENT: `seen`, a bit for each, has it already. */
weft_status weft_infer_key(const weft_json_key *key, const char *const *known, int count,
                           const char *where, unsigned *seen, int *out) WEFT_NODISCARD;
/* UNSUPPORTED, of a parameter that asks for memory of another process. */
weft_status weft_infer_no_shared_memory(const weft_json_key *key) WEFT_NODISCARD;

#endif
