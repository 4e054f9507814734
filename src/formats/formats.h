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
    char **header; /* column names, or NULL */
    int label;     /* label column; -1: there is none */
    int weight;    /* the column of the samples' weights; -1: there is none that is read */
    int place;     /* the label's column where that of the weights is left out; -1: none */
    int features;
    int *order;      /* [features]: the column of each */
    double *values;  /* [rows, features] */
    int32_t *labels; /* NULL: there are none */
    double *weights; /* [rows], at least 0; NULL: there are none */
    double *targets; /* where the label is a number that was measured; NULL: it is not */
    int classes;
    char **class_names; /* sorted; numbers in their order */
} weft_csv;

/* What is known of the columns of an earlier table, which this one must have again: by their names
 * where both have some, in whatever order; else by their places. */
typedef struct weft_csv_known {
    int features;       /* 0: nothing is known */
    char *const *names; /* [features], or NULL */
    const char *label;  /* its name; NULL where `names` is */
    int place;          /* column of the label, not counting weights; -1: not known */
    const char *weight; /* the name of the weights' column; NULL: it has none, or there was none */
    int weight_place;   /* that column, counting all; -1: there was none, or it is not known */
    bool unlabelled; /* the label may be missing, and weights that nobody asks for are not read */
    bool measured;   /* the label, here called the target, is a number and no class */
} weft_csv_known;

/* csv_columns.c: what the fields of a first row mean. Sets columns, has_header, label, weight,
 * place, features and order. ARGUMENT: which column is missing, or is there unexpectedly. */
weft_status weft_csv_columns(const char *file, char *const *fields, int count, const char *label,
                             const char *weight, const weft_csv_known *known,
                             weft_csv *csv) WEFT_NODISCARD;

/* label: a column's name or number (from 0), NULL for the one of `known` (which may be NULL), else
 * the last. weight: the same for the samples' weights, NULL: those of `known`, else there are none.
 * A first row in which some feature or a measured label is no number, or which names the label or
 * all features that are known, is the header. FORMAT: line and column of what is wrong; ARGUMENT:
 * columns. A byte order mark is passed over. */
weft_status weft_csv_parse(const char *name, const void *data, size_t size, const char *label,
                           const char *weight, const weft_csv_known *known,
                           weft_csv *out) WEFT_NODISCARD;
void weft_csv_free(weft_csv *csv);
/* Whether two labels mean the same class: the same text, or the same number. */
bool weft_csv_same_class(const char *a, const char *b);

/* --- pictures: PNG and JPEG --- */

typedef struct weft_picture {
    int width, height;
    int channels;          /* 1: grey; 3: red, green, blue; 4: and how opaque it is */
    unsigned char *pixels; /* [height, width, channels], row by row from the top */
} weft_picture;

typedef enum weft_picture_kind { WEFT_NO_PICTURE, WEFT_PNG, WEFT_JPEG } weft_picture_kind;
/* By its first bytes. */
weft_picture_kind weft_picture_begins(const void *data, size_t size);
/* Width and height, from its header. FORMAT: it is no picture, or its header is broken. */
weft_status weft_picture_size(const char *name, const void *data, size_t size, int *width,
                              int *height) WEFT_NODISCARD;
/* Decodes one of at most so many pixels to 1, 3 or 4 channels of 8 bits each; others are refused
 * before anything is decoded. Grey is 0.299 red + 0.587 green + 0.114 blue; palettes and more bits
 * become 8 bits, colours are as they stand (no profile is applied), and without a channel for it,
 * what is not opaque is seen before white. FORMAT: it is broken, or cut off; ARGUMENT: too large.
 */
weft_status weft_picture_decode(const char *name, const void *data, size_t size, int channels,
                                int64_t most, weft_picture *out) WEFT_NODISCARD;
void weft_picture_free(weft_picture *picture);
/* In another size, as whole numbers from 0 to 255: [channels, height, width]. Each pixel is the
 * mean of those around its place, weighted by a triangle that reaches as far as one pixel of the
 * coarser of both pictures. What has that size already is only copied. */
weft_status weft_picture_scale(const weft_picture *picture, int width, int height,
                               float *out) WEFT_NODISCARD;

#endif
