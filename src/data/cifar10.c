/* The data source of CIFAR-10 in its binary version: cifar10[:DIR]. A record is a byte with the
 * class and 3 x 32 x 32 bytes of pixels, channels first; they are in files, or in the archive in
 * which they come. */
#include <stdio.h>

#include "data/data.h"
#include "formats/formats.h"

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, RECORD = 1 + PIXELS, FILES = 6, CLASSES = 10 };

static const char *const file_names[FILES] = {"data_batch_1.bin", "data_batch_2.bin",
                                              "data_batch_3.bin", "data_batch_4.bin",
                                              "data_batch_5.bin", "test_batch.bin"};
static const char *const class_names[CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};

typedef struct cifar_source {
    weft_source head;
    char *folder;
    weft_bytes bytes[FILES]; /* the files, or in the first one the archive */
    const unsigned char *records[FILES];
    int64_t count[FILES];
} cifar_source;

static void cifar_close(weft_source *source)
{
    cifar_source *s = (cifar_source *)source;
    for (int k = 0; k < FILES; k++) weft_gzip_close(&s->bytes[k]);
    free(s->folder);
    free(s);
}

static const unsigned char *record(const weft_source *source, weft_split split, int64_t i)
{
    const cifar_source *s = (const cifar_source *)source;
    int k = split == WEFT_TRAIN ? 0 : FILES - 1;
    while (i >= s->count[k]) i -= s->count[k++];
    return s->records[k] + i * RECORD;
}

static void cifar_features(const weft_source *source, weft_split split, int64_t i, int input,
                           void *to)
{
    const unsigned char *from = record(source, split, i) + 1;
    float *x = to;
    (void)input;
    for (int j = 0; j < PIXELS; j++) x[j] = from[j];
}

static void cifar_label(const weft_source *source, weft_split split, int64_t i, int32_t *label)
{
    *label = record(source, split, i)[0];
}

static weft_status take_records(cifar_source *s, int k, const unsigned char *data, size_t size)
{
    if (size == 0 || size % RECORD)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: %s has %zu bytes, no multiple of the %d of a record; fetch it again",
                         s->folder, file_names[k], size, RECORD);
    s->records[k] = data;
    s->count[k] = (int64_t)(size / RECORD);
    return WEFT_OK;
}

/* Reads the files from the archive. */
static weft_status open_archive(cifar_source *s, const char *path)
{
    weft_tar_entry entry;
    size_t at = 0;
    WEFT_TRY(weft_gzip_open(path, &s->bytes[0]));
    do {
        WEFT_TRY(weft_tar_next(path, s->bytes[0].data, s->bytes[0].size, &at, &entry));
        const char *slash = strrchr(entry.name, '/'), *name = slash ? slash + 1 : entry.name;
        for (int k = 0; k < FILES && entry.data; k++)
            if (strcmp(name, file_names[k]) == 0)
                WEFT_TRY(take_records(s, k, entry.data, entry.size));
    } while (entry.data);
    for (int k = 0; k < FILES; k++)
        if (!s->records[k])
            return weft_fail(WEFT_ERR_FORMAT, "%s: has no file %s", path, file_names[k]);
    return WEFT_OK;
}

/* The path of a file in the folder, or NULL: it is not there. */
static weft_status find(const char *folder, const char *name, char **out)
{
    WEFT_TRY(weft_format(out, "%s/%s", folder, name));
    if (weft_file_exists(*out)) return WEFT_OK;
    free(*out);
    *out = NULL;
    return WEFT_OK;
}

static weft_status open_files(cifar_source *s)
{
    for (int k = 0; k < FILES; k++) {
        char *path;
        WEFT_TRY(weft_format(&path, "%s/%s", s->folder, file_names[k]));
        weft_status status = weft_gzip_open(path, &s->bytes[k]);
        free(path);
        if (status == WEFT_OK) status = take_records(s, k, s->bytes[k].data, s->bytes[k].size);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

/* Opens what the folder has: the files, also in the folder that the archive makes, or the
 * archive. */
static weft_status open_folder(cifar_source *s, const char *folder)
{
    static const char *const archives[] = {"cifar-10-binary.tar.gz", "cifar-10-binary.tar"};
    char *path;
    for (int inside = 0; inside < 2; inside++) {
        WEFT_TRY(weft_format(&s->folder, "%s%s", folder, inside ? "/cifar-10-batches-bin" : ""));
        WEFT_TRY(find(s->folder, file_names[0], &path));
        bool found = path != NULL;
        free(path);
        if (found) return open_files(s);
        free(s->folder);
        s->folder = NULL;
    }
    WEFT_TRY(weft_strdup(folder, &s->folder));
    for (size_t i = 0; i < WEFT_COUNT(archives); i++) {
        WEFT_TRY(find(folder, archives[i], &path));
        if (!path) continue;
        weft_status status = open_archive(s, path);
        free(path);
        return status;
    }
    static const char *const python[] = {"data_batch_1", "cifar-10-batches-py/data_batch_1",
                                         "cifar-10-python.tar.gz"};
    for (size_t i = 0; i < WEFT_COUNT(python); i++) {
        WEFT_TRY(find(folder, python[i], &path));
        bool found = path != NULL;
        free(path);
        if (found)
            return weft_fail(WEFT_ERR_FORMAT,
                             "%s: has %s of CIFAR-10's Python version, whose pickled objects are "
                             "not read; get the binary version (weft fetch cifar10)",
                             folder, python[i]);
    }
    return weft_fail(
        WEFT_ERR_IO,
        "%s: has neither data_batch_1.bin to test_batch.bin nor cifar-10-binary.tar.gz; "
        "get them with weft fetch cifar10, or give their folder as cifar10:DIR",
        folder);
}

static weft_status cifar_prepare(weft_source *source, weft_split split)
{
    const cifar_source *s = (const cifar_source *)source;
    source->count[split] = split == WEFT_TRAIN ? 0 : s->count[FILES - 1];
    for (int k = 0; k < FILES - 1 && split == WEFT_TRAIN; k++) source->count[split] += s->count[k];
    return WEFT_OK;
}

static weft_status cifar_open(const char *arguments, const weft_source_request *request,
                              weft_source **out)
{
    cifar_source *s;
    char *folder = NULL;
    WEFT_TRY(WEFT_NEW(&s, 1));
    weft_status status =
        *arguments ? weft_strdup(arguments, &folder) : weft_data_folder("cifar10", &folder);
    if (status == WEFT_OK && *arguments) status = weft_spec_locate(request, &folder);
    if (status == WEFT_OK) status = open_folder(s, folder);
    free(folder);
    s->head.ops = &weft_source_cifar10;
    s->head.classes = CLASSES;
    s->head.class_names = (char **)(uintptr_t)class_names;
    s->head.bytes = s->head.whole = true;
    s->head.large = true; /* classes are checked as they are read */
    weft_source_set_shape(&s->head, weft_shape_of(3, (int64_t[]){3, SIDE, SIDE}));
    if (status == WEFT_OK)
        *out = &s->head;
    else
        cifar_close(&s->head);
    return status;
}

const weft_source_ops weft_source_cifar10 = {
    .kind = "cifar10",
    .form = "cifar10[:DIR]",
    .help = "CIFAR-10 in its binary version, as files or in the archive in which it comes; without "
            "DIR that of weft fetch cifar10",
    .open = cifar_open,
    .close = cifar_close,
    .prepare = cifar_prepare,
    .features = cifar_features,
    .label = cifar_label,
};
