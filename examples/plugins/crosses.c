/* A data source as a plug-in: pictures of bytes, each with a cross or a square at a place of its
 * own, among noise. In training each epoch moves the picture by up to a pixel, by the random
 * numbers of the key, so any number of threads draws the same:
 *
 *   weft train --plugin ./libcrosses.so --data crosses:size=12,train=200,test=50,threads=2 */
#include <stdlib.h>

#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */
static const char *const names[] = {"cross", "square"};

typedef struct crosses {
    int size;
} crosses;

static weft_status crosses_open(weft_context *context, const char *arguments,
                                const weft_data_stats *trained, void **state, weft_data_form *form)
{
    double size = trained ? (double)trained->input[0].shape.dim[2] : 16, train = 1000, test = 200;
    double threads = 1;
    crosses *c;
    const weft_spec_key keys[] = {
        {.name = "size", .number = &size, .low = 8, .high = 256, .integer = true},
        {.name = "train", .number = &train, .low = 1, .high = 1e9, .integer = true},
        {.name = "test", .number = &test, .low = 1, .high = 1e9, .integer = true},
        {.name = "threads", .number = &threads, .low = 1, .high = 16, .integer = true},
        {.name = NULL}};
    weft_status status = weft->parse("data crosses", arguments, keys);
    if (status == WEFT_OK) status = weft->allocate(sizeof(*c), &c);
    if (status != WEFT_OK) return status;
    (void)context;
    c->size = (int)size;
    *form = (weft_data_form){
        .inputs = 1,
        .input[0] = {.name = "x", .dtype = WEFT_U8, .shape = {3, {1, c->size, c->size}}},
        .count = {(int64_t)train, (int64_t)test},
        .classes = 2,
        .class_names = names,
        .threads = (int)threads};
    *state = c;
    return WEFT_OK;
}

/* Pixel (y, x) belongs to the figure of a class around (0, 0). */
static bool is_ink(int label, int y, int x)
{
    return label == 0 ? (x == 0 || y == 0) && abs(x + y) <= 2 : abs(x) <= 2 && abs(y) <= 2;
}

static weft_status crosses_read(void *state, const weft_sample_key *key, weft_sample *sample)
{
    int size = ((const crosses *)state)->size;
    const weft_sample_key own = {.split = key->split, .sample = key->sample}; /* in all epochs */
    int label = (int)(weft->random(&own, 0) * 2);
    int y = 3 + (int)(weft->random(&own, 1) * (size - 6));
    int x = 3 + (int)(weft->random(&own, 2) * (size - 6));
    if (key->epoch >= 0) y += (int)(weft->random(key, 0) * 3) - 1;
    if (key->epoch >= 0) x += (int)(weft->random(key, 1) * 3) - 1;
    if (sample->label) *sample->label = label;
    if (!sample->input[0]) return WEFT_OK;
    uint8_t *pixel = sample->input[0];
    for (int i = 0; i < size * size; i++)
        pixel[i] = (uint8_t)(weft->random(&own, 3 + (uint64_t)i) * 100 +
                             (is_ink(label, i / size - y, i % size - x) ? 150 : 0));
    sample->written[0] = (int64_t)size * size;
    return WEFT_OK;
}

static const weft_data_ops ops = {sizeof(ops), crosses_open, free, crosses_read};

static const weft_entry entries[] = {{.kind = WEFT_KIND_DATA,
                                      .name = "crosses",
                                      .form = "crosses[:size=16,train=1000,test=200,threads=1]",
                                      .summary = "pictures of crosses and squares",
                                      .ops = &ops},
                                     {.name = NULL}};

WEFT_PLUGIN(weft, entries);
