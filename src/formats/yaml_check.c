/* What YAML allows and nobody means: several documents in one file, a key given twice. */
#include <stdio.h>
#include <yaml.h>

#include "formats/yaml.h"

enum { DEEPEST = 16 };

typedef struct seen {
    char *key;
    int depth;
} seen;

typedef struct check {
    const char *name;
    int documents, depth;
    bool mapping[DEEPEST]; /* else a sequence */
    bool is_key[DEEPEST];  /* the next thing at this depth is a key */
    seen *keys;            /* of the mappings that the walk is inside of */
    size_t count, capacity;
} check;

static int line_of(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

static weft_status take_key(check *c, const yaml_event_t *event)
{
    const char *key = (const char *)event->data.scalar.value;
    for (size_t i = 0; i < c->count; i++)
        if (c->keys[i].depth == c->depth && strcmp(c->keys[i].key, key) == 0)
            return weft_fail(WEFT_ERR_FORMAT, "%s:%d: the key '%s' is given twice", c->name,
                             line_of(event), key);
    WEFT_TRY(WEFT_GROW(&c->keys, &c->capacity, c->count));
    WEFT_TRY(weft_strdup(key, &c->keys[c->count].key));
    c->keys[c->count++].depth = c->depth;
    return WEFT_OK;
}

/* A key or a value has been taken; in a mapping they take turns. */
static void taken(check *c)
{
    c->is_key[c->depth] = c->mapping[c->depth] && !c->is_key[c->depth];
}

static weft_status begin(check *c, const yaml_event_t *event)
{
    if (c->depth + 1 == DEEPEST)
        return weft_fail(WEFT_ERR_FORMAT, "%s:%d: is nested deeper than %d", c->name,
                         line_of(event), DEEPEST - 1);
    c->depth++;
    c->mapping[c->depth] = c->is_key[c->depth] = event->type == YAML_MAPPING_START_EVENT;
    return WEFT_OK;
}

static void end(check *c)
{
    while (c->count > 0 && c->keys[c->count - 1].depth == c->depth) free(c->keys[--c->count].key);
    c->depth--;
    taken(c);
}

static weft_status look(check *c, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (c->documents++ == 0) return WEFT_OK;
        return weft_fail(WEFT_ERR_FORMAT, "%s:%d: a second document begins; a file has one",
                         c->name, line_of(event));
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT: return begin(c, event);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: end(c); return WEFT_OK;
    case YAML_ALIAS_EVENT: taken(c); return WEFT_OK;
    case YAML_SCALAR_EVENT:
        if (c->is_key[c->depth]) WEFT_TRY(take_key(c, event));
        taken(c);
        return WEFT_OK;
    default: return WEFT_OK;
    }
}

weft_status weft_yaml_check(const char *name, const void *data, size_t size)
{
    yaml_parser_t parser;
    check c = {.name = name};
    weft_status status = WEFT_OK;
    if (!yaml_parser_initialize(&parser)) return weft_fail_memory(size);
    yaml_parser_set_input_string(&parser, data, size);
    for (bool done = false; !done && status == WEFT_OK;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = parser.error == YAML_MEMORY_ERROR
                         ? weft_fail_memory(size)
                         : weft_fail(WEFT_ERR_FORMAT, "%s:%d: is not YAML: %s", name,
                                     (int)parser.problem_mark.line + 1,
                                     parser.problem ? parser.problem : "cannot be read");
            break;
        }
        done = event.type == YAML_STREAM_END_EVENT;
        status = look(&c, &event);
        yaml_event_delete(&event);
    }
    while (c.count > 0) free(c.keys[--c.count].key);
    free(c.keys);
    yaml_parser_delete(&parser);
    return status;
}
