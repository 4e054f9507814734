/* Fuzzes inference requests. The first byte chooses the model, the second says how many bytes of
 * binary data follow the JSON (255: the client gives no length of the JSON). A request that is
 * accepted has 1 to `most_rows` rows, and its reply can be written. */
#include "fuzz.h"

#include <jansson.h>
#include <math.h>

#include "about.h"

static void must(bool right)
{
    if (!right) abort();
}

static void answer(const weft_servable_info *about, weft_inference *i)
{
    weft_reply reply = {.code = 0};
    int64_t size = weft_shape_elements(&about->input[0].shape);
    for (int64_t k = 0; k < i->request.rows * about->outputs; k++)
        i->prediction[k] = (i->x ? (double)i->x[k % size] : i->x_double[k % size]) / 3;
    must(weft_infer_write_reply(about, i, &reply) == WEFT_OK);
    json_t *said = json_loadb(reply.text.data, reply.json ? reply.json : reply.text.size, 0, NULL);
    must(said != NULL);
    json_decref(said);
    free(reply.text.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_inference i;
    if (size < 2) return 0;
    weft_servable_info about = fuzz_about(data[0]);
    int64_t json = data[1] == 255 ? -1 : (int64_t)(size - 2) - data[1];
    if (json < 0) json = -1;
    if (weft_infer_read(&about, (const char *)data + 2, size - 2, json, &i) != WEFT_OK) {
        must(weft_last_message()[0] && !i.x && !i.x_double && !i.prediction && !i.id);
        return 0;
    }
    must(i.request.rows >= 1 && i.request.rows <= about.most_rows);
    must(i.request.x == i.x && i.request.x_double == i.x_double && !i.x != !i.x_double);
    must(i.request.queue_timeout >= 0 && i.request.priority >= 0);
    for (int k = 0; k < i.outputs; k++)
        must(i.output[k].classes >= 0 && i.output[k].classes <= about.classes);
    answer(&about, &i);
    weft_inference_free(&i);
    bool ready;
    if (weft_repository_index_read((const char *)data + 2, size - 2, &ready) != WEFT_OK)
        must(weft_last_message()[0]);
    if (weft_repository_load_read((const char *)data + 2, size - 2) != WEFT_OK)
        must(weft_last_message()[0]);
    return 0;
}
