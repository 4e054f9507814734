/* Names groups and candidates in tables of measurements. */
#include <stdio.h>

#include "program/tuning.h"

void tuning_names(const weft_candidate *candidates, int count, char names[][TUNING_NAME])
{
    for (int i = 0; i < count; i++) {
        int before = 0;
        for (int j = 0; j < i; j++) before += strcmp(candidates[i].name, candidates[j].name) == 0;
        if (before)
            (void)snprintf(names[i], TUNING_NAME, "%.40s#%d", candidates[i].name, before + 1);
        else
            (void)snprintf(names[i], TUNING_NAME, "%.60s", candidates[i].name);
    }
}

/* The number of a value within its group: inputs, then results. */
static int number_of(const weft_group *group, weft_value v)
{
    int count = group->in_count, at = weft_group_in(group, v);
    for (int n = 0; n < group->count && at < 0; n++) {
        const weft_node *node = group->node[n];
        if (v >= node->out && v < node->out + node->out_count) at = count + (int)(v - node->out);
        count += node->out_count;
    }
    return at;
}

static void add_type(weft_text *text, const weft_group *group, weft_value v)
{
    char shape[128];
    const weft_type *type = weft_value_type(group->graph, v);
    weft_text_add(text, "%s%s", weft_dtype_name(type->dtype),
                  weft_shape_text(&type->shape, shape, sizeof(shape)));
}

/* Attributes that say where in a tensor a node works, or by which random numbers: they change no
 * time, and differ between layers and ranks. */
static bool places(const weft_attr *attr)
{
    static const char *const names[] = {"start", "stop", "begin", "seed", "stream", "like"};
    for (size_t i = 0; i < WEFT_COUNT(names); i++)
        if (strcmp(attr->name, names[i]) == 0) return true;
    return false;
}

static void add_attrs(weft_text *text, const weft_node *node, bool placed)
{
    for (int i = 0; i < node->attr_count; i++) {
        const weft_node one = {.attrs = &node->attrs[i], .attr_count = 1};
        if (placed || !places(&node->attrs[i])) weft_node_attrs_text(&one, text);
    }
}

/* Attributes are those of the main node: those of functions of each element, such as the position
 * of a dropout, change no time, and differ between ranks. */
weft_status tuning_group(const weft_group *group, const weft_layout *const *in, bool placed,
                         char **out)
{
    weft_text text = {0};
    for (int n = 0; n < group->count; n++) {
        const weft_node *node = group->node[n];
        weft_text_add(&text, "%s%s(", n ? " " : "", node->op->name);
        for (int i = 0; i < node->in_count; i++)
            weft_text_add(&text, "%s%d", i ? "," : "", number_of(group, node->in[i]));
        if (n == 0) add_attrs(&text, node, placed);
        weft_text_add(&text, ")");
    }
    for (int i = 0; i < group->in_count; i++) {
        weft_text_add(&text, "%s%d ", i ? ", " : " of ", i);
        add_type(&text, group, group->in[i]);
        weft_text_add(&text, " %s", in[i] ? in[i]->text : "any");
    }
    for (int o = 0; o < group->out_count; o++) {
        weft_text_add(&text, "%s%d ", o ? ", " : " to ", number_of(group, group->out[o]));
        add_type(&text, group, group->out[o]);
    }
    char *taken;
    WEFT_TRY(weft_text_take(&text, &taken));
    weft_make_printable(taken);
    *out = taken;
    return WEFT_OK;
}
