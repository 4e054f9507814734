/* Reads plain prediction requests, whose body is a picture, or rows of CSV or JSON. */
#include <stdio.h>

#include "formats/picture/picture.h"
#include "formats/table.h"
#include "serve/front/infer_internal.h"

/* Largest number of pixels of a picture, and of a picture that the loop's thread decodes itself.
 * SPARE_COLUMNS: columns that a table may have beyond twice its features before it is refused
 * unread. */
enum { MOST_PIXELS = 1 << 24, FEW_PIXELS = 1 << 18, SPARE_COLUMNS = 64 };

/* --- content of the body --- */

/* Whether a Content-Type is `name`, with or without parameters, as in "image/png; charset=x". */
static bool is_type(const char *type, const char *name)
{
    size_t size = strlen(name);
    return strncasecmp(type, name, size) == 0 && strchr("; \t", type[size]);
}

/* Whether the beginning of the data is text. */
static bool is_text(const char *data, size_t size)
{
    enum { MOST = 4096 };
    size = WEFT_MIN(size, (size_t)MOST);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)data[i] < 0x20 && !strchr("\t\r\n", data[i])) return false;
    return size > 0 && memchr(data, 0, size) == NULL;
}

static weft_status unknown(const char *type)
{
    char shown[80] = "";
    if (type) (void)snprintf(shown, sizeof(shown), "%.60s: ", type);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%sthe body must be a picture (PNG, JPEG or WebP), or rows of CSV or JSON "
                     "(Content-Type image/png, image/jpeg, image/webp, text/csv or "
                     "application/json), as curl --data-binary @FILE sends it",
                     shown);
}

/* Guesses the kind of the body from its data, since some clients, such as curl, send no useful
 * Content-Type. */
static weft_status sniff(const char *type, weft_plain_body *body)
{
    const char *at = body->data;
    size_t left = body->size;
    if (weft_picture_begins(body->data, body->size) != WEFT_NO_PICTURE) {
        body->kind = WEFT_BODY_PICTURE;
        return WEFT_OK;
    }
    if (!is_text(body->data, body->size)) return unknown(type);
    for (; left > 0 && strchr(" \t\r\n", *at); left--) at++;
    if (left > 0 && (*at == '{' || *at == '[')) {
        body->kind = WEFT_BODY_JSON;
        return WEFT_OK;
    }
    body->kind = WEFT_BODY_CSV;
    return WEFT_OK;
}

weft_status weft_predict_detect(const char *type, const char *data, size_t size,
                                weft_plain_body *out)
{
    *out = (weft_plain_body){.data = data ? data : "", .size = data ? size : 0};
    if (out->size == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "the body is empty; it must be a picture (PNG, JPEG or "
                                            "WebP), or rows of CSV or JSON");
    if (!type || is_type(type, "application/octet-stream")) return sniff(NULL, out);
    if (is_type(type, "application/x-www-form-urlencoded")) {
        out->stripped = true;
        return sniff(NULL, out);
    }
    if (is_type(type, "multipart/form-data"))
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "the body is a multipart form; send the file by itself, as curl --data-binary "
            "@FILE does, not -F");
    if (is_type(type, "text/csv") || is_type(type, "text/plain")) {
        out->kind = WEFT_BODY_CSV;
        return WEFT_OK;
    }
    if (strncasecmp(type, "image/", 6) != 0 && !is_type(type, "application/json"))
        return unknown(type);
    if (strncasecmp(type, "image/", 6) != 0) {
        out->kind = WEFT_BODY_JSON;
        return WEFT_OK;
    }
    if (weft_picture_begins(data, size) == WEFT_NO_PICTURE)
        return weft_fail(WEFT_ERR_FORMAT,
                         "the body is said to be %.40s, and is neither PNG nor JPEG nor WebP",
                         type);
    out->kind = WEFT_BODY_PICTURE;
    return WEFT_OK;
}

bool weft_predict_is_long(const weft_plain_body *body)
{
    int width, height;
    if (body->kind != WEFT_BODY_PICTURE) return false;
    return weft_picture_size("the body", body->data, body->size, &width, &height) == WEFT_OK &&
           (int64_t)width * height > FEW_PIXELS;
}

/* --- numbers --- */

static weft_status make_room(const weft_servable_info *about, int64_t rows, weft_inference *out)
{
    WEFT_TRY(WEFT_NEW(&out->prediction, rows * about->outputs));
    out->request.rows = rows;
    return WEFT_OK;
}

/* The channels, height and width of the model's samples. ARGUMENT: the samples are no pictures. */
static weft_status picture_of(const weft_servable_info *about, int *channels, int *height,
                              int *width)
{
    char text[128];
    const weft_shape *s = &about->input[0].shape;
    int64_t most = s->rank >= 2 ? s->dim[s->rank - 2] * s->dim[s->rank - 1] : 0;
    bool fits =
        s->rank == 2 || (s->rank == 3 && (s->dim[0] == 1 || s->dim[0] == 3 || s->dim[0] == 4));
    if (!fits || most > MOST_PIXELS)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "samples of this model are %s, no pictures of 1, 3 or 4 channels; send "
                         "rows of CSV, or ask .../infer",
                         weft_shape_text(s, text, sizeof(text)));
    *channels = s->rank == 3 ? (int)s->dim[0] : 1;
    *height = (int)s->dim[s->rank - 2];
    *width = (int)s->dim[s->rank - 1];
    return WEFT_OK;
}

/* Scales a picture to a size, whatever its own is. */
static weft_status stretch_picture(const weft_plain_body *body, int channels, int width, int height,
                                   float *out)
{
    weft_picture picture;
    WEFT_TRY(
        weft_picture_decode("the body", body->data, body->size, channels, MOST_PIXELS, &picture));
    weft_status status = weft_picture_scale(&picture, width, height, out);
    weft_picture_free(&picture);
    return status;
}

static weft_status read_picture(const weft_servable_info *about, const weft_plain_body *body,
                                weft_inference *out)
{
    int channels = 0, height = 0, width = 0;
    const weft_shape *shape = &about->input[0].shape;
    WEFT_TRY(picture_of(about, &channels, &height, &width));
    int64_t count = weft_shape_elements(shape);
    WEFT_TRY(make_room(about, 1, out));
    WEFT_TRY(WEFT_NEW(&out->x, count));
    if (about->fills)
        WEFT_TRY(weft_picture_fill("the body", body->data, body->size, MOST_PIXELS, shape, out->x));
    else
        WEFT_TRY(stretch_picture(body, channels, width, height, out->x));
    for (int64_t i = 0; !about->bytes && i < count; i++) out->x[i] /= 255;
    out->request.x = out->x;
    out->request.prediction = out->prediction;
    return WEFT_OK;
}

/* Takes the features of all rows, in the precision in which training normalises them. */
static weft_status take_values(const weft_table *table, weft_csv *csv, weft_inference *out)
{
    if (!table) {
        out->x_double = csv->values;
        csv->values = NULL;
        return WEFT_OK;
    }
    WEFT_TRY(WEFT_NEW(&out->x_double, csv->rows * table->features));
    for (int64_t i = 0; i < csv->rows; i++)
        for (int f = 0; f < table->features; f++)
            out->x_double[i * table->features + f] =
                weft_table_feature(table, csv->values + i * csv->features, f);
    return WEFT_OK;
}

static weft_status take_rows(const weft_servable_info *about, weft_csv *csv, weft_inference *out)
{
    int64_t features = weft_infer_columns(about);
    if (csv->features != features)
        return weft_fail(WEFT_ERR_ARGUMENT, "the rows have %d features, and the model takes %lld",
                         csv->features, (long long)features);
    if (csv->rows > about->most_rows)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "more than %lld rows, which are the most of a request; send them in "
                         "parts, as split -l %lld cuts them",
                         (long long)about->most_rows, (long long)about->most_rows);
    WEFT_TRY(make_room(about, csv->rows, out));
    WEFT_TRY(take_values(about->table_columns, csv, out));
    return weft_inference_prepare(about, out,
                                  &(weft_number_type){.fractional = true, .table = about->table},
                                  (unsigned)about->channels_last);
}

/* Parses rows of CSV in the way of the training data. The label column may be present, and is
 * ignored. No more is read than what shows that there are too many rows or columns. names: of the
 * columns; NULL: they have none. */
static weft_status parse_csv(const weft_servable_info *about, char *const *names, const char *data,
                             size_t size, weft_inference *out)
{
    int features = (int)weft_infer_columns(about);
    weft_csv_known known = {.features = features,
                            .names = names,
                            .table = about->table_columns,
                            .label = about->label_name,
                            .place = about->label_column - 1,
                            .weight = about->weight_name,
                            .weight_place = about->weight_column - 1,
                            .id = about->id_name,
                            .id_place = about->id_column - 1,
                            .unlabelled = true,
                            .measured = about->targets > 0,
                            .label_ignored = true,
                            .most_rows = about->most_rows + 1,
                            .most_columns = 2 * (size_t)features + SPARE_COLUMNS};
    weft_csv csv;
    WEFT_TRY(weft_csv_parse("the body", data, size, NULL, NULL, &known, &csv));
    weft_status status = take_rows(about, &csv, out);
    weft_csv_free(&csv);
    return status;
}

static weft_status read_csv(const weft_servable_info *about, char *const *names,
                            const weft_plain_body *body, weft_inference *out)
{
    weft_status status = parse_csv(about, names, body->data, body->size, out);
    if (status == WEFT_OK || !body->stripped || memchr(body->data, '\n', body->size)) return status;
    weft_error error = {0};
    weft_error_catch(&error, status);
    return weft_fail(status, "%s (curl -d takes out the ends of lines; --data-binary does not)",
                     error.message);
}

static weft_status read_json(const weft_servable_info *about, char *const *names,
                             const weft_plain_body *body, weft_inference *out)
{
    int columns = (int)weft_infer_columns(about);
    weft_text csv = {0};
    if (!names)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the model was trained without names of columns, so JSON goes to "
                         ".../infer; here the body must be a picture (PNG, JPEG or WebP), or rows "
                         "of CSV");
    weft_status status =
        weft_predict_rows(names, columns, about->most_rows, body->data, body->size, &csv);
    if (status == WEFT_OK) status = parse_csv(about, names, csv.data, csv.size, out);
    free(csv.data);
    return status;
}

/* Reads rows of a table, whose columns have the names of the training. */
static weft_status read_table(const weft_servable_info *about, const weft_plain_body *body,
                              weft_inference *out)
{
    char **names = NULL;
    if (about->table_columns) WEFT_TRY(weft_table_column_names(about->table_columns, &names));
    char *const *known = names && about->column_names ? names : about->column_names;
    weft_status status = body->kind == WEFT_BODY_JSON ? read_json(about, known, body, out)
                                                      : read_csv(about, known, body, out);
    free(names);
    return status;
}

weft_status weft_predict_read(const weft_servable_info *about, const weft_plain_body *body,
                              weft_inference *out)
{
    int said = out->format;
    if (about->inputs > 1 || about->tokens || about->positions > 0)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "this model has %s, which go to .../infer; here it must read one picture or "
            "the columns of a table",
            about->inputs > 1 ? "several inputs"
            : about->tokens   ? "tokens"
                              : "answers for all positions");
    *out = (weft_inference){.format = said};
    weft_inference_request_init(&out->request);
    weft_inference_set_timeout(&out->request, body->timeout);
    out->request.priority = weft_priority_of(body->priority);
    weft_status status = body->kind == WEFT_BODY_PICTURE ? read_picture(about, body, out)
                                                         : read_table(about, body, out);
    if (status != WEFT_OK) weft_inference_free(out);
    return status;
}
