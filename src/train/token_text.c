/* Converts prompts to tokens, and tokens to text. */
#include "train/token_text.h"

#include <stdio.h>

/* Reads numbers of tokens, separated by spaces. */
static weft_status read_numbers(int values, const char *text, int32_t *to, int64_t *count)
{
    for (*count = 0; *(text += strspn(text, " \n")); text += strcspn(text, " \n")) {
        char word[24];
        int64_t number = -1;
        (void)snprintf(word, sizeof(word), "%.*s", (int)WEFT_MIN(strcspn(text, " \n"), 20), text);
        if (!weft_parse_int(word, &number) || number < 0 || number >= values)
            return weft_fail(WEFT_ERR_FORMAT,
                             "the prompt: '%s' is no token; the model was trained on numbers of "
                             "tokens from 0 to %d",
                             word, values - 1);
        to[(*count)++] = (int32_t)number;
    }
    return WEFT_OK;
}

weft_status weft_tokens_encode(const weft_tokenizer *tokenizer, int values, const char *text,
                               int32_t **tokens, int64_t *count)
{
    const weft_bytes bytes = {.data = (const unsigned char *)text, .size = strlen(text)};
    if (tokenizer) return weft_tokenizer_encode(tokenizer, "the prompt", &bytes, tokens, count);
    WEFT_TRY(WEFT_NEW(tokens, bytes.size + 1));
    weft_status status = read_numbers(values, text, *tokens, count);
    if (status != WEFT_OK) free(*tokens);
    return status;
}

size_t weft_tokens_decode(const weft_tokenizer *tokenizer, int32_t token, char *text, size_t room)
{
    char number[16];
    size_t size = 0;
    const char *bytes = tokenizer ? tokenizer->ops->decode(tokenizer, token, &size) : number;
    if (!tokenizer) size = (size_t)snprintf(number, sizeof(number), "%d ", token);
    size = WEFT_MIN(size, room);
    memcpy(text, bytes, size);
    return size;
}

int32_t weft_tokens_first(const weft_tokenizer *tokenizer)
{
    int32_t *tokens, first = 0;
    int64_t count;
    if (!tokenizer || weft_tokens_encode(tokenizer, 0, "\n", &tokens, &count) != WEFT_OK) return 0;
    if (count > 0) first = tokens[0];
    free(tokens);
    return first;
}
