/* Reads pictures: decodes them, brings them to one size, keeps some of them decoded, and puts
 * another picture of the class in the place of one that cannot be read. */
#include "data/pictures.h"

#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>

#include "formats/picture/picture.h"

static weft_pictures *own(const weft_source *source)
{
    return (weft_pictures *)(uintptr_t)source;
}

weft_picture_item *weft_pictures_item(const weft_pictures *s, weft_split split, int64_t i)
{
    for (int before = 0; before < (int)split; before++) i += s->head.count[before];
    return &s->item[s->rows ? s->rows[i] : i];
}

/* --- one picture --- */

weft_status weft_picture_read(const char *path, weft_bytes *out)
{
    struct stat info;
    if (stat(path, &info) == 0 && info.st_size > WEFT_MOST_PICTURE_BYTES)
        return weft_fail(WEFT_ERR_FORMAT, "%s: has %lld bytes, a picture may have up to %d", path,
                         (long long)info.st_size, WEFT_MOST_PICTURE_BYTES);
    return weft_file_read(path, out);
}

weft_status weft_pictures_open_item(const weft_pictures *s, const weft_picture_item *item,
                                    char **path, weft_bytes *bytes)
{
    weft_status status;
    *bytes = (weft_bytes){.data = item->data, .size = item->size};
    WEFT_TRY(weft_format(path, "%s%s%s", item->data ? "" : s->folder, item->data ? "" : "/",
                         item->name));
    status = item->data ? WEFT_OK : weft_picture_read(*path, bytes);
    if (status == WEFT_OK && bytes->size == 0)
        status = weft_fail(WEFT_ERR_FORMAT, "%s: the file is empty", *path);
    return status;
}

void weft_pictures_close_item(const weft_picture_item *item, char *path, const weft_bytes *bytes)
{
    if (!item->data) free((void *)(uintptr_t)bytes->data);
    free(path);
}

weft_status weft_pictures_size(const weft_source *source, weft_split split, int64_t i, int *width,
                               int *height)
{
    const weft_picture_item *item = weft_pictures_item(own(source), split, i);
    char *path = NULL;
    weft_bytes bytes = {0};
    weft_status status = weft_pictures_open_item(own(source), item, &path, &bytes);
    if (status == WEFT_OK) status = weft_picture_seen_size(path, &bytes, width, height);
    weft_pictures_close_item(item, path, &bytes);
    return status;
}

static weft_status read_file(const weft_pictures *s, const weft_picture_item *item,
                             const weft_shape *shape, float *x)
{
    char *path = NULL;
    weft_bytes bytes = {0};
    weft_status status = weft_pictures_open_item(s, item, &path, &bytes);
    if (status == WEFT_OK)
        status = weft_picture_fill(path, bytes.data, bytes.size, WEFT_MOST_PIXELS, shape, x);
    weft_pictures_close_item(item, path, &bytes);
    return status;
}

void weft_pictures_keep(weft_pictures *s, _Atomic(uint8_t *) *kept, uint8_t *bytes, size_t size)
{
    uint8_t *none = NULL;
    if (atomic_fetch_add(&s->kept, size) + size <= s->most_kept &&
        atomic_compare_exchange_strong(kept, &none, bytes))
        return;
    free(bytes); /* there is no room, or another thread was faster */
    atomic_fetch_sub(&s->kept, size);
}

/* Keeps a decoded picture while there is room. */
static void keep_decoded(weft_pictures *s, weft_picture_item *item, const float *x, size_t size)
{
    uint8_t *bytes;
    if (atomic_load(&s->kept) + size > s->most_kept || weft_new_bytes(&bytes, size, 1) != WEFT_OK)
        return;
    for (size_t j = 0; j < size; j++) bytes[j] = (uint8_t)x[j];
    weft_pictures_keep(s, &item->decoded, bytes, size);
}

static weft_status read_item(weft_pictures *s, weft_picture_item *item, float *x)
{
    const weft_shape *shape = weft_source_shape(&s->head);
    size_t size = (size_t)weft_shape_elements(shape);
    const uint8_t *decoded = atomic_load(&item->decoded);
    for (size_t j = 0; decoded && j < size; j++) x[j] = decoded[j];
    if (decoded) return WEFT_OK;
    WEFT_TRY(read_file(s, item, shape, x));
    keep_decoded(s, item, x, size);
    return WEFT_OK;
}

/* --- pictures that cannot be read --- */

void weft_pictures_fail(weft_pictures *s, weft_status status)
{
    pthread_mutex_lock(&s->lock);
    weft_error_catch(&s->failure, status);
    pthread_mutex_unlock(&s->lock);
}

static bool fail(weft_pictures *s, weft_status status, float *x)
{
    weft_pictures_fail(s, status);
    memset(x, 0, (size_t)weft_shape_elements(weft_source_shape(&s->head)) * sizeof(*x));
    return false;
}

/* Counts an unreadable picture, whose failure is this thread's last message. Fails if there are too
 * many. */
static weft_status count_broken(weft_pictures *s, weft_split split, weft_picture_item *item,
                                weft_status status)
{
    long long count = s->head.count[split], most = (long long)(s->share * (double)count);
    if (s->strict || status == WEFT_ERR_MEMORY || status == WEFT_ERR_UNSUPPORTED) return status;
    if (atomic_exchange(&item->broken, true)) return WEFT_OK;
    long long broken = atomic_fetch_add(&s->broken[split], 1) + 1;
    if (s->share > 0 && broken <= WEFT_MAX(most, 1LL)) {
        weft_log(s->context, WEFT_LOG_WARNING,
                 "%s; another picture%s takes its place (%lld unreadable so far in the %s part)",
                 weft_last_message(), s->head.mirrored ? "" : " of its class", broken,
                 weft_split_name(split));
        return WEFT_OK;
    }
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s; %lld of %lld pictures of the %s part cannot be read, and broken=%g "
                     "allows %lld; repair or remove them, or give a larger share",
                     weft_last_message(), broken, count, weft_split_name(split), s->share,
                     s->share > 0 ? WEFT_MAX(most, 1LL) : 0LL);
}

/* Says that no picture is left to take the place of an unreadable one. */
static weft_status none_left(const weft_pictures *s, weft_split split, int32_t label)
{
    const char *part = weft_split_name(split);
    if (s->head.mirrored)
        return weft_fail(WEFT_ERR_FORMAT, "%s: no picture of the %s part can be read", s->folder,
                         part);
    char number[16];
    (void)snprintf(number, sizeof(number), "%d", (int)label);
    return weft_fail(WEFT_ERR_FORMAT, "%s: no picture of the class '%s' in the %s part can be read",
                     s->folder, s->head.class_names ? s->head.class_names[label] : number, part);
}

/* Any picture may stand for another of data whose classes are not read. */
bool weft_pictures_draw(const weft_source *source, const weft_sample_key *key, int input, void *x)
{
    weft_pictures *s = own(source);
    weft_split split = key->split;
    int64_t count = s->head.count[split];
    int32_t label = weft_pictures_item(s, split, key->sample)->label;
    (void)input;
    for (int64_t k = 0; k < count; k++) {
        weft_picture_item *item = weft_pictures_item(s, split, (key->sample + k) % count);
        bool other = item->label != label && !s->head.mirrored;
        if (other || atomic_load(&item->broken)) continue;
        weft_status status = read_item(s, item, x);
        if (status == WEFT_OK) return true;
        status = count_broken(s, split, item, status);
        if (status != WEFT_OK) return fail(s, status, x);
    }
    return fail(s, none_left(s, split, label), x);
}

void weft_pictures_features(const weft_source *source, weft_split split, int64_t i, int input,
                            void *x)
{
    const weft_sample_key key = {.epoch = -1, .split = split, .sample = i};
    (void)weft_pictures_draw(source, &key, input, x);
}

weft_status weft_pictures_status(const weft_source *source)
{
    weft_pictures *s = own(source);
    pthread_mutex_lock(&s->lock);
    weft_status status = weft_error_raise(&s->failure);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* --- the other parts of a sample --- */

void weft_pictures_label(const weft_source *source, weft_split split, int64_t i, int32_t *label)
{
    if (source->positions > 0)
        weft_masks_label(own(source), split, i, label);
    else
        *label = weft_pictures_item(own(source), split, i)->label;
}

int64_t weft_pictures_row(const weft_source *source, weft_split split, int64_t i)
{
    const weft_pictures *s = own(source);
    return weft_pictures_item(s, split, i) - s->item;
}

const char *weft_pictures_id(const weft_source *source, weft_split split, int64_t i)
{
    const weft_pictures *s = own(source);
    const char *name = weft_pictures_item(s, split, i)->name,
               *behind = s->masked ? strstr(name, WEFT_MASKED_PICTURES) : NULL;
    return behind ? behind + strlen(WEFT_MASKED_PICTURES) : name;
}

/* --- opening --- */

bool weft_is_picture_name(const char *name)
{
    static const char *const ends[] = {".jpg", ".jpeg", ".png", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < WEFT_COUNT(ends); i++)
        if (strcasecmp(dot, ends[i]) == 0) return true;
    return false;
}

void weft_pictures_begin(weft_pictures *s, const weft_source_ops *ops,
                         const weft_source_request *request)
{
    pthread_mutex_init(&s->lock, NULL);
    s->context = request->context;
    s->strict = request->each;
    s->head.ops = ops;
    s->head.threads = weft_context_threads(request->context);
    s->head.bytes = s->head.whole = s->head.large = s->head.valid = true;
    s->head.found_in = "the names of classes";
    s->head.reading = WEFT_READING_PICTURES;
}

weft_status weft_pictures_take_keys(weft_pictures *s, const weft_picture_keys *keys)
{
    if (keys->grey && keys->colour)
        return weft_fail(WEFT_ERR_ARGUMENT, "data '%s': gray and rgb exclude each other",
                         s->head.ops->kind);
    s->share = keys->broken < 0 ? 0.01 : keys->broken;
    s->most_kept = (size_t)(keys->cache * 1048576);
    return WEFT_OK;
}

weft_status weft_pictures_check_classes(const weft_pictures *s, const weft_source_request *request)
{
    if (s->head.classes > 1 || s->masked || request->stats) return WEFT_OK;
    const char *class = s->head.class_names ? s->head.class_names[0] : "0", *hint = "";
    const char *slash = s->folder && s->items > 0 ? strchr(s->item[0].name, '/') : NULL;
    if (slash && strchr(slash + 1, '/')) hint = ", or give that folder if it has the classes";
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: has one class alone, '%s'; there must be at least two%s", s->folder,
                     class, hint);
}

weft_status weft_pictures_split(weft_pictures *s, const weft_source_ops *of_parts, double test)
{
    weft_source *head = &s->head;
    head->all = s->items;
    if (s->parts) {
        memcpy(head->count, s->part, sizeof(s->part));
        head->ops = of_parts;
        return WEFT_OK;
    }
    head->divided = test >= 0;
    if (test < 0) test = head->unlabelled ? 1 : WEFT_USUAL_TEST;
    WEFT_TRY(weft_pictures_divide(head, test));
    if (head->count[WEFT_TRAIN] > 0 || test == 1) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: %lld pictures leave none for training", s->folder,
                     (long long)s->items);
}

weft_status weft_pictures_add(weft_pictures *s, char *name, int32_t label)
{
    weft_status status = WEFT_GROW(&s->item, &s->capacity, s->items);
    if (status != WEFT_OK) {
        free(name);
        return status;
    }
    s->item[s->items++] = (weft_picture_item){.name = name, .label = label};
    return WEFT_OK;
}

weft_status weft_pictures_prepare(weft_source *source, weft_split split)
{
    /* pictures are read when they are needed */
    return source->positions > 0 ? weft_masks_prepare(own(source), split) : WEFT_OK;
}

weft_status weft_pictures_divide(weft_source *source, double share)
{
    weft_pictures *s = own(source);
    return weft_split_rows(s->items, share, source->count, &s->rows);
}

void weft_pictures_close(weft_source *source)
{
    weft_pictures *s = own(source);
    for (int64_t i = 0; i < s->items; i++) {
        free(s->item[i].name);
        free(atomic_load(&s->item[i].decoded));
        free(atomic_load(&s->item[i].mask));
    }
    weft_strings_free(&source->class_names, source->classes);
    pthread_mutex_destroy(&s->lock);
    free(s->item);
    free(s->rows);
    free(s->folder);
    free(s);
}
