/* File formats. Parsers read memory and never trust it: sizes are checked before they are
 * multiplied, and every message names the file (`name`) and the place. */
#ifndef WEFT_FORMATS_FORMATS_H
#define WEFT_FORMATS_FORMATS_H

#include "base/base.h"

/* --- gzip --- */

/* Maps a file; if it is gzip data (RFC 1952), *out is what it holds, checked by its checksum. */
weft_status weft_gzip_open(const char *path, weft_bytes *out) WEFT_NODISCARD;
/* Inflates gzip data in memory; at most `limit` bytes. *out is freed with free(). */
weft_status weft_gzip_inflate(const char *name, const void *data, size_t size, size_t limit,
                              unsigned char **out, size_t *out_size) WEFT_NODISCARD;
/* Frees or unmaps what weft_gzip_open gave. */
void weft_gzip_close(weft_bytes *bytes);

/* --- IDX: the format of MNIST --- */

typedef struct weft_idx {
    int type; /* 8 u8, 9 i8, 11 i16, 12 i32, 13 f32, 14 f64 */
    weft_shape shape;
    const unsigned char *data; /* big-endian, inside of the bytes that were parsed */
} weft_idx;
weft_status weft_idx_parse(const char *name, const void *data, size_t size,
                           weft_idx *out) WEFT_NODISCARD;
/* Element i as a number. */
double weft_idx_get(const weft_idx *idx, int64_t i);

/* --- NPY: one array of NumPy --- */

typedef struct weft_npy {
    char kind; /* 'f', 'i', 'u', 'b' as in NumPy's descr */
    int size;  /* bytes of an element */
    bool big;  /* big-endian */
    weft_shape shape;
    const unsigned char *data;
} weft_npy;
weft_status weft_npy_parse(const char *name, const void *data, size_t size,
                           weft_npy *out) WEFT_NODISCARD;
double weft_npy_get(const weft_npy *npy, int64_t i);

/* --- CSV (RFC 4180: quotes, doubled quotes, CRLF) --- */

typedef struct weft_csv {
    int columns;
    int64_t rows; /* without the header */
    bool has_header;
    char **header;  /* column names, or NULL */
    int label;      /* label column */
    double *values; /* [rows, columns - 1], the label left out */
    int32_t *labels;
    int classes;
    char **class_names; /* sorted; numbers in their order */
} weft_csv;

/* label: a column's name or number (from 0), NULL for the last column. A first row that holds that
 * name, or in which some feature is no number, is the header. A byte order mark is passed over.
 * FORMAT: line and column of what is wrong. */
weft_status weft_csv_parse(const char *name, const void *data, size_t size, const char *label,
                           weft_csv *out) WEFT_NODISCARD;
void weft_csv_free(weft_csv *csv);
/* Whether two labels mean the same class: the same text, or the same number. */
bool weft_csv_same_class(const char *a, const char *b);

#endif
