/* Declares tokenizers, which turn text into tokens (numbers from 0) and back. */
#ifndef WEFT_DATA_TOKENIZER_H
#define WEFT_DATA_TOKENIZER_H

#include "base/base.h"

typedef struct weft_tokenizer weft_tokenizer;

/* A kind of tokenizer. */
typedef struct weft_tokenizer_ops {
    const char *unit; /* such as "byte" */
    bool bytes;       /* the tokens of a text are its bytes */
    const char *file; /* the end of the name of a file that is given as the unit; NULL: none is */
    /* Makes a tokenizer from its parameters, which `learn` has written; they are copied. */
    weft_status (*read)(const char *name, const char *parameters, weft_tokenizer **out);
    /* Writes the parameters for a unit and a text, of this name; NULL: there are none. */
    weft_status (*learn)(const char *unit, const char *name, const weft_bytes *text,
                         char **parameters);
    /* Writes the tokens of a text to `to`, which has room for WEFT_TOKENS_OF its bytes, and their
     * number to *count. FORMAT: the message names the text and the position of what has no token.
     */
    weft_status (*encode)(const weft_tokenizer *tokenizer, const char *name, const weft_bytes *text,
                          int32_t *to, int64_t *count);
    /* The bytes of a token, which the tokenizer owns. */
    const char *(*decode)(const weft_tokenizer *tokenizer, int32_t token, size_t *size);
    void (*free)(weft_tokenizer *tokenizer);
} weft_tokenizer_ops;

/* The head of every tokenizer. */
struct weft_tokenizer {
    const weft_tokenizer_ops *ops;
    char *description; /* "UNIT" or "UNIT:parameters": makes an equal tokenizer */
    int tokens;        /* number of different tokens */
};

extern const weft_tokenizer_ops weft_tokenizer_byte, weft_tokenizer_char, weft_tokenizer_bpe;

/* The largest number of tokens of a text: one a byte, and one before each part of the text. */
#define WEFT_TOKENS_OF(bytes) (2 * (bytes) + 1)

/* Makes the tokenizer of a unit for a text; `name` is that of the text, for messages. ARGUMENT: the
 * unit is unknown; FORMAT: the text does not consist of such units. */
weft_status weft_tokenizer_learn(const char *unit, const char *name, const weft_bytes *text,
                                 weft_tokenizer **out) WEFT_NODISCARD;
/* Whether a unit, such as that of a specification of data, gives this tokenizer. FORMAT,
 * UNSUPPORTED: the unit is a file that is no tokenizer. */
weft_status weft_tokenizer_fits(const weft_tokenizer *tokenizer, const char *unit,
                                bool *out) WEFT_NODISCARD;
/* Makes a tokenizer from its description, such as that of a checkpoint. */
WEFT_PRIVATE_API weft_status weft_tokenizer_read(const char *name, const char *description,
                                                 weft_tokenizer **out) WEFT_NODISCARD;
/* Encodes a text; the caller frees *tokens. */
weft_status weft_tokenizer_encode(const weft_tokenizer *tokenizer, const char *name,
                                  const weft_bytes *text, int32_t **tokens,
                                  int64_t *count) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_tokenizer_free(weft_tokenizer **tokenizer);

#endif
