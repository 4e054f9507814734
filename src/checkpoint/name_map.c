/* Reads maps of names, and applies their rules. A rule is a line such as
 *
 *   encoder.*.weight [out, in] -> block*.weight [in, out]
 *
 * Each * of the left side stands for any characters, which the * of the same number on the right
 * repeats. Names of dimensions restrict a rule to tensors with as many, and their order on the
 * right side is that of the parameter. [out 2/3, in] is the second of three equal parts along the
 * first dimension: several rules may then share a tensor. The name - leaves a tensor out. # begins
 * a comment. */
#include "checkpoint/name_map.h"

#include <ctype.h>
#include <stdio.h>

enum { MOST_STARS = 4, LONGEST = 512 };

/* How PyTorch names and lays out what Weft's layers have. */
static const char torch[] = "*.weight [out, in] -> */weight [in, out]\n"
                            "*.in_proj_weight [out 1/3, in] -> */query/weight [in, out]\n"
                            "*.in_proj_weight [out 2/3, in] -> */key/weight [in, out]\n"
                            "*.in_proj_weight [out 3/3, in] -> */value/weight [in, out]\n"
                            "*.in_proj_bias [out 1/3] -> */query/bias [out]\n"
                            "*.in_proj_bias [out 2/3] -> */key/bias [out]\n"
                            "*.in_proj_bias [out 3/3] -> */value/bias [out]\n"
                            "*.out_proj.weight [out, in] -> */output/weight [in, out]\n"
                            "*.out_proj.bias -> */output/bias\n"
                            "*.linear_1.weight [out, in] -> */0/weight [in, out]\n"
                            "*.linear_1.bias -> */0/bias\n"
                            "*.linear_2.weight [out, in] -> */3/weight [in, out]\n"
                            "*.linear_2.bias -> */3/bias\n"
                            "*.weight -> */weight\n"
                            "*.bias -> */bias\n"
                            "*.weight -> */gamma\n"
                            "*.bias -> */beta\n"
                            "*.running_mean -> */mean\n"
                            "*.running_var -> */variance\n"
                            "*.num_batches_tracked -> -\n";

const char *weft_name_map_text(const char *name)
{
    return strcmp(name, "torch") == 0 ? torch : NULL;
}

static bool same(char a, char b)
{
    return a == b || ((a == '.' || a == '/') && (b == '.' || b == '/'));
}

bool weft_names_alike(const char *a, const char *b)
{
    while (*a && same(*a, *b)) a++, b++;
    return *a == *b;
}

/* The text that each * of a pattern stands for. */
typedef struct stars {
    int count;
    const char *begin[MOST_STARS];
    size_t size[MOST_STARS];
} stars;

/* Each * takes as few characters as a match allows. Once the text up to a * has been found, an
 * earlier * need not take more, so the time is at most the product of the lengths. */
static bool matches(const char *pattern, const char *name, stars *s)
{
    const char *behind = NULL; /* the last * */
    while (*pattern || *name) {
        if (*pattern == '*') {
            s->begin[s->count] = name;
            s->size[s->count++] = 0;
            behind = ++pattern;
        } else if (*pattern && *name && same(*pattern, *name)) {
            pattern++, name++;
        } else {
            int last = s->count - 1;
            if (!behind || !s->begin[last][s->size[last]]) return false;
            name = s->begin[last] + ++s->size[last];
            pattern = behind;
        }
    }
    return true;
}

bool weft_name_rule_apply(const weft_name_rule *rule, const char *name, int rank, char *out,
                          size_t size)
{
    stars s = {0};
    size_t used = 0;
    int star = 0;
    if ((rule->rank > 0 && rule->rank != rank) || !matches(rule->from, name, &s)) return false;
    for (const char *c = rule->to; *c; c++) {
        const char *piece = *c == '*' ? s.begin[star] : c;
        size_t more = *c == '*' ? s.size[star++] : 1;
        if (used + more >= size) return false;
        memcpy(out + used, piece, more);
        used += more;
    }
    out[used] = '\0';
    return true;
}

/* One side of a rule: a name, and the names of its dimensions, if they are given. */
typedef struct side {
    char name[LONGEST];
    int stars, rank, part, parts, cut; /* the part K/N of dimension `cut`; parts 0: the whole */
    char dims[WEFT_MAX_RANK][32];
} side;

/* Takes K/N behind the name of a dimension, if it is there; false: it names no part. */
static bool take_part(const char **at, const char *end, side *out)
{
    int part = 0, parts = 0, used = 0;
    char text[24] = "";
    while (*at < end && **at == ' ') ++*at;
    if (*at == end || !isdigit((unsigned char)**at)) return true;
    memcpy(text, *at, WEFT_MIN((size_t)(end - *at), sizeof(text) - 1));
    if (sscanf(text, "%4d/%4d%n", &part, &parts, &used) != 2 || out->parts > 0) return false;
    *at += used;
    out->part = part - 1;
    out->parts = parts;
    out->cut = out->rank - 1;
    return part >= 1 && part <= parts && parts >= 2;
}

/* Takes the names of dimensions, from behind the bracket to its end. */
static bool take_dims(const char **at, const char *end, side *out)
{
    while (*at < end && **at != ']') {
        size_t size = 0;
        while (*at < end && (**at == ' ' || **at == ',')) ++*at;
        while (*at + size < end && (isalnum((unsigned char)(*at)[size]) || (*at)[size] == '_'))
            size++;
        if (size == 0) break;
        if (out->rank == WEFT_MAX_RANK || size >= sizeof(out->dims[0])) return false;
        memcpy(out->dims[out->rank], *at, size);
        out->dims[out->rank++][size] = '\0';
        *at += size;
        if (!take_part(at, end, out)) return false;
    }
    return *at < end && *(*at)++ == ']' && out->rank > 0;
}

static bool take_side(const char *at, const char *end, side *out)
{
    size_t size = 0;
    *out = (side){.rank = 0};
    while (at < end && isspace((unsigned char)*at)) at++;
    while (at + size < end && at[size] != '[' && !isspace((unsigned char)at[size])) size++;
    if (size == 0 || size >= sizeof(out->name)) return false;
    memcpy(out->name, at, size);
    for (size_t i = 0; i < size; i++) out->stars += at[i] == '*';
    at += size;
    while (at < end && isspace((unsigned char)*at)) at++;
    if (at < end && (*at++ != '[' || !take_dims(&at, end, out))) return false;
    while (at < end && isspace((unsigned char)*at)) at++;
    return at == end && out->stars <= MOST_STARS;
}

/* Finds the order of the dimensions: each name of one side is once on the other. */
static bool find_order(const side *from, const side *to, weft_name_rule *rule)
{
    bool used[WEFT_MAX_RANK] = {false};
    rule->rank = from->rank;
    rule->part = from->part;
    rule->parts = from->parts;
    rule->cut = from->cut;
    for (int d = 0; d < WEFT_MAX_RANK; d++) rule->order[d] = d;
    for (int d = 0; d < to->rank; d++) {
        int k = 0;
        while (k < from->rank && (used[k] || strcmp(from->dims[k], to->dims[d]) != 0)) k++;
        if (k == from->rank) return false;
        used[k] = true;
        rule->order[d] = k;
    }
    return from->rank == to->rank && to->parts == 0;
}

static weft_status add_rule(const char *file, int line, const char *at, const char *end,
                            weft_name_map *map)
{
    side from, to;
    weft_name_rule rule;
    const char *arrow = at;
    while (arrow + 1 < end && (arrow[0] != '-' || arrow[1] != '>')) arrow++;
    bool fits = arrow + 1 < end && take_side(at, arrow, &from) && take_side(arrow + 2, end, &to);
    if (!fits)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: '%.*s' is no rule; give their/name -> our/name, with * for any "
                         "text, and the names of dimensions where their order differs, as in "
                         "*.weight [out, in] -> */weight [in, out]",
                         file, line, (int)WEFT_MIN(end - at, (ptrdiff_t)100), at);
    if (to.stars > from.stars || !find_order(&from, &to, &rule))
        return weft_fail(WEFT_ERR_FORMAT, "%s:%d: the right side has %s that the left side has not",
                         file, line, to.stars > from.stars ? "a *" : "other dimensions");
    WEFT_TRY(WEFT_GROW(&map->rules, &map->capacity, map->count));
    WEFT_TRY(weft_strdup(from.name, &rule.from));
    weft_status status = weft_strdup(to.name, &rule.to);
    if (status == WEFT_OK)
        map->rules[map->count++] = rule;
    else
        free(rule.from);
    return status;
}

weft_status weft_name_map_add(const char *file, const char *text, size_t size, weft_name_map *map)
{
    weft_status status = WEFT_OK;
    const char *end = text + size;
    size_t before = map->count;
    for (int line = 1; text < end && status == WEFT_OK; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text)), *last, *at = text;
        if (!stop) stop = end;
        last = memchr(at, '#', (size_t)(stop - at));
        if (!last) last = stop;
        while (at < last && isspace((unsigned char)*at)) at++;
        while (last > at && isspace((unsigned char)last[-1])) last--;
        if (at < last) status = add_rule(file, line, at, last, map);
        text = stop + 1;
    }
    if (status != WEFT_OK || map->count > before) return status;
    return weft_fail(WEFT_ERR_FORMAT, "%s: has no rule their/name -> our/name", file);
}

void weft_name_map_free(weft_name_map *map)
{
    for (size_t i = 0; i < map->count; i++) {
        free(map->rules[i].from);
        free(map->rules[i].to);
    }
    free(map->rules);
    *map = (weft_name_map){0};
}
