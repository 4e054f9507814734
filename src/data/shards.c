/* The data source of tar archives in the form of WebDataset: tar:FILES, a pattern as of a shell.
 * Files whose names are the same up to the first dot are one sample: a picture, and its class in
 * NAME.cls or, without that, in NAME.txt; with label=KEY it is the value of this key in NAME.json.
 */
#include <stdio.h>
#include <strings.h>

#include "data/pictures.h"
#include "formats/formats.h"

typedef struct shard_source {
    weft_pictures pictures;
    weft_bytes *archive;
    size_t archives, archive_room;
    /* The texts of classes, in the order in which they are met. */
    char **texts;
    size_t text_count, text_room;
    weft_names found;
    /* The key of the class in NAME.json; NULL: NAME.cls or NAME.txt has it. held: it is that of the
     * training, and counts for samples with such a file. */
    char *label, *reading;
    bool held;
    /* The samples of the archive that is being read. */
    char **keys;
    size_t key_count, key_room;
} shard_source;

static void shards_close(weft_source *source)
{
    shard_source *s = (shard_source *)source;
    for (size_t i = 0; i < s->archives; i++) weft_file_unmap(&s->archive[i]);
    free(s->archive);
    weft_names_free(&s->found);
    weft_strings_free(&s->texts, (int64_t)s->text_count);
    weft_strings_free(&s->keys, (int64_t)s->key_count);
    free(s->label);
    free(s->reading);
    weft_pictures_close(source);
}

/* --- samples --- */

/* The sample whose files are being met. */
typedef struct sample {
    char key[1024];
    weft_tar_entry picture, cls, text, json; /* data NULL: not met yet */
} sample;

/* The number of a class by its text, in the order in which texts are met. where: the file that has
 * it, for messages. */
static weft_status number_of(shard_source *s, const char *where, const char *at, size_t size,
                             int32_t *out)
{
    char *text;
    const char *end = at + size;
    while (at < end && strchr(" \t\r\n", *at)) at++;
    while (at < end && strchr(" \t\r\n", end[-1])) end--;
    if (at == end || end - at > 255 || memchr(at, '\n', (size_t)(end - at)))
        return weft_fail(WEFT_ERR_FORMAT, "%s: must have the name or number of a class alone",
                         where);
    WEFT_TRY(weft_format(&text, "%.*s", (int)(end - at), at));
    int known = weft_names_find(&s->found, text);
    weft_status status = WEFT_OK;
    if (known < 0) status = WEFT_GROW(&s->texts, &s->text_room, s->text_count);
    if (status == WEFT_OK && known < 0) {
        known = (int)s->text_count;
        s->texts[s->text_count++] = text;
        *out = known;
        return weft_names_add(&s->found, text, known);
    }
    free(text);
    *out = known;
    return status;
}

/* The class that NAME.json has. */
static weft_status number_in_json(shard_source *s, const weft_tar_entry *file, int32_t *out)
{
    char *text;
    WEFT_TRY(weft_json_text_at(file->name, file->data, file->size, s->label, &text));
    weft_status status = number_of(s, file->name, text, strlen(text), out);
    free(text);
    return status;
}

/* The class of a sample, if it has one. */
static weft_status read_label(shard_source *s, const char *archive, const sample *x,
                              bool unlabelled, int32_t *label)
{
    /* WebDataset has the class in .cls, and a caption in .txt beside it. */
    bool in_json = s->label && (!s->held || x->json.data);
    const weft_tar_entry *from = in_json ? &x->json : x->cls.data ? &x->cls : &x->text;
    weft_status status;
    if (from->data) {
        status = in_json ? number_in_json(s, from, label)
                         : number_of(s, from->name, (const char *)from->data, from->size, label);
        return status == WEFT_OK ? WEFT_OK : weft_fail_within(status, "%s", archive);
    }
    s->pictures.head.unlabelled = true;
    if (unlabelled) return WEFT_OK;
    if (s->label)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: the sample '%s' has no class (%s.json beside its picture)", archive,
                         x->key, x->key);
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: the sample '%s' has no class (%s.cls or %s.txt beside its picture%s)",
                     archive, x->key, x->key, x->key,
                     x->json.data ? "; or give label=KEY, the key of its class in the .json" : "");
}

/* Adds the sample, if it has a picture. archive: for messages. */
static weft_status finish_sample(shard_source *s, const char *archive, sample *x, bool unlabelled)
{
    weft_pictures *p = &s->pictures;
    char *name;
    int32_t label = 0;
    if (!x->picture.data) return WEFT_OK;
    WEFT_TRY(read_label(s, archive, x, unlabelled, &label));
    WEFT_TRY(weft_format(&name, "%s/%s", archive, x->picture.name));
    WEFT_TRY(weft_pictures_add(p, name, label));
    WEFT_TRY(WEFT_GROW(&s->keys, &s->key_room, s->key_count));
    WEFT_TRY(weft_strdup(x->key, &s->keys[s->key_count]));
    s->key_count++;
    p->item[p->items - 1].data = x->picture.data;
    p->item[p->items - 1].size = x->picture.size;
    return WEFT_OK;
}

/* Whether a name has one dot, as NAME.png; of NAME.png and NAME.seg.png the first is the picture.
 */
static bool has_one_dot(const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    return strchr(base, '.') == strrchr(base, '.');
}

/* Takes a file of an archive, whose name ends the sample before if it is that of another. */
static weft_status take_entry(shard_source *s, const char *archive, const weft_tar_entry *entry,
                              sample *x, bool unlabelled)
{
    const char *slash = strrchr(entry->name, '/'), *base = slash ? slash + 1 : entry->name;
    size_t size = (size_t)(base - entry->name) + strcspn(base, ".");
    const char *end = strrchr(base, '.');
    if (base[0] == '.' || !end) return WEFT_OK;
    if (strncmp(x->key, entry->name, size) != 0 || x->key[size]) {
        WEFT_TRY(finish_sample(s, archive, x, unlabelled));
        *x = (sample){.picture.data = NULL};
        memcpy(x->key, entry->name, size);
    }
    weft_tar_entry *is = weft_is_picture_name(base)      ? &x->picture
                         : strcasecmp(end, ".cls") == 0  ? &x->cls
                         : strcasecmp(end, ".txt") == 0  ? &x->text
                         : strcasecmp(end, ".json") == 0 ? &x->json
                                                         : NULL;
    if (!is || (is->data && has_one_dot(is->name) && !has_one_dot(entry->name))) return WEFT_OK;
    if (is->data && has_one_dot(is->name) == has_one_dot(entry->name))
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: the sample '%s' has %s and %s, of which one is too many; leave it "
                         "out",
                         archive, x->key, is->name, entry->name);
    *is = *entry;
    return WEFT_OK;
}

/* Refuses a sample that is in the archive twice, and forgets its samples. */
static weft_status check_twice(shard_source *s, const char *archive)
{
    weft_status status = WEFT_OK;
    weft_strings_sort(s->keys, (int64_t)s->key_count);
    for (size_t i = 1; i < s->key_count && status == WEFT_OK; i++)
        if (strcmp(s->keys[i - 1], s->keys[i]) == 0)
            status = weft_fail(WEFT_ERR_FORMAT,
                               "%s: the sample '%s' is in it twice; leave one of them out, or give "
                               "it another name",
                               archive, s->keys[i]);
    while (s->key_count > 0) free(s->keys[--s->key_count]);
    return status;
}

static weft_status read_archive(shard_source *s, const char *path, bool unlabelled)
{
    weft_tar_entry entry;
    sample *x;
    size_t at = 0;
    WEFT_TRY(WEFT_GROW(&s->archive, &s->archive_room, s->archives));
    weft_bytes *bytes = &s->archive[s->archives];
    WEFT_TRY(weft_file_map(path, bytes));
    s->archives++;
    if (weft_is_gzip(bytes->data, bytes->size))
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: is compressed, and compressed archives are not read; unpack it, as "
                         "gunzip does",
                         path);
    WEFT_TRY(WEFT_NEW(&x, 1));
    weft_status status;
    do {
        status = weft_tar_next(path, bytes->data, bytes->size, &at, &entry);
        if (status == WEFT_OK && entry.data) status = take_entry(s, path, &entry, x, unlabelled);
    } while (status == WEFT_OK && entry.data);
    if (status == WEFT_OK) status = finish_sample(s, path, x, unlabelled);
    if (status == WEFT_OK) status = check_twice(s, path);
    free(x);
    return status;
}

/* Reads the archives of a pattern, in the order of their names. *count: their pictures. */
static weft_status read_archives(shard_source *s, const char *pattern, bool unlabelled,
                                 int64_t *count)
{
    char **files;
    int64_t before = s->pictures.items, found;
    weft_status status = weft_spec_files(pattern, &files, &found);
    if (status == WEFT_OK && found == 0)
        status = weft_fail(WEFT_ERR_IO, "%s: there is no archive of this name", pattern);
    for (int64_t i = 0; i < found && status == WEFT_OK; i++)
        status = read_archive(s, files[i], unlabelled);
    weft_strings_free(&files, found);
    *count = s->pictures.items - before;
    if (status == WEFT_OK && *count == 0)
        return weft_fail(WEFT_ERR_FORMAT, "%s: no picture is in these archives", pattern);
    return status;
}

/* --- classes --- */

/* Classes that are numbers are these; names are numbered in their order. */
static weft_status number_classes(shard_source *s)
{
    weft_source *head = &s->pictures.head;
    int32_t *of;
    int64_t number = 0;
    bool numbers = true;
    if (head->unlabelled) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&of, s->text_count));
    for (size_t i = 0; i < s->text_count; i++) {
        numbers = numbers && weft_parse_int(s->texts[i], &number) && number >= 0 && number < 65536;
        of[i] = numbers ? (int32_t)number : 0;
        head->classes = WEFT_MAX(head->classes, (int)of[i] + 1);
    }
    weft_status status = WEFT_OK;
    if (!numbers) {
        head->classes = (int)s->text_count;
        status = weft_strings_copy(s->texts, (int64_t)s->text_count, &head->class_names);
        if (status == WEFT_OK) weft_strings_sort(head->class_names, (int64_t)s->text_count);
        for (size_t i = 0; i < s->text_count && status == WEFT_OK; i++)
            of[weft_names_find(&s->found, head->class_names[i])] = (int32_t)i;
    }
    for (int64_t i = 0; i < s->pictures.items; i++)
        s->pictures.item[i].label = of[s->pictures.item[i].label];
    free(of);
    return status;
}

/* --- the specification --- */

/* The key of the class is one of the training, which a checkpoint stores, unless it is given. */
static weft_status hold_label(shard_source *s, const weft_data_stats *stats)
{
    static const char begin[] = WEFT_READING_PICTURES ",label=";
    const char *then = stats ? stats->reading : NULL;
    s->held = !s->label && then && strncmp(then, begin, sizeof(begin) - 1) == 0;
    if (s->held) WEFT_TRY(weft_strdup(then + sizeof(begin) - 1, &s->label));
    if (!s->label) return WEFT_OK;
    WEFT_TRY(weft_format(&s->reading, "%s%s", begin, s->label));
    s->pictures.head.reading = s->reading;
    return WEFT_OK;
}

static weft_status open_keys(shard_source *s, const char *arguments, weft_picture_keys *keys,
                             char **test, const weft_source_request *request)
{
    weft_pictures *p = &s->pictures;
    double share = -1;
    const weft_spec_key table[] = {
        WEFT_PICTURE_KEYS(*keys),
        {.name = "test", .text = test},
        {.name = "label", .text = &s->label},
        {.name = NULL},
    };
    WEFT_TRY(weft_spec_file("tar", arguments, table, request, &p->folder));
    WEFT_TRY(weft_pictures_take_keys(p, keys));
    WEFT_TRY(hold_label(s, request->stats));
    bool is_share = *test && weft_parse_real(*test, &share);
    if (is_share && !(share >= 0 && share <= 1))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'tar': test is '%s', must be a share from 0 to 1, or archives",
                         *test);
    p->parts = *test && !is_share;
    if (p->parts) WEFT_TRY(weft_spec_locate(request, test));
    WEFT_TRY(read_archives(s, p->folder, request->unlabelled, &p->part[WEFT_TRAIN]));
    size_t trained = s->text_count;
    if (p->parts) WEFT_TRY(read_archives(s, *test, request->unlabelled, &p->part[WEFT_TEST]));
    if (s->text_count > trained && !request->stats)
        return weft_fail(WEFT_ERR_FORMAT, "%s: no archive of the training has the class '%s'",
                         *test ? *test : "", s->texts[trained]);
    WEFT_TRY(number_classes(s));
    if (!p->head.unlabelled) WEFT_TRY(weft_pictures_check_classes(p, request));
    WEFT_TRY(weft_pictures_split(p, &weft_source_tar_parts, share));
    return weft_pictures_set_shape(p, keys, request->stats);
}

static weft_status shards_open(const char *arguments, const weft_source_request *request,
                               weft_source **out)
{
    weft_picture_keys keys = WEFT_PICTURE_USUAL;
    char *test = NULL;
    shard_source *s;
    if (!*arguments)
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'tar': give the archives, as in 'tar:DIR/*.tar'");
    WEFT_TRY(WEFT_NEW(&s, 1));
    weft_pictures_begin(&s->pictures, &weft_source_tar, request);
    weft_status status = open_keys(s, arguments, &keys, &test, request);
    free(keys.size);
    free(test);
    if (status == WEFT_OK)
        *out = &s->pictures.head;
    else
        shards_close(&s->pictures.head);
    return status;
}

#define SHARDS                                                                                     \
    .kind = "tar", .ends = ".tar", .form = "tar:FILES[," WEFT_PICTURE_FORM ",label=KEY]",          \
    .settled = WEFT_PICTURE_SETTLED,                                                               \
    .help = "tar archives of pictures in the form of WebDataset, memory-mapped: the class of "     \
            "NAME.jpg is in NAME.cls, or else NAME.txt, or with label the value of KEY in "        \
            "NAME.json; test is a share, or the archives of the test part; other keys as for "     \
            "images",                                                                              \
    .open = shards_open, .close = shards_close, .prepare = weft_pictures_prepare,                  \
    .features = weft_pictures_features, .draw = weft_pictures_draw,                                \
    .status = weft_pictures_status, .label = weft_pictures_label, .row = weft_pictures_row,        \
    .id = weft_pictures_id, .picture_size = weft_pictures_size

const weft_source_ops weft_source_tar = {SHARDS, .divide = weft_pictures_divide};
const weft_source_ops weft_source_tar_parts = {SHARDS};
