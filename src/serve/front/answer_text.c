/* Writes the reply to an inference request. Each output is written as numbers in the JSON or as a
 * binary tensor after the JSON, the prediction also as texts that name the best classes. */
#include <math.h>

#include "base/decimal.h"
#include "serve/front/infer_internal.h"

/* The class that follows `after` (-1: the first) in order of falling probability, then index. NaN
 * comes last. */
static int64_t next_best(const double *p, int64_t classes, int64_t after)
{
    int64_t best = -1;
    for (int64_t c = 0; c < classes; c++) {
        bool behind = after < 0 || p[c] < p[after] || (isnan(p[c]) && !isnan(p[after])) ||
                      (!(p[c] > p[after]) && !isnan(p[after]) == !isnan(p[c]) && c > after);
        if (behind && (best < 0 || p[c] > p[best] || (isnan(p[best]) && !isnan(p[c])))) best = c;
    }
    return WEFT_MAX(best, 0);
}

/* Writes a class as "value:index:name": in a binary tensor after its length in four bytes, in JSON
 * in quotes. */
static void write_class(const weft_servable_info *about, double p, int64_t c, bool binary,
                        weft_text *out)
{
    weft_text word = {0};
    weft_text_add(&word, "%f:%lld", p, (long long)c);
    if (about->class_names) weft_text_add(&word, ":%s", about->class_names[c]);
    uint32_t size = (uint32_t)word.size;
    if (word.failed) {
        out->failed = true;
    } else if (binary) {
        weft_text_add_bytes(out, (const char *)&size, sizeof(size));
        weft_text_add_bytes(out, word.data, word.size);
    } else {
        weft_text_add_json(out, word.data);
    }
    free(word.data);
}

static void write_classes(const weft_servable_info *about, const weft_inference *i,
                          const weft_wanted_output *w, weft_text *text)
{
    int64_t answers = i->request.rows * WEFT_MAX(about->positions, 1);
    for (int64_t row = 0; row < answers; row++) {
        const double *p = i->prediction + row * about->classes;
        int64_t c = -1;
        for (int64_t k = 0; k < w->classes; k++) {
            c = next_best(p, about->classes, c);
            if (!w->binary && (row || k)) weft_text_add_bytes(text, ",", 1);
            write_class(about, p[c], c, w->binary, text);
        }
    }
}

static void write_bytes(const weft_inference *i, int64_t count, bool single, weft_text *text)
{
    size_t each = single ? sizeof(float) : sizeof(double);
    char *to = weft_text_extend(text, (size_t)count * each);
    if (to && !single) memcpy(to, i->prediction, (size_t)count * each);
    for (int64_t j = 0; to && single && j < count; j++) {
        float value = (float)i->prediction[j];
        memcpy(to + (size_t)j * each, &value, each);
    }
}

/* Writes each number with the fewest digits that read back as the same number of the datatype. */
static void write_numbers(const weft_inference *i, int64_t count, bool single, weft_text *text)
{
    for (int64_t j = 0; j < count; j++) {
        char number[WEFT_DECIMAL_ROOM + 1] = ",";
        size_t size = weft_decimal_write(i->prediction[j], single, number + 1);
        weft_text_add_bytes(text, j ? number : number + 1, j ? size + 1 : size);
    }
}

/* Writes the numbers of a further output, in its own type. */
static void write_output(const weft_servable_info *about, const weft_inference *i,
                         const weft_wanted_output *w, weft_text *text)
{
    const weft_model_output *o = &about->output[w->which];
    const void *from = i->request.output[w->which];
    int64_t count = i->request.rows * weft_shape_elements(&o->shape);
    if (w->binary) {
        weft_text_add_bytes(text, from, (size_t)count * weft_dtype_size(o->dtype));
        return;
    }
    for (int64_t j = 0; j < count; j++) {
        char number[WEFT_DECIMAL_ROOM];
        double value = weft_number_get(o->dtype, from, j);
        if (j) weft_text_add_bytes(text, ",", 1);
        if (weft_dtype_is_float(o->dtype))
            weft_text_add_bytes(text, number,
                                weft_decimal_write(value, o->dtype != WEFT_F64, number));
        else if (o->dtype == WEFT_BOOL)
            weft_text_add(text, "%s", value != 0 ? "true" : "false");
        else
            weft_text_add_int(text,
                              o->dtype == WEFT_I64 ? ((const int64_t *)from)[j] : (int64_t)value);
    }
}

/* Writes the JSON before the outputs, without printf, whose formatting would take a fifth of the
 * time of reading a small request. */
static void write_head(const weft_servable_info *about, const weft_inference *i, weft_text *out)
{
    weft_text_add(out, "{\"model_name\":");
    weft_text_add_json(out, about->name);
    weft_text_add(out, ",\"model_version\":\"");
    weft_text_add_int(out, about->version);
    weft_text_add(out, "\"");
    if (i->id) {
        weft_text_add(out, ",\"id\":");
        weft_text_add_json(out, i->id);
    }
    weft_text_add(out, ",\"outputs\":[");
}

/* Writes the JSON of an output up to the value of "datatype". */
static void write_output_head(const weft_servable_info *about, const weft_inference *i,
                              const weft_wanted_output *w, weft_text *out)
{
    const weft_model_output *o = &about->output[w->which];
    const char *datatype = w->classes ? "BYTES" : weft_infer_output_type(about, w->which);
    weft_shape row = o->shape;
    if (w->classes) row.dim[row.rank - 1] = w->classes;
    weft_text_add(out, "{\"name\":");
    weft_text_add_json(out, o->name);
    weft_text_add(out, ",\"shape\":[");
    weft_text_add_int(out, i->request.rows);
    for (int d = 0; d < row.rank; d++) {
        weft_text_add(out, ",");
        weft_text_add_int(out, row.dim[d]);
    }
    weft_text_add(out, "],\"datatype\":\"");
    weft_text_add_bytes(out, datatype, strlen(datatype));
}

/* Writes an output; one in binary form is appended to `tensors`. */
static void write_one(const weft_servable_info *about, const weft_inference *i,
                      const weft_wanted_output *w, weft_text *out, weft_text *tensors)
{
    bool single = about->real == WEFT_F32 && about->targets == 0;
    int64_t count = i->request.rows * about->outputs;
    size_t before = tensors->size;
    weft_text *to = w->binary ? tensors : out;
    write_output_head(about, i, w, out);
    if (!w->binary) weft_text_add(out, "\",\"data\":[");
    if (w->which > 0)
        write_output(about, i, w, to);
    else if (w->classes)
        write_classes(about, i, w, to);
    else if (w->binary)
        write_bytes(i, count, single, to);
    else
        write_numbers(i, count, single, to);
    if (w->binary) {
        weft_text_add(out, "\",\"parameters\":{\"binary_data_size\":");
        weft_text_add_int(out, (int64_t)(tensors->size - before));
    }
    weft_text_add(out, w->binary ? "}}" : "]}");
}

weft_status weft_infer_write_reply(const weft_servable_info *about, const weft_inference *i,
                                   weft_reply *reply)
{
    weft_text tensors = {0}, *out = &reply->text;
    bool binary = false;
    write_head(about, i, out);
    for (int k = 0; k < i->outputs; k++) {
        if (k) weft_text_add(out, ",");
        write_one(about, i, &i->output[k], out, &tensors);
        binary = binary || i->output[k].binary;
    }
    weft_text_add(out, "]}");
    if (binary) reply->json = out->size;
    if (tensors.failed) out->failed = true;
    if (tensors.data) weft_text_add_bytes(out, tensors.data, tensors.size);
    free(tensors.data);
    reply->code = 200;
    return out->failed ? weft_fail_memory(out->size) : WEFT_OK;
}
