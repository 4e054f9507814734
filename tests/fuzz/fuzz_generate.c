/* Fuzzes generation requests and the text of their replies. A request that is accepted has numbers
 * in range; bytes become JSON that can be read, whole or in parts that are cut anywhere. */
#include "fuzz.h"

#include <jansson.h>

#include "about.h"
#include "serve/front/text_stream.h"

static void must(bool right)
{
    if (!right) abort();
}

/* The string of a reply with this text; the caller frees it. */
static json_t *reply_of(const weft_servable_info *about, const char *text, size_t size, bool all,
                        size_t *taken)
{
    weft_text out = {0};
    *taken = weft_generate_write(about, text, size, all, NULL, &out);
    json_t *reply = json_loadb(out.data, out.size, JSON_ALLOW_NUL, NULL);
    must(json_is_string(json_object_get(reply, "text_output")));
    free(out.data);
    return reply;
}

/* The bytes one after the other, each added to what was not taken yet, and the same at once. */
static void reply(const weft_servable_info *about, const char *bytes, size_t size)
{
    weft_text parts = {0};
    size_t begin = 0, taken;
    for (size_t end = 1; end <= size; end++) {
        json_t *part = reply_of(about, bytes + begin, end - begin, end == size, &taken);
        const json_t *text = json_object_get(part, "text_output");
        weft_text_add_bytes(&parts, json_string_value(text), json_string_length(text));
        json_decref(part);
        begin += taken;
        must(end < size ? end - begin < 4 : begin == size);
    }
    json_t *whole = reply_of(about, bytes, size, true, &taken);
    const json_t *text = json_object_get(whole, "text_output");
    must(taken == size && parts.size == json_string_length(text));
    must(parts.size == 0 || memcmp(parts.data, json_string_value(text), parts.size) == 0);
    json_decref(whole);
    free(parts.data);
}

/* The first string that stops a text is found when its last byte comes, and no byte of it was let
 * go before. */
static void stop(const weft_texts *stops, const char *text, size_t size)
{
    size_t first = size, gone = 0;
    for (int i = 0; i < stops->count; i++) {
        must(stops->at[i][0]);
        const char *at = memmem(text, size, stops->at[i], strlen(stops->at[i]));
        if (at) first = WEFT_MIN(first, (size_t)(at - text));
    }
    for (size_t end = 1; end <= size; end++) {
        size_t at = gone + weft_stop_strings_find(stops, text + gone, end - gone, 1);
        if (at < end) {
            must(at >= first && gone <= first);
            return;
        }
        gone = end - weft_stop_strings_held(stops, text + gone, end - gone);
        must(gone <= first);
    }
    must(first == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const weft_servable_info about = fuzz_about(3);
    weft_generation_request request;
    char *prompt, *id;
    weft_texts stops;
    if (weft_generate_read((const char *)data, size, size % 2, &request, &prompt, &id, &stops) ==
        WEFT_OK) {
        must(request.prompt == prompt && request.tokens >= 1 && request.queue_timeout >= 0);
        must(request.sampling.top_k >= 0 && request.sampling.seed >= 0 && request.priority >= 0);
        stop(&stops, (const char *)data, size);
        free(prompt);
        free(id);
    } else {
        must(weft_last_message()[0] && !prompt && !id);
    }
    must(stops.count <= WEFT_MOST_TEXTS);
    while (stops.count > 0) free(stops.at[--stops.count]);
    if (size < 4096) reply(&about, (const char *)data, size);
    return 0;
}
