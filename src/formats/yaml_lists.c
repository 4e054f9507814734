/* Joins a YAML list under an option that takes several numbers to one value: "[3, 5]" becomes
 * "3, 5". The schema library has no type that is a value or a list, so it reads the joined text. */
#include <stdio.h>
#include <yaml.h>

#include "formats/yaml.h"

typedef struct joiner {
    const char *list_key;
    const weft_option *items;
    int depth;          /* number of mappings and sequences around the next event */
    bool is_key, found; /* is_key: the next scalar is a key; found: a list was joined */
    bool in_list;       /* inside the value of list_key */
    bool takes_list;    /* the last key is an option that takes several numbers */
    bool joining;       /* inside a list that is being joined */
    weft_text list;     /* the joined values of that list so far */
    weft_text text;     /* the new YAML text */
} joiner;

static int on_write(void *user, unsigned char *data, size_t size)
{
    joiner *j = user;
    weft_text_add_bytes(&j->text, (const char *)data, size);
    return 1;
}

static void take_key(joiner *j, const char *key)
{
    j->takes_list = false;
    if (j->depth == 1) j->in_list = strcmp(key, j->list_key) == 0;
    for (const weft_option *o = j->items; j->in_list && j->depth == 3 && o->name; o++)
        j->takes_list = j->takes_list || (o->kind == WEFT_OPT_INTS && strcmp(o->name, key) == 0);
}

/* Turns the event that ends a list into a scalar event with the joined values. */
static bool end_list(joiner *j, yaml_event_t *event)
{
    char *joined = NULL;
    weft_status status = weft_text_take(&j->list, &joined);
    yaml_event_delete(event);
    j->joining = false;
    j->found = true;
    j->is_key = true;
    bool made =
        status == WEFT_OK &&
        yaml_scalar_event_initialize(event, NULL, NULL, (yaml_char_t *)joined, (int)strlen(joined),
                                     1, 1, YAML_SINGLE_QUOTED_SCALAR_STYLE);
    free(joined);
    return made;
}

static void drop(weft_text *text)
{
    char *taken = NULL;
    if (weft_text_take(text, &taken) == WEFT_OK) free(taken);
}

/* The treatment of an event: WRITE it to the new text, KEEP it out, or GIVE_UP at a list within a
 * list that is being joined. The caller then uses the original text, which the schema refuses. */
typedef enum outcome { WRITE, KEEP, GIVE_UP } outcome;

static outcome join_event(joiner *j, yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        if (j->joining) {
            weft_text_add(&j->list, "%s%s", j->list.size ? ", " : "",
                          (const char *)event->data.scalar.value);
            return KEEP;
        }
        if (j->is_key) take_key(j, (const char *)event->data.scalar.value);
        j->is_key = !j->is_key;
        return WRITE;
    case YAML_SEQUENCE_START_EVENT:
        if (j->joining) return GIVE_UP;
        if (j->takes_list && !j->is_key) {
            j->joining = true;
            return KEEP;
        }
        break;
    case YAML_MAPPING_START_EVENT:
        if (j->joining) return GIVE_UP;
        break;
    case YAML_SEQUENCE_END_EVENT:
        if (j->joining) return end_list(j, event) ? WRITE : GIVE_UP;
        j->depth--;
        j->is_key = true;
        return WRITE;
    case YAML_MAPPING_END_EVENT:
        j->depth--;
        j->is_key = true;
        return WRITE;
    default: return j->joining ? GIVE_UP : WRITE;
    }
    j->depth++;
    j->is_key = event->type == YAML_MAPPING_START_EVENT;
    return WRITE;
}

/* Copies all events of the parser, with lists joined, to the emitter. Returns false if parsing or
 * writing fails, or at GIVE_UP. */
static bool copy(joiner *j, yaml_parser_t *parser, yaml_emitter_t *emitter)
{
    for (bool done = false; !done;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) return false;
        done = event.type == YAML_STREAM_END_EVENT;
        outcome what = join_event(j, &event);
        if (what == WRITE && !yaml_emitter_emit(emitter, &event))
            return false; /* the emitter has freed the event */
        if (what != WRITE) yaml_event_delete(&event);
        if (what == GIVE_UP) return false;
    }
    return true;
}

weft_status weft_yaml_join(const void *data, size_t size, const char *list_key,
                           const weft_option *items, char **out)
{
    joiner j = {.list_key = list_key, .items = items};
    yaml_parser_t parser;
    yaml_emitter_t emitter;
    *out = NULL;
    if (!yaml_parser_initialize(&parser)) return weft_fail_memory(size);
    if (!yaml_emitter_initialize(&emitter)) {
        yaml_parser_delete(&parser);
        return weft_fail_memory(size);
    }
    yaml_parser_set_input_string(&parser, data, size);
    yaml_emitter_set_output(&emitter, on_write, &j);
    yaml_emitter_set_unicode(&emitter, 1);
    yaml_emitter_set_width(&emitter, -1);
    bool whole = copy(&j, &parser, &emitter);
    bool memory = parser.error == YAML_MEMORY_ERROR || emitter.error == YAML_MEMORY_ERROR;
    yaml_emitter_delete(&emitter);
    yaml_parser_delete(&parser);
    drop(&j.list);
    weft_status status = memory ? weft_fail_memory(size) : WEFT_OK;
    if (status == WEFT_OK && whole && j.found) return weft_text_take(&j.text, out);
    drop(&j.text);
    return status;
}
