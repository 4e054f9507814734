/* Writes the replies to plain prediction requests, as JSON, text or CSV. */
#include <math.h>
#include <stdio.h>

#include "base/decimal.h"
#include "serve/front/http_internal.h"

enum { BEST = 3 };

/* Chooses the known format that the Accept header names first; JSON if it names none. */
void weft_predict_choose_format(const char *accept, weft_inference *out)
{
    static const char *const names[] = {
        [WEFT_REPLY_JSON] = "application/json",
        [WEFT_REPLY_TEXT] = "text/plain",
        [WEFT_REPLY_CSV] = "text/csv",
    };
    const char *first = NULL;
    out->format = WEFT_REPLY_JSON;
    for (int i = WEFT_REPLY_JSON; accept && i <= WEFT_REPLY_CSV; i++) {
        const char *at = strcasestr(accept, names[i]);
        if (!at || (first && at > first)) continue;
        first = at;
        out->format = i;
    }
}

static void add_number(weft_text *text, double value, bool single)
{
    char number[WEFT_DECIMAL_ROOM];
    weft_text_add_bytes(text, number, weft_decimal_write(value, single, number));
}

/* The name of class c; its number as text if the classes have no names. */
static const char *class_name(const weft_servable_info *about, int64_t c, char *number, size_t room)
{
    if (about->class_names) return about->class_names[c];
    (void)snprintf(number, room, "%lld", (long long)c);
    return number;
}

/* The name of target j; value1, value2 and so on, if the targets have none. */
static const char *target_name(const weft_servable_info *about, int j, char *number, size_t room)
{
    if (about->target_names) return about->target_names[j];
    (void)snprintf(number, room, "value%d", j + 1);
    return number;
}

/* Lists the best classes of a row, at most `most`; returns their number. NaN comes last. */
static int best_of(const double *p, int64_t classes, int most, int64_t *out)
{
    int count = 0;
    for (int64_t c = 0; c < classes; c++) {
        double value = isnan(p[c]) ? -INFINITY : p[c];
        int at = count;
        while (at > 0 && value > (isnan(p[out[at - 1]]) ? -INFINITY : p[out[at - 1]])) at--;
        if (at == most) continue;
        if (count < most) count++;
        for (int k = count - 1; k > at; k--) out[k] = out[k - 1];
        out[at] = c;
    }
    return count;
}

/* --- JSON --- */

static void json_class(weft_text *text, const weft_servable_info *about, const double *p, int64_t c)
{
    char number[24];
    weft_text_add(text, "{\"class\":");
    weft_text_add_json(text, class_name(about, c, number, sizeof(number)));
    weft_text_add(text, ",\"probability\":");
    add_number(text, p[c], about->real == WEFT_F32);
}

static void json_classes(weft_text *text, const weft_servable_info *about, const double *p)
{
    int64_t best[BEST];
    int count = best_of(p, about->classes, BEST, best);
    json_class(text, about, p, best[0]);
    for (int k = 1; k < count; k++) {
        weft_text_add(text, k == 1 ? ",\"others\":[" : ",");
        json_class(text, about, p, best[k]);
        weft_text_add(text, "}");
    }
    weft_text_add(text, count > 1 ? "]}" : "}");
}

/* A single predicted number is the member `value`; several ones are the array `values`. */
static void json_numbers(weft_text *text, const weft_servable_info *about, const double *numbers)
{
    weft_text_add(text, about->targets == 1 ? "{\"value\":" : "{\"values\":[");
    for (int j = 0; j < about->targets; j++) {
        if (j) weft_text_add(text, ",");
        add_number(text, numbers[j], false);
    }
    weft_text_add(text, about->targets == 1 ? "}" : "]}");
}

/* Labels are listed as predicted from a probability of 1/2 on, and `probabilities` has all. */
static void json_labels(weft_text *text, const weft_servable_info *about, const double *p)
{
    bool any = false;
    char number[24];
    weft_text_add(text, "{\"labels\":[");
    for (int j = 0; j < about->targets; j++) {
        if (!(p[j] >= 0.5)) continue;
        if (any) weft_text_add(text, ",");
        weft_text_add_json(text, target_name(about, j, number, sizeof(number)));
        any = true;
    }
    weft_text_add(text, "],\"probabilities\":{");
    for (int j = 0; j < about->targets; j++) {
        if (j) weft_text_add(text, ",");
        weft_text_add_json(text, target_name(about, j, number, sizeof(number)));
        weft_text_add(text, ":");
        add_number(text, p[j], about->real == WEFT_F32);
    }
    weft_text_add(text, "}}");
}

static void write_json(weft_text *text, const weft_servable_info *about, const weft_inference *i)
{
    int64_t columns = about->targets ? about->targets : about->classes;
    weft_text_add(text, "{\"model\":");
    weft_text_add_json(text, about->name);
    weft_text_add(text, ",\"version\":\"%lld\",\"predictions\":[", (long long)about->version);
    for (int64_t row = 0; row < i->request.rows; row++) {
        weft_text_add(text, row ? ",\n" : "\n");
        if (about->binary)
            json_labels(text, about, i->prediction + row * columns);
        else if (about->targets)
            json_numbers(text, about, i->prediction + row * columns);
        else
            json_classes(text, about, i->prediction + row * columns);
    }
    weft_text_add(text, "\n]}\n");
}

/* --- lines --- */

/* Writes a CSV field, in quotes if it contains a comma, a quote or a line end. */
static void csv_field(weft_text *text, const char *field)
{
    if (!strpbrk(field, ",\"\r\n")) {
        weft_text_add(text, "%s", field);
        return;
    }
    weft_text_add(text, "\"");
    for (const char *c = field; *c; c++) weft_text_add(text, *c == '"' ? "\"\"" : "%c", *c);
    weft_text_add(text, "\"");
}

static void write_lines(weft_text *text, const weft_servable_info *about, const weft_inference *i)
{
    bool csv = i->format == WEFT_REPLY_CSV;
    int64_t columns = about->targets ? about->targets : about->classes;
    const char *between = csv ? "," : "\t";
    for (int64_t row = 0; row < i->request.rows; row++) {
        const double *p = i->prediction + row * columns;
        char number[24];
        int64_t best;
        for (int j = 0; j < about->targets; j++) {
            if (j) weft_text_add(text, "%s", between);
            add_number(text, p[j], about->binary && about->real == WEFT_F32);
        }
        if (!about->targets && best_of(p, columns, 1, &best) == 1) {
            const char *name = class_name(about, best, number, sizeof(number));
            if (csv)
                csv_field(text, name);
            else
                weft_text_add(text, "%s", name);
            weft_text_add(text, "%s", between);
            add_number(text, p[best], about->real == WEFT_F32);
        }
        weft_text_add(text, "\n");
    }
}

/* The header line of CSV. */
static void write_header(weft_text *text, const weft_servable_info *about)
{
    if (!about->targets) weft_text_add(text, "class,probability\n");
    if (about->targets == 1 && about->label_name) {
        csv_field(text, about->label_name);
        weft_text_add(text, "\n");
    } else if (about->targets) {
        for (int j = 0; j < about->targets; j++) {
            char number[24];
            if (j) weft_text_add(text, ",");
            csv_field(text, target_name(about, j, number, sizeof(number)));
        }
        weft_text_add(text, "\n");
    }
}

weft_status weft_predict_write_reply(const weft_servable_info *about, const weft_inference *i,
                                     weft_reply *reply)
{
    static const char *const types[] = {
        [WEFT_REPLY_JSON] = "application/json",
        [WEFT_REPLY_TEXT] = "text/plain; charset=utf-8",
        [WEFT_REPLY_CSV] = "text/csv; charset=utf-8; header=present",
    };
    weft_text *text = &reply->text;
    if (i->format == WEFT_REPLY_CSV) write_header(text, about);
    if (i->format == WEFT_REPLY_JSON)
        write_json(text, about, i);
    else
        write_lines(text, about, i);
    reply->type = types[i->format];
    reply->code = 200;
    return text->failed ? weft_fail_memory(text->size) : WEFT_OK;
}
