/* Checkpoints as text, and as plain weights. */
#include "checkpoint/checkpoint.h"
#include "models/models.h"

weft_status weft_checkpoint_text(const char *path, char **out)
{
    weft_checkpoint c;
    WEFT_TRY(weft_checkpoint_open(path, &c));
    weft_text text = {0};
    weft_text_add(&text, "checkpoint ");
    weft_text_add_printable(&text, c.path);
    weft_text_add(&text, "\nstep %lld, epoch %lld, next batch %lld\n\noptions:\n",
                  (long long)c.position.step, (long long)c.position.epoch,
                  (long long)c.position.batch);
    for (const weft_option *o = weft_train_table(); o->name; o++) {
        char *value = NULL;
        if (weft_options_get(weft_train_table(), &c.options, o->name, &value) == WEFT_OK && value)
            weft_text_add(&text, "  %-18s %s\n", o->name, value);
        free(value);
    }
    for (int part = 0; part < 2; part++) {
        weft_text_add(&text, "\n%s:\n", part ? "state" : "parameters");
        for (size_t i = 0; i < c.tensors[part].count; i++) {
            const weft_tensor *t = &c.tensors[part].tensors[i];
            char shape[128];
            weft_text_add(&text, "  %-32s %-4s %-20s %10zu bytes\n", t->name, t->dtype,
                          weft_shape_text(&t->shape, shape, sizeof(shape)), t->bytes);
        }
    }
    weft_checkpoint_close(&c);
    return weft_text_take(&text, out);
}

/* The model without anything that only training needs: its leaves are what is exported. */
static weft_status build_plain(weft_context *context, const weft_checkpoint *c, weft_graph **out)
{
    weft_model_values values;
    weft_model_options o;
    weft_graph *graph;
    weft_dtype real = WEFT_F32;
    (void)weft_dtype_parse(c->options.dtype, &real);
    WEFT_TRY(weft_graph_create(context, real, &graph));
    weft_model_options_init(&o);
    o.model = c->options.model;
    o.sample = c->stats.shape;
    o.classes = c->stats.classes;
    weft_status status = weft_build_model(graph, &o, &c->model, &values);
    if (status != WEFT_OK) {
        weft_graph_destroy(&graph);
        return weft_fail_within(status, "%s", c->path);
    }
    *out = graph;
    return WEFT_OK;
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
    (void)weft_safetensors_real(t->dtype, &type.dtype); /* the trainer writes no others */
    return type;
}

static weft_status export_read(void *user, size_t i, void *data)
{
    const weft_tensor *t = ((const export_list *)user)->tensors[i];
    memcpy(data, t->data, t->bytes);
    return WEFT_OK;
}

weft_status weft_checkpoint_export(const char *path, const char *file)
{
    weft_checkpoint c;
    weft_context *context;
    weft_graph *model = NULL;
    WEFT_TRY(weft_context_create(&context));
    weft_status status = weft_checkpoint_open(path, &c);
    if (status != WEFT_OK) {
        weft_context_destroy(&context);
        return status;
    }
    export_list e = {NULL, 0};
    status = build_plain(context, &c, &model);
    if (status == WEFT_OK) status = WEFT_NEW(&e.tensors, c.tensors[0].count + c.tensors[1].count);
    for (int part = 0; part < 2 && status == WEFT_OK; part++)
        for (size_t i = 0; i < c.tensors[part].count; i++) {
            const weft_tensor *t = &c.tensors[part].tensors[i];
            if (weft_graph_find(model, t->name) != WEFT_NO_VALUE) e.tensors[e.count++] = t;
        }
    weft_tensor_list list = {e.count, export_name, export_type, export_read, &e};
    if (status == WEFT_OK) status = weft_safetensors_write(file, &list, NULL, NULL);
    free(e.tensors);
    weft_graph_destroy(&model);
    weft_checkpoint_close(&c);
    weft_context_destroy(&context);
    return status;
}
