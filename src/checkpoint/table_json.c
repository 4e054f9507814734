/* Converts the description of how a table's columns become features to JSON and back. */
#include <math.h>

#include "checkpoint/about.h"
#include "formats/table.h"

static const char *const kinds[] = {[WEFT_CSV_OPEN] = NULL,
                                    [WEFT_CSV_NUMBERS] = "numbers",
                                    [WEFT_CSV_CATEGORIES] = "categories",
                                    [WEFT_CSV_DATES] = "dates"};

static json_t *column_json(const weft_table_column *c)
{
    json_t *one = json_pack("{s:s}", "kind", kinds[c->kind]);
    if (c->name) json_object_set_new(one, "name", json_string(c->name));
    if (c->kind == WEFT_CSV_CATEGORIES) {
        json_t *words = json_array();
        for (int k = 0; k < c->words; k++) json_array_append_new(words, json_string(c->word[k]));
        json_object_set_new(one, "categories", words);
    }
    const char *example, *form = weft_csv_date_name((int)c->form, &example);
    if (c->form != WEFT_CSV_ISO) json_object_set_new(one, "form", json_string(form));
    if (c->rare) json_object_set_new(one, "other", json_true());
    if (c->embedding) json_object_set_new(one, "embedding", json_integer(c->embedding));
    if (c->gaps) json_object_set_new(one, "missing", json_true());
    if (c->parts) json_object_set_new(one, "parts", json_true());
    if (!isnan(c->fill)) json_object_set_new(one, "fill", json_real(c->fill));
    return one;
}

json_t *weft_table_json(const weft_table *t)
{
    json_t *columns = json_array();
    for (int i = 0; i < t->columns; i++) json_array_append_new(columns, column_json(&t->column[i]));
    json_t *object = json_pack("{s:o}", "columns", columns);
    if (t->dropped) json_object_set_new(object, "dropped", json_string(t->dropped));
    if (t->marks) json_object_set_new(object, "marks", json_string(t->marks));
    return object;
}

static weft_status read_text(const json_t *object, const char *key, char **out)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? weft_strdup(text, out) : WEFT_OK;
}

static weft_status read_words(const char *file, const json_t *words, weft_table_column *c)
{
    size_t count = json_array_size(words);
    if (!json_is_array(words) || count > (c->embedding ? WEFT_TABLE_EMBEDDED : WEFT_TABLE_WORDS))
        return weft_checkpoint_damaged(file, "the categories of a column are incomplete");
    WEFT_TRY(WEFT_NEW(&c->word, count));
    for (size_t k = 0; k < count; k++) {
        const char *word = json_string_value(json_array_get(words, k));
        if (!word || !weft_is_printable(word))
            return weft_checkpoint_damaged(file, "a category of a column is not valid");
        WEFT_TRY(weft_strdup(word, &c->word[c->words++]));
    }
    return WEFT_OK;
}

static weft_status read_embedding(const char *file, const json_t *object, weft_table_column *c)
{
    int64_t size = 0;
    if (!json_object_get(object, "embedding")) return WEFT_OK;
    WEFT_TRY(weft_index_integer(file, object, "embedding", 1, WEFT_TABLE_NUMBERS, &size));
    c->embedding = c->kind == WEFT_CSV_CATEGORIES ? (int)size : 0;
    return WEFT_OK;
}

/* Reads the form of dates. */
static weft_status read_form(const char *file, const json_t *object, weft_table_column *c)
{
    const char *text = json_string_value(json_object_get(object, "form")), *name, *example;
    int form = WEFT_CSV_ISO;
    if (!text) return WEFT_OK;
    while ((name = weft_csv_date_name(form, &example)) && strcmp(name, text) != 0) form++;
    if (!name || c->kind != WEFT_CSV_DATES)
        return weft_checkpoint_damaged(file, "the form of a column of dates is not known");
    c->form = (weft_csv_date_form)form;
    return WEFT_OK;
}

static weft_status read_column(const char *file, const json_t *object, bool named,
                               weft_table_column *c)
{
    const double most = 4e6; /* days, more than a date of four digits has */
    const char *kind = json_string_value(json_object_get(object, "kind"));
    const json_t *fill = json_object_get(object, "fill");
    for (size_t k = 1; kind && k < WEFT_COUNT(kinds); k++)
        if (strcmp(kind, kinds[k]) == 0) c->kind = (weft_csv_kind)k;
    WEFT_TRY(read_text(object, "name", &c->name));
    c->rare = json_is_true(json_object_get(object, "other"));
    c->gaps = json_is_true(json_object_get(object, "missing"));
    c->parts = json_is_true(json_object_get(object, "parts"));
    WEFT_TRY(read_embedding(file, object, c));
    WEFT_TRY(read_form(file, object, c));
    c->fill = json_is_number(fill) ? json_number_value(fill) : NAN;
    if (c->kind == WEFT_CSV_OPEN || named != (c->name != NULL) ||
        (c->name && !weft_is_printable(c->name)) || isinf(c->fill) ||
        (c->kind == WEFT_CSV_DATES && fabs(c->fill) > most) ||
        (c->kind != WEFT_CSV_CATEGORIES && c->rare))
        return weft_checkpoint_damaged(file, "the description of a column is incomplete");
    if (c->kind != WEFT_CSV_CATEGORIES) return WEFT_OK;
    return read_words(file, json_object_get(object, "categories"), c);
}

weft_status weft_table_read(const char *file, const json_t *object, weft_data_stats *out)
{
    const json_t *columns = json_object_get(object, "columns");
    size_t count = json_array_size(columns);
    int64_t features = weft_shape_elements(&out->input[0].shape);
    if (!object) return WEFT_OK;
    if (count < 1 || count > (size_t)INT32_MAX || out->inputs != 1 || out->input[0].values > 0)
        return weft_checkpoint_damaged(file, "the description of its table is incomplete");
    WEFT_TRY(WEFT_NEW(&out->table, 1));
    weft_table *t = out->table;
    WEFT_TRY(WEFT_NEW(&t->column, count));
    t->columns = (int)count;
    for (int i = 0; i < t->columns; i++)
        WEFT_TRY(read_column(file, json_array_get(columns, (size_t)i), out->column_names != NULL,
                             &t->column[i]));
    WEFT_TRY(read_text(object, "dropped", &t->dropped));
    WEFT_TRY(read_text(object, "marks", &t->marks));
    WEFT_TRY(weft_table_place(t));
    if (t->features == features) return WEFT_OK;
    return weft_checkpoint_damaged(file, "its table has other features than the model");
}
