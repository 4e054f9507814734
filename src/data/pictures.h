/* Sources whose samples are pictures in files, which are decoded when they are read. The kinds of
 * data that have them (images.c) list the files; pictures.c reads them. */
#ifndef WEFT_DATA_PICTURES_H
#define WEFT_DATA_PICTURES_H

#include <stdatomic.h>

#include "data/data.h"

enum {
    /* The largest number of pixels of a picture; a small file may claim any number. */
    WEFT_MOST_PIXELS = 1 << 26,
    /* Sides of a picture up to which its size is taken if none is given. */
    WEFT_USUAL_SIDE = 256
};

/* The files of a picture and its class. */
typedef struct weft_picture_item {
    char *name; /* below the folder */
    int32_t label;
    atomic_bool broken;         /* it was found unreadable */
    _Atomic(uint8_t *) decoded; /* as the model needs it; NULL: it is not kept */
} weft_picture_item;

typedef struct weft_pictures {
    weft_source head;
    weft_context *context;
    char *folder;
    weft_picture_item *item; /* sorted by part, class and name */
    int64_t items;
    size_t capacity;
    bool parts;                       /* the folder has parts of its own, which follow each other */
    int64_t part[WEFT_SPLITS];        /* items of each */
    int64_t *rows;                    /* else: as of weft_split_rows */
    double share;                     /* of pictures of a split that may be unreadable */
    bool strict;                      /* no picture may be, since each one is asked for */
    atomic_llong broken[WEFT_SPLITS]; /* unreadable pictures of each split so far */
    size_t most_kept;                 /* bytes of decoded pictures that are kept */
    atomic_size_t kept;
    pthread_mutex_t lock;
    weft_error failure; /* the first one */
} weft_pictures;

/* Adds a picture, whose name it takes, also after a failure. */
weft_status weft_pictures_add(weft_pictures *s, char *name, int32_t label) WEFT_NODISCARD;
/* Sets the shape of samples: size is "N" or "HxW", or NULL: that of the training or else of the
 * first picture, if it is not large; channels is 1 or 3, or 0: those of the training or else 3. */
weft_status weft_pictures_set_shape(weft_pictures *s, const char *size, int channels,
                                    const weft_data_stats *stats) WEFT_NODISCARD;

/* Implementations of weft_source_ops. */
void weft_pictures_close(weft_source *source);
weft_status weft_pictures_prepare(weft_source *source, weft_split split) WEFT_NODISCARD;
weft_status weft_pictures_divide(weft_source *source, double share) WEFT_NODISCARD;
weft_status weft_pictures_status(const weft_source *source) WEFT_NODISCARD;
int64_t weft_pictures_row(const weft_source *source, weft_split split, int64_t i);
const char *weft_pictures_id(const weft_source *source, weft_split split, int64_t i);
void weft_pictures_label(const weft_source *source, weft_split split, int64_t i, int32_t *label);
void weft_pictures_features(const weft_source *source, weft_split split, int64_t i, int input,
                            void *x);
bool weft_pictures_draw(const weft_source *source, const weft_sample_key *key, int input, void *x);

#endif
