/* Fuzzes the run configuration that `weft join` receives from the coordinator. A configuration that
 * is accepted has all numbers within their bounds. */
#include "fuzz.h"

#include "train/elastic/elastic.h"

static void must(bool right)
{
    if (!right) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static weft_context *context;
    static weft_train_options own;
    weft_elastic_config terms;
    if (!context && (weft_context_create(&context) != WEFT_OK ||
                     weft_train_options_init(context, &own) != WEFT_OK))
        abort();
    if (weft_elastic_config_read(context, (const char *)data, size, &own, &terms) != WEFT_OK) {
        must(weft_last_message()[0]);
        return 0;
    }
    int64_t at = 0;
    must(terms.learners >= 1 && terms.servers >= 0 && terms.count >= 0);
    for (size_t i = 0; i < terms.gaps.count; i++) {
        const weft_codec_gap *g = &terms.gaps.gaps[i];
        must(g->begin >= at && g->count > 0 && g->count <= terms.count - g->begin);
        at = g->begin + g->count;
    }
    weft_elastic_config_free(context, &terms);
    return 0;
}
