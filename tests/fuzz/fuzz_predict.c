/* Fuzzes plain request bodies: pictures and tables. The first byte chooses the model, the content
 * type that the client declares, and the format in which it wants the reply. */
#include "fuzz.h"

#include <math.h>

#include "about.h"

static void must(bool right)
{
    if (!right) abort();
}

static void answer(const weft_servable_info *about, weft_inference *i)
{
    weft_reply reply = {.code = 0};
    int64_t columns = about->targets ? about->targets : about->classes,
            features = weft_shape_elements(&about->input[0].shape);
    for (int64_t k = 0; k < i->request.rows * columns; k++) {
        int64_t at = k % (i->request.rows * features);
        i->prediction[k] = i->x ? (double)i->x[at] : i->x_double[at];
    }
    must(weft_predict_write_reply(about, i, &reply) == WEFT_OK);
    must(reply.code == 200 && reply.text.size > 0);
    free(reply.text.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const types[] = {NULL, "application/x-www-form-urlencoded", "image/png",
                                        "text/csv; charset=utf-8"};
    static const char *const wishes[] = {NULL, "text/plain", "text/csv;q=0.5, */*",
                                         "application/json"};
    weft_plain_body body;
    weft_inference i = {.id = NULL};
    if (size < 1) return 0;
    weft_servable_info about = fuzz_about(data[0]);
    weft_predict_choose_format(wishes[data[0] / 16 % 4], &i);
    if (weft_predict_detect(types[data[0] / 4 % 4], (const char *)data + 1, size - 1, &body) !=
        WEFT_OK) {
        must(weft_last_message()[0]);
        return 0;
    }
    /* Large pictures are skipped here, since decoding one takes the time of many inputs. */
    if (weft_predict_is_long(&body)) return 0;
    if (weft_predict_read(&about, &body, &i) != WEFT_OK) {
        must(weft_last_message()[0] && !i.x && !i.x_double);
        return 0;
    }
    must(i.request.rows >= 1 && i.request.rows <= about.most_rows);
    for (int64_t k = 0;
         body.kind == WEFT_BODY_PICTURE && k < weft_shape_elements(&about.input[0].shape); k++)
        must(i.x[k] >= 0 && i.x[k] <= 255);
    answer(&about, &i);
    weft_inference_free(&i);
    return 0;
}
