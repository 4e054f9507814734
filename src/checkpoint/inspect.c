/* Describes a checkpoint as text, and writes its weights to a safetensors file. */
#include "checkpoint/about.h"

/* Appends a line that says what the model predicts: a class, or numbers. */
static void describe_target(const weft_data_stats *s, weft_text *text)
{
    if (s->targets == 0) {
        weft_text_add(text, "predicts one of %d classes\n", s->classes);
        if (s->class_names) weft_text_add(text, "\nclasses:\n");
        for (int c = 0; s->class_names && c < s->classes; c++) {
            weft_text_add(text, "  %-4d ", c);
            weft_text_add_printable(text, s->class_names[c]);
            weft_text_add(text, "\n");
        }
        return;
    }
    weft_text_add(text, "predicts %d %s%s", s->targets, s->binary ? "label" : "number",
                  weft_plural(s->targets));
    if (s->label_name) weft_text_add(text, ", ");
    if (s->label_name) weft_text_add_printable(text, s->label_name);
    if (s->targets == 1)
        weft_text_add(text, ": in training of mean %.6g and deviation %.6g", s->target_mean[0],
                      s->target_deviation[0]);
    weft_text_add(text, "\n");
}

static void describe_position(const weft_position *p, weft_text *text)
{
    weft_text_add(text, "\nafter step %lld: %lld epoch%s", (long long)p->step, (long long)p->epoch,
                  weft_plural(p->epoch));
    if (p->batch > 0)
        weft_text_add(text, " and %lld batch%s of the next", (long long)p->batch,
                      p->batch == 1 ? "" : "es");
    if (p->samples > 0) weft_text_add(text, " (%lld samples)", (long long)p->samples);
    weft_text_add(text, "\n");
}

void weft_checkpoint_describe(const weft_checkpoint *c, const char *rate, const char *outputs,
                              weft_text *text)
{
    weft_text_add(text, "checkpoint ");
    weft_text_add_printable(text, c->path);
    describe_position(&c->position, text);
    weft_text_add(text, "%s", rate);
    describe_target(&c->stats, text);
    weft_text_add(text, "%s", outputs);
    weft_text_add(text, "\noptions:\n");
    for (int i = 0; i < c->settings.count; i++)
        weft_text_add(text, "  %-18s %s\n", c->settings.all[i].name, c->settings.all[i].text);
    for (int part = 0; part < 2; part++) {
        weft_text_add(text, "\n%s:\n", part ? "state" : "parameters");
        for (size_t i = 0; i < c->tensors[part].count; i++) {
            const weft_tensor *t = &c->tensors[part].tensors[i];
            char shape[128];
            weft_text_add(text, "  %-32s %-4s %-20s %10zu bytes\n", t->name, t->dtype,
                          weft_shape_text(&t->shape, shape, sizeof(shape)), t->bytes);
        }
    }
}

typedef struct export_list {
    const weft_tensor **tensors;
    size_t count;
} export_list;

static const char *export_name(void *user, size_t i)
{
    return ((const export_list *)user)->tensors[i]->name;
}

static weft_type export_type(void *user, size_t i)
{
    const weft_tensor *t = ((const export_list *)user)->tensors[i];
    weft_type type = {WEFT_F32, t->shape};
    (void)weft_safetensors_real(t->dtype, &type.dtype); /* the trainer writes no other types */
    return type;
}

static weft_status export_read(void *user, size_t i, void *data)
{
    const weft_tensor *t = ((const export_list *)user)->tensors[i];
    memcpy(data, t->data, t->bytes);
    return WEFT_OK;
}

weft_status weft_checkpoint_write_leaves(const weft_checkpoint *c, const weft_graph *graph,
                                         const char *file, weft_output_mode mode)
{
    export_list e = {NULL, 0};
    WEFT_TRY(WEFT_NEW(&e.tensors, c->tensors[0].count + c->tensors[1].count));
    for (int part = 0; part < 2; part++)
        for (size_t i = 0; i < c->tensors[part].count; i++) {
            const weft_tensor *t = &c->tensors[part].tensors[i];
            if (weft_graph_find(graph, t->name) != WEFT_NO_VALUE) e.tensors[e.count++] = t;
        }
    json_t *about = weft_stats_json(&c->stats);
    char *text = about ? json_dumps(about, JSON_COMPACT) : NULL;
    const weft_tensor_list list = {e.count, export_name, export_type, export_read, &e, NULL, text};
    weft_status status =
        text ? weft_safetensors_write(file, mode, &list, NULL, NULL) : weft_fail_memory(1);
    free(text);
    json_decref(about);
    free(e.tensors);
    return status;
}
