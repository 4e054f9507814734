/* Masks of pictures, which give each pixel a class: images:DIR,masks. The mask of images/NAME.jpg
 * is masks/NAME.png. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "data/pictures.h"
#include "formats/picture/picture.h"

enum { NUMBERS = 256, WHITE = 255 };

static weft_status mask_path(const weft_pictures *s, const weft_picture_item *item, char **out)
{
    const char *name = item->name, *at = strstr(name, WEFT_MASKED_PICTURES),
               *behind = at + strlen(WEFT_MASKED_PICTURES), *dot = strrchr(name, '.');
    return weft_format(out, "%s/%.*smasks/%.*s.png", s->folder, (int)(at - name), name,
                       (int)(dot - behind), behind);
}

weft_status weft_masks_check(const weft_pictures *s, const weft_picture_item *item)
{
    struct stat info;
    char *path;
    WEFT_TRY(mask_path(s, item, &path));
    weft_status status = WEFT_OK;
    if (stat(path, &info) != 0)
        status = weft_fail(errno == ENOENT || errno == ENOTDIR ? WEFT_ERR_ARGUMENT : WEFT_ERR_IO,
                           "%s/%s: the picture has no mask %s (%s)", s->folder, item->name, path,
                           strerror(errno));
    free(path);
    return status;
}

/* Reads and decodes the mask of a picture, whose size it must have. */
static weft_status read_mask(const weft_pictures *s, const weft_picture_item *item, uint8_t *out)
{
    const weft_shape *shape = weft_source_shape(&s->head);
    char *path = NULL, *picture = NULL;
    weft_bytes bytes = {0}, of = {0};
    weft_status status = mask_path(s, item, &path);
    if (status == WEFT_OK) status = weft_picture_read(path, &bytes);
    if (status == WEFT_OK) status = weft_pictures_open_item(s, item, &picture, &of);
    if (status == WEFT_OK)
        status = weft_mask_fill(path, &bytes, WEFT_MOST_PIXELS, picture, &of, (int)shape->dim[2],
                                (int)shape->dim[1], out);
    weft_pictures_close_item(item, picture, &of);
    free((void *)(uintptr_t)bytes.data);
    free(path);
    return status;
}

/* A mask, which is kept while there is room; *own: the caller frees it. */
static weft_status open_mask(weft_pictures *s, weft_picture_item *item, const uint8_t **out,
                             uint8_t **own)
{
    *own = NULL;
    *out = atomic_load(&item->mask);
    if (*out) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(own, s->head.positions));
    weft_status status = read_mask(s, item, *own);
    *out = *own;
    return status;
}

/* Gives up a mask, or keeps it. */
static void close_mask(weft_pictures *s, weft_picture_item *item, weft_status status, uint8_t *own)
{
    if (status == WEFT_OK && own)
        weft_pictures_keep(s, &item->mask, own, (size_t)s->head.positions);
    else
        free(own);
}

void weft_masks_label(weft_pictures *s, weft_split split, int64_t i, int32_t *label)
{
    weft_picture_item *item = weft_pictures_item(s, split, i);
    const uint8_t *mask;
    uint8_t *own;
    weft_status status = open_mask(s, item, &mask, &own);
    if (status != WEFT_OK) weft_pictures_fail(s, status);
    for (int64_t j = 0; j < s->head.positions; j++) {
        label[j] = status == WEFT_OK ? mask[j] : -1;
        if (s->head.ignores && label[j] == s->head.ignored)
            label[j] = WEFT_LABEL_IGNORED;
        else if (label[j] == WHITE && s->black_and_white)
            label[j] = 1;
    }
    close_mask(s, item, status, own);
}

/* --- the numbers of all masks of a split --- */

typedef struct scan {
    weft_pictures *s;
    weft_split split;
    atomic_bool has[NUMBERS];
    atomic_llong beyond; /* the first sample with a class that the training has not; -1: none */
} scan;

static void scan_masks(void *user, int64_t begin, int64_t end)
{
    scan *c = user;
    for (int64_t i = begin; i < end; i++) {
        weft_picture_item *item = weft_pictures_item(c->s, c->split, i);
        const uint8_t *mask;
        uint8_t *own;
        bool has[NUMBERS] = {false}, beyond = false;
        int classes = c->s->head.classes;
        weft_status status = open_mask(c->s, item, &mask, &own);
        if (status != WEFT_OK) weft_pictures_fail(c->s, status);
        for (int64_t j = 0; status == WEFT_OK && j < c->s->head.positions; j++) has[mask[j]] = true;
        if (c->s->head.ignores) has[c->s->head.ignored] = false;
        for (int k = 0; k < NUMBERS; k++) {
            if (has[k]) atomic_store(&c->has[k], true);
            beyond = beyond || (has[k] && k >= classes && !(k == WHITE && c->s->black_and_white));
        }
        if (beyond && c->split != WEFT_TRAIN) atomic_store(&c->beyond, i);
        close_mask(c->s, item, status, own);
    }
}

/* Takes as many classes as the masks of the training have. */
static weft_status take_classes(weft_pictures *s, const scan *c)
{
    int last = 0, between = 0;
    for (int k = 0; k < NUMBERS; k++) {
        if (!atomic_load(&c->has[k])) continue;
        last = k;
        between += k > 0 && k < WHITE;
    }
    s->black_and_white = last == WHITE && between == 0;
    s->head.classes = s->black_and_white ? 2 : last + 1;
    if (s->black_and_white)
        weft_log(s->context, WEFT_LOG_NOTE,
                 "%s: masks have the numbers 0 and 255 alone, which are read as the classes 0 and "
                 "1",
                 s->folder);
    else if (last == WHITE)
        weft_log(s->context, WEFT_LOG_WARNING,
                 "%s: masks have the number 255 beside others, so there are 256 classes; where it "
                 "marks pixels that do not count, give ignore=255",
                 s->folder);
    if (s->head.classes > 1) return WEFT_OK;
    if (s->head.count[WEFT_TRAIN] == 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: the training part is empty, and its masks tell which classes there "
                         "are; give a smaller test=, or classes=N where nothing is trained",
                         s->folder);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: the masks of the training part have class 0 alone; there must be at "
                     "least two",
                     s->folder);
}

weft_status weft_masks_prepare(weft_pictures *s, weft_split split)
{
    scan c = {.s = s, .split = split};
    atomic_init(&c.beyond, -1);
    if (s->numbers > 0) {
        s->head.classes = s->numbers;
        s->black_and_white = s->numbers == 2;
        return WEFT_OK;
    }
    weft_parallel(s->head.threads, s->head.count[split], 1, scan_masks, &c);
    WEFT_TRY(weft_pictures_status(&s->head));
    if (split == WEFT_TRAIN) return take_classes(s, &c);
    int64_t beyond = atomic_load(&c.beyond);
    if (beyond < 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s/%s: its mask has a class that the training has not, whose %d classes are "
                     "from 0 to %d; give classes=N if the model is to have more, or ignore=LABEL "
                     "if its pixels are not to count",
                     s->folder, weft_pictures_item(s, split, beyond)->name, s->head.classes,
                     s->head.classes - 1);
}

void weft_pictures_describe(const weft_source *source, weft_split split, int64_t i, int column,
                            int64_t j, char *out, size_t size)
{
    weft_pictures *s = (weft_pictures *)(uintptr_t)source;
    weft_picture_item *item = weft_pictures_item(s, split, i);
    int64_t width = weft_source_shape(source)->dim[2];
    const uint8_t *mask;
    uint8_t *own;
    char *path = NULL;
    if (column < source->inputs || !s->reads_masks || mask_path(s, item, &path) != WEFT_OK) {
        (void)snprintf(out, size, "%s/%s", s->folder, item->name);
        return;
    }
    weft_status status = open_mask(s, item, &mask, &own);
    (void)snprintf(out, size, "%s: row %lld, column %lld: the class is %d", path,
                   (long long)(j / width), (long long)(j % width),
                   status == WEFT_OK ? mask[j] : -1);
    close_mask(s, item, status, own);
    free(path);
}
