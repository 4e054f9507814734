/* Reads maps of names, and applies their rules. A rule is a line such as
 *
 *   encoder.*.weight [out, in] -> block*.weight [in, out]
 *
 * Each * of the left side stands for any characters, which the * of the same number on the right
 * repeats. Names of dimensions restrict a rule to tensors with as many, and their order on the
 * right side is that of the parameter. [out 2/3, in] is the second of three equal parts along the
 * first dimension: several rules may then share a tensor. The name - leaves a tensor out. Behind
 * the right side, (dense) restricts a rule to parameters that this operator reads, and `beside
 * block/key` to models that have this parameter, too. # begins a comment. */
#include "checkpoint/name_map.h"

#include <ctype.h>
#include <stdio.h>

enum { MOST_STARS = 4, LONGEST = 512 };

/* How PyTorch names and lays out what Weft's layers have. */
static const char torch[] =
    "*.in_proj_weight [out 1/3, in] -> */query/weight [in, out]\n"
    "*.in_proj_weight [out 2/3, in] -> */key/weight [in, out]\n"
    "*.in_proj_weight [out 3/3, in] -> */value/weight [in, out]\n"
    "*.in_proj_bias [out 1/3] -> */query/bias [out]\n"
    "*.in_proj_bias [out 2/3] -> */key/bias [out]\n"
    "*.in_proj_bias [out 3/3] -> */value/bias [out]\n"
    "*.out_proj.weight [out, in] -> */output/weight [in, out] beside */query/weight\n"
    "*.out_proj.bias -> */output/bias beside */query/weight\n"
    "*.weight [out, in] -> */weight [in, out] (dense)\n"
    "*.weight -> */weight\n"
    "*.bias -> */bias\n"
    "*.weight -> */gamma\n"
    "*.bias -> */beta\n"
    "*.running_mean -> */mean\n"
    "*.running_var -> */variance\n"
    "*.num_batches_tracked -> - beside */mean\n"
    "class_token -> class_token\n"
    "*.pos_embedding -> */pos_embedding\n"
    /* an older name, which is read */
    "*.linear_1.weight [out, in] -> */0/weight [in, out]\n"
    "*.linear_1.bias -> */0/bias\n"
    "*.linear_2.weight [out, in] -> */3/weight [in, out]\n"
    "*.linear_2.bias -> */3/bias\n";

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

bool weft_name_rewrite(const char *side, const char *name, const char *pattern, bool dots,
                       char *out)
{
    stars s = {0};
    size_t used = 0;
    int star = 0;
    if (!matches(side, name, &s)) return false;
    for (const char *c = pattern; *c; c++) {
        if (*c == '*' && star == s.count) return false;
        const char *piece = *c == '*' ? s.begin[star] : c;
        size_t more = *c == '*' ? s.size[star++] : 1;
        if (used + more >= WEFT_MAPPED_NAME) return false;
        for (size_t i = 0; i < more; i++)
            out[used++] = dots && *c == '*' && piece[i] == '/' ? '.' : piece[i];
    }
    out[used] = '\0';
    return true;
}

void weft_rule_walk_begin(const weft_name_rule *rule, const weft_shape *ours,
                          const weft_shape *theirs, weft_rule_walk *walk)
{
    int64_t stride[WEFT_MAX_RANK], step = 1;
    *walk = (weft_rule_walk){.rank = ours->rank};
    for (int d = theirs->rank; d-- > 0; step *= theirs->dim[d]) stride[d] = step;
    for (int d = 0; d < ours->rank; d++) {
        walk->dim[d] = ours->dim[d];
        walk->along[d] = stride[rule->rank > 0 ? rule->order[d] : d];
    }
    if (rule->parts > 0)
        walk->theirs = theirs->dim[rule->cut] / rule->parts * rule->part * stride[rule->cut];
}

void weft_rule_walk_next(weft_rule_walk *walk)
{
    for (int d = walk->rank; d-- > 0;) {
        walk->theirs += walk->along[d];
        if (++walk->at[d] < walk->dim[d]) break;
        walk->theirs -= walk->along[d] * walk->at[d];
        walk->at[d] = 0;
    }
}

/* One side of a rule: a name, and the names of its dimensions, if they are given. */
typedef struct side {
    char name[LONGEST], beside[LONGEST], op[64]; /* the latter two: empty if not given */
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

static void skip_spaces(const char **at, const char *end)
{
    while (*at < end && isspace((unsigned char)**at)) ++*at;
}

/* Takes the text up to a space or one of the characters `stops`, and the spaces behind it. */
static bool take_word(const char **at, const char *end, const char *stops, char *out, size_t room)
{
    size_t size = 0;
    while (*at + size < end && !isspace((unsigned char)(*at)[size]) && !strchr(stops, (*at)[size]))
        size++;
    if (size == 0 || size >= room) return false;
    memcpy(out, *at, size);
    out[size] = '\0';
    *at += size;
    skip_spaces(at, end);
    return true;
}

/* Takes the conditions behind the right side: (OPERATOR) and beside NAME. */
static bool take_conditions(const char **at, const char *end, side *out)
{
    char word[16];
    if (*at < end && **at == '(') {
        ++*at;
        if (!take_word(at, end, ")", out->op, sizeof(out->op)) || *at == end || *(*at)++ != ')')
            return false;
        skip_spaces(at, end);
    }
    if (*at == end) return true;
    return take_word(at, end, "", word, sizeof(word)) && strcmp(word, "beside") == 0 &&
           take_word(at, end, "", out->beside, sizeof(out->beside));
}

static int count_stars(const char *name)
{
    int count = 0;
    for (; *name; name++) count += *name == '*';
    return count;
}

static bool take_side(const char *at, const char *end, bool right, side *out)
{
    *out = (side){.rank = 0};
    skip_spaces(&at, end);
    if (!take_word(&at, end, "[", out->name, sizeof(out->name))) return false;
    out->stars = count_stars(out->name);
    if (at < end && *at == '[') {
        at++;
        if (!take_dims(&at, end, out)) return false;
        skip_spaces(&at, end);
    }
    if (right && !take_conditions(&at, end, out)) return false;
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

static void free_rule(weft_name_rule *rule)
{
    free(rule->from);
    free(rule->to);
    free(rule->beside);
    free(rule->op);
}

static weft_status copy_names(const side *from, const side *to, weft_name_rule *rule)
{
    WEFT_TRY(weft_strdup(from->name, &rule->from));
    WEFT_TRY(weft_strdup(to->name, &rule->to));
    if (*to->beside) WEFT_TRY(weft_strdup(to->beside, &rule->beside));
    if (*to->op) WEFT_TRY(weft_strdup(to->op, &rule->op));
    return WEFT_OK;
}

static weft_status add_rule(const char *file, int line, const char *at, const char *end,
                            weft_name_map *map)
{
    side from, to;
    weft_name_rule rule = {0};
    const char *arrow = at;
    while (arrow + 1 < end && (arrow[0] != '-' || arrow[1] != '>')) arrow++;
    bool fits = arrow + 1 < end && take_side(at, arrow, false, &from) &&
                take_side(arrow + 2, end, true, &to);
    if (!fits)
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s:%d: '%.*s' is no rule; give their/name -> our/name, with * for any "
                         "text, and the names of dimensions where their order differs, as in "
                         "*.weight [out, in] -> */weight [in, out]",
                         file, line, (int)WEFT_MIN(end - at, (ptrdiff_t)100), at);
    int most = WEFT_MAX(to.stars, count_stars(to.beside));
    if (most > from.stars || !find_order(&from, &to, &rule))
        return weft_fail(WEFT_ERR_FORMAT, "%s:%d: the right side has %s that the left side has not",
                         file, line, most > from.stars ? "a *" : "other dimensions");
    WEFT_TRY(WEFT_GROW(&map->rules, &map->capacity, map->count));
    weft_status status = copy_names(&from, &to, &rule);
    if (status == WEFT_OK)
        map->rules[map->count++] = rule;
    else
        free_rule(&rule);
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

weft_status weft_name_map_open(const char *map, weft_name_map *out)
{
    const char *text = weft_name_map_text(map);
    weft_bytes bytes = {0};
    if (text) return weft_name_map_add(map, text, strlen(text), out);
    if (!*map || !weft_file_exists(map))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "there is no map '%s'; give torch for names and layouts of PyTorch, or a "
                         "file of lines their/name -> our/name",
                         map);
    WEFT_TRY(weft_file_map(map, &bytes));
    weft_status status = weft_name_map_add(map, (const char *)bytes.data, bytes.size, out);
    weft_file_unmap(&bytes);
    return status;
}

void weft_name_map_free(weft_name_map *map)
{
    for (size_t i = 0; i < map->count; i++) free_rule(&map->rules[i]);
    free(map->rules);
    *map = (weft_name_map){0};
}
