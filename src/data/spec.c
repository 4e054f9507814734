/* Checks data specifications (keys, kind of target), and divides the rows of a table or array into
 * a training and a test split. */
#include <stdio.h>

#include "data/data.h"
#include "weft/output.h"

weft_status weft_spec_held(const weft_source_request *request, const char *kind, const char *key,
                           char **value)
{
    const char *at = request->stats ? request->stats->reading : NULL;
    size_t size = strlen(kind), named = strlen(key);
    *value = NULL;
    if (!at || strncmp(at, kind, size) != 0 || at[size] != ':') return WEFT_OK;
    for (at += size; *at; at += strcspn(at, ",")) {
        at++;
        if (strncmp(at, key, named) == 0 && at[named] == '=')
            return weft_format(value, "%.*s", (int)strcspn(at + named + 1, ","), at + named + 1);
    }
    return WEFT_OK;
}

weft_status weft_source_ignore(weft_source *s, double label, const weft_source_request *request,
                               char *reading, size_t room)
{
    const char *kind = s->ops->kind;
    char *held = NULL;
    if (isnan(label)) WEFT_TRY(weft_spec_held(request, kind, "ignore", &held));
    s->ignores = !isnan(label) || (held && weft_parse_real(held, &label));
    free(held);
    if (!s->ignores) return WEFT_OK;
    s->ignored = (int32_t)label;
    size_t used = strlen(reading);
    (void)snprintf(reading + used, room - used, "%s%signore=%d", used ? "" : kind, used ? "," : ":",
                   (int)s->ignored);
    s->reading = reading;
    return WEFT_OK;
}

weft_status weft_spec_file(const char *kind, const char *arguments, const weft_spec_key *keys,
                           const weft_source_request *request, char **path)
{
    char title[32];
    size_t size = strcspn(arguments, ",");
    (void)snprintf(title, sizeof(title), "data '%s'", kind);
    *path = NULL;
    if (size == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: give a file, as in %s:FILE", title, kind);
    if (arguments[size]) WEFT_TRY(weft_spec_parse(title, arguments + size + 1, keys));
    WEFT_TRY(weft_format(path, "%.*s", (int)size, arguments));
    return weft_spec_locate(request, path);
}

/* A piece of a specification NAME:PIECE,...: a word, or key=value. */
typedef struct piece {
    const char *at;
    size_t size, key; /* key: bytes up to the sign of equality, and with it; 0: a word */
} piece;

/* The piece that begins at `at`, which may be the end of the text; then its size is 0. */
static piece piece_at(const char *at)
{
    piece p = {.at = at, .size = strcspn(at, ",")};
    const char *sign = memchr(at, '=', p.size);
    p.key = sign ? (size_t)(sign - at) + 1 : 0;
    return p;
}

/* Steps to the next piece; false: there is none. */
static bool step_on(piece *p)
{
    if (!p->at[p->size]) return false;
    *p = piece_at(p->at + p->size + 1);
    return true;
}

/* The piece with the key of `like`, or if that is a word, word number `word`; size 0: none. */
static piece find_piece(const char *arguments, const piece *like, int word)
{
    piece p = piece_at(arguments);
    do {
        if (p.key == like->key && (p.key > 0 ? strncmp(p.at, like->at, p.key) == 0 : word-- == 0))
            return p;
    } while (step_on(&p));
    return (piece){.at = "", .size = 0};
}

/* Whether a text of `size` bytes is a number; sets *out to it. */
static bool is_number(const char *at, size_t size, double *out)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "%.*s", (int)WEFT_MIN(size, sizeof(text) - 1), at);
    return weft_parse_real(text, out);
}

/* The value that the form (weft_entry.form; NULL: none) shows for the key of a piece, with its
 * size; NULL: the form does not have the key. */
static const char *form_value(const char *form, const piece *p, size_t *size)
{
    for (const char *at = form; at && p->key > 0 && (at = strstr(at, "=")); at++) {
        const char *key = at + 1 - p->key;
        *size = strcspn(at + 1, ",[]|");
        if (at + 1 - form > (ptrdiff_t)p->key && strncmp(key, p->at, p->key) == 0 &&
            strchr(":[,|", key[-1]))
            return at + 1;
    }
    return NULL;
}

/* Whether the form gives the key of a piece a number as its default; sets *out to it. */
static bool usual_number(const char *form, const piece *p, double *out)
{
    size_t size;
    const char *value = form_value(form, p, &size);
    return value && is_number(value, size, out);
}

/* Whether the key of a piece gives a column. If another specification leaves it out or gives a
 * column by number and not by name, the identity of the data (weft_dataset_identify) tells whether
 * it is the same column. */
static bool gives_column(const char *form, const piece *p)
{
    static const char column[] = "COLUMN";
    size_t size;
    const char *value = form_value(form, p, &size);
    return value && size == strlen(column) && strncmp(value, column, size) == 0;
}

static bool same_column(const char *form, const piece *a, const piece *b)
{
    double x, y;
    return gives_column(form, a) && is_number(a->at + a->key, a->size - a->key, &x) !=
                                        is_number(b->at + b->key, b->size - b->key, &y);
}

/* Whether two patterns lead to the same files, in the same order. */
static weft_status same_files(const char *a, const char *b, bool *same)
{
    char **files = NULL, **others = NULL;
    int64_t count = 0, other_count = 0;
    weft_status status = weft_spec_files(a, &files, &count);
    if (status == WEFT_OK) status = weft_spec_files(b, &others, &other_count);
    *same = status == WEFT_OK && count > 0 && count == other_count;
    for (int64_t i = 0; i < count && *same; i++) *same = weft_output_same(files[i], others[i]);
    weft_strings_free(&files, count);
    weft_strings_free(&others, other_count);
    return status;
}

/* Whether two values name the same file. */
static weft_status same_file(const piece *a, const piece *b, const char *folder, bool *same)
{
    char *path = NULL, *other = NULL;
    weft_status status = weft_format(&path, "%.*s", (int)(a->size - a->key), a->at + a->key);
    if (status == WEFT_OK)
        status = weft_format(&other, "%.*s", (int)(b->size - b->key), b->at + b->key);
    if (status == WEFT_OK)
        status = weft_spec_locate(&(weft_source_request){.folder = folder}, &other);
    if (status == WEFT_OK) status = same_files(path, other, same);
    free(path);
    free(other);
    return status;
}

/* Whether the identity of the data settles a piece: its key, or the word that it is, is listed. */
static bool is_settled(const char *settled, const piece *p)
{
    char name[32];
    size_t size = p->key > 0 ? p->key - 1 : p->size;
    (void)snprintf(name, sizeof(name), "%.*s", (int)WEFT_MIN(size, sizeof(name) - 1), p->at);
    return settled && weft_is_listed(settled, name);
}

/* Whether each piece of `a` is in `b`, or has the default that the form gives it. absent: pieces
 * that `b` has, too, are not compared. */
static weft_status is_part(const char *a, const char *b, const char *form, const char *settled,
                           const char *folder, bool absent, bool *same)
{
    piece p = piece_at(a);
    int word = 0;
    do {
        double usual = 0, x = 0, y = 0;
        if (p.at != a && is_settled(settled, &p)) continue;
        const piece q = find_piece(b, &p, p.key == 0 ? word++ : 0);
        if (q.size > 0 && (absent || (p.size == q.size && strncmp(p.at, q.at, p.size) == 0)))
            continue;
        bool number = usual_number(form, &p, &usual) && is_number(p.at + p.key, p.size - p.key, &x);
        if (q.size == 0)
            *same = (number && x == usual) || gives_column(form, &p);
        else if (number && is_number(q.at + q.key, q.size - q.key, &y))
            *same = x == y;
        else if (!same_column(form, &p, &q))
            WEFT_TRY(same_file(&p, &q, folder, same));
    } while (*same && step_on(&p));
    return WEFT_OK;
}

weft_status weft_spec_same(const char *a, const char *b, const char *form, const char *settled,
                           const char *folder, bool *same)
{
    size_t size = strcspn(a, ":");
    *same = size == strcspn(b, ":") && strncmp(a, b, size) == 0;
    a += size + (a[size] != '\0');
    if (!*same) return WEFT_OK;
    b += size + (b[size] != '\0');
    if (*a) WEFT_TRY(is_part(a, b, form, settled, folder, false, same));
    return *same && *b ? is_part(b, a, form, settled, NULL, true, same) : WEFT_OK;
}

weft_status weft_check_measured(const char *where, int64_t distinct, bool whole, int64_t rows,
                                const char *as_target)
{
    if (distinct <= 10 || (whole && distinct * 5 <= rows)) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "the label, %s holds %lld different numbers in %lld rows: that looks measured, and no "
        "class; give %s to learn the numbers, or else (of a table as label=) what the classes are",
        where, (long long)distinct, (long long)rows, as_target);
}

weft_status weft_check_target(const char *kind, const char *label, const char *target,
                              const weft_data_stats *known, bool *numbers)
{
    if (label && target)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: both label=%s and target=%s are given; a label is a class, a target "
                         "a number: give the one that is to be learned",
                         kind, label, target);
    if (known && known->binary && target)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: target=%s asks for numbers, the training data had labels of 0 and 1; "
                         "give label=%s",
                         kind, target, target);
    if (known && known->targets > 0 && !known->binary && label)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: label=%s asks for classes, the training data had numbers; "
                         "give target=%s",
                         kind, label, label);
    if (known && known->targets == 0 && target)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: target=%s asks for numbers, the training data had classes; "
                         "give them as label=, or as the file of labels",
                         kind, target);
    *numbers = target || (known && known->targets > 0);
    return WEFT_OK;
}

weft_status weft_split_rows(int64_t total, double share, int64_t count[2], int64_t **rows)
{
    free(*rows);
    *rows = NULL;
    WEFT_TRY(WEFT_NEW(rows, total));
    int64_t test = (int64_t)((double)total * share + 0.5);
    count[WEFT_TEST] = test;
    count[WEFT_TRAIN] = total - test;
    int64_t at[2] = {0, count[WEFT_TRAIN]};
    for (int64_t i = 0; i < total; i++)
        (*rows)[at[weft_permute(0x73706c6974u, total, i) < test]++] = i;
    return WEFT_OK;
}
