/* Checks data specifications (paths, kind of target), and divides the rows of a table or array into
 * a training and a test split. */
#include <stdio.h>

#include "data/data.h"
#include "weft/output.h"

weft_status weft_spec_locate(const weft_source_request *request, char **path)
{
    char *there;
    if (!request->folder || !*path || **path == '/') return WEFT_OK;
    WEFT_TRY(weft_format(&there, "%s/%s", request->folder, *path));
    char **worse = weft_file_exists(there) ? path : &there;
    free(*worse);
    if (worse == path) *path = there;
    return WEFT_OK;
}

weft_status weft_spec_held(const weft_source_request *request, const char *kind, const char *key,
                           char **value)
{
    const char *reading = request->stats ? request->stats->reading : NULL;
    size_t size = strlen(kind);
    *value = NULL;
    if (!reading || strncmp(reading, kind, size) != 0 || reading[size] != ':') return WEFT_OK;
    return weft_spec_parse("the checkpoint", reading + size + 1,
                           (weft_spec_key[]){{.name = key, .text = value}, {.name = NULL}});
}

weft_status weft_spec_file(const char *kind, const char *arguments, const weft_spec_key *keys,
                           const weft_source_request *request, char **path)
{
    char title[32];
    size_t size = strcspn(arguments, ",");
    (void)snprintf(title, sizeof(title), "data '%s'", kind);
    *path = NULL;
    if (size == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: give a file, as in %s:FILE", title, kind);
    if (arguments[size]) WEFT_TRY(weft_spec_parse(title, arguments + size + 1, keys));
    WEFT_TRY(weft_format(path, "%.*s", (int)size, arguments));
    return weft_spec_locate(request, path);
}

weft_status weft_spec_refuse_overwrite(const char *spec, const char *option, const char *path)
{
    const char *rest = strchr(spec, ':');
    char *piece;
    for (size_t size; path && rest && *rest; rest += size) {
        rest++; /* a colon or a comma */
        size = strcspn(rest, ",");
        WEFT_TRY(weft_format(&piece, "%.*s", (int)size, rest));
        const char *file = strchr(piece, '=') ? strchr(piece, '=') + 1 : piece;
        bool same = *file && (weft_output_same(piece, path) || weft_output_same(file, path));
        free(piece);
        if (same)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "--%s %s is a file of the data %s, which would be lost; give another",
                             option, path, spec);
    }
    return WEFT_OK;
}

/* Whether two pieces of specifications, such as weight=FILE, name the same file. */
static weft_status same_file(const char *a, size_t a_size, const char *b, size_t b_size,
                             const char *folder, bool *same)
{
    const char *sign = memchr(a, '=', a_size);
    size_t key = sign ? (size_t)(sign - a) + 1 : 0;
    char *path = NULL, *other = NULL;
    *same = key <= b_size && strncmp(a, b, key) == 0;
    if (!*same) return WEFT_OK;
    weft_status status = weft_format(&path, "%.*s", (int)(a_size - key), a + key);
    if (status == WEFT_OK) status = weft_format(&other, "%.*s", (int)(b_size - key), b + key);
    if (status == WEFT_OK)
        status = weft_spec_locate(&(weft_source_request){.folder = folder}, &other);
    *same = status == WEFT_OK && weft_file_exists(path) && weft_output_same(path, other);
    free(path);
    free(other);
    return status;
}

weft_status weft_spec_same(const char *a, const char *b, const char *folder, bool *same)
{
    size_t a_size = strcspn(a, ":"), b_size = strcspn(b, ":");
    *same = a_size == b_size && strncmp(a, b, a_size) == 0 && !a[a_size] == !b[b_size];
    while (*same && a[a_size]) {
        a += a_size + 1;
        b += b_size + 1;
        a_size = strcspn(a, ",");
        b_size = strcspn(b, ",");
        if (!a[a_size] != !b[b_size]) *same = false;
        if (*same && (a_size != b_size || strncmp(a, b, a_size) != 0))
            WEFT_TRY(same_file(a, a_size, b, b_size, folder, same));
    }
    return WEFT_OK;
}

weft_status weft_check_measured(const char *where, int64_t distinct, bool whole, int64_t rows,
                                const char *as_target)
{
    if (distinct <= 10 || (whole && distinct * 5 <= rows)) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "the label, %s holds %lld different numbers in %lld rows: that looks measured, and no "
        "class; give %s to learn the numbers, or else (of a table as label=) what the classes are",
        where, (long long)distinct, (long long)rows, as_target);
}

weft_status weft_check_target(const char *kind, const char *label, const char *target,
                              const weft_data_stats *known, bool *numbers)
{
    if (label && target)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: both label=%s and target=%s are given; a label is a class, a target "
                         "a number: give the one that is to be learned",
                         kind, label, target);
    if (known && known->targets > 0 && label)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: label=%s asks for classes, the checkpoint was trained on numbers; "
                         "give target=%s",
                         kind, label, label);
    if (known && known->targets == 0 && target)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: target=%s asks for numbers, the checkpoint was trained on classes; "
                         "give them as label=, or as the file of labels",
                         kind, target);
    *numbers = target || (known && known->targets > 0);
    return WEFT_OK;
}

weft_status weft_split_rows(int64_t total, double share, int64_t count[2], int64_t **rows)
{
    free(*rows);
    *rows = NULL;
    WEFT_TRY(WEFT_NEW(rows, total));
    int64_t test = (int64_t)((double)total * share + 0.5);
    count[WEFT_TEST] = test;
    count[WEFT_TRAIN] = total - test;
    int64_t at[2] = {0, count[WEFT_TRAIN]};
    for (int64_t i = 0; i < total; i++)
        (*rows)[at[weft_permute(0x73706c6974u, total, i) < test]++] = i;
    return WEFT_OK;
}
