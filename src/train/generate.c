/* Continues a prompt with a checkpoint's model, and has the option table of that. */
#include "weft/generate.h"

#include <stddef.h>

#include "base/settings.h"
#include "base/base.h"
#include "base/option_rows.h"
#include "train/sampling.h"
#include "train/stop_strings.h"

#define AT(field_)                                                                                 \
    .size = sizeof(weft_generate_options), .offset = offsetof(weft_generate_options, field_)

static const weft_option generate_table[] = {
    OPTION("checkpoint", "DIR", TEXT, AT(checkpoint), .letter = 'c', .group = "Input",
           .help = "a checkpoint: DIR (its newest), DIR/best, or DIR/step-N"),
    OPTION(
        "prompt", "TEXT", TEXT, AT(prompt), .letter = 'p',
        .help =
            "text to continue, in one line; of data tokens: the numbers of tokens, as in '5 17 2'; "
            "default: the end of a line, or the first token"),
    OPTION(
        "prompt-file", "FILE", TEXT, AT(prompt_file),
        .help =
            "text to continue, from a file: of any lines and, with unit byte, any bytes but zero"),
    OPTION("tokens", "N", WHOLE("200", 0, 1e15), AT(tokens), .letter = 'n', .group = "Sampling",
           .help = "tokens to generate"),
    OPTION("temperature", "X", REAL("1", 0, 1e6), AT(sampling.temperature),
           .help =
               "divides the logits: below 1 likely tokens become more likely; 0: always the most "
               "likely one"),
    OPTION("top-k", "K", WHOLE("0", 0, 1e9), AT(sampling.top_k),
           .help = "draw among the K most likely tokens; 0: all"),
    OPTION("top-p", "P", REAL("1", 1e-9, 1), AT(sampling.top_p),
           .help = "draw among the fewest most likely tokens that have this probability together"),
    OPTION("seed", "N", WHOLE("1", 0, 1e15), AT(sampling.seed), .help = "seed of the draws"),
    {.name = "stop",
     .argument = "TEXT",
     .kind = WEFT_OPT_STRINGS,
     AT(stop),
     .help = "end before this text, once it is drawn; may be given several times"},
    OPTION("device", "NAME", TEXT_IS("cpu"), AT(device), .group = "Machine", .help = "device"),
    OPTION("mesh", "MESH", TEXT, AT(mesh),
           .help =
               "mesh of ranks, threads that compute a token together, as in training: tensor=2, "
               "pipeline=2, ..."),
    OPTION("threads", "N", WHOLE("0", 0, 1024), AT(threads), .letter = 't',
           .help = "threads of each rank; 0: its share of the cores"),
    {.name = NULL},
};

const weft_option *weft_generate_table(void)
{
    return generate_table;
}

static weft_status feed_prompt(weft_generator *g, const char *prompt, weft_generate_fn fn,
                               void *user, bool *goes_on)
{
    int32_t *tokens;
    int64_t count;
    WEFT_TRY(weft_generator_encode(g, prompt, &tokens, &count));
    weft_status status =
        count > 0 ? WEFT_OK
                  : weft_fail(WEFT_ERR_ARGUMENT, "the prompt is empty; give at least one token, or "
                                                 "leave the prompt out");
    for (int64_t i = count - weft_generator_needed(g, count);
         i < count && status == WEFT_OK && *goes_on; i++) {
        status = weft_generator_feed(g, tokens[i]);
        *goes_on = fn(user, "", 0);
    }
    free(tokens);
    return status;
}

/* Reads a file that holds no zero byte, as a string that the caller frees. */
static weft_status read_text(const char *path, char **out)
{
    weft_bytes file;
    WEFT_TRY(weft_file_read(path, &file));
    weft_status status = WEFT_NEW(out, file.size + 1);
    if (status == WEFT_OK && file.size > 0) memcpy(*out, file.data, file.size);
    if (status == WEFT_OK && strlen(*out) < file.size) {
        status = weft_fail(WEFT_ERR_FORMAT, "%s: holds a zero byte, so it is no text", path);
        free(*out);
        *out = NULL;
    }
    weft_file_unmap(&file);
    return status;
}

/* Sets *out to the prompt of the options, which the caller frees; NULL: none is given. */
static weft_status read_prompt(const weft_generate_options *o, char **out)
{
    *out = NULL;
    if (o->prompt && o->prompt_file)
        return weft_fail(WEFT_ERR_ARGUMENT, "prompt and prompt-file are both given; leave one out");
    if (o->prompt_file) return read_text(o->prompt_file, out);
    return o->prompt ? weft_strdup(o->prompt, out) : WEFT_OK;
}

/* Passes drawn text on. Bytes that may begin a text that stops it are held back in `held` until
 * more is drawn, or the text ends. *goes_on: false if it was stopped, or fn wants no more. */
static weft_status emit_text(const weft_generate_options *o, const char *text, size_t size,
                             bool ends, weft_text *held, weft_generate_fn fn, void *user,
                             bool *goes_on)
{
    if (o->stop.count == 0 || held->size + size == 0) {
        *goes_on = fn(user, text, size);
        return WEFT_OK;
    }
    weft_text_add_bytes(held, text, size);
    if (held->failed) return weft_fail_memory(size);
    size_t end = weft_stop_strings_find(&o->stop, held->data, held->size, size);
    bool stopped = end < held->size;
    if (!stopped && !ends) end -= weft_stop_strings_held(&o->stop, held->data, held->size);
    *goes_on = fn(user, held->data, end) && !stopped;
    held->size -= end;
    memmove(held->data, held->data + end, held->size);
    return WEFT_OK;
}

static weft_status generate_tokens(weft_generator *g, const weft_generate_options *o,
                                   const char *prompt, weft_text *held, weft_generate_fn fn,
                                   void *user)
{
    char text[4096];
    int32_t token;
    bool goes_on = true;
    WEFT_TRY(prompt ? feed_prompt(g, prompt, fn, user, &goes_on)
                    : weft_generator_feed(g, weft_generator_first(g)));
    goes_on = goes_on && fn(user, prompt ? prompt : "", prompt ? strlen(prompt) : 0);
    /* Without a tokenizer, ids of tokens are printed with a space between them. */
    bool apart = !prompt || weft_generator_has_text(g) || prompt[strlen(prompt) - 1] == ' ';
    if (goes_on && !apart) goes_on = fn(user, " ", 1);
    for (int64_t i = 0; i < o->tokens && goes_on; i++) {
        bool last = i + 1 == o->tokens;
        WEFT_TRY(weft_generator_draw(g, &o->sampling, &token));
        size_t size = weft_generator_decode(g, token, text, sizeof(text));
        WEFT_TRY(emit_text(o, text, size, last, held, fn, user, &goes_on));
        if (goes_on && !last) WEFT_TRY(weft_generator_feed(g, token));
    }
    return WEFT_OK;
}

weft_status weft_generate(weft_context *context, const weft_generate_options *options,
                          weft_generate_fn fn, void *user)
{
    WEFT_NEED(context, options, fn);
    weft_generator *g = NULL;
    weft_text held = {0};
    char *prompt;
    weft_generate_options own;
    WEFT_TRY(weft_options_take(generate_table, options, &own));
    WEFT_TRY(weft_sampling_check(&own.sampling));
    options = &own;
    WEFT_TRY(read_prompt(options, &prompt));
    weft_status status = weft_generator_open(context, options->checkpoint, options->device,
                                             options->mesh, (int)options->threads, &g);
    if (status == WEFT_OK) status = generate_tokens(g, options, prompt, &held, fn, user);
    weft_generator_close(&g);
    free(prompt);
    free(held.data);
    return status;
}
