/* Sources whose samples are pictures in files, which are decoded when they are read. The kinds of
 * data that have them (images.c) list the files; pictures.c reads them. */
#ifndef WEFT_DATA_PICTURES_H
#define WEFT_DATA_PICTURES_H

#include <stdatomic.h>

#include "data/data.h"

enum {
    /* The largest number of pixels of a picture; a small file may claim any number. */
    WEFT_MOST_PIXELS = 1 << 26,
    /* The largest file of a picture. */
    WEFT_MOST_PICTURE_BYTES = 1 << 30,
    /* Sides of a picture up to which its size is taken if none is given. */
    WEFT_USUAL_SIDE = 256
};

/* The folder of pictures that have masks, in that of their part. */
#define WEFT_MASKED_PICTURES "images/"

/* A picture and its class. */
typedef struct weft_picture_item {
    const unsigned char *data; /* its bytes in an archive; NULL: it is a file */
    size_t size;
    char *name; /* below the folder */
    int32_t label;
    atomic_bool broken;         /* it was found unreadable */
    _Atomic(uint8_t *) decoded; /* as the model needs it; NULL: it is not kept */
    _Atomic(uint8_t *) mask;    /* likewise, of a picture that has one */
} weft_picture_item;

typedef struct weft_pictures {
    weft_source head;
    weft_context *context;
    char *folder;
    weft_picture_item *item; /* sorted by part, class and name */
    int64_t items;
    size_t capacity;
    bool parts;                /* the folder has parts of its own, which follow each other */
    int64_t part[WEFT_SPLITS]; /* items of each */
    int64_t *rows;             /* else: as of weft_split_rows */
    double share;              /* of pictures of a split that may be unreadable */
    bool strict;               /* no picture may be, since each one is asked for */
    /* Pictures are in images/ of a part, and masks of the same names in masks/, which are read. */
    bool masked, reads_masks;
    int numbers;          /* classes of pixels; 0: as many as the masks of the training have */
    bool black_and_white; /* 255 in a mask is class 1 */
    atomic_llong broken[WEFT_SPLITS]; /* unreadable pictures of each split so far */
    size_t most_kept;                 /* bytes of decoded pictures that are kept */
    atomic_size_t kept;
    pthread_mutex_t lock;
    weft_error failure;     /* the first one */
    char reading[64];       /* of the head, if masks have a label that is ignored */
    int64_t left_out;       /* files of folders that are no pictures */
    char left_example[256]; /* the first of them, below the folder */
} weft_pictures;

/* The contents of a folder, in the order of their names, without those that begin with a dot. */
typedef struct weft_listing {
    char **folders, **pictures, **others;
    int64_t folder_count, picture_count, other_count;
    size_t folder_room, picture_room, other_room;
} weft_listing;

/* The keys that all such kinds have, and their defaults. cache: in MiB; broken below 0: not given.
 */
typedef struct weft_picture_keys {
    char *size;
    bool grey, colour;
    double broken, cache;
} weft_picture_keys;
#define WEFT_PICTURE_USUAL                                                                         \
    {                                                                                              \
        .broken = -1, .cache = 256                                                                 \
    }
#define WEFT_PICTURE_FORM "size=N|HxW,gray,test=0.2,broken=0.01,cache=256"
#define WEFT_PICTURE_SETTLED "size,gray,rgb,cache"
#define WEFT_PICTURE_KEYS(keys)                                                                    \
    {.name = "size", .text = &(keys).size}, {.name = "gray", .flag = &(keys).grey},                \
        {.name = "rgb", .flag = &(keys).colour},                                                   \
        {.name = "broken", .number = &(keys).broken, .low = 0, .high = 1},                         \
    {                                                                                              \
        .name = "cache", .number = &(keys).cache, .low = 0, .high = 1 << 20                        \
    }

/* Sets up a source that is zeroed, and takes the keys. */
void weft_pictures_begin(weft_pictures *s, const weft_source_ops *ops,
                         const weft_source_request *request);
weft_status weft_pictures_take_keys(weft_pictures *s, const weft_picture_keys *keys) WEFT_NODISCARD;
/* Divides the pictures, when all are there: as the parts say, of which there is one beside the
 * training, or by test, the share of the test split (below 0: not given). */
weft_status weft_pictures_split(weft_pictures *s, const weft_source_ops *of_parts,
                                double test) WEFT_NODISCARD;
/* Refuses less than two classes, unless they are those of later data. */
weft_status weft_pictures_check_classes(const weft_pictures *s,
                                        const weft_source_request *request) WEFT_NODISCARD;
/* Whether a file with this name is a picture. */
bool weft_is_picture_name(const char *name);
/* Adds a picture, whose name it takes, also after a failure. */
weft_status weft_pictures_add(weft_pictures *s, char *name, int32_t label) WEFT_NODISCARD;
/* Sets the shape of samples: size is "N" or "HxW", or NULL: that of the training or else of the
 * first picture, if it is not large; channels are those of the training or else 3, unless a key
 * says them. */
weft_status weft_pictures_set_shape(weft_pictures *s, const weft_picture_keys *keys,
                                    const weft_data_stats *stats) WEFT_NODISCARD;

/* Gives the bytes of a picture, and its name for messages; weft_pictures_close_item frees both. */
weft_status weft_pictures_open_item(const weft_pictures *s, const weft_picture_item *item,
                                    char **path, weft_bytes *bytes) WEFT_NODISCARD;
void weft_pictures_close_item(const weft_picture_item *item, char *path, const weft_bytes *bytes);
/* Reads a file, unless it is larger than any picture. */
weft_status weft_picture_read(const char *path, weft_bytes *out) WEFT_NODISCARD;
weft_picture_item *weft_pictures_item(const weft_pictures *s, weft_split split, int64_t i);
/* Keeps the bytes of a decoded picture or mask in *kept while there is room. */
void weft_pictures_keep(weft_pictures *s, _Atomic(uint8_t *) *kept, uint8_t *bytes, size_t size);
/* Keeps the first failure of a read. */
void weft_pictures_fail(weft_pictures *s, weft_status status);

/* picture_folders.c: lists a folder; weft_listing_free frees the names. */
weft_status weft_listing_read(const char *folder, weft_listing *l) WEFT_NODISCARD;
void weft_listing_free(weft_listing *l);
/* Sets the names of the folders that are parts, for the caller to free, or leaves them NULL; warns
 * of other folders beside that of the training. */
weft_status weft_pictures_find_parts(weft_pictures *s, char *part[WEFT_SPLITS]) WEFT_NODISCARD;
/* Counts files of a folder below s->folder that are not read; a warning says how many. */
void weft_pictures_leave_out(weft_pictures *s, const char *folder, char *const *names,
                             int64_t count);
void weft_pictures_warn_left_out(const weft_pictures *s);

/* masks.c: fails if a picture has no mask. */
weft_status weft_masks_check(const weft_pictures *s, const weft_picture_item *item) WEFT_NODISCARD;
/* Takes the masks of a split that is prepared: counts their classes, unless the number is given,
 * and checks all of them. */
weft_status weft_masks_prepare(weft_pictures *s, weft_split split) WEFT_NODISCARD;
void weft_masks_label(weft_pictures *s, weft_split split, int64_t i, int32_t *label);
/* Implementation of weft_source_ops, for pictures in folders. */
void weft_pictures_describe(const weft_source *source, weft_split split, int64_t i, int column,
                            int64_t j, char *out, size_t size);

/* Implementations of weft_source_ops. */
void weft_pictures_close(weft_source *source);
weft_status weft_pictures_prepare(weft_source *source, weft_split split) WEFT_NODISCARD;
weft_status weft_pictures_divide(weft_source *source, double share) WEFT_NODISCARD;
weft_status weft_pictures_status(const weft_source *source) WEFT_NODISCARD;
int64_t weft_pictures_row(const weft_source *source, weft_split split, int64_t i);
weft_status weft_pictures_size(const weft_source *source, weft_split split, int64_t i, int *width,
                               int *height) WEFT_NODISCARD;
const char *weft_pictures_id(const weft_source *source, weft_split split, int64_t i);
void weft_pictures_label(const weft_source *source, weft_split split, int64_t i, int32_t *label);
void weft_pictures_features(const weft_source *source, weft_split split, int64_t i, int input,
                            void *x);
bool weft_pictures_draw(const weft_source *source, const weft_sample_key *key, int input, void *x);

#endif
