/* The datatypes of the Open Inference Protocol, and the conversion of their elements to floats
 * and doubles. */
#ifndef WEFT_SERVE_FRONT_TENSOR_H
#define WEFT_SERVE_FRONT_TENSOR_H

#include "serve/front/json.h"

typedef enum weft_datatype_class {
    WEFT_REAL_TYPE,
    WEFT_WHOLE_TYPE,
    WEFT_FLAG_TYPE, /* BOOL: in JSON true and false, or 1 and 0 */
    WEFT_BITS_TYPE  /* FP16, BF16: only as binary data, not in JSON */
} weft_datatype_class;

typedef struct weft_datatype {
    const char *name;
    size_t bytes; /* bytes of an element */
    weft_datatype_class is;
    uint64_t below, above; /* range of an integer type: -below .. above */
    /* Converts `count` little-endian elements, which may be unaligned, to the nearest floats. */
    void (*get)(const char *from, int64_t count, float *to);
    /* As get, to the nearest doubles; NULL: each element of the type is a float. */
    void (*get_double)(const char *from, int64_t count, double *to);
} weft_datatype;

/* The datatype of this name; NULL: there is no such numeric datatype. */
const weft_datatype *weft_datatype_find(const char *name);
/* The name of the datatype of a model's type, "FP32". */
const char *weft_datatype_name(weft_dtype dtype);
/* Reads the next JSON value as a number of this type. input, entry: its tensor and its place in the
 * data, from 1, for messages. single: the number will be rounded to a float. ARGUMENT: the value is
 * no number, or is out of range. */
weft_status weft_datatype_read(const weft_datatype *type, weft_json *j, const char *input,
                               int64_t entry, bool single, double *out) WEFT_NODISCARD;
/* Converts elements to doubles. */
void weft_datatype_doubles(const weft_datatype *type, const char *from, int64_t count, double *to);

#endif
