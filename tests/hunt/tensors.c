/* Reads the tensors of a checkpoint with a safetensors parser of its own, independent of the
 * library's: a JSON header, then the data. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "hunt.h"

static unsigned char *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    unsigned char *data = NULL;
    if (fseek(f, 0, SEEK_END) == 0) {
        long end = ftell(f);
        rewind(f);
        data = end >= 0 ? malloc((size_t)end + 1) : NULL;
        *size = data ? fread(data, 1, (size_t)end, f) : 0;
    }
    (void)fclose(f);
    return data;
}

static size_t dtype_size(const char *dtype)
{
    if (strcmp(dtype, "BF16") == 0) return 2;
    return strcmp(dtype, "F64") == 0 || strcmp(dtype, "I64") == 0 ? 8 : 4;
}

static bool add_tensor(tensors *t, const char *prefix, const char *name, json_t *entry,
                       const unsigned char *data, size_t size)
{
    const char *dtype;
    json_int_t begin, end;
    if (json_unpack(entry, "{s:s, s:[I, I]}", "dtype", &dtype, "data_offsets", &begin, &end) != 0 ||
        begin < 0 || end < begin || (size_t)end > size)
        return false;
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 32;
        tensor *more = realloc(t->list, (size_t)t->capacity * sizeof(*more));
        if (!more) return false;
        t->list = more;
    }
    tensor *to = &t->list[t->count++];
    (void)snprintf(to->name, sizeof(to->name), "%s%s", prefix, name);
    (void)snprintf(to->dtype, sizeof(to->dtype), "%s", dtype);
    to->count = (int64_t)((size_t)(end - begin) / dtype_size(dtype));
    to->data = malloc((size_t)(end - begin) + 1);
    if (!to->data) return false;
    memcpy(to->data, data + begin, (size_t)(end - begin));
    return true;
}

/* Adds the tensors of one safetensors file to `out`; a file that does not exist has none. false:
 * the file is damaged, or there is no memory. */
static bool read_file(const char *path, const char *prefix, tensors *out)
{
    size_t size = 0;
    uint64_t header = 0;
    unsigned char *bytes = read_all(path, &size);
    if (!bytes) return true;
    for (int i = 8; size >= 8 && i-- > 0;) header = header << 8 | bytes[i];
    bool good = size >= 8 && header <= size - 8;
    json_t *root = good ? json_loadb((char *)bytes + 8, (size_t)header, 0, NULL) : NULL;
    const char *name;
    json_t *entry;
    good = json_is_object(root);
    if (good) json_object_foreach(root, name, entry)
        {
            if (strcmp(name, "__metadata__") == 0) continue;
            good = good && add_tensor(out, prefix, name, entry, bytes + 8 + header,
                                      size - 8 - (size_t)header);
        }
    json_decref(root);
    free(bytes);
    return good;
}

bool tensors_read(const char *folder, tensors *out)
{
    static const char *const files[][2] = {
        {"parameters", ""}, {"state", ""}, {"learners", "learner "}, {"exchange", "exchange "}};
    *out = (tensors){0};
    for (int i = 0; i < 4; i++) {
        char path[TEXT];
        (void)snprintf(path, sizeof(path), "%s/%s.safetensors", folder, files[i][0]);
        if (!read_file(path, files[i][1], out)) return false;
    }
    return out->count > 0;
}

void tensors_free(tensors *t)
{
    for (int i = 0; i < t->count; i++) free(t->list[i].data);
    free(t->list);
    *t = (tensors){0};
}

const tensor *tensors_find(const tensors *t, const char *name)
{
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->list[i].name, name) == 0) return &t->list[i];
    return NULL;
}

double tensor_at(const tensor *t, int64_t i)
{
    float f;
    double d;
    int32_t n;
    if (strcmp(t->dtype, "F64") == 0) {
        memcpy(&d, t->data + 8 * i, sizeof(d));
        return d;
    }
    if (strcmp(t->dtype, "BF16") == 0) {
        uint32_t bits = (uint32_t)t->data[2 * i] << 16 | (uint32_t)t->data[2 * i + 1] << 24;
        memcpy(&f, &bits, sizeof(f));
        return (double)f;
    }
    memcpy(&f, t->data + 4 * i, sizeof(f));
    memcpy(&n, t->data + 4 * i, sizeof(n));
    return strcmp(t->dtype, "F32") == 0 ? (double)f : n;
}
