/* The data source of folders of pictures: images:DIR. Each class has a folder, whose name it takes,
 * in DIR or in DIR/train and DIR/test; or, with masks that give each pixel a class, all pictures
 * are in images/ there, and their masks in masks/. */
#include <stdio.h>
#include <sys/stat.h>

#include "data/pictures.h"

enum { DEEPEST = 16 }; /* folders within the folder of a class, which links may make endless */

/* Adds the pictures in a folder below s->folder, and in those within it. */
static weft_status add_pictures(weft_pictures *s, const char *folder, int32_t label, int depth)
{
    char *path, *name;
    weft_listing l;
    WEFT_TRY(weft_format(&path, "%s/%s", s->folder, folder));
    weft_status status = weft_listing_read(path, &l);
    free(path);
    WEFT_TRY(status);
    weft_pictures_leave_out(s, folder, l.others, l.other_count);
    for (int64_t i = 0; i < l.picture_count && status == WEFT_OK; i++) {
        status = weft_format(&name, "%s/%s", folder, l.pictures[i]);
        if (status == WEFT_OK) status = weft_pictures_add(s, name, label);
    }
    for (int64_t i = 0; i < l.folder_count && status == WEFT_OK; i++) {
        if (depth == DEEPEST)
            status = weft_fail(WEFT_ERR_ARGUMENT,
                               "%s/%s: folders are nested more than %d deep; is there a link to a "
                               "folder above?",
                               s->folder, folder, DEEPEST);
        if (status == WEFT_OK) status = weft_format(&name, "%s/%s", folder, l.folders[i]);
        if (status == WEFT_OK) {
            status = add_pictures(s, name, label, depth + 1);
            free(name);
        }
    }
    weft_listing_free(&l);
    return status;
}

/* --- classes --- */

static int class_of(const weft_pictures *s, const char *name)
{
    for (int c = 0; c < s->head.classes; c++)
        if (strcmp(s->head.class_names[c], name) == 0) return c;
    return -1;
}

/* Adds the pictures of a class. part: "train/" and the like, or "". */
static weft_status add_class(weft_pictures *s, const char *part, const char *class, bool training)
{
    char *folder;
    int label = class_of(s, class);
    int64_t before = s->items;
    if (label < 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s/%s%s: the training part has no folder of the class '%s'", s->folder,
                         part, class, class);
    WEFT_TRY(weft_format(&folder, "%s%s", part, class));
    weft_status status = add_pictures(s, folder, label, 0);
    if (status == WEFT_OK && training && s->items == before)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "%s/%s: the folder of a class has no picture (.jpg, .jpeg, .png, .webp)",
                           s->folder, folder);
    free(folder);
    return status;
}

/* Adds the pictures of one part, each of which has a mask beside it. The classes are not read. */
static weft_status add_masked_part(weft_pictures *s, const char *part, int64_t *count)
{
    char *folder;
    int64_t before = s->items;
    WEFT_TRY(weft_format(&folder, "%s" WEFT_MASKED_PICTURES, part));
    folder[strlen(folder) - 1] = '\0';
    weft_status status = add_pictures(s, folder, 0, 0);
    *count = s->items - before;
    if (status == WEFT_OK && *count == 0)
        status =
            weft_fail(WEFT_ERR_ARGUMENT,
                      "%s/%s: has no picture (.jpg, .jpeg, .png, .webp) that could have a mask",
                      s->folder, folder);
    free(folder);
    for (int64_t i = before; i < s->items && status == WEFT_OK && s->reads_masks; i++)
        status = weft_masks_check(s, &s->item[i]);
    return status;
}

/* Adds the pictures of one part of the folder, "" or "train/" and the like; that of the training
 * names the classes. *count: them. */
static weft_status add_part(weft_pictures *s, const char *part, bool training, int64_t *count)
{
    char *path;
    weft_listing l;
    int64_t before = s->items;
    if (s->masked) return add_masked_part(s, part, count);
    WEFT_TRY(weft_format(&path, "%s/%s", s->folder, part));
    weft_status status = weft_listing_read(path, &l);
    free(path);
    WEFT_TRY(status);
    if (training) {
        s->head.class_names = l.folders;
        s->head.classes = (int)l.folder_count;
    }
    for (int64_t i = 0; i < l.folder_count && status == WEFT_OK; i++)
        status = add_class(s, part, l.folders[i], training);
    if (l.folder_count > 0) weft_pictures_leave_out(s, part, l.pictures, l.picture_count);
    if (training) {
        l.folders = NULL;
        l.folder_count = 0;
    }
    weft_listing_free(&l);
    *count = s->items - before;
    return status;
}

static bool has_folder(const char *folder, const char *name)
{
    char *path;
    struct stat info;
    if (weft_format(&path, "%s/%s", folder, name) != WEFT_OK) return false;
    bool found = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    free(path);
    return found;
}

/* Adds the parts that the folder has itself. */
static weft_status add_own_parts(weft_pictures *s, char *const name[WEFT_SPLITS])
{
    s->head.validates = name[WEFT_VALIDATION] != NULL;
    /* Else the share of the training part that test= says. */
    s->parts = name[WEFT_TEST] || s->head.validates;
    for (int p = 0; p < WEFT_SPLITS; p++) {
        char *folder;
        if (!name[p]) continue;
        WEFT_TRY(weft_format(&folder, "%s/", name[p]));
        weft_status status = add_part(s, folder, p == WEFT_TRAIN, &s->part[p]);
        free(folder);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

/* Data for predictions may be pictures without a class, in the folder itself. */
static weft_status add_unlabelled(weft_pictures *s)
{
    weft_listing l;
    WEFT_TRY(weft_listing_read(s->folder, &l));
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < l.picture_count && status == WEFT_OK; i++) {
        status = weft_pictures_add(s, l.pictures[i], 0);
        l.pictures[i] = NULL;
    }
    s->head.unlabelled = s->items > 0;
    if (s->head.unlabelled) weft_pictures_leave_out(s, "", l.others, l.other_count);
    weft_listing_free(&l);
    return status;
}

/* Whether classes of the folder are named as pictures and masks are. */
static weft_status check_folders(const weft_pictures *s)
{
    bool pair = s->head.classes == 2 && class_of(s, "images") >= 0 && class_of(s, "masks") >= 0;
    if (!pair || s->masked) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: has the folders images and masks; give images:%s,masks if the masks give "
                     "each pixel a class, and other names to these folders if they are two classes",
                     s->folder, s->folder);
}

static weft_status find_pictures_of(weft_pictures *s, const weft_source_request *request,
                                    char *const part[WEFT_SPLITS])
{
    bool parts = part[WEFT_TRAIN] != NULL;
    bool within = s->masked && (parts || has_folder(s->folder, "images"));
    if (request->unlabelled && !within) WEFT_TRY(add_unlabelled(s));
    if (s->head.unlabelled) return WEFT_OK;
    s->head.unlabelled = request->unlabelled && within && !parts && !has_folder(s->folder, "masks");
    s->reads_masks = s->masked && !request->mirrored && !s->head.unlabelled;
    if (parts)
        WEFT_TRY(add_own_parts(s, part));
    else
        WEFT_TRY(add_part(s, "", true, &s->part[WEFT_TRAIN]));
    WEFT_TRY(check_folders(s));
    if (s->head.classes == 0 && !s->masked)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: has no folder with pictures; give a folder with one folder for each "
                         "class, or with train/ and test/, which have these",
                         s->folder);
    return weft_pictures_check_classes(s, request);
}

static weft_status find_pictures(weft_pictures *s, const weft_source_request *request)
{
    char *part[WEFT_SPLITS] = {NULL};
    weft_status status = weft_pictures_find_parts(s, part);
    if (status == WEFT_OK) status = find_pictures_of(s, request, part);
    for (int p = 0; p < WEFT_SPLITS; p++) free(part[p]);
    if (status == WEFT_OK) weft_pictures_warn_left_out(s);
    return status;
}

/* --- the specification --- */

/* Takes whether pictures have masks, as those of the training, the number of classes, and the label
 * that is ignored (NaN: none is given). */
static weft_status take_masks(weft_pictures *s, const weft_picture_keys *keys, int classes,
                              double ignore, const weft_source_request *request)
{
    const weft_data_stats *stats = request->stats;
    int known = stats && stats->positions > 0 ? stats->classes : 0;
    s->masked = s->masked || known > 0;
    s->numbers = known > 0 ? known : classes;
    if (classes > 0 && !s->masked)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'images': classes= is the number of classes in masks; give masks, "
                         "or leave it out");
    if (!isnan(ignore) && !s->masked)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'images': ignore= is a label in masks; give masks, or leave it out");
    if (known > 0 && classes > 0 && classes != known)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'images': classes is %d, and the training had %d; leave it out",
                         classes, known);
    if (s->masked && keys->broken >= 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'images': a picture with a mask is never replaced by another one; "
                         "leave broken= out");
    s->strict = s->strict || s->masked;
    s->head.found_in = s->masked ? "the masks" : s->head.found_in;
    (void)snprintf(s->reading, sizeof(s->reading), "%s", WEFT_READING_PICTURES);
    return s->masked ? weft_source_ignore(&s->head, ignore, request, s->reading, sizeof(s->reading))
                     : WEFT_OK;
}

static weft_status open_keys(weft_pictures *s, const char *arguments, weft_picture_keys *keys,
                             const weft_source_request *request)
{
    double test = -1, classes = 0, ignore = NAN;
    const weft_spec_key table[] = {
        WEFT_PICTURE_KEYS(*keys),
        {.name = "test", .number = &test, .low = 0, .high = 1},
        {.name = "masks", .flag = &s->masked},
        {.name = "classes", .number = &classes, .low = 2, .high = 256, .integer = true},
        {.name = "ignore", .number = &ignore, .low = 0, .high = 255, .integer = true},
        {.name = NULL},
    };
    WEFT_TRY(weft_spec_file("images", arguments, table, request, &s->folder));
    WEFT_TRY(take_masks(s, keys, (int)classes, ignore, request));
    WEFT_TRY(weft_pictures_take_keys(s, keys));
    WEFT_TRY(find_pictures(s, request));
    if (s->parts && test >= 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'images': test= divides a folder of classes, and %s has a %s part "
                         "of its own; leave it out",
                         s->folder,
                         weft_split_name(s->part[WEFT_TEST] > 0 ? WEFT_TEST : WEFT_VALIDATION));
    WEFT_TRY(weft_pictures_split(s, &weft_source_images_parts, test));
    WEFT_TRY(weft_pictures_set_shape(s, keys, request->stats));
    const int64_t *side = weft_source_shape(&s->head)->dim;
    if (s->reads_masks) s->head.positions = side[1] * side[2];
    return WEFT_OK;
}

static weft_status images_open(const char *arguments, const weft_source_request *request,
                               weft_source **out)
{
    weft_picture_keys keys = WEFT_PICTURE_USUAL;
    weft_pictures *s;
    if (!*arguments)
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'images': give the folder, as in images:DIR");
    WEFT_TRY(WEFT_NEW(&s, 1));
    weft_pictures_begin(s, &weft_source_images, request);
    weft_status status = open_keys(s, arguments, &keys, request);
    free(keys.size);
    if (status == WEFT_OK)
        *out = &s->head;
    else
        weft_pictures_close(&s->head);
    return status;
}

#define IMAGES                                                                                     \
    .kind = "images", .ends = "/",                                                                 \
    .form = "images:DIR[," WEFT_PICTURE_FORM ",masks,classes=N,"                                   \
            "ignore=LABEL]",                                                                       \
    .settled = WEFT_PICTURE_SETTLED,                                                               \
    .help = "pictures (JPEG, PNG, WebP) in a folder for each class, in DIR or in DIR/train and "   \
            "DIR/test, or with masks in images/ there, and in masks/ a PNG for each whose pixels " \
            "are classes, but ignore, a label of pixels that count nowhere; each is scaled to "    \
            "cover the size, and its middle is taken; test is the "                                \
            "share of a folder without parts that is kept for testing, broken the share of "       \
            "unreadable pictures in whose place others are put, cache the memory for decoded "     \
            "pictures in MiB",                                                                     \
    .open = images_open, .close = weft_pictures_close, .prepare = weft_pictures_prepare,           \
    .features = weft_pictures_features, .draw = weft_pictures_draw,                                \
    .status = weft_pictures_status, .label = weft_pictures_label, .row = weft_pictures_row,        \
    .id = weft_pictures_id, .picture_size = weft_pictures_size, .describe = weft_pictures_describe

const weft_source_ops weft_source_images = {IMAGES, .divide = weft_pictures_divide};
const weft_source_ops weft_source_images_parts = {IMAGES};
