/* Writes the reply to an inference request. The prediction is written as numbers in the JSON, as a
 * binary tensor after the JSON, or as texts that name the best classes. */
#include <math.h>

#include "base/decimal.h"
#include "serve/front/http_internal.h"

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

static void write_classes(const weft_servable_info *about, const weft_inference *i, weft_text *text)
{
    int64_t answers = i->request.rows * WEFT_MAX(about->positions, 1);
    for (int64_t row = 0; row < answers; row++) {
        const double *p = i->prediction + row * about->classes;
        int64_t c = -1;
        for (int64_t k = 0; k < i->classes; k++) {
            c = next_best(p, about->classes, c);
            if (!i->binary && (row || k)) weft_text_add_bytes(text, ",", 1);
            write_class(about, p[c], c, i->binary, text);
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

/* Writes the JSON up to the value of the tensor's "datatype", without printf, whose formatting
 * would take a fifth of the time of reading a small request. */
static void write_head(const weft_servable_info *about, const weft_inference *i, int64_t columns,
                       const char *datatype, weft_text *out)
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
    weft_text_add(out, ",\"outputs\":[{\"name\":\"prediction\",\"shape\":[");
    weft_text_add_int(out, i->request.rows);
    weft_text_add(out, ",");
    if (about->positions) {
        weft_text_add_int(out, about->positions);
        weft_text_add(out, ",");
    }
    weft_text_add_int(out, columns);
    weft_text_add(out, "],\"datatype\":\"");
    weft_text_add_bytes(out, datatype, strlen(datatype));
}

weft_status weft_infer_write_reply(const weft_servable_info *about, const weft_inference *i,
                                   weft_reply *reply)
{
    weft_text data = {0}, *out = &reply->text;
    int64_t columns = about->targets ? about->targets : about->classes;
    bool single = about->real == WEFT_F32 && about->targets == 0;
    if (i->classes)
        write_classes(about, i, &data);
    else if (i->binary)
        write_bytes(i, i->request.rows * about->outputs, single, &data);
    else
        write_numbers(i, i->request.rows * about->outputs, single, &data);
    write_head(about, i, i->classes ? i->classes : columns,
               i->classes ? "BYTES"
               : single   ? "FP32"
                          : "FP64",
               out);
    if (i->binary) {
        weft_text_add(out, "\",\"parameters\":{\"binary_data_size\":");
        weft_text_add_int(out, (int64_t)data.size);
        weft_text_add(out, "}}]}");
        reply->json = out->size;
    } else {
        weft_text_add(out, "\",\"data\":[");
    }
    if (data.failed) out->failed = true;
    if (data.data) weft_text_add_bytes(out, data.data, data.size);
    if (!i->binary) weft_text_add(out, "]}]}");
    free(data.data);
    reply->code = 200;
    return out->failed ? weft_fail_memory(out->size) : WEFT_OK;
}
