/* Reads the specification of a NumPy data source. */
#include <ctype.h>

#include "data/npy.h"

enum { INPUTS = WEFT_MAX_INPUTS };

/* Whether a piece is "key=value" with one of these keys. */
static bool is_key(const char *piece, const weft_spec_key *keys)
{
    for (; keys->name; keys++) {
        size_t size = strlen(keys->name);
        if (strncmp(piece, keys->name, size) == 0 && piece[size] == '=') return true;
    }
    return false;
}

/* Whether the text begins with a name and "=", as in x=FILE. */
static bool is_named(const char *text)
{
    const char *at = text;
    if (!isalpha((unsigned char)*at)) return false;
    while (isalnum((unsigned char)*at) || *at == '_') at++;
    return *at == '=';
}

typedef struct reader {
    weft_npy_source *s;
    const weft_spec_key *keys;
    char *options; /* the pieces that are keys, with commas between them */
} reader;

static weft_status add_option(reader *r, const char *piece)
{
    char *before = r->options;
    weft_status status =
        weft_format(&r->options, "%s%s%s", before ? before : "", before ? "," : "", piece);
    free(before);
    return status;
}

static weft_status add_input(weft_npy_source *s, const char *name, size_t size, const char *path)
{
    weft_source *head = &s->head;
    if (size >= WEFT_INPUT_NAME)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'npy': the input '%.*s' has a name of %zu bytes, at most %d are "
                         "possible",
                         (int)size, name, size, WEFT_INPUT_NAME - 1);
    for (int i = 0; i < head->inputs; i++)
        if (strlen(head->input[i].name) == size && strncmp(head->input[i].name, name, size) == 0)
            return weft_fail(WEFT_ERR_ARGUMENT, "data 'npy': the input '%.*s' is given twice",
                             (int)size, name);
    if (head->inputs == INPUTS)
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'npy': more than %d inputs are given", INPUTS);
    static const char *const taken[] = {"labels", "weights", "first_sample", "mixed_labels",
                                        "mixed_weights"};
    for (size_t i = 0; i < WEFT_COUNT(taken); i++)
        if (strlen(taken[i]) == size && strncmp(taken[i], name, size) == 0)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "data 'npy': no input can be named '%s', as models have an input of "
                             "this name",
                             taken[i]);
    if (!*path)
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'npy': '%.*s=' needs a file", (int)size, name);
    weft_input *in = &head->input[head->inputs];
    *in = (weft_input){.dtype = WEFT_F32};
    memcpy(in->name, name, size);
    return weft_strdup(path, &s->input[head->inputs++].path);
}

/* Takes a piece: an option, an input by name or, of an unnamed specification, the file of samples
 * or of labels. */
static weft_status take_piece(void *user, char *piece)
{
    reader *r = user;
    weft_npy_source *s = r->s;
    if (is_key(piece, r->keys)) return add_option(r, piece);
    if (s->named && is_named(piece)) {
        size_t size = strcspn(piece, "=");
        return add_input(s, piece, size, piece + size + 1);
    }
    if (!s->named && s->head.inputs == 0) {
        const char *sign = strchr(piece, '=');
        if (sign && !weft_file_exists(piece))
            return weft_fail(
                WEFT_ERR_ARGUMENT,
                "data 'npy': '%.*s' cannot be the name of an input: a name begins with "
                "a letter and has letters, digits and _",
                (int)(sign - piece), piece);
        return add_input(s, "x", 1, piece);
    }
    if (!s->named && !s->labels.path && !r->options) return weft_strdup(piece, &s->labels.path);
    return add_option(r, piece); /* weft_spec_parse refuses it */
}

/* Takes whether the labels are several, each 0 or 1. */
static weft_status take_binary(weft_npy_source *s, bool binary, const char *target,
                               const weft_source_request *request)
{
    const weft_data_stats *known = request->stats;
    if (binary && target)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'npy': binary has labels of 0 and 1, and target=%s numbers; give "
                         "label=%s",
                         target, target);
    if (binary && known && !known->binary)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "data 'npy': binary has several labels of 0 and 1, and the training data "
                         "had %s; leave it out",
                         known->targets > 0 ? "numbers" : "classes");
    s->head.binary = known ? known->binary : binary;
    s->numbers = s->numbers || s->head.binary;
    return WEFT_OK;
}

/* Moves the file of label= or target= to the source. */
static weft_status take_labels(weft_npy_source *s, char **label, char **target, bool binary,
                               const weft_source_request *request)
{
    if (*label && s->labels.path)
        return weft_fail(WEFT_ERR_ARGUMENT, "data 'npy': labels are given twice, %s and %s",
                         s->labels.path, *label);
    if (*label) {
        s->labels.path = *label;
        *label = NULL;
    }
    WEFT_TRY(weft_check_target("data 'npy'", s->labels.path, *target,
                               request->mirrored ? NULL : request->stats, &s->numbers));
    WEFT_TRY(take_binary(s, binary, *target, request));
    if (*target) {
        s->labels.path = *target;
        *target = NULL;
    }
    bool labelled = s->labels.path ? *s->labels.path != '\0' : request->unlabelled;
    if (s->head.inputs > 0 && labelled) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "data 'npy': give two files, as in npy:SAMPLES,LABELS or "
                     "npy:SAMPLES,target=FILE, or inputs by name, as in npy:a=FILE,b=FILE,"
                     "label=FILE");
}

weft_status weft_npy_parse_spec(const char *arguments, const weft_source_request *request,
                                weft_npy_source *s, weft_npy_spec *out)
{
    char *label = NULL, *target = NULL;
    bool binary = false;
    *out = (weft_npy_spec){.test = -1, .ignore = NAN};
    const weft_spec_key keys[] = {{.name = "layout", .text = &out->layout},
                                  {.name = "label", .text = &label},
                                  {.name = "target", .text = &target},
                                  {.name = "binary", .flag = &binary},
                                  {.name = "weight", .text = &s->weights.path},
                                  {.name = "test", .number = &out->test, .low = 0, .high = 1},
                                  {.name = "ignore",
                                   .number = &out->ignore,
                                   .low = WEFT_LEAST_IGNORED,
                                   .high = 65535,
                                   .integer = true},
                                  {.name = NULL}};
    reader r = {.s = s, .keys = keys};
    s->named = is_named(arguments);
    weft_status status = WEFT_OK;
    if (*arguments) status = weft_each_piece("data 'npy'", arguments, take_piece, &r);
    if (status == WEFT_OK && r.options) status = weft_spec_parse("data 'npy'", r.options, keys);
    if (status == WEFT_OK) status = take_labels(s, &label, &target, binary, request);
    free(r.options);
    free(label);
    free(target);
    return status;
}
