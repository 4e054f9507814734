/* safetensors: named tensors after a JSON header. */
#ifndef WEFT_FORMATS_SAFETENSORS_H
#define WEFT_FORMATS_SAFETENSORS_H

#include "base/base.h"

typedef struct weft_tensor {
    char *name;
    char dtype[8]; /* as in the file: "F32", "F64", "I32", ... */
    weft_shape shape;
    const unsigned char *data; /* in the parsed bytes */
    size_t bytes;
} weft_tensor;

typedef struct weft_safetensors {
    weft_tensor *tensors; /* in the order of their data */
    size_t count;
} weft_safetensors;

/* Parses the file, and checks header size, unique keys, known types, sizes that match the shapes,
 * and absence of holes and overlap. The bytes must outlive the result. */
weft_status weft_safetensors_parse(const char *name, const void *data, size_t size,
                                   weft_safetensors *out) WEFT_NODISCARD;
void weft_safetensors_free(weft_safetensors *file);
const weft_tensor *weft_safetensors_find(const weft_safetensors *file, const char *name);

/* "F32" for an element type; the inverse returns false for types that the library does not compute
 * with. */
const char *weft_safetensors_dtype(weft_dtype dtype);
bool weft_safetensors_real(const char *dtype, weft_dtype *out);

/* Tensors to write: name and type of tensor i, and its data on request. */
typedef struct weft_tensor_list {
    size_t count;
    const char *(*name)(void *user, size_t i);
    weft_type (*type)(void *user, size_t i);
    weft_status (*read)(void *user, size_t i, void *data);
    void *user;
} weft_tensor_list;

/* Replaces a file atomically (weft/output.h); *crc is the CRC-32 of all bytes and *bytes their
 * number (both may be NULL). */
weft_status weft_safetensors_write(const char *path, const weft_tensor_list *list, uint32_t *crc,
                                   size_t *bytes) WEFT_NODISCARD;

uint32_t weft_crc32(const void *data, size_t size);

#endif
