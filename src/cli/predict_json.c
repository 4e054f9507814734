/* Predictions as JSON, an object on each line. */
#include "predict.h"

static void json_text(sink *s, const char *text)
{
    char *json = NULL;
    sink_put(s, weft_json_string(text, &json));
    if (json) sink_put(s, weft_output_print(s->to, "%s", json));
    weft_free(json);
}

/* Writes a class as JSON: its name or, if classes are numbers, its number. */
static void json_class(sink *s, int32_t class_index, char *const *names)
{
    if (names)
        json_text(s, names[class_index]);
    else
        sink_put(s, weft_output_print(s->to, "%d", class_index));
}

/* Writes the probabilities of all classes: an object with their names or, if classes are numbers,
 * an array. */
static void json_probabilities(sink *s, const weft_prediction *p)
{
    sink_put(s, weft_output_print(s->to, p->class_names ? "{" : "["));
    for (int c = 0; c < p->classes; c++) {
        if (c) sink_put(s, weft_output_print(s->to, ","));
        if (p->class_names) json_class(s, c, p->class_names);
        if (p->class_names) sink_put(s, weft_output_print(s->to, ":"));
        sink_number(s, (double)p->probabilities[c], SINGLE);
    }
    sink_put(s, weft_output_print(s->to, p->class_names ? "}" : "]"));
}

/* Writes the name of label j or, if labels have none, its number. */
static void json_label(sink *s, const weft_prediction *p, int j)
{
    if (p->target_names)
        json_text(s, p->target_names[j]);
    else
        sink_put(s, weft_output_print(s->to, "\"%d\"", j));
}

/* Lists the labels of which a number is from 1/2 on. */
static void json_chosen(sink *s, const weft_prediction *p, const double *numbers)
{
    bool any = false;
    sink_put(s, weft_output_print(s->to, "["));
    for (int j = 0; j < p->targets; j++) {
        if (!(numbers[j] >= 0.5)) continue;
        sink_put(s, weft_output_print(s->to, "%s", any ? "," : ""));
        json_label(s, p, j);
        any = true;
    }
    sink_put(s, weft_output_print(s->to, "]"));
}

/* Writes the true labels and the predicted ones, and the probability of each. */
static void json_labels(sink *s, const weft_prediction *p)
{
    sink_put(s, weft_output_print(s->to, "\"labels\":%s", p->target ? "" : "null"));
    if (p->target) json_chosen(s, p, p->target);
    sink_put(s, weft_output_print(s->to, ",\"predicted\":"));
    json_chosen(s, p, p->numbers);
    sink_put(s, weft_output_print(s->to, ",\"probabilities\":{"));
    for (int j = 0; j < p->targets; j++) {
        sink_put(s, weft_output_print(s->to, "%s", j ? "," : ""));
        json_label(s, p, j);
        sink_put(s, weft_output_print(s->to, ":"));
        sink_number(s, p->numbers[j], SINGLE);
    }
    sink_put(s, weft_output_print(s->to, "}"));
}

/* Writes the elements of an output from dimension d on as nested arrays. */
static void json_value(sink *s, const weft_model_output *o, const void *array, int d, int64_t *at)
{
    if (d == o->shape.rank) {
        sink_value(s, o->dtype, array, (*at)++);
        return;
    }
    for (int64_t i = 0; i < o->shape.dim[d]; i++) {
        sink_put(s, weft_output_print(s->to, i ? "," : "["));
        json_value(s, o, array, d + 1, at);
    }
    sink_put(s, weft_output_print(s->to, "]"));
}

static void json_outputs(sink *s, const weft_prediction *p)
{
    for (int k = 0; k < p->outputs; k++) {
        int64_t at = 0;
        sink_put(s, weft_output_print(s->to, k ? "," : ",\"outputs\":{"));
        json_text(s, p->output[k].name);
        sink_put(s, weft_output_print(s->to, ":"));
        json_value(s, &p->output[k], p->value[k], 0, &at);
    }
    if (p->outputs) sink_put(s, weft_output_print(s->to, "}"));
}

/* Writes the row of the table as an object of its columns. */
static void json_row(sink *s, const weft_prediction *p)
{
    for (int i = 0; i < p->fields; i++) {
        sink_put(s, weft_output_print(s->to, i               ? ","
                                             : p->field_name ? ",\"row\":{"
                                                             : ",\"row\":["));
        if (p->field_name) json_text(s, p->field_name[i]);
        if (p->field_name) sink_put(s, weft_output_write(s->to, ":", 1));
        json_text(s, p->field[i]);
    }
    if (p->fields) sink_put(s, weft_output_print(s->to, p->field_name ? "}" : "]"));
}

void sink_json(sink *s, const weft_prediction *p)
{
    sink_put(s, weft_output_print(s->to, p->file ? "{\"file\":" : "{"));
    if (p->file) json_text(s, p->file);
    sink_put(s, weft_output_print(s->to, "%s\"sample\":%lld,", p->file ? "," : "",
                                  (long long)p->sample));
    if (p->id) {
        sink_put(s, weft_output_print(s->to, "\"id\":"));
        json_text(s, p->id);
        sink_put(s, weft_output_print(s->to, ","));
    }
    if (p->position >= 0)
        sink_put(s, weft_output_print(s->to, "\"position\":%lld,", (long long)p->position));
    if (p->binary) {
        json_labels(s, p);
    } else if (p->targets > 0) {
        sink_put(s, weft_output_print(s->to, "\"target\":%s", p->target ? "[" : "null"));
        if (p->target) sink_numbers(s, p->target, p->targets, EXACT);
        sink_put(s, weft_output_print(s->to, "%s,\"predicted\":[", p->target ? "]" : ""));
        sink_numbers(s, p->numbers, p->targets, EXACT);
        sink_put(s, weft_output_print(s->to, "]"));
    } else {
        sink_put(s, weft_output_print(s->to, "\"label\":%s", p->label < 0 ? "null" : ""));
        if (p->label >= 0) json_class(s, p->label, p->class_names);
        sink_put(s, weft_output_print(s->to, ",\"predicted\":"));
        json_class(s, p->predicted, p->class_names);
        sink_put(s, weft_output_print(s->to, ",\"probabilities\":"));
        json_probabilities(s, p);
    }
    json_outputs(s, p);
    json_row(s, p);
    sink_put(s, weft_output_print(s->to, "}\n"));
}
