/* Converts the statistics of the data, which a checkpoint's index has, to JSON and back. */
#include <math.h>

#include "checkpoint/about.h"
#include "formats/formats.h"

/* Returns NULL if `names` is NULL; json_object_set_new then adds no key. */
static json_t *names_json(char *const *names, int64_t count)
{
    json_t *array = names ? json_array() : NULL;
    for (int64_t i = 0; array && i < count; i++)
        json_array_append_new(array, json_string(names[i]));
    return array;
}

static json_t *shape_json(const weft_shape *shape)
{
    json_t *array = json_array();
    for (int i = 0; i < shape->rank; i++) json_array_append_new(array, json_integer(shape->dim[i]));
    return array;
}

/* Whether the shape says all of the inputs: there is one of real numbers, "x". */
static bool is_plain(const weft_data_stats *stats)
{
    return stats->inputs == 1 && stats->input[0].values == 0 &&
           strcmp(stats->input[0].name, "x") == 0;
}

/* The inputs of a sample; NULL if the shape says all. */
static json_t *inputs_json(const weft_data_stats *stats)
{
    if (is_plain(stats)) return NULL;
    json_t *array = json_array();
    for (int i = 0; i < stats->inputs; i++) {
        const weft_input *in = &stats->input[i];
        json_t *one = json_pack("{s:s, s:o, s:i}", "name", in->name, "shape",
                                shape_json(&in->shape), "values", in->values);
        if (in->lengths) json_object_set_new(one, "lengths", json_integer(in->lengths));
        json_array_append_new(array, one);
    }
    return array;
}

static json_t *numbers_json(const double *numbers, int count)
{
    json_t *array = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(array, json_real(numbers[i]));
    return array;
}

int weft_stats_format(const weft_data_stats *stats)
{
    if (stats->table) return 5;
    return !is_plain(stats) || stats->positions > 0 ? 4 : stats->targets ? 3 : 2;
}

json_t *weft_stats_json(const weft_data_stats *stats)
{
    json_t *mean = numbers_json(stats->mean, stats->features),
           *deviation = numbers_json(stats->deviation, stats->features),
           *shape = shape_json(&stats->input[0].shape);
    json_t *object = json_pack("{s:i, s:o, s:o, s:o}", "classes", stats->classes, "shape", shape,
                               "mean", mean, "deviation", deviation);
    json_object_set_new(object, "bytes", json_boolean(stats->bytes));
    const weft_range *r = &stats->range;
    if (r->low <= r->high)
        json_object_set_new(
            object, "range",
            json_pack("{s:f, s:f, s:b}", "low", r->low, "high", r->high, "whole", (int)r->whole));
    json_object_set_new(object, "class_names", names_json(stats->class_names, stats->classes));
    json_object_set_new(
        object, "column_names",
        names_json(stats->column_names, weft_shape_elements(&stats->input[0].shape)));
    json_object_set_new(object, "inputs", inputs_json(stats));
    if (stats->tokenizer) json_object_set_new(object, "tokenizer", json_string(stats->tokenizer));
    if (stats->reading) json_object_set_new(object, "reading", json_string(stats->reading));
    if (stats->positions) json_object_set_new(object, "positions", json_integer(stats->positions));
    if (stats->label_name)
        json_object_set_new(object, "label_name", json_string(stats->label_name));
    json_object_set_new(object, "label_column", json_integer(stats->label_column));
    if (stats->weight_name)
        json_object_set_new(object, "weight_name", json_string(stats->weight_name));
    if (stats->weight_column)
        json_object_set_new(object, "weight_column", json_integer(stats->weight_column));
    if (stats->id_name) json_object_set_new(object, "id_name", json_string(stats->id_name));
    if (stats->id_column) json_object_set_new(object, "id_column", json_integer(stats->id_column));
    if (stats->table) json_object_set_new(object, "table", weft_table_json(stats->table));
    if (stats->targets == 0) return object;
    if (stats->binary) json_object_set_new(object, "binary", json_true());
    json_object_set_new(object, "target_names", names_json(stats->target_names, stats->targets));
    json_object_set_new(object, "target_mean", numbers_json(stats->target_mean, stats->targets));
    json_object_set_new(object, "target_deviation",
                        numbers_json(stats->target_deviation, stats->targets));
    return object;
}

static weft_status read_names(const char *file, const json_t *names, char ***out)
{
    if (!names) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(out, json_array_size(names)));
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!name || !weft_is_printable(name))
            return weft_checkpoint_damaged(file, "a name of a class or column is not valid");
        WEFT_TRY(weft_strdup(name, &(*out)[i]));
    }
    return WEFT_OK;
}

/* Means are any numbers, deviations are above 0. */
typedef enum wanted { ANY_FINITE, POSITIVE } wanted;

static weft_status read_numbers(const char *file, const json_t *array, int count, wanted must,
                                double **out)
{
    WEFT_TRY(WEFT_NEW(out, count));
    for (int i = 0; i < count; i++) {
        const json_t *number = json_array_get(array, (size_t)i);
        double value = (*out)[i] = json_number_value(number);
        if (!json_is_number(number) || !isfinite(value) || (must == POSITIVE && !(value > 0)))
            return weft_checkpoint_damaged(file, must == POSITIVE
                                                     ? "a deviation is not a number above 0"
                                                     : "a mean is not a number");
    }
    return WEFT_OK;
}

/* The shape of a sample of `least` dimensions at least and of at most INT32_MAX elements, the
 * largest number of features. */
static weft_status read_shape(const char *file, const json_t *array, size_t least, weft_shape *out)
{
    weft_shape shape = {.rank = 0};
    size_t rank = json_array_size(array);
    int64_t elements = 1;
    if (!json_is_array(array) || rank < least || rank >= WEFT_MAX_RANK)
        return weft_checkpoint_damaged(file, "the shape of a sample is incomplete");
    for (; shape.rank < (int)rank; shape.rank++) {
        json_int_t dim = json_integer_value(json_array_get(array, (size_t)shape.rank));
        if (dim < 1 || dim > INT32_MAX / elements)
            return weft_checkpoint_damaged(
                file, "the shape of a sample has a dimension below 1, or is too large");
        shape.dim[shape.rank] = dim;
        elements *= dim;
    }
    *out = shape;
    return WEFT_OK;
}

static weft_status read_input(const char *file, const json_t *object, weft_input *out)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    int64_t values = 0, lengths = 0;
    if (!name || !*name || strlen(name) >= WEFT_INPUT_NAME || !weft_is_printable(name))
        return weft_checkpoint_damaged(file, "the description of an input is incomplete");
    WEFT_TRY(weft_index_integer(file, object, "values", 0, INT32_MAX, &values));
    WEFT_TRY(weft_index_integer(file, object, "lengths", 0, WEFT_MAX_INPUTS, &lengths));
    out->lengths = (int)lengths;
    memcpy(out->name, name, strlen(name) + 1);
    out->values = (int)values;
    out->dtype = values ? WEFT_I32 : WEFT_F32;
    /* A sample may have a single token, such as the length of a sequence. */
    return read_shape(file, json_object_get(object, "shape"), values ? 0 : 1, &out->shape);
}

/* Reads the inputs of a sample. Without a list there is one, of real numbers. */
static weft_status read_inputs(const char *file, const json_t *object, weft_data_stats *out)
{
    const json_t *inputs = json_object_get(object, "inputs");
    size_t count = json_array_size(inputs);
    if ((inputs && count < 1) || count > WEFT_MAX_INPUTS)
        return weft_checkpoint_damaged(file, "the inputs of a sample are incomplete");
    WEFT_TRY(weft_index_integer(file, object, "positions", 0, INT32_MAX, &out->positions));
    out->inputs = inputs ? (int)count : 1;
    for (size_t i = 0; i < count; i++)
        WEFT_TRY(read_input(file, json_array_get(inputs, i), &out->input[i]));
    for (int i = 0; i < out->inputs && inputs; i++) {
        int k = out->input[i].lengths - 1;
        if (k >= out->inputs ||
            (k >= 0 && (out->input[k].values == 0 || out->input[k].shape.rank > 0)))
            return weft_checkpoint_damaged(file, "the lengths of an input are no such input");
    }
    if (inputs) return WEFT_OK;
    out->input[0] = (weft_input){.name = "x", .dtype = WEFT_F32};
    return read_shape(file, json_object_get(object, "shape"), 1, &out->input[0].shape);
}

/* The number of a column, from 1; 0: none. */
static weft_status read_column(const char *file, const json_t *object, const char *name, int *out)
{
    int64_t column = 0;
    WEFT_TRY(weft_index_integer(file, object, name, 0, INT32_MAX, &column));
    *out = (int)column;
    return WEFT_OK;
}

/* Reads means and deviations of numeric targets. An object without them must have classes. */
static weft_status read_target(const char *file, const json_t *object, weft_data_stats *out)
{
    const json_t *mean = json_object_get(object, "target_mean"),
                 *deviation = json_object_get(object, "target_deviation");
    size_t targets = json_array_size(mean);
    if (json_array_size(deviation) != targets || targets > 65536 ||
        (targets > 0) != (out->classes == 0))
        return weft_checkpoint_damaged(file, "its data statistics are incomplete");
    out->targets = (int)targets;
    out->binary = json_is_true(json_object_get(object, "binary"));
    const json_t *names = json_object_get(object, "target_names");
    if (names && json_array_size(names) != targets)
        return weft_checkpoint_damaged(file, "its names of targets are incomplete");
    WEFT_TRY(read_names(file, names, &out->target_names));
    WEFT_TRY(read_numbers(file, mean, out->targets, ANY_FINITE, &out->target_mean));
    return read_numbers(file, deviation, out->targets, POSITIVE, &out->target_deviation);
}

/* Older checkpoints do not say whether features are pixels from 0 to 255. Their training divided
 * such pixels by a deviation far above 1 unless it normalised nothing, and fractions by one below
 * 1. */
static void read_bytes(const json_t *object, weft_data_stats *out)
{
    const json_t *bytes = json_object_get(object, "bytes");
    out->bytes =
        bytes ? json_is_true(bytes)
              : out->features == 1 && out->input[0].shape.rank == 3 && out->deviation[0] >= 2;
}

/* The range of features. An older checkpoint has none, but its training may have divided bytes. */
static weft_status read_range(const char *file, const json_t *object, weft_data_stats *out)
{
    const json_t *range = json_object_get(object, "range");
    const json_t *low = json_object_get(range, "low"), *high = json_object_get(range, "high");
    out->range = (weft_range){.low = 1, .high = 0};
    if (!range && out->features == 1 && out->mean[0] == 0 && out->deviation[0] == 255)
        out->range = (weft_range){.low = 0, .high = 255, .whole = true};
    if (!range) return WEFT_OK;
    if (!json_is_number(low) || !json_is_number(high))
        return weft_checkpoint_damaged(file, "the range of its features is incomplete");
    out->range = (weft_range){.low = json_number_value(low),
                              .high = json_number_value(high),
                              .whole = json_is_true(json_object_get(range, "whole"))};
    return WEFT_OK;
}

weft_status weft_stats_read(const char *file, const json_t *object, weft_data_stats *out)
{
    const json_t *mean = json_object_get(object, "mean"),
                 *deviation = json_object_get(object, "deviation");
    const json_t *names = json_object_get(object, "class_names");
    const json_t *columns = json_object_get(object, "column_names"); /* optional */
    const char *label = json_string_value(json_object_get(object, "label_name"));
    int64_t classes = 0;
    size_t features = json_array_size(mean);
    WEFT_TRY(weft_index_integer(file, object, "classes", 0, WEFT_MOST_TOKENS, &classes));
    if (features == 0 || json_array_size(deviation) != features || classes == 1 ||
        (names && json_array_size(names) != (size_t)classes))
        return weft_checkpoint_damaged(file, "its data statistics are incomplete");
    WEFT_TRY(read_inputs(file, object, out));
    int64_t numbers = weft_shape_elements(&out->input[0].shape);
    bool channels =
        out->input[0].shape.rank == 3 && (int64_t)features == out->input[0].shape.dim[0];
    if (features != 1 && (((int64_t)features != numbers && !channels) || out->inputs > 1))
        return weft_checkpoint_damaged(file,
                                       "its data statistics do not fit the shape of a sample");
    if (columns && (!label || json_array_size(columns) != (size_t)numbers))
        return weft_checkpoint_damaged(file,
                                       "its names of columns do not fit the shape of a sample");
    out->features = (int)features;
    out->classes = (int)classes;
    WEFT_TRY(read_numbers(file, mean, out->features, ANY_FINITE, &out->mean));
    WEFT_TRY(read_numbers(file, deviation, out->features, POSITIVE, &out->deviation));
    read_bytes(object, out);
    WEFT_TRY(read_range(file, object, out));
    WEFT_TRY(read_target(file, object, out));
    WEFT_TRY(read_names(file, names, &out->class_names));
    WEFT_TRY(read_names(file, columns, &out->column_names));
    WEFT_TRY(weft_table_read(file, json_object_get(object, "table"), out));
    WEFT_TRY(read_column(file, object, "label_column", &out->label_column));
    if (label) WEFT_TRY(weft_strdup(label, &out->label_name));
    WEFT_TRY(read_column(file, object, "weight_column", &out->weight_column));
    const char *tokenizer = json_string_value(json_object_get(object, "tokenizer"));
    if (tokenizer) WEFT_TRY(weft_strdup(tokenizer, &out->tokenizer));
    const char *reading = json_string_value(json_object_get(object, "reading"));
    if (reading) WEFT_TRY(weft_strdup(reading, &out->reading));
    const char *weight = json_string_value(json_object_get(object, "weight_name"));
    if (weight) WEFT_TRY(weft_strdup(weight, &out->weight_name));
    WEFT_TRY(read_column(file, object, "id_column", &out->id_column));
    const char *id = json_string_value(json_object_get(object, "id_name"));
    return id ? weft_strdup(id, &out->id_name) : WEFT_OK;
}
