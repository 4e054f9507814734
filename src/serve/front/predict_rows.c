/* Reads rows of a table as JSON, [{"age":22,"sex":"male"},...] or {"rows":[...]}. They become CSV,
 * in which each of the model's columns is a field between quotes, so that a value means what it
 * means in a file. */
#include <limits.h>
#include <stdio.h>

#include "serve/front/infer_internal.h"
#include "serve/front/json.h"

typedef struct json_rows {
    char *const *name; /* [columns]: those of the model */
    int columns;
    int64_t most; /* rows beyond so many are not read */
    char **field; /* [columns]: of the row; NULL: missing */
    weft_json j;
    int64_t count;
    weft_text *csv;
} json_rows;

static void add_field(weft_text *csv, const char *field)
{
    weft_text_add(csv, "\"");
    for (const char *c = field; *c; c++)
        weft_text_add_bytes(csv, *c == '"' ? "\"\"" : c, *c == '"' ? 2 : 1);
    weft_text_add(csv, "\"");
}

static void add_row(weft_text *csv, char *const *fields, int count)
{
    for (int i = 0; i < count; i++) {
        if (i) weft_text_add(csv, ",");
        add_field(csv, fields[i] ? fields[i] : "");
    }
    weft_text_add(csv, "\n");
}

static int find_column(const json_rows *r, const weft_json_key *key)
{
    int i = 0;
    while (i < r->columns && !weft_json_is(key, r->name[i])) i++;
    return i < r->columns ? i : -1;
}

static const char *name_at(const void *user, int i)
{
    const json_rows *r = user;
    return i < r->columns ? r->name[i] : NULL;
}

/* Reads a value as the text that it would be in a file; null as an empty one. */
static weft_status read_value(json_rows *r, const char *name, char **out)
{
    weft_json_kind kind = weft_json_peek(&r->j);
    const char *begin = r->j.at;
    if (kind == WEFT_JSON_STRING) return weft_json_text(&r->j, out);
    if (kind == WEFT_JSON_ARRAY || kind == WEFT_JSON_OBJECT)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "row %lld: '%s' is %s, and must be a number, a text or null",
                         (long long)r->count, name, weft_json_kind_name(kind));
    WEFT_TRY(weft_json_skip(&r->j));
    if (kind == WEFT_JSON_NULL) return weft_strdup("", out);
    return weft_format(out, "%.*s", (int)WEFT_MIN(r->j.at - begin, (ptrdiff_t)INT_MAX), begin);
}

static weft_status read_row(json_rows *r)
{
    weft_json_key key;
    char near[1024], name[WEFT_JSON_KEY];
    if (weft_json_peek(&r->j) != WEFT_JSON_OBJECT)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "row %lld is %s, and must be an object of the columns' names and values",
                         (long long)r->count, weft_json_kind_name(weft_json_peek(&r->j)));
    WEFT_TRY(weft_json_enter(&r->j));
    while (weft_json_member(&r->j, &key)) {
        int i = find_column(r, &key);
        (void)snprintf(name, sizeof(name), "%.*s", (int)WEFT_MIN(key.size, sizeof(name) - 1),
                       key.text);
        if (i < 0)
            return weft_fail(WEFT_ERR_ARGUMENT, "row %lld: the model has no column '%s'%s",
                             (long long)r->count, name,
                             weft_suggest(near, sizeof(near), name, name_at, r));
        if (r->field[i])
            return weft_fail(WEFT_ERR_ARGUMENT, "row %lld: '%s' is given twice",
                             (long long)r->count, name);
        WEFT_TRY(read_value(r, name, &r->field[i]));
    }
    return r->j.status;
}

static weft_status read_rows(json_rows *r)
{
    if (weft_json_peek(&r->j) != WEFT_JSON_ARRAY)
        return weft_fail(WEFT_ERR_ARGUMENT, "the rows are %s, and must be an array",
                         weft_json_kind_name(weft_json_peek(&r->j)));
    WEFT_TRY(weft_json_enter(&r->j));
    while (r->count <= r->most && weft_json_item(&r->j)) {
        weft_status status = read_row(r);
        /* A line without any contents is no row of CSV. */
        if (status == WEFT_OK && r->columns == 1 && (!r->field[0] || !*r->field[0]))
            status = weft_fail(WEFT_ERR_ARGUMENT, "row %lld has no value", (long long)r->count);
        if (status == WEFT_OK) add_row(r->csv, r->field, r->columns);
        for (int i = 0; i < r->columns; i++) {
            free(r->field[i]);
            r->field[i] = NULL;
        }
        WEFT_TRY(status);
        r->count++;
    }
    return r->j.status;
}

static weft_status read_body(json_rows *r)
{
    weft_json_key key;
    bool found = false;
    if (weft_json_peek(&r->j) != WEFT_JSON_OBJECT) {
        WEFT_TRY(read_rows(r));
        return r->count > r->most ? WEFT_OK : weft_json_finish(&r->j);
    }
    WEFT_TRY(weft_json_enter(&r->j));
    while (weft_json_member(&r->j, &key)) {
        if (!weft_json_is(&key, "rows") || found)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "the body must be {\"rows\":[{...},...]} or [{...},...], it has the "
                             "key '%.*s'%s",
                             (int)WEFT_MIN(key.size, (size_t)WEFT_JSON_KEY), key.text,
                             found ? " after the rows" : "");
        found = true;
        WEFT_TRY(read_rows(r));
        if (r->count > r->most) return WEFT_OK;
    }
    WEFT_TRY(r->j.status);
    return weft_json_finish(&r->j);
}

weft_status weft_predict_rows(char *const *names, int columns, int64_t most, const char *data,
                              size_t size, weft_text *csv)
{
    json_rows r = {.name = names, .columns = columns, .most = most, .csv = csv};
    WEFT_TRY(WEFT_NEW(&r.field, columns));
    weft_json_start(&r.j, data, size);
    add_row(csv, names, columns);
    weft_status status = read_body(&r);
    weft_strings_free(&r.field, columns);
    WEFT_TRY(status);
    if (r.count == 0) return weft_fail(WEFT_ERR_ARGUMENT, "the body has no rows");
    if (csv->failed) return weft_fail(WEFT_ERR_MEMORY, "out of memory");
    return WEFT_OK;
}
