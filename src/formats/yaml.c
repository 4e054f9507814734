#include "formats/yaml.h"

#include <cyaml/cyaml.h>
#include <stdio.h>

/* Parses YAML and checks it against option tables, with libcyaml. Its schema is generated from the
 * tables; its messages are turned into messages with the line and the nearest known key. */

/* The end of the loaded data. libcyaml loads the outer mapping as an array of strings, in the order
 * of its fields, followed by this head: the items of the list, each again an array of strings, and
 * their number. */
typedef struct items_head {
    char *items;
    uint32_t count;
} items_head;

struct weft_yaml {
    char *name;
    const void *text;
    size_t size;
    char *expanded; /* the text where the original has aliases */
    int *lines;     /* of the original, for the lines of `expanded` from the second on */
    const weft_option *table, *item_table;
    const char *list_key;
    int options, item_options;
    cyaml_schema_field_t *fields, *item_fields; /* the last field has no key */
    cyaml_schema_value_t top, item;
    char **loaded;
    /* The facts that on_log takes from the library's messages. Each message is examined alone,
     * since one may quote words of the text that look like another message. */
    char *unexpected; /* the unknown key, or NULL */
    char *field;      /* the key of a table at which parsing stopped, or NULL */
    int entry;        /* item of the list at which parsing stopped, from 1; 0: none */
};

/* If a message begins with `start`, and *word is not set yet, stores in *word the text between
 * `start` and the last `mark`. */
static bool between(char *said, const char *start, char mark, char **word)
{
    size_t skip = strlen(start);
    if (*word || strncmp(said, start, skip) != 0) return false;
    char *end = strrchr(said + skip, mark);
    if (end) *end = 0;
    return weft_strdup(said + skip, word) == WEFT_OK;
}

static void on_log(cyaml_log_t level, void *user, const char *format, va_list arguments)
{
    weft_yaml *y = user;
    char said[1024];
    int item = 0;
    if (level < CYAML_LOG_ERROR) return;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    if (vsnprintf(said, sizeof(said), format, arguments) < 0) return;
#pragma GCC diagnostic pop
    if (between(said, "Load: Unexpected key: ", '\n', &y->unexpected)) return;
    if (between(said, "  in mapping field '", '\'', &y->field)) return;
    if (y->entry == 0 && sscanf(said, "  in sequence entry '%9d'", &item) == 1) y->entry = item;
}

static cyaml_config_t config(weft_yaml *y)
{
    return (cyaml_config_t){.log_fn = on_log,
                            .log_ctx = y,
                            .log_level = CYAML_LOG_ERROR,
                            .mem_fn = cyaml_mem,
                            .flags = CYAML_CFG_NO_ALIAS};
}

/* Makes a schema field, an optional string, for each option of the table. The array has room for
 * two more fields: the list, and the terminator without a key. */
static weft_status string_fields(const weft_option *table, cyaml_schema_field_t **out, int *options)
{
    int rows = 0, count = 0;
    cyaml_schema_field_t *fields;
    while (table[rows].name) rows++;
    WEFT_TRY(WEFT_NEW(out, (size_t)rows * 2 + 2));
    fields = *out;
    /* Former names of options are fields of their own, after all present names. */
    for (int i = 0; i < 2 * rows; i++) {
        const char *key = i < rows ? table[i].name : table[i - rows].formerly;
        if (key)
            fields[count++] =
                (cyaml_schema_field_t){.key = key,
                                       .value = {.type = CYAML_STRING,
                                                 .flags = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                                                 .data_size = sizeof(char),
                                                 .string = {.min = 0, .max = CYAML_UNLIMITED}}};
    }
    for (int i = 0; i < count; i++) fields[i].data_offset = (uint32_t)((size_t)i * sizeof(char *));
    *options = count;
    return WEFT_OK;
}

static weft_status make_schema(weft_yaml *y)
{
    WEFT_TRY(string_fields(y->table, &y->fields, &y->options));
    size_t head = (size_t)y->options * sizeof(char *);
    if (y->list_key) {
        WEFT_TRY(string_fields(y->item_table, &y->item_fields, &y->item_options));
        y->item = (cyaml_schema_value_t){.type = CYAML_MAPPING,
                                         .flags = CYAML_FLAG_DEFAULT,
                                         .data_size =
                                             (uint32_t)((size_t)y->item_options * sizeof(char *)),
                                         .mapping = {.fields = y->item_fields}};
        y->fields[y->options] = (cyaml_schema_field_t){
            .key = y->list_key,
            .data_offset = (uint32_t)(head + offsetof(items_head, items)),
            .count_offset = (uint32_t)(head + offsetof(items_head, count)),
            .count_size = sizeof(uint32_t),
            .value = {.type = CYAML_SEQUENCE,
                      .flags = CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                      .data_size = y->item.data_size,
                      .sequence = {.entry = &y->item, .min = 0, .max = CYAML_UNLIMITED}}};
    }
    y->top = (cyaml_schema_value_t){.type = CYAML_MAPPING,
                                    .flags = CYAML_FLAG_POINTER,
                                    .data_size = (uint32_t)(head + sizeof(items_head)),
                                    .mapping = {.fields = y->fields}};
    return WEFT_OK;
}

/* The line of a key, or of an item if key is NULL; 0: the text does not contain it. */
static int find_line(const weft_yaml *y, int item, const char *key)
{
    return weft_yaml_find(y->text, y->size, y->list_key, item, key);
}

int weft_yaml_line(const weft_yaml *y, int item, const char *key)
{
    int line = find_line(y, item, key);
    if (y->lines) line = line > 1 ? y->lines[line - 2] : 1;
    return line > 0 ? line : 1;
}

/* The keys of the mapping in which one is unknown; a former name is none to be proposed. */
static const char *key_candidate(const void *user, int i)
{
    const weft_yaml *y = user;
    const weft_option *table = y->entry > 0 ? y->item_table : y->table;
    int rows = 0;
    while (table[rows].name) rows++;
    if (i < rows) return table[i].name;
    return y->entry == 0 && i == rows ? y->list_key : NULL;
}

/* The text about keys in general that the row at the end of a table may have. */
static const char *key_hint(const weft_option *table)
{
    while (table && table->name) table++;
    return table && table->help ? table->help : "";
}

static weft_status explain(const weft_yaml *y)
{
    char near[1024];
    int item = y->entry - 1;
    if (y->unexpected) {
        bool is_near = weft_nearest(y->unexpected, key_candidate, y) != NULL;
        return weft_fail(WEFT_ERR_FORMAT, "%s:%d: no key is named '%s'%s%s", y->name,
                         weft_yaml_line(y, item, y->unexpected), y->unexpected,
                         weft_suggest(near, sizeof(near), y->unexpected, key_candidate, y),
                         is_near ? "" : key_hint(item < 0 ? y->table : y->item_table));
    }
    /* If an item is no mapping, the library reports the key of the list (list_key). */
    if (item >= 0 && y->field && strcmp(y->field, y->list_key) == 0)
        return weft_fail(WEFT_ERR_FORMAT, "%s:%d: item %d of '%s' must be a mapping (- %s: ...)",
                         y->name, weft_yaml_line(y, item, NULL), item + 1, y->list_key,
                         y->item_table->name);
    /* If the text has no keys at all, the library reports the first key of the schema, which
     * find_line does not find in the text. */
    if (y->field && find_line(y, item, y->field) > 0) {
        bool list = y->list_key && strcmp(y->field, y->list_key) == 0;
        int line = weft_yaml_line(y, list ? -1 : item, y->field);
        return list ? weft_fail(WEFT_ERR_FORMAT,
                                "%s:%d: '%s' must be a sequence of mappings (- %s: ...)", y->name,
                                line, y->field, y->item_table->name)
                    : weft_fail(WEFT_ERR_FORMAT, "%s:%d: '%s' must be one plain value", y->name,
                                line, y->field);
    }
    return weft_fail(WEFT_ERR_FORMAT, "%s:1: must be a mapping of keys to values (%s: ...)",
                     y->name, y->table->name ? y->table->name : "key");
}

static weft_status load(weft_yaml *y)
{
    char *joined = NULL;
    WEFT_TRY(make_schema(y));
    if (y->list_key)
        WEFT_TRY(weft_yaml_join(y->text, y->size, y->list_key, y->item_table, &joined));
    cyaml_config_t c = config(y);
    cyaml_data_t *loaded = NULL;
    cyaml_err_t error =
        cyaml_load_data(joined ? (const uint8_t *)joined : y->text,
                        joined ? strlen(joined) : y->size, &c, &y->top, &loaded, NULL);
    free(joined);
    y->loaded = (char **)loaded;
    if (error == CYAML_ERR_OOM) return weft_fail_memory(y->size);
    return error == CYAML_OK ? WEFT_OK : explain(y);
}

static int line_at(const char *text, const char *at)
{
    int line = 1;
    for (; text < at; text++) line += *text == '\n';
    return line;
}

weft_status weft_yaml_parse(const char *name, const void *data, size_t size,
                            const weft_option *table, const char *list_key,
                            const weft_option *item_table, weft_yaml **out)
{
    weft_yaml *y;
    const char *zero = memchr(data ? data : "", 0, size);
    if (zero)
        return weft_fail(WEFT_ERR_FORMAT, "%s:%d: holds a zero byte, so it is not YAML", name,
                         line_at(data, zero));
    WEFT_TRY(WEFT_NEW(&y, 1));
    *y = (weft_yaml){.text = data ? data : "",
                     .size = size,
                     .table = table,
                     .item_table = item_table,
                     .list_key = list_key};
    weft_status status = weft_strdup(name, &y->name);
    if (status == WEFT_OK) status = weft_yaml_check(name, y->text, size);
    if (status == WEFT_OK) status = weft_yaml_expand(name, y->text, size, &y->expanded, &y->lines);
    if (y->expanded) {
        y->text = y->expanded;
        y->size = strlen(y->expanded);
    }
    if (status == WEFT_OK) status = load(y);
    if (status != WEFT_OK) {
        weft_yaml_free(&y);
        return status;
    }
    *out = y;
    return WEFT_OK;
}

void weft_yaml_free(weft_yaml **yaml)
{
    if (!yaml || !*yaml) return;
    weft_yaml *y = *yaml;
    cyaml_config_t c = config(y);
    if (y->loaded) (void)cyaml_free(&c, &y->top, (cyaml_data_t *)y->loaded, 0);
    free(y->name);
    free(y->expanded);
    free(y->lines);
    free(y->unexpected);
    free(y->field);
    free(y->fields);
    free(y->item_fields);
    free(y);
    *yaml = NULL;
}

static const items_head *head(const weft_yaml *y)
{
    return (const items_head *)(const void *)(y->loaded + y->options);
}

bool weft_yaml_lists(const weft_yaml *y)
{
    return y->list_key && find_line(y, -1, y->list_key) > 0;
}

int weft_yaml_count(const weft_yaml *y)
{
    return y->loaded && y->list_key ? (int)head(y)->count : 0;
}

static char *const *values_of(const weft_yaml *y, int item)
{
    if (item < 0) return y->loaded;
    return (char *const *)(void *)(head(y)->items + (size_t)item * y->item.data_size);
}

bool weft_yaml_gives(const weft_yaml *y, int item, const char *key)
{
    const weft_option *table = item < 0 ? y->table : y->item_table;
    for (int i = 0; y->loaded && table[i].name; i++)
        if (strcmp(table[i].name, key) == 0) return values_of(y, item)[i] != NULL;
    return false;
}

weft_status weft_yaml_apply(const weft_yaml *y, int item, void *target)
{
    if (!y->loaded) return WEFT_OK;
    const weft_option *table = item < 0 ? y->table : y->item_table;
    const cyaml_schema_field_t *fields = item < 0 ? y->fields : y->item_fields;
    int count = item < 0 ? y->options : y->item_options;
    char *const *values = values_of(y, item);
    for (int i = 0; i < count; i++) {
        if (!values[i]) continue;
        weft_status status = weft_options_set(table, target, fields[i].key, values[i]);
        if (status != WEFT_OK)
            return weft_fail_within(status, "%s:%d", y->name,
                                    weft_yaml_line(y, item, fields[i].key));
    }
    return WEFT_OK;
}
