/* Writes YAML without anchors, aliases and merge keys: an alias becomes a copy of what its anchor
 * names, and `<<` the keys of the mappings that it names and its own mapping lacks. The schema
 * library, joined lists and places of keys then have one kind of text. */
#include <stdio.h>
#include <yaml.h>

#include "formats/yaml.h"

enum {
    /* Values and bytes beyond those of the text to which aliases may expand, since a few aliases of
     * aliases may stand for any number. */
    MOST = 1 << 22,
    DEEPEST = 15 /* mappings and sequences around a value, and merges within merges */
};

/* A value; those of a mapping are its keys and values in turn. */
typedef struct node {
    yaml_event_type_t kind; /* a scalar, the start of a sequence or of a mapping, or an alias */
    int line;
    int child, next; /* 0: none */
    int of;          /* of an alias: its value */
    char *text;      /* of a scalar */
    size_t size;
    bool plain;
} node;

typedef struct expansion {
    const char *name;
    node *nodes; /* the first is none */
    size_t capacity;
    int count;
    int open[DEEPEST + 2], last[DEEPEST + 2]; /* of each depth: its value, and the last one in it */
    int depth;
    weft_names anchors;
    char **anchor_names;
    size_t anchor_count, anchor_capacity;
    bool used; /* there is an alias or a merge key */
    weft_text text;
    int *lines; /* of the original text, for each line of the new one */
    size_t line_count, line_capacity;
    int64_t work, most;
} expansion;

/* --- reading --- */

static weft_status name_anchor(expansion *x, const yaml_char_t *anchor, int value)
{
    char *name;
    if (!anchor) return WEFT_OK;
    if (weft_names_find(&x->anchors, (const char *)anchor) >= 0)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: the anchor '&%s' is given twice; give each its own", x->name,
                         x->nodes[value].line, (const char *)anchor);
    WEFT_TRY(WEFT_GROW(&x->anchor_names, &x->anchor_capacity, x->anchor_count));
    WEFT_TRY(weft_strdup((const char *)anchor, &name));
    x->anchor_names[x->anchor_count++] = name;
    return weft_names_add(&x->anchors, name, value);
}

/* Finds the value of an alias, which is complete before the alias. */
static weft_status find_anchor(const expansion *x, const char *name, int line, int *of)
{
    *of = weft_names_find(&x->anchors, name);
    bool within = false;
    for (int d = 1; d <= x->depth; d++) within = within || x->open[d] == *of;
    if (*of > 0 && !within) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     within ? "%s:%d: *%s stands within what '&%s' names, so it would never end"
                            : "%s:%d: *%s has no anchor '&%s' before it",
                     x->name, line, name, name);
}

/* Adds a value behind the last one at this depth. */
static weft_status add_node(expansion *x, const node *n, const yaml_char_t *anchor)
{
    int *last = &x->last[x->depth];
    WEFT_TRY(WEFT_GROW(&x->nodes, &x->capacity, x->count));
    x->nodes[x->count] = *n;
    if (*last)
        x->nodes[*last].next = x->count;
    else
        x->nodes[x->open[x->depth]].child = x->count;
    *last = x->count++;
    return name_anchor(x, anchor, *last);
}

static weft_status add_scalar(expansion *x, const yaml_event_t *event)
{
    node n = {.kind = event->type,
              .line = (int)event->start_mark.line + 1,
              .size = event->data.scalar.length,
              .plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE};
    WEFT_TRY(weft_new_bytes((void *)&n.text, n.size + 1, 1));
    memcpy(n.text, event->data.scalar.value, n.size);
    x->used = x->used || (n.plain && strcmp(n.text, "<<") == 0);
    int count = x->count;
    weft_status status = add_node(x, &n, event->data.scalar.anchor);
    if (x->count == count) free(n.text);
    return status;
}

static weft_status add_start(expansion *x, const yaml_event_t *event, const yaml_char_t *anchor)
{
    const node n = {.kind = event->type, .line = (int)event->start_mark.line + 1};
    WEFT_TRY(add_node(x, &n, anchor));
    int value = x->last[x->depth++];
    x->open[x->depth] = value;
    x->last[x->depth] = 0;
    return WEFT_OK;
}

static weft_status add_event(expansion *x, const yaml_event_t *event)
{
    node n = {.kind = event->type, .line = (int)event->start_mark.line + 1};
    switch (event->type) {
    case YAML_SCALAR_EVENT: return add_scalar(x, event);
    case YAML_MAPPING_START_EVENT: return add_start(x, event, event->data.mapping_start.anchor);
    case YAML_SEQUENCE_START_EVENT: return add_start(x, event, event->data.sequence_start.anchor);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT: x->depth--; return WEFT_OK;
    case YAML_ALIAS_EVENT:
        x->used = true;
        WEFT_TRY(find_anchor(x, (const char *)event->data.alias.anchor, n.line, &n.of));
        return add_node(x, &n, NULL);
    default: return WEFT_OK;
    }
}

/* Reads a text that weft_yaml_check has accepted. */
static weft_status read_text(expansion *x, const void *data, size_t size)
{
    yaml_parser_t parser;
    weft_status status = WEFT_GROW(&x->nodes, &x->capacity, 0);
    if (status != WEFT_OK) return status;
    x->nodes[0] = (node){.kind = YAML_NO_EVENT};
    x->count = 1;
    if (!yaml_parser_initialize(&parser)) return weft_fail_memory(size);
    yaml_parser_set_input_string(&parser, data, size);
    for (bool done = false; !done && status == WEFT_OK;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = weft_fail_memory(size);
            break;
        }
        done = event.type == YAML_STREAM_END_EVENT;
        status = add_event(x, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

/* --- writing --- */

/* Counts work that a value of this line needs. */
static weft_status count_work(expansion *x, int line, int depth)
{
    if (depth > DEEPEST)
        return weft_fail(WEFT_ERR_FORMAT, "%s:%d: is nested deeper than %d, with its aliases",
                         x->name, line, DEEPEST);
    if (++x->work + (int64_t)x->text.size <= x->most) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s:%d: aliases stand for more than %d values or bytes; write fewer of them",
                     x->name, line, MOST);
}

/* Begins a line of the new text for a value of this line of the original one. */
static weft_status begin_line(expansion *x, int line)
{
    weft_text_add(&x->text, "\n");
    WEFT_TRY(WEFT_GROW(&x->lines, &x->line_capacity, x->line_count));
    x->lines[x->line_count++] = line;
    return WEFT_OK;
}

/* Writes a scalar between quotes, with escapes for all but ASCII. The parser gives UTF-8. */
static void write_scalar(expansion *x, const node *n)
{
    const unsigned char *at = (const unsigned char *)n->text, *end = at + n->size;
    weft_text_add(&x->text, "\"");
    while (at < end) {
        uint32_t c = *at++;
        int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
        if (more) c &= 0x3FU >> more;
        for (; more > 0 && at < end; more--) c = c << 6 | (*at++ & 0x3FU);
        if (c >= ' ' && c <= '~' && c != '"' && c != '\\')
            weft_text_add(&x->text, "%c", (int)c);
        else
            weft_text_add(&x->text, "\\U%08x", (unsigned)c);
    }
    weft_text_add(&x->text, "\"");
}

static weft_status write_value(expansion *x, int value, int depth);

static int value_of(const expansion *x, int value)
{
    return x->nodes[value].kind == YAML_ALIAS_EVENT ? x->nodes[value].of : value;
}

static bool is_merge(const node *key)
{
    return key->kind == YAML_SCALAR_EVENT && key->plain && strcmp(key->text, "<<") == 0;
}

/* Writes the keys of a mapping that are not among those that have been `written`. */
static weft_status write_own(expansion *x, int mapping, weft_names *written, int depth)
{
    for (int key = x->nodes[mapping].child; key; key = x->nodes[x->nodes[key].next].next) {
        const node *k = &x->nodes[key];
        WEFT_TRY(count_work(x, k->line, depth));
        if (is_merge(k)) continue;
        if (k->kind == YAML_SCALAR_EVENT) {
            if (weft_names_find(written, k->text) >= 0) continue;
            WEFT_TRY(weft_names_add(written, k->text, key));
        }
        WEFT_TRY(begin_line(x, k->line));
        weft_text_add(&x->text, "? ");
        WEFT_TRY(write_value(x, key, depth));
        weft_text_add(&x->text, " : ");
        WEFT_TRY(write_value(x, x->nodes[key].next, depth));
        weft_text_add(&x->text, ",");
    }
    return WEFT_OK;
}

/* Writes the keys of a mapping, and then those of the mappings that it merges, of which the first
 * one with a key gives it. */
static weft_status write_keys(expansion *x, int mapping, weft_names *written, int depth)
{
    WEFT_TRY(write_own(x, mapping, written, depth));
    for (int key = x->nodes[mapping].child; key; key = x->nodes[x->nodes[key].next].next) {
        if (!is_merge(&x->nodes[key])) continue;
        int line = x->nodes[key].line, from = value_of(x, x->nodes[key].next);
        bool list = x->nodes[from].kind == YAML_SEQUENCE_START_EVENT;
        for (int item = list ? x->nodes[from].child : from; item;
             item = list ? x->nodes[item].next : 0) {
            int merged = value_of(x, item);
            WEFT_TRY(count_work(x, line, depth + 1));
            if (x->nodes[merged].kind != YAML_MAPPING_START_EVENT)
                return weft_fail(WEFT_ERR_FORMAT,
                                 "%s:%d: '<<' must have a mapping, as in <<: *name, or a sequence "
                                 "of some",
                                 x->name, line);
            WEFT_TRY(write_keys(x, merged, written, depth + 1));
        }
    }
    return WEFT_OK;
}

static weft_status write_items(expansion *x, int sequence, int depth)
{
    for (int item = x->nodes[sequence].child; item; item = x->nodes[item].next) {
        WEFT_TRY(begin_line(x, x->nodes[item].line));
        WEFT_TRY(write_value(x, item, depth));
        weft_text_add(&x->text, ",");
    }
    return WEFT_OK;
}

/* depth: of the mappings and sequences around the value. */
static weft_status write_value(expansion *x, int value, int depth)
{
    const node *n = &x->nodes[value_of(x, value)];
    weft_names written = {0};
    WEFT_TRY(count_work(x, x->nodes[value].line, depth));
    if (n->kind == YAML_SCALAR_EVENT) {
        write_scalar(x, n);
        return WEFT_OK;
    }
    bool mapping = n->kind == YAML_MAPPING_START_EVENT;
    weft_text_add(&x->text, mapping ? "{" : "[");
    weft_status status = mapping ? write_keys(x, value_of(x, value), &written, depth + 1)
                                 : write_items(x, value_of(x, value), depth + 1);
    weft_names_free(&written);
    weft_text_add(&x->text, mapping ? "}" : "]");
    return status;
}

static void free_all(expansion *x)
{
    for (int i = 0; i < x->count; i++) free(x->nodes[i].text);
    for (size_t i = 0; i < x->anchor_count; i++) free(x->anchor_names[i]);
    weft_names_free(&x->anchors);
    free(x->anchor_names);
    free(x->nodes);
    free(x->lines);
    free(x->text.data);
}

weft_status weft_yaml_expand(const char *name, const void *data, size_t size, char **out,
                             int **lines)
{
    expansion x = {.name = name, .most = MOST + 16 * (int64_t)size};
    *out = NULL;
    *lines = NULL;
    weft_status status = read_text(&x, data, size);
    int value = status == WEFT_OK && x.used ? x.nodes[0].child : 0;
    if (value) status = begin_line(&x, x.nodes[value].line);
    if (value && status == WEFT_OK) status = write_value(&x, value, 0);
    if (value && status == WEFT_OK) status = weft_text_take(&x.text, out);
    if (value && status == WEFT_OK) {
        *lines = x.lines;
        x.lines = NULL;
    }
    free_all(&x);
    return status;
}
