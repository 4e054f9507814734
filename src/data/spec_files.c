/* Finds the files that a data specification names. */
#include <glob.h>

#include "data/data.h"
#include "weft/output.h"

/* Adds the files of one pattern as of a shell, or the name that exists. */
static weft_status add_pattern(const char *pattern, char ***files, int64_t *count)
{
    glob_t found = {.gl_pathc = 0};
    char *one[] = {(char *)(uintptr_t)pattern};
    bool is_name = weft_file_exists(pattern);
    if (!is_name && glob(pattern, GLOB_BRACE, NULL, &found) == GLOB_NOSPACE)
        return weft_fail_memory(strlen(pattern));
    char *const *names = is_name ? one : found.gl_pathv;
    int64_t more = is_name ? 1 : (int64_t)found.gl_pathc;
    char **all = realloc(*files, (size_t)(*count + more + 1) * sizeof(*all));
    weft_status status = all ? WEFT_OK : weft_fail_memory((size_t)more * sizeof(*all));
    if (all) *files = all;
    for (int64_t i = 0; i < more && status == WEFT_OK; i++) {
        status = weft_strdup(names[i], &all[*count]);
        *count += status == WEFT_OK;
    }
    globfree(&found);
    return status;
}

/* Takes the next pattern off a list with + between them, and copies it; a list that is the name of
 * a file is one. *out NULL: the list is at its end. */
static weft_status next_pattern(const char **list, char **out)
{
    size_t size = weft_file_exists(*list) ? strlen(*list) : strcspn(*list, "+");
    const char *at = *list;
    *out = NULL;
    if (!*at) return WEFT_OK;
    *list += size + (at[size] == '+');
    return weft_format(out, "%.*s", (int)size, at);
}

weft_status weft_spec_files(const char *pattern, char ***files, int64_t *count)
{
    char *one = NULL;
    bool found = true;
    *files = NULL;
    *count = 0;
    weft_status status = next_pattern(&pattern, &one);
    while (status == WEFT_OK && one && found) {
        int64_t before = *count;
        status = add_pattern(one, files, count);
        found = *count > before;
        free(one);
        if (status == WEFT_OK) status = next_pattern(&pattern, &one);
    }
    if (one) free(one);
    if (status == WEFT_OK && found) {
        weft_strings_sort(*files, *count);
        for (int64_t i = 1; i < *count && status == WEFT_OK; i++)
            if (strcmp((*files)[i - 1], (*files)[i]) == 0)
                status = weft_fail(WEFT_ERR_ARGUMENT, "%s: is given twice", (*files)[i]);
    }
    if (status == WEFT_OK && found) return WEFT_OK;
    weft_strings_free(files, *count);
    *count = 0;
    return status;
}

static weft_status is_there(const char *pattern, bool *there)
{
    char **files;
    int64_t count;
    weft_status status = weft_spec_files(pattern, &files, &count);
    *there = status == WEFT_OK && count > 0;
    weft_strings_free(&files, count);
    return status;
}

weft_status weft_spec_no_file(const char *pattern)
{
    weft_bytes bytes = {.data = NULL};
    bool there = true;
    char *one = NULL;
    weft_status status = next_pattern(&pattern, &one);
    while (status == WEFT_OK && one && there) {
        status = is_there(one, &there);
        if (status == WEFT_OK && !there) status = weft_file_map(one, &bytes);
        free(one);
        if (status == WEFT_OK && there) status = next_pattern(&pattern, &one);
    }
    return status;
}

/* A pattern in the folder, if files are there, else as it is. */
static weft_status locate(const char *folder, const char *pattern, char **out)
{
    bool found = false;
    weft_status status = weft_format(out, "%s/%s", folder, pattern);
    if (status == WEFT_OK && *pattern != '/') status = is_there(*out, &found);
    if (status != WEFT_OK || found) return status;
    free(*out);
    return weft_strdup(pattern, out);
}

weft_status weft_spec_locate(const weft_source_request *request, char **path)
{
    weft_text all = {0};
    char *one, *there;
    if (!request->folder || !*path || !**path) return WEFT_OK;
    WEFT_TRY(locate(request->folder, *path, &there));
    bool whole = weft_file_exists(there); /* also with + in its name */
    const char *rest = whole ? "" : *path;
    if (whole) weft_text_add(&all, "%s", there);
    free(there);
    weft_status status = next_pattern(&rest, &one);
    while (status == WEFT_OK && one) {
        status = locate(request->folder, one, &there);
        free(one);
        if (status != WEFT_OK) break;
        weft_text_add(&all, "%s%s", all.size ? "+" : "", there);
        free(there);
        status = next_pattern(&rest, &one);
    }
    if (status == WEFT_OK && all.failed) status = weft_fail(WEFT_ERR_MEMORY, "out of memory");
    free(status == WEFT_OK ? *path : all.data);
    if (status == WEFT_OK) *path = all.data;
    return status;
}

/* Sets *same if one of the files of a pattern is `path`. */
static weft_status leads_to(const char *pattern, const char *path, bool *same)
{
    char **files;
    int64_t count;
    weft_status status = weft_spec_files(pattern, &files, &count);
    for (int64_t i = 0; i < count && status == WEFT_OK; i++)
        *same = *same || weft_output_same(files[i], path);
    weft_strings_free(&files, count);
    return status;
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
        weft_status status = *file ? leads_to(file, path, &same) : WEFT_OK;
        free(piece);
        WEFT_TRY(status);
        if (same)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "--%s %s is a file of the data %s, which would be lost; give another",
                             option, path, spec);
    }
    return WEFT_OK;
}
