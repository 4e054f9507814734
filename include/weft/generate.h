/*
 * Generation: a checkpoint of a model that predicts the next token continues a prompt.
 *
 * The model computes one position in a run, and carries states to the next one: the cells of
 * recurrent layers, the keys and values of attention. So a token costs the same work in all layers
 * but attention, which reads the positions before it.
 *
 * A model with attention or learned positions has no more positions than a sample of its training
 * data. When they are used up, generation goes on from the later half of them, whose states are
 * computed again.
 */
#ifndef WEFT_GENERATE_H
#define WEFT_GENERATE_H

#include "weft/context.h"
#include "weft/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a token is drawn from the probabilities of the model. */
typedef struct weft_sampling {
    double temperature; /* divides the logits; 0: always the most probable token */
    int64_t top_k;      /* draws among so many of the most probable tokens; 0: all */
    /* draws among the fewest most probable tokens whose probabilities add up to this (nucleus
     * sampling, Holtzman et al. 2020) */
    double top_p;
    int64_t seed;     /* of the draws: the same seed gives the same tokens */
    uint64_t room[4]; /* of later versions: 0 */
} weft_sampling;

typedef struct weft_generator weft_generator;

/* Opens a checkpoint on a device, for the ranks of a mesh (weft_plan_options.mesh; NULL: one rank),
 * which are threads of this process, each with so many threads (0: its share of the cores). A mesh
 * gives the logits of one rank, up to rounding. The generator belongs to one thread at a time, and
 * must not outlive the context. UNSUPPORTED: the model does not predict the next token, or a layer
 * reads later positions. */
WEFT_API WEFT_NODISCARD weft_status weft_generator_open(weft_context *context,
                                                        const char *checkpoint, const char *device,
                                                        const char *mesh, int threads,
                                                        weft_generator **out);
WEFT_API void weft_generator_close(weft_generator **generator);
/* The number of different tokens, which are numbers from 0. */
WEFT_API int weft_generator_tokens(const weft_generator *generator);

/* Encodes a text with the tokenizer of the training data; without one (data tokens:) the text is
 * numbers of tokens, separated by spaces. The caller frees *tokens with weft_free. FORMAT: the text
 * holds what has no token. */
WEFT_API WEFT_NODISCARD weft_status weft_generator_encode(const weft_generator *generator,
                                                          const char *text, int32_t **tokens,
                                                          int64_t *count);
/* Writes the bytes of a token, at most `room`, to `text`, and returns their number; without a
 * tokenizer the number of the token and a space. A token may be a part of a character; 0
 * bytes: there is no such token. */
WEFT_API size_t weft_generator_decode(const weft_generator *generator, int32_t token, char *text,
                                      size_t room);

/* Whether the tokens are parts of a text, and not numbers alone. */
WEFT_API bool weft_generator_has_text(const weft_generator *generator);
/* The token with which a sequence without a prompt begins: that of the end of a line, or 0 where
 * there is no such token. */
WEFT_API int32_t weft_generator_first(const weft_generator *generator);

/* Begins a new sequence. */
WEFT_API void weft_generator_reset(weft_generator *generator);
/* Appends a token to the sequence. */
WEFT_API WEFT_NODISCARD weft_status weft_generator_feed(weft_generator *generator, int32_t token);
/* How many of the last tokens of a sequence of `count` determine what follows: those before them
 * need not be fed. */
WEFT_API int64_t weft_generator_needed(const weft_generator *generator, int64_t count);
/* The logits of the token that follows the sequence [tokens]; NULL: the sequence is empty. They
 * hold until the next token is fed. */
WEFT_API const double *weft_generator_logits(const weft_generator *generator);
/* Draws the token that follows the sequence, and does not append it. The first draw with a seed
 * begins its random numbers. ARGUMENT: the sequence is empty. */
WEFT_API WEFT_NODISCARD weft_status weft_generator_draw(weft_generator *generator,
                                                        const weft_sampling *sampling,
                                                        int32_t *token);

/* Options of weft_generate. The struct owns its strings. */
typedef struct weft_generate_options {
    size_t struct_size; /* sizeof(weft_generate_options) */
    char *checkpoint, *device, *mesh;
    char *prompt, *prompt_file; /* both NULL: begins behind the end of a line, or with token 0 */
    int64_t tokens, threads;
    weft_sampling sampling;
    weft_texts stop; /* the drawn text ends before the first of these; none of it is passed on */
} weft_generate_options;
WEFT_API const weft_option *weft_generate_table(void);

/* Called with the prompt, and then with each token that is drawn; the text is not terminated. While
 * the prompt is read, also called with a size of 0. Returns false to end. */
typedef bool (*weft_generate_fn)(void *user, const char *text, size_t size);
/* Continues a prompt by options->tokens tokens. */
WEFT_API WEFT_NODISCARD weft_status weft_generate(weft_context *context,
                                                  const weft_generate_options *options,
                                                  weft_generate_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
