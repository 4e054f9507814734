/* Datatypes of the protocol, and the numbers of tensors. */
#ifndef WEFT_SERVE_FRONT_TENSOR_H
#define WEFT_SERVE_FRONT_TENSOR_H

#include "serve/front/json.h"

typedef enum weft_datatype_class {
    WEFT_REAL_TYPE,
    WEFT_WHOLE_TYPE,
    WEFT_FLAG_TYPE, /* BOOL: true and false, or 1 and 0 */
    WEFT_BITS_TYPE  /* FP16, BF16: the protocol has them as bytes alone */
} weft_datatype_class;

typedef struct weft_datatype {
    const char *name;
    size_t bytes; /* of an element */
    weft_datatype_class is;
    uint64_t below, above; /* of whole numbers: -below .. above */
    /* Elements that lie anywhere, little end first, as floats: to the nearest. */
    void (*get)(const char *from, int64_t count, float *to);
} weft_datatype;

/* NULL: there is none of this name that holds numbers. */
const weft_datatype *weft_datatype_find(const char *name);
/* The next value of JSON as a number of this type. place: from 1, for the sentence. ARGUMENT: it is
 * none, or beyond the type. */
weft_status weft_datatype_read(const weft_datatype *type, weft_json *j, int64_t place,
                               float *out) WEFT_NODISCARD;

#endif
