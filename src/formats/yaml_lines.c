/* Finds the lines of keys and items in YAML, for messages. */
#include <yaml.h>

#include "formats/yaml.h"

/* A walk over the parser events of the text, which finds the line of a key. libcyaml does not store
 * lines. */
typedef struct walk {
    int depth;    /* number of mappings and sequences around the next event */
    int item;     /* current item of the list, or -1 */
    bool in_list; /* inside the value of list_key */
    bool is_key;  /* the next scalar at this depth is a key */
} walk;

/* Processes an event. Returns true if the event is the wanted key of the wanted mapping (item < 0:
 * the outer one), or, with key NULL, the start of the wanted item. */
static bool visit(walk *w, const char *list_key, const yaml_event_t *event, int item,
                  const char *key)
{
    bool wanted_depth = item < 0 ? w->depth == 1 : w->in_list && w->depth == 3 && w->item == item;
    switch (event->type) {
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        if (w->in_list && w->depth == 2) w->item++;
        w->depth++;
        w->is_key = true;
        return !key && w->in_list && w->depth == 3 && w->item == item;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        w->depth--;
        if (w->depth == 1) w->in_list = false;
        w->is_key = true;
        return false;
    case YAML_SCALAR_EVENT: {
        const char *value = (const char *)event->data.scalar.value;
        bool was_key = w->is_key;
        if (w->in_list && w->depth == 2) { /* an item that is no mapping */
            w->item++;
            return !key && w->item == item;
        }
        w->is_key = !w->is_key;
        if (!was_key) return false;
        if (w->depth == 1) w->in_list = list_key && strcmp(value, list_key) == 0;
        return key && wanted_depth && strcmp(value, key) == 0;
    }
    default: return false;
    }
}

int weft_yaml_find(const void *text, size_t size, const char *list_key, int item, const char *key)
{
    yaml_parser_t parser;
    walk w = {.item = -1};
    int line = 0;
    if (!yaml_parser_initialize(&parser)) return 0;
    yaml_parser_set_input_string(&parser, text, size);
    for (bool done = false; !done && line == 0;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) break;
        done = event.type == YAML_STREAM_END_EVENT || event.type == YAML_DOCUMENT_END_EVENT;
        if (visit(&w, list_key, &event, item, key)) line = (int)event.start_mark.line + 1;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return line;
}
