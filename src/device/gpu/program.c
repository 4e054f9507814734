/* Makes the programs of a card: the prelude of its driver, the definitions of a launch and the text
 * of a kind of kernels are one source, which is compiled once. */
#include <stdio.h>

#include "device/gpu/gpu.h"

struct gpu_program {
    gpu_program *next;
    char *source;
    gpu_module *module;
};

static weft_status join(const gpu_card *card, const gpu_text *text, const char *definitions,
                        const char *body, char **out)
{
    const char *const parts[] = {card->doubles ? "#define DOUBLES 1\n" : "",
                                 card->processor ? "#define ROLL 1\n" : "",
                                 card->driver->prelude,
                                 definitions ? definitions : "",
                                 gpu_text_common.text,
                                 body ? body : "",
                                 text->text};
    size_t size = 1;
    for (size_t i = 0; i < WEFT_COUNT(parts); i++) size += strlen(parts[i]) + 1;
    WEFT_TRY(weft->allocate(size, out));
    char *at = *out;
    for (size_t i = 0; i < WEFT_COUNT(parts); i++) {
        size_t part = strlen(parts[i]);
        memcpy(at, parts[i], part);
        at[part] = '\n';
        at += part + 1;
    }
    return WEFT_OK;
}

static weft_status make_module(gpu_card *card, const char *source, const char *what,
                               gpu_module **out)
{
    const gpu_driver *driver = card->driver;
    void *binary = NULL;
    size_t bytes = 0;
    /* OpenCL on a processor, as PoCL, keeps files of its own, by groups of the sizes that run. To
     * give a binary it would compile each function once more, for groups of any size. */
    if (card->processor) return driver->compile(card, source, what, out);
    gpu_cache_read(card, source, &binary, &bytes);
    bool loaded = binary && driver->load(card, binary, bytes, out) == WEFT_OK;
    free(binary);
    if (loaded) return WEFT_OK;
    WEFT_TRY(driver->compile(card, source, what, out));
    /* A program works as well without its file. */
    if (driver->binary(card, *out, &binary, &bytes) == WEFT_OK) {
        gpu_cache_write(card, source, binary, bytes);
        free(binary);
    }
    return WEFT_OK;
}

/* Takes over the source. */
static weft_status add(gpu_card *card, char *source, const char *what, gpu_module **out)
{
    gpu_program *p = card->programs;
    while (p && strcmp(p->source, source) != 0) p = p->next;
    if (p) {
        free(source);
        *out = p->module;
        return WEFT_OK;
    }
    weft_status status = weft->allocate(sizeof(*p), &p);
    if (status == WEFT_OK) {
        status = make_module(card, source, what, &p->module);
        if (status != WEFT_OK) free(p);
    }
    if (status != WEFT_OK) {
        free(source);
        return status;
    }
    p->source = source;
    p->next = card->programs;
    card->programs = p;
    *out = p->module;
    return WEFT_OK;
}

weft_status gpu_program_get(gpu_card *card, const gpu_text *text, const char *definitions,
                            const char *body, const char *what, gpu_module **out)
{
    char *source;
    WEFT_TRY(join(card, text, definitions, body, &source));
    pthread_mutex_lock(&card->lock);
    weft_status status = add(card, source, what, out);
    pthread_mutex_unlock(&card->lock);
    return status;
}

void gpu_programs_free(gpu_card *card)
{
    for (gpu_program *next, *p = card->programs; p; p = next) {
        next = p->next;
        card->driver->unload(p->module);
        free(p->source);
        free(p);
    }
    card->programs = NULL;
}
