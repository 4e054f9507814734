/* Makes inference requests with random inputs, as a model's metadata describe them (Open Inference
 * Protocol). */
#include <jansson.h>
#include <stdio.h>

#include "load/request_set.h"

typedef struct kind {
    const char *name;
    int size;
    bool real;
} kind;

static const kind kinds[] = {
    {"BOOL", 1, false},   {"UINT8", 1, false}, {"UINT16", 2, false}, {"UINT32", 4, false},
    {"UINT64", 8, false}, {"INT8", 1, false},  {"INT16", 2, false},  {"INT32", 4, false},
    {"INT64", 8, false},  {"FP16", 2, true},   {"BF16", 2, true},    {"FP32", 4, true},
    {"FP64", 8, true},
};

typedef struct input {
    const char *url, *name;
    const kind *kind;
    char shape[256]; /* such as "1,784" */
    int64_t count;
} input;

static weft_status no_metadata(const char *url, const char *what)
{
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: the description of the model is not of the Open Inference Protocol: %s",
                     url, what);
}

static weft_status read_kind(input *in, const char *datatype)
{
    for (size_t i = 0; i < WEFT_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, datatype) == 0) in->kind = &kinds[i];
    if (in->kind) return WEFT_OK;
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "%s: inputs of %.40s, as '%.80s' is, cannot be made; give a request of yours "
                     "with --body FILE",
                     in->url, datatype, in->name);
}

/* Reads the shape of an input. A leading -1 stands for the number of rows. */
static weft_status read_shape(input *in, json_t *shape, int64_t rows)
{
    size_t used = 0;
    in->count = 1;
    if (!json_is_array(shape)) return no_metadata(in->url, "an input has no shape");
    for (size_t i = 0; i < json_array_size(shape); i++) {
        json_t *one = json_array_get(shape, i);
        int64_t extent = json_integer_value(one);
        if (!json_is_integer(one) || extent < -1)
            return no_metadata(in->url, "a shape has no whole numbers");
        if (extent == -1 && i > 0)
            return weft_fail(WEFT_ERR_UNSUPPORTED,
                             "%s: the input '%.80s' has a dimension of unknown size besides its "
                             "rows; give a request of yours with --body FILE",
                             in->url, in->name);
        if (i == 0 && extent != -1 && rows > 1 && extent != rows)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: the first dimension of the input '%.80s' is always %lld, not the "
                             "%lld of --rows; leave --rows out",
                             in->url, in->name, (long long)extent, (long long)rows);
        if (extent == -1) extent = rows;
        if (extent > 0 && in->count > (int64_t)(1 << 28) / extent)
            return weft_fail(WEFT_ERR_UNSUPPORTED,
                             "%s: the input '%.80s' has more than 2^28 numbers", in->url, in->name);
        in->count *= extent;
        int n = snprintf(in->shape + used, sizeof(in->shape) - used, "%s%lld", i ? "," : "",
                         (long long)extent);
        used += (size_t)n;
        if (used >= sizeof(in->shape)) return no_metadata(in->url, "a shape is too long");
    }
    return WEFT_OK;
}

static weft_status read_input(const char *url, json_t *from, int64_t rows, input *in)
{
    const char *datatype = json_string_value(json_object_get(from, "datatype"));
    *in = (input){.url = url, .name = json_string_value(json_object_get(from, "name"))};
    if (!in->name || !datatype) return no_metadata(url, "an input has no name or datatype");
    WEFT_TRY(read_kind(in, datatype));
    return read_shape(in, json_object_get(from, "shape"), rows);
}

/* --- numbers --- */

/* A random element: real numbers in [0, 1); integers 0 or 1, which any model that uses them as
 * indices accepts. */
static double draw(const input *in, weft_random *random)
{
    return in->kind->real ? weft_random_unit(random) : (double)(weft_random_u32(random) & 1);
}

/* Converts a number in [0, 1) to FP16; subnormal results become 0. */
static uint16_t half_of(double x)
{
    uint16_t bits = 0;
    for (int exponent = 14; exponent > 0; exponent--) {
        double power = 1.0 / (double)(1 << (15 - exponent));
        if (x < power) continue;
        bits = (uint16_t)(exponent << 10 | ((int)((x / power - 1) * 1024) & 1023));
        break;
    }
    return bits;
}

static void add_binary(weft_text *text, const input *in, weft_random *random)
{
    for (int64_t i = 0; i < in->count; i++) {
        double x = draw(in, random);
        unsigned char bytes[8] = {0};
        if (!in->kind->real) {
            bytes[0] = x > 0;
        } else if (in->kind->size == 8) {
            memcpy(bytes, &x, 8);
        } else if (in->kind->size == 4) {
            float single = (float)x;
            memcpy(bytes, &single, 4);
        } else {
            uint16_t half = in->kind->name[0] == 'B' ? weft_bf16_of((float)x) : half_of(x);
            memcpy(bytes, &half, 2);
        }
        weft_text_add_bytes(text, (const char *)bytes, (size_t)in->kind->size);
    }
}

static void add_json(weft_text *text, const input *in, weft_random *random)
{
    bool truth = strcmp(in->kind->name, "BOOL") == 0;
    for (int64_t i = 0; i < in->count; i++) {
        double x = draw(in, random);
        if (truth)
            weft_text_add(text, "%s%s", i ? "," : "", x > 0 ? "true" : "false");
        else
            weft_text_add(text, "%s%.6g", i ? "," : "", x);
    }
}

/* --- the body --- */

static void describe(weft_text *text, const input *in, bool json, weft_random *random)
{
    weft_text_add(text, "{\"name\":");
    weft_text_add_json(text, in->name);
    weft_text_add(text, ",\"shape\":[%s],\"datatype\":\"%s\",", in->shape, in->kind->name);
    if (json) {
        weft_text_add(text, "\"data\":[");
        add_json(text, in, random);
        weft_text_add(text, "]}");
    } else {
        weft_text_add(text, "\"parameters\":{\"binary_data_size\":%lld}}",
                      (long long)in->count * in->kind->size);
    }
}

static weft_status write_body(const input *all, size_t count, bool json, uint64_t seed,
                              weft_raw_request *body, size_t *head)
{
    weft_text text = {0};
    weft_random random;
    weft_random_start(&random, seed, weft_hash_text("inputs"));
    weft_text_add(&text, "{\"inputs\":[");
    for (size_t i = 0; i < count; i++) {
        if (i) weft_text_add(&text, ",");
        describe(&text, &all[i], json, &random);
    }
    weft_text_add(&text, json ? "]}" : "],\"parameters\":{\"binary_data_output\":true}}");
    *head = text.size;
    for (size_t i = 0; i < count && !json; i++) add_binary(&text, &all[i], &random);
    body->size = text.size;
    return weft_text_take(&text, &body->bytes);
}

static weft_status make(const char *url, json_t *metadata, const weft_load_options *options,
                        uint64_t variant, weft_raw_request *body, size_t *head)
{
    json_t *inputs = json_object_get(metadata, "inputs");
    size_t count = json_array_size(inputs);
    input *all = NULL;
    weft_status status = WEFT_OK;
    if (!json_is_object(metadata)) return no_metadata(url, "it is no JSON object");
    if (count == 0) return no_metadata(url, "it lists no inputs");
    WEFT_TRY(WEFT_NEW(&all, count));
    for (size_t i = 0; i < count && status == WEFT_OK; i++)
        status = read_input(url, json_array_get(inputs, i), options->rows, &all[i]);
    if (status == WEFT_OK)
        status = write_body(all, count, options->json_tensors,
                            weft_mix((uint64_t)options->seed, variant), body, head);
    free(all);
    return status;
}

weft_status weft_inputs_make(const char *url, const char *metadata, size_t size,
                             const weft_load_options *options, uint64_t variant,
                             weft_raw_request *body, size_t *head)
{
    json_t *json = json_loadb(metadata, size, JSON_REJECT_DUPLICATES, NULL);
    weft_status status = make(url, json, options, variant, body, head);
    json_decref(json);
    return status;
}

bool weft_inputs_check_reply(const char *body, size_t size, const char **why)
{
    json_error_t error;
    json_t *json = json_loadb(body, size, JSON_DISABLE_EOF_CHECK, &error);
    json_t *outputs = json_object_get(json, "outputs");
    size_t count = json_array_size(outputs);
    *why = !json_is_object(json) ? "it does not begin with a JSON object"
           : count == 0          ? "it has no outputs"
                                 : NULL;
    for (size_t i = 0; i < count && !*why; i++) {
        json_t *one = json_array_get(outputs, i);
        if (!json_is_string(json_object_get(one, "name")) ||
            !json_is_string(json_object_get(one, "datatype")) ||
            !json_is_array(json_object_get(one, "shape")))
            *why = "an output has no name, datatype or shape";
    }
    json_decref(json);
    return !*why;
}
