#include "data/tokenizer.h"
#include "formats/tokenizer_json.h"
#include "fuzz.h"

/* Parses the data as tokenizer.json; what parses encodes a text, whose tokens give it back. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "the 1st\n  warp's \xc3\xa9 <|end|>";
    const weft_bytes bytes = {.data = (const unsigned char *)text, .size = sizeof(text) - 1};
    char *parameters, *description;
    weft_tokenizer *t;
    int32_t *tokens;
    int64_t count;
    if (weft_bpe_shorten("fuzz", (const char *)data, size, &parameters) != WEFT_OK) return 0;
    if (weft_format(&description, "bpe:%s", parameters) != WEFT_OK) abort();
    if (weft_tokenizer_read("fuzz", description, &t) == WEFT_OK) {
        if (weft_tokenizer_encode(t, "text", &bytes, &tokens, &count) == WEFT_OK) {
            for (int64_t i = 0; i < count; i++)
                if (tokens[i] < 0 || tokens[i] >= t->tokens) abort();
            free(tokens);
        }
        weft_tokenizer_free(&t);
    }
    free(description);
    free(parameters);
    return 0;
}
