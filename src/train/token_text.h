/* Declares the conversion of prompts to tokens and of tokens to text, with or without a tokenizer.
 */
#ifndef WEFT_TRAIN_TOKEN_TEXT_H
#define WEFT_TRAIN_TOKEN_TEXT_H

#include "data/tokenizer.h"

/* Encodes a text; without a tokenizer (NULL) it is numbers of tokens, separated by spaces. values:
 * number of different tokens. The caller frees *tokens, which
 * is undefined after a failure. FORMAT: the text holds what has no
 * token. */
WEFT_PRIVATE_API weft_status weft_tokens_encode(const weft_tokenizer *tokenizer, int values,
                                                const char *text, int32_t **tokens,
                                                int64_t *count) WEFT_NODISCARD;
/* Writes the bytes of a token, at most `room`, and returns their number; without a tokenizer the
 * number of the token and a space. */
WEFT_PRIVATE_API size_t weft_tokens_decode(const weft_tokenizer *tokenizer, int32_t token,
                                           char *text, size_t room);
/* The token with which a sequence without a prompt begins: that of the end of a line, or 0 where
 * there is no such token. */
WEFT_PRIVATE_API int32_t weft_tokens_first(const weft_tokenizer *tokenizer);

#endif
