/* Predictions as CSV: rows of their own, or those of a table with columns behind its own. */
#include <stdio.h>
#include <string.h>

#include "predict.h"

/* Writes a name as CSV, in quotes if necessary. */
static void csv_name(sink *s, const char *name)
{
    if (!strpbrk(name, ",\"\r\n")) {
        sink_put(s, weft_output_print(s->to, "%s", name));
        return;
    }
    sink_put(s, weft_output_write(s->to, "\"", 1));
    for (; *name; name++) {
        if (*name == '"') sink_put(s, weft_output_write(s->to, "\"", 1));
        sink_put(s, weft_output_write(s->to, name, 1));
    }
    sink_put(s, weft_output_write(s->to, "\"", 1));
}

static void csv_class(sink *s, int32_t class_index, char *const *names)
{
    if (names)
        csv_name(s, names[class_index]);
    else
        sink_put(s, weft_output_print(s->to, "%d", class_index));
}

/* The name of column i of further outputs, "name", or "name_0,name_1" of several numbers; false:
 * past the end. */
static bool output_name(const weft_prediction *p, int64_t i, char *name, size_t size)
{
    for (int k = 0; k < p->outputs; k++) {
        int64_t count = weft_shape_elements(&p->output[k].shape);
        (void)snprintf(name, size, count > 1 ? "%s_%lld" : "%s", p->output[k].name, (long long)i);
        if (i < count) return true;
        i -= count;
    }
    return false;
}

/* Writes the header's columns of further outputs. */
static void csv_output_names(sink *s, const weft_prediction *p)
{
    char name[WEFT_INPUT_NAME + 24];
    for (; output_name(p, s->columns, name, sizeof(name)); s->columns++) {
        sink_put(s, weft_output_print(s->to, ","));
        csv_name(s, name);
    }
    sink_put(s, weft_output_print(s->to, "\n"));
}

/* Writes the further outputs, which stand in the row of a sample's first position. */
static void csv_outputs(sink *s, const weft_prediction *p)
{
    for (int k = 0; k < p->outputs; k++)
        for (int64_t i = 0; i < weft_shape_elements(&p->output[k].shape); i++) {
            sink_put(s, weft_output_print(s->to, ","));
            sink_value(s, p->output[k].dtype, p->value[k], i);
        }
    for (int64_t i = 0; i < s->columns && p->outputs == 0; i++)
        sink_put(s, weft_output_print(s->to, ","));
    sink_put(s, weft_output_print(s->to, "\n"));
}

/* The name of column j of several targets, "target_1" or, if they have names, "target_NAME". */
static const char *target_name(const weft_prediction *p, const char *what, int64_t j, char *name,
                               size_t size)
{
    if (p->target_names)
        (void)snprintf(name, size, "%s_%s", what, p->target_names[j]);
    else
        (void)snprintf(name, size, p->targets > 1 ? "%s_%lld" : "%s", what, (long long)j);
    return name;
}

/* Writes the header. The columns of numbers are "target,predicted", or with several targets
 * "target_0,target_1,predicted_0,predicted_1"; those of labels are "label_NAME,...", which are 0 or
 * 1, "predicted_NAME,..." and "probability_NAME,...". */
static void csv_header(sink *s, const weft_prediction *p)
{
    static const char *const of_numbers[] = {"target", "predicted"}, *const of_labels[] = {
                                                                         "label", "predicted",
                                                                         "probability"};
    char name[1024];
    if (p->targets == 0) {
        sink_put(s, weft_output_print(s->to, "%ssample,%s%slabel,predicted,probability",
                                      p->file ? "file," : "", p->id ? "id," : "",
                                      p->position >= 0 ? "position," : ""));
        csv_output_names(s, p);
        return;
    }
    sink_put(s, weft_output_print(s->to, "%ssample%s", p->file ? "file," : "", p->id ? ",id" : ""));
    for (int what = 0; what < (p->binary ? 3 : 2); what++)
        for (int j = 0; j < p->targets; j++) {
            sink_put(s, weft_output_write(s->to, ",", 1));
            csv_name(s, target_name(p, (p->binary ? of_labels : of_numbers)[what], j, name,
                                    sizeof(name)));
        }
    csv_output_names(s, p);
}

/* Writes which labels are predicted, and the probability of each. */
static void csv_labels(sink *s, const weft_prediction *p)
{
    for (int j = 0; j < p->targets; j++)
        sink_put(s, weft_output_print(s->to, "%d,", p->numbers[j] >= 0.5));
    sink_numbers(s, p->numbers, p->targets, SINGLE);
}

void sink_csv(sink *s, const weft_prediction *p)
{
    if (!s->started) csv_header(s, p);
    s->started = true;
    if (p->file) {
        csv_name(s, p->file);
        sink_put(s, weft_output_write(s->to, ",", 1));
    }
    sink_put(s, weft_output_print(s->to, "%lld,", (long long)p->sample));
    if (p->id) {
        csv_name(s, p->id);
        sink_put(s, weft_output_write(s->to, ",", 1));
    }
    if (p->position >= 0) sink_put(s, weft_output_print(s->to, "%lld,", (long long)p->position));
    if (p->targets > 0) {
        sink_numbers(s, p->target, p->targets, EXACT);
        sink_put(s, weft_output_print(s->to, ","));
        if (p->binary)
            csv_labels(s, p);
        else
            sink_numbers(s, p->numbers, p->targets, EXACT);
        csv_outputs(s, p);
        return;
    }
    if (p->label >= 0) csv_class(s, p->label, p->class_names);
    sink_put(s, weft_output_write(s->to, ",", 1));
    csv_class(s, p->predicted, p->class_names);
    sink_put(s, weft_output_write(s->to, ",", 1));
    double probability = (double)p->probabilities[p->predicted];
    if (!sink_not_finite(s, probability))
        sink_put(s, weft_output_print(s->to, "%.6f", probability));
    csv_outputs(s, p);
}

/* --- rows of a table with their predictions --- */

/* Columns of the prediction itself. */
static int64_t own_columns(const weft_prediction *p)
{
    return p->targets > 0 ? p->targets * (p->binary ? 2 : 1) : 1 + p->classes;
}

/* The name of column i behind those of the table; false: past the end. */
static bool joined_name(const weft_prediction *p, int64_t i, char *name, size_t size)
{
    int64_t own = own_columns(p);
    if (i >= own) return output_name(p, i - own, name, size);
    if (p->targets > 1)
        (void)target_name(p, i < p->targets ? "predicted" : "probability", i % p->targets, name,
                          size);
    else if (i == 0)
        (void)snprintf(name, size, "predicted");
    else if (p->class_names)
        (void)snprintf(name, size, "probability_%s", p->class_names[i - 1]);
    else
        (void)snprintf(name, size, "probability_%lld", (long long)i - 1);
    return true;
}

/* Whether a column of the table has the name of one of ours. */
static bool clashes(sink *s, const weft_prediction *p)
{
    for (int64_t i = 0; p->field_name && joined_name(p, i, s->clash, sizeof(s->clash)); i++)
        for (int f = 0; f < p->fields; f++)
            if (strcmp(p->field_name[f], s->clash) == 0) return true;
    s->clash[0] = '\0';
    return false;
}

static void joined_header(sink *s, const weft_prediction *p)
{
    char name[1024];
    for (int i = 0; i < p->fields; i++) {
        (void)snprintf(name, sizeof(name), "column_%d", i);
        csv_name(s, p->field_name ? p->field_name[i] : name);
        sink_put(s, weft_output_write(s->to, ",", 1));
    }
    for (int64_t i = 0; i < own_columns(p); i++) {
        (void)joined_name(p, i, name, sizeof(name));
        if (i > 0) sink_put(s, weft_output_write(s->to, ",", 1));
        csv_name(s, name);
    }
    csv_output_names(s, p);
}

void sink_joined(sink *s, const weft_prediction *p)
{
    if (s->clash[0] || (!s->started && clashes(s, p))) return;
    if (!s->started) joined_header(s, p);
    s->started = true;
    for (int i = 0; i < p->fields; i++) {
        csv_name(s, p->field[i]);
        sink_put(s, weft_output_write(s->to, ",", 1));
    }
    if (p->binary)
        csv_labels(s, p);
    else if (p->targets > 0)
        sink_numbers(s, p->numbers, p->targets, EXACT);
    if (p->targets == 0) csv_class(s, p->predicted, p->class_names);
    for (int c = 0; p->targets == 0 && c < p->classes; c++) {
        sink_put(s, weft_output_write(s->to, ",", 1));
        sink_number(s, (double)p->probabilities[c], SINGLE);
    }
    csv_outputs(s, p);
}
