/* safetensors files: a JSON header with names, types and shapes, then the data of the tensors. */
#ifndef WEFT_FORMATS_SAFETENSORS_H
#define WEFT_FORMATS_SAFETENSORS_H

#include "base/base.h"

typedef struct weft_tensor {
    char *name;
    char dtype[8]; /* as in the file: "F32", "F64", "I32", ... */
    weft_shape shape;
    const unsigned char *data; /* points into the parsed bytes; may be unaligned */
    size_t bytes;
} weft_tensor;

typedef struct weft_safetensors {
    weft_tensor *tensors; /* in the order of their data */
    size_t count;
    char *about; /* the description of the data that Weft has written to the metadata; NULL: none */
} weft_safetensors;

/* Parses a file in memory. FORMAT: the header is too large, a key is duplicate, a type is unknown,
 * a size does not match its shape, or data have gaps or overlap. The bytes must outlive the
 * result. */
weft_status weft_safetensors_parse(const char *name, const void *data, size_t size,
                                   weft_safetensors *out) WEFT_NODISCARD;
void weft_safetensors_free(weft_safetensors *file);
const weft_tensor *weft_safetensors_find(const weft_safetensors *file, const char *name);

/* The name of an element type in a file, such as "F32". The second function converts back; it
 * returns false for a type that the library does not compute with. */
const char *weft_safetensors_dtype(weft_dtype dtype);
bool weft_safetensors_real(const char *dtype, weft_dtype *out);

/* Reads element i of a tensor of real numbers: F16, BF16, F32 or F64; false: its type is another.
 */
bool weft_safetensors_number(const weft_tensor *tensor, int64_t i, double *out);

/* The tensors to write. The writer calls `read` once for each tensor, in order, and keeps only one
 * tensor in memory. */
typedef struct weft_tensor_list {
    size_t count;
    const char *(*name)(void *user, size_t i);
    weft_type (*type)(void *user, size_t i);
    weft_status (*read)(void *user, size_t i, void *data);
    void *user;
    const char *format; /* the program whose names these are; NULL: "weft" */
    const char *about;  /* for the metadata; NULL: nothing */
} weft_tensor_list;

/* Writes the tensors to a file, which is replaced atomically: WEFT_OUTPUT_REPLACE or, for a file
 * that the program itself names, WEFT_OUTPUT_OWN. *crc gets the CRC-32 of all bytes of the file and
 * *bytes their number; either may be NULL. */
weft_status weft_safetensors_write(const char *path, weft_output_mode mode,
                                   const weft_tensor_list *list, uint32_t *crc,
                                   size_t *bytes) WEFT_NODISCARD;

uint32_t weft_crc32(const void *data, size_t size);

#endif
