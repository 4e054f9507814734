/* Writes the metadata and statistics of the server and its models, as JSON of the Open Inference
 * Protocol and of Triton's extensions to it. */
#include <math.h>
#include <stdio.h>

#include "formats/table.h"
#include "serve/front/infer_internal.h"
#include "serve/compute_stats.h"

weft_status weft_reply_json(weft_reply *reply, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (!text) return weft_fail_memory(1024);
    weft_text_add_bytes(&reply->text, text, strlen(text));
    free(text);
    reply->code = 200;
    return reply->text.failed ? weft_fail_memory(reply->text.size) : WEFT_OK;
}

void weft_reply_error(weft_reply *reply, unsigned code, const char *sentence)
{
    free(reply->text.data);
    *reply = (weft_reply){.code = code, .allowed = reply->allowed};
    weft_text_add(&reply->text, "{\"error\":");
    weft_text_add_json(&reply->text, sentence);
    weft_text_add(&reply->text, "}");
}

weft_status weft_write_server_metadata(weft_reply *reply)
{
    return weft_reply_json(
        reply, json_pack("{s:s,s:s,s:[s,s,s,s,s,s,s]}", "name", "weft", "version", weft_version(),
                         "extensions", "binary_tensor_data", "classification", "statistics",
                         "model_repository", "model_configuration", "predict", "generate"));
}

/* The shape of a batch: -1 for the number of rows, then the dimensions of a row. */
static json_t *shape_of(const weft_shape *row)
{
    json_t *shape = json_pack("[i]", -1);
    for (int i = 0; i < row->rank; i++) json_array_append_new(shape, json_integer(row->dim[i]));
    return shape;
}

/* Numbers in the units of a target may need more digits than single precision has. */
const char *weft_infer_output_type(const weft_servable_info *about, int output)
{
    if (output > 0) return weft_datatype_name(about->output[output].dtype);
    return about->real == WEFT_F32 && about->targets == 0 ? "FP32" : "FP64";
}

/* Columns of a table may need more digits than single precision has. */
static const char *input_type(const weft_servable_info *about, int input)
{
    return about->input[input].values > 0 ? "INT32" : about->table ? "FP64" : "FP32";
}

static json_t *text_of(long long number)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", number);
    return json_string(text);
}

/* The versions of a model that are ready, as texts. */
static json_t *versions_of(weft_service *service, const char *name)
{
    json_t *versions = json_array();
    weft_service_item item;
    for (int i = 0; weft_service_entry(service, i, &item); i++)
        if (item.ready && strcmp(item.name, name) == 0)
            json_array_append_new(versions, text_of(item.version));
    return versions;
}

/* The columns of a table: names, types, and the categories of texts; NULL: they have no names. */
static json_t *columns_of(const weft_servable_info *about)
{
    static const char *const types[] = {[WEFT_CSV_NUMBERS] = "number",
                                        [WEFT_CSV_CATEGORIES] = "category",
                                        [WEFT_CSV_DATES] = "date"};
    const weft_table *table = about->table_columns;
    if (!about->column_names) return NULL;
    json_t *columns = json_array();
    for (int64_t i = 0; i < weft_infer_columns(about); i++) {
        const weft_table_column *c = table ? &table->column[i] : NULL;
        json_t *one = json_pack("{s:s,s:s,s:b}", "name", c ? c->name : about->column_names[i],
                                "type", types[c ? c->kind : WEFT_CSV_NUMBERS], "may_be_missing",
                                c && !isnan(c->fill));
        if (c && c->kind == WEFT_CSV_CATEGORIES) {
            json_t *words = json_array();
            for (int k = 0; k < c->words; k++)
                json_array_append_new(words, json_string(c->word[k]));
            json_object_set_new(one, "categories", words);
        }
        json_array_append_new(columns, one);
    }
    return columns;
}

weft_status weft_write_model_metadata(weft_service *service, const weft_servable_info *about,
                                      weft_reply *reply)
{
    json_t *inputs = json_array(), *outputs = json_array();
    for (int k = 0; k < about->inputs; k++) {
        weft_shape row = weft_infer_row_shape(about, k);
        json_array_append_new(inputs,
                              json_pack("{s:s,s:s,s:o}", "name", about->input[k].name, "datatype",
                                        input_type(about, k), "shape", shape_of(&row)));
    }
    for (int k = 0; k < about->output_count; k++)
        json_array_append_new(outputs, json_pack("{s:s,s:s,s:o}", "name", about->output[k].name,
                                                 "datatype", weft_infer_output_type(about, k),
                                                 "shape", shape_of(&about->output[k].shape)));
    json_t *root = json_pack("{s:s,s:o,s:s,s:o,s:o}", "name", about->name, "versions",
                             versions_of(service, about->name), "platform", "weft", "inputs",
                             inputs, "outputs", outputs);
    json_t *columns = columns_of(about);
    if (columns) json_object_set_new(root, "columns", columns);
    return weft_reply_json(reply, root);
}

static json_t *dims_of(const weft_shape *row)
{
    json_t *dims = shape_of(row);
    json_array_remove(dims, 0);
    return dims;
}

weft_status weft_write_model_config(weft_servable *servable, weft_reply *reply)
{
    weft_servable_info about;
    weft_batch_queue_stats stats;
    char type[32];
    json_t *inputs = json_array(), *outputs = json_array();
    weft_servable_describe(servable, &about);
    weft_batch_queue_describe(weft_servable_queue(servable), &stats);
    for (int k = 0; k < about.inputs; k++) {
        weft_shape row = weft_infer_row_shape(&about, k);
        (void)snprintf(type, sizeof(type), "TYPE_%s", input_type(&about, k));
        json_array_append_new(inputs, json_pack("{s:s,s:s,s:o}", "name", about.input[k].name,
                                                "data_type", type, "dims", dims_of(&row)));
    }
    for (int k = 0; k < about.output_count; k++) {
        (void)snprintf(type, sizeof(type), "TYPE_%s", weft_infer_output_type(&about, k));
        json_array_append_new(outputs,
                              json_pack("{s:s,s:s,s:o}", "name", about.output[k].name, "data_type",
                                        type, "dims", dims_of(&about.output[k].shape)));
    }
    json_t *root = json_pack(
        "{s:s,s:s,s:s,s:I,s:o,s:o,s:{s:I},s:{s:{s:s}}}", "name", about.name, "platform", "weft",
        "backend", "weft", "max_batch_size", (json_int_t)about.limit, "input", inputs, "output",
        outputs, "dynamic_batching", "max_queue_delay_microseconds",
        (json_int_t)(stats.max_delay * 1e6), "parameters", "policy", "string_value", about.policy);
    return weft_reply_json(reply, root);
}

/* --- statistics --- */

static json_t *sum(int64_t count, double seconds)
{
    return json_pack("{s:I,s:I}", "count", (json_int_t)count, "ns", (json_int_t)(seconds * 1e9));
}

/* The statistics count as Triton does: each request is charged the whole time of its batch. */
static json_t *inference_stats(const weft_batch_queue_stats *s, const weft_compute_times *t)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "success",
                     sum(s->requests, s->queue_seconds + s->compute_seconds), "fail",
                     sum(s->failed + s->expired + s->refused, 0), "cancel", sum(s->cancelled, 0),
                     "queue", sum(s->requests, s->queue_seconds), "compute_input",
                     sum(t->count, t->input), "compute_infer", sum(t->count, t->infer),
                     "compute_output", sum(t->count, t->output));
}

/* Statistics for each batch size. */
static json_t *batch_stats(weft_compute_stats *stats)
{
    json_t *all = json_array();
    weft_compute_times t;
    for (int i = 0; weft_compute_stats_size(stats, i, &t); i++)
        json_array_append_new(all, json_pack("{s:I,s:o,s:o,s:o}", "batch_size", (json_int_t)t.rows,
                                             "compute_input", sum(t.count, t.input),
                                             "compute_infer", sum(t.count, t.infer),
                                             "compute_output", sum(t.count, t.output)));
    return all;
}

static json_t *stats_of(weft_servable *servable)
{
    weft_servable_info about;
    weft_batch_queue_stats s;
    weft_compute_times times;
    double last;
    weft_servable_describe(servable, &about);
    weft_batch_queue_describe(weft_servable_queue(servable), &s);
    weft_compute_stats_total(weft_servable_compute_stats(servable), &times, &last);
    return json_pack("{s:s,s:o,s:I,s:I,s:I,s:o,s:o}", "name", about.name, "version",
                     text_of(about.version), "last_inference", (json_int_t)(last * 1000),
                     "inference_count", (json_int_t)s.rows, "execution_count",
                     (json_int_t)s.batches, "inference_stats", inference_stats(&s, &times),
                     "batch_stats", batch_stats(weft_servable_compute_stats(servable)));
}

weft_status weft_write_statistics(weft_service *service, const char *name, int64_t version,
                                  weft_reply *reply)
{
    json_t *all = json_array();
    weft_service_item item;
    for (int i = 0; weft_service_entry(service, i, &item); i++) {
        bool wanted =
            (!name || strcmp(name, item.name) == 0) && (version == 0 || version == item.version);
        weft_servable *servable = wanted ? weft_service_hold_entry(service, i) : NULL;
        if (servable) json_array_append_new(all, stats_of(servable));
        weft_servable_release(&servable);
    }
    return weft_reply_json(reply, json_pack("{s:o}", "model_stats", all));
}

/* --- the repository --- */

static json_t *entry(const weft_service_item *item)
{
    static const char *const states[] = {[WEFT_SERVABLE_READY] = "READY",
                                         [WEFT_SERVABLE_LOADING] = "LOADING",
                                         [WEFT_SERVABLE_UNAVAILABLE] = "UNAVAILABLE"};
    json_t *told = json_pack("{s:s,s:s,s:s}", "name", item->name, "state", states[item->state],
                             "reason", item->reason);
    if (item->version > 0) json_object_set_new(told, "version", text_of(item->version));
    return told;
}

weft_status weft_write_repository_index(weft_service *service, bool only_ready, weft_reply *reply)
{
    json_t *all = json_array();
    weft_service_item item;
    for (int i = 0; weft_service_entry(service, i, &item); i++)
        if (item.ready || !only_ready) json_array_append_new(all, entry(&item));
    return weft_reply_json(reply, all);
}
