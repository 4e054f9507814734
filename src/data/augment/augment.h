/* Augmentations: random changes of the pictures of the training. A new one is a file here and a row
 * in augment.c. */
#ifndef WEFT_DATA_AUGMENT_H
#define WEFT_DATA_AUGMENT_H

#include "data/data.h"

/* A picture [channels, height, width] that is changed in place. */
typedef struct weft_augmented {
    float *x, *spare; /* spare: room for a copy */
    int channels, height, width;
    double low, high; /* black and white, between which numbers stay */
    bool nearest;     /* numbers are not mixed, since they are those of classes */
} weft_augmented;

typedef struct weft_augmentation {
    const char *name, *form, *help;
    const char *key;  /* of its number, which may also be given as NAME=NUMBER */
    double low, high; /* inclusive bounds */
    double usual;     /* if it is left out */
    bool integer;     /* it must be whole */
    bool moves;       /* it moves pixels, and with each the class that it may have */
    void (*apply)(weft_augmented *p, double amount, weft_random *random);
    /* In place of `apply`: mixes a normalised picture with that of another sample of the batch.
     * Returns the share of its own, from 0 to 1. */
    double (*mix)(weft_augmented *p, const float *other, double amount, weft_random *random);
} weft_augmentation;

/* The number of augmentations that mix: the share of Beta(alpha, alpha). */
#define WEFT_AUGMENT_ALPHA .key = "alpha", .low = 0.01, .high = 4

extern const weft_augmentation weft_augment_crop, weft_augment_flip, weft_augment_color,
    weft_augment_rotate, weft_augment_erase, weft_augment_mixup, weft_augment_cutmix,
    weft_augment_vflip, weft_augment_resizedcrop;

/* A list of augmentations, in the order in which they are applied. */
enum { WEFT_MOST_AUGMENTATIONS = 16 };
typedef struct weft_augment {
    int count, mixing; /* mixing: how many of them mix samples, one of which is chosen each time */
    struct {
        const weft_augmentation *what;
        double amount;
    } item[WEFT_MOST_AUGMENTATIONS];
} weft_augment;

/* Parses "crop:pad=4,flip,color=0.2". ARGUMENT: an unknown name or key, a number out of its bounds,
 * or one that is given twice. */
weft_status weft_augment_parse(const weft_context *context, const char *text,
                               weft_augment *out) WEFT_NODISCARD;
/* The name of the first of the list that mixes; NULL: none does. */
const char *weft_augment_mixing(const weft_augment *augment);
/* Changes a picture by random numbers that are a function of the key alone. spare: room for as many
 * numbers. */
void weft_augment_apply(const weft_augment *augment, const weft_sample_key *key,
                        const weft_shape *shape, double low, double high, float *x, float *spare);
/* Moves the classes [height, width] of the pixels of a picture as weft_augment_apply with the same
 * key moves these; where nothing is moved to is class `behind`. */
void weft_augment_move(const weft_augment *augment, const weft_sample_key *key,
                       const weft_shape *shape, double behind, float *classes, float *spare);
/* Whether some of the list move pixels. */
bool weft_augment_moves(const weft_augment *augment);
/* Mixes a normalised picture with another one. Returns the share of its own. */
double weft_augment_mix(const weft_augment *augment, const weft_sample_key *key,
                        const weft_shape *shape, float *x, const float *other);
/* A number from 0 to 1 of the distribution Beta(alpha, alpha). */
double weft_random_share(weft_random *random, double alpha);
weft_status weft_augmentations_register(weft_context *context) WEFT_NODISCARD;

/* The numbers of a picture. */
static inline size_t weft_augmented_count(const weft_augmented *p)
{
    return (size_t)p->channels * (size_t)p->height * (size_t)p->width;
}

/* The row of channel c that is at height y. */
static inline float *weft_augmented_row(const weft_augmented *p, float *x, int c, int y)
{
    return x + ((ptrdiff_t)c * p->height + y) * p->width;
}

#endif
