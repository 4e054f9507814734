/* Refuses YAML that is legal and yet a mistake here: a second document in a file, a duplicate key,
 * an alias as a key, too deep nesting. */
#include <stdio.h>
#include <yaml.h>

#include "formats/yaml.h"

enum { DEEPEST = 16 };

/* The keys that a mapping has had so far; used for each mapping that contains the current event. */
typedef struct seen {
    weft_names names;
    char **key;
    size_t count, capacity;
} seen;

typedef struct check {
    const char *name;
    int documents, depth;
    bool mapping[DEEPEST]; /* whether this depth is a mapping; otherwise a sequence */
    bool is_key[DEEPEST];  /* the next event at this depth is a key */
    seen keys[DEEPEST];
} check;

static int line_of(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

static weft_status take_key(check *c, const yaml_event_t *event)
{
    const char *key = (const char *)event->data.scalar.value;
    seen *s = &c->keys[c->depth];
    if (weft_names_find(&s->names, key) >= 0)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: the key '%s' is given twice; leave one of them out", c->name,
                         line_of(event), key);
    WEFT_TRY(WEFT_GROW(&s->key, &s->capacity, s->count));
    WEFT_TRY(weft_strdup(key, &s->key[s->count]));
    return weft_names_add(&s->names, s->key[s->count++], 0);
}

/* Notes that a key or value ends. In a mapping keys and values alternate. */
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

static void forget(seen *s)
{
    while (s->count > 0) free(s->key[--s->count]);
    free((void *)s->key);
    weft_names_free(&s->names);
    *s = (seen){0};
}

static void end(check *c)
{
    forget(&c->keys[c->depth]);
    c->depth--;
    taken(c);
}

static weft_status check_event(check *c, const yaml_event_t *event)
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
    case YAML_ALIAS_EVENT:
        if (c->is_key[c->depth])
            return weft_fail(WEFT_ERR_FORMAT, "%s:%d: *%s is a key; write a name here", c->name,
                             line_of(event), (const char *)event->data.alias.anchor);
        taken(c);
        return WEFT_OK;
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
        status = check_event(&c, &event);
        yaml_event_delete(&event);
    }
    for (int d = 0; d < DEEPEST; d++) forget(&c.keys[d]);
    yaml_parser_delete(&parser);
    return status;
}
