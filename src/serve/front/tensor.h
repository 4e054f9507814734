/* Datatypes of the protocol, and conversion of tensors to numbers. */
#ifndef WEFT_SERVE_FRONT_TENSOR_H
#define WEFT_SERVE_FRONT_TENSOR_H

#include "serve/front/json.h"

typedef enum weft_datatype_class {
    WEFT_REAL_TYPE,
    WEFT_WHOLE_TYPE,
    WEFT_FLAG_TYPE, /* BOOL: true and false, or 1 and 0 */
    WEFT_BITS_TYPE  /* FP16, BF16: only as bytes */
} weft_datatype_class;

typedef struct weft_datatype {
    const char *name;
    size_t bytes; /* of an element */
    weft_datatype_class is;
    uint64_t below, above; /* range of integers: -below .. above */
    /* Converts little-endian, unaligned elements to the nearest floats. */
    void (*get)(const char *from, int64_t count, float *to);
} weft_datatype;

/* NULL: no numeric datatype has this name. */
const weft_datatype *weft_datatype_find(const char *name);
/* Reads the next JSON value as a number of this type. place: from 1, for messages. ARGUMENT: it is
 * no number, or out of range. */
weft_status weft_datatype_read(const weft_datatype *type, weft_json *j, int64_t entry,
                               float *out) WEFT_NODISCARD;

#endif
