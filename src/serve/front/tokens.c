/* Bearer tokens (RFC 6750), each of which gives access to one model or to all models. */
#include <strings.h>

#include "serve/front/access_control.h"

enum { MOST_TOKEN = 256, MOST_NAME = 128 };

typedef struct entry {
    char model[MOST_NAME]; /* name of the model, or "*" for all models */
    unsigned char token[MOST_TOKEN];
    size_t size;
} entry;

struct weft_tokens {
    entry *entries;
    size_t count, capacity;
};

/* Parses a line "MODEL TOKEN", from which comments were removed. */
static weft_status take_line(weft_tokens *t, const char *path, int number, char *line)
{
    char *keep, *model = strtok_r(line, " \t", &keep), *token = strtok_r(NULL, " \t", &keep);
    if (!token || strtok_r(NULL, " \t", &keep))
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: a line is MODEL TOKEN, with * as the model for all of them", path,
                         number);
    if (strlen(model) >= MOST_NAME || strlen(token) > MOST_TOKEN)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: a model's name has at most %d bytes and a token %d", path, number,
                         MOST_NAME - 1, MOST_TOKEN);
    WEFT_TRY(WEFT_GROW(&t->entries, &t->capacity, t->count));
    entry *e = &t->entries[t->count++];
    *e = (entry){.size = strlen(token)};
    memcpy(e->model, model, strlen(model) + 1);
    memcpy(e->token, token, e->size);
    return WEFT_OK;
}

static weft_status take_lines(weft_tokens *t, const char *path, char *text)
{
    char *rest = text, *line;
    for (int number = 1; (line = strsep(&rest, "\n")); number++) {
        line[strcspn(line, "#\r")] = '\0';
        if (line[strspn(line, " \t")]) WEFT_TRY(take_line(t, path, number, line));
    }
    if (t->count > 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s: has no token; a line is MODEL TOKEN", path);
}

weft_status weft_tokens_read(const char *path, weft_tokens **out)
{
    char *text = NULL;
    weft_status status = WEFT_NEW(out, 1);
    if (status == WEFT_OK) status = weft_secret_read(path, 077, "a file of tokens", &text);
    if (status == WEFT_OK) status = take_lines(*out, path, text);
    weft_secret_free(&text);
    if (status != WEFT_OK) weft_tokens_free(out);
    return status;
}

void weft_tokens_free(weft_tokens **tokens)
{
    if (!*tokens) return;
    if ((*tokens)->entries) explicit_bzero((*tokens)->entries, (*tokens)->count * sizeof(entry));
    free((*tokens)->entries);
    free(*tokens);
    *tokens = NULL;
}

/* The token is compared with all known tokens, always over MOST_TOKEN bytes, so that the time does
 * not show how many bytes match. */
weft_token_right weft_tokens_right(const weft_tokens *t, const char *authorization,
                                   const char *model)
{
    static const char BEARER[] = "Bearer ";
    unsigned char given[MOST_TOKEN] = {0};
    bool known = false, good = false;
    if (!authorization || strncasecmp(authorization, BEARER, sizeof(BEARER) - 1) != 0)
        return WEFT_TOKEN_UNKNOWN;
    authorization += sizeof(BEARER) - 1;
    authorization += strspn(authorization, " ");
    size_t size = strlen(authorization);
    if (size == 0 || size > MOST_TOKEN) return WEFT_TOKEN_UNKNOWN;
    for (size_t i = 0; i < size; i++) given[i] = (unsigned char)authorization[i];
    for (size_t i = 0; i < t->count; i++) {
        const entry *e = &t->entries[i];
        unsigned differs = e->size != size;
        for (int k = 0; k < MOST_TOKEN; k++) differs |= e->token[k] ^ given[k];
        bool all = strcmp(e->model, "*") == 0;
        known |= !differs;
        good |= !differs && (all || (model && (!*model || strcmp(model, e->model) == 0)));
    }
    return good ? WEFT_TOKEN_VALID : known ? WEFT_TOKEN_OTHER_MODEL : WEFT_TOKEN_UNKNOWN;
}

bool weft_tokens_needed(char *const *piece, int n, const char **model)
{
    bool v2 = n > 0 && strcmp(piece[0], "v2") == 0;
    *model = NULL;
    if (v2 && n == 1) {
        *model = "";
        return true;
    }
    if (!v2) return true;
    if (n == 3 && strcmp(piece[1], "health") == 0) return false;
    if (n < 3 || strcmp(piece[1], "models") != 0) return true;
    if (n == 3 && strcmp(piece[2], "stats") == 0) return true;
    *model = piece[2];
    bool versioned = n == 6 && strcmp(piece[3], "versions") == 0;
    return !((n == 4 || versioned) && strcmp(piece[n - 1], "ready") == 0);
}
