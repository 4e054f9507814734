/* Finds the tensor of each parameter and statistic of a model in the file of --init, and reports
 * what is loaded, missing or does not fit. */
#include "checkpoint/initial.h"

enum { LISTED = 10 };

void weft_initial_pairs_free(weft_initial_pairs *p)
{
    free(p->leaf);
    free((void *)p->reader);
    free(p->of);
    free((void *)p->unused);
    free(p->applied);
    weft_initial_names_free(&p->names);
}

enum { NO_LEAF = -1, LEFT_OUT = -2 };

int weft_initial_leaf(const weft_initial_pairs *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        if (weft_names_alike(weft_graph_value_name(p->graph, p->leaf[i]), name)) return i;
    return NO_LEAF;
}

bool weft_initial_allows(const weft_initial_pairs *p, const weft_name_rule *rule, int leaf,
                         const char *side, const char *name)
{
    char beside[WEFT_MAPPED_NAME];
    if (rule->op && (!p->reader[leaf] || strcmp(p->reader[leaf], rule->op) != 0)) return false;
    return !rule->beside || (weft_name_rewrite(side, name, rule->beside, false, beside) &&
                             weft_initial_leaf(p, beside) >= 0);
}

/* Finds the leaf of a tensor by the first rule, from rule *next on, whose name the graph has, or
 * that leaves it out. *next becomes the rule from which to go on for other parts of the tensor. */
static int find_leaf(const weft_name_map *map, const weft_initial_pairs *p, const weft_tensor *t,
                     size_t *next, const weft_name_rule **rule)
{
    char name[WEFT_MAPPED_NAME];
    while (*next < map->count) {
        const weft_name_rule *r = *rule = &map->rules[(*next)++];
        if ((r->rank > 0 && r->rank != t->shape.rank) ||
            !weft_name_rewrite(r->from, t->name, r->to, false, name))
            continue;
        if (strcmp(name, "-") == 0) return LEFT_OUT;
        int leaf = weft_initial_leaf(p, name);
        if (leaf >= 0 && weft_initial_allows(p, r, leaf, r->from, t->name)) return leaf;
    }
    return NO_LEAF;
}

/* Pairs a tensor with its leaf, or with those of its parts. */
static weft_status pair_tensor(const weft_initial *w, const weft_tensor *t, bool tells,
                               weft_initial_pairs *p)
{
    const weft_name_rule *rule = NULL;
    size_t next = 0;
    bool cut = false;
    do {
        int leaf = find_leaf(&w->map, p, t, &next, &rule);
        if (leaf == NO_LEAF && tells && !cut) p->unused[p->unused_count++] = t;
        if (leaf != NO_LEAF) p->applied[rule - w->map.rules] = true;
        if (leaf < 0 || (cut && rule->parts == 0)) break;
        if (p->of[leaf].tensor)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: both '%s' and '%s' are for '%s' by the map; let it name one",
                             w->file, p->of[leaf].tensor->name, t->name,
                             weft_graph_value_name(p->graph, p->leaf[leaf]));
        p->of[leaf] = (weft_initial_source){t, rule};
        cut = rule->parts > 0;
    } while (cut);
    return WEFT_OK;
}

static weft_status pair_file(const weft_initial *w, const weft_safetensors *file, bool tells,
                             weft_initial_pairs *p)
{
    for (size_t i = 0; i < file->count; i++) WEFT_TRY(pair_tensor(w, &file->tensors[i], tells, p));
    return WEFT_OK;
}

/* Sets the operators that read each leaf first, which are those of its layer. */
static weft_status find_readers(weft_initial_pairs *p)
{
    const char **first = NULL;
    const weft_value *in;
    WEFT_TRY(WEFT_NEW(&first, weft_graph_value_count(p->graph)));
    for (int n = weft_graph_node_count(p->graph); n-- > 0;)
        for (int i = weft_graph_node_inputs(p->graph, n, &in); i-- > 0;)
            if (in[i] != WEFT_NO_VALUE) first[in[i]] = weft_graph_node_op(p->graph, n);
    for (int i = 0; i < p->count; i++) p->reader[i] = first[p->leaf[i]];
    free((void *)first);
    return WEFT_OK;
}

weft_status weft_initial_leaves(const weft_graph *g, weft_initial_pairs *p)
{
    int values = weft_graph_value_count(g);
    *p = (weft_initial_pairs){.graph = g};
    WEFT_TRY(WEFT_NEW(&p->leaf, values));
    WEFT_TRY(WEFT_NEW(&p->reader, values));
    for (weft_value v = 0; v < values; v++) {
        weft_value_kind kind = weft_graph_value_kind(g, v);
        if (kind == WEFT_VALUE_PARAM ||
            (kind == WEFT_VALUE_STATE && weft_graph_role(g, v, NULL) == WEFT_ROLE_STATISTIC))
            p->leaf[p->count++] = v;
    }
    return find_readers(p);
}

/* Other state of a checkpoint, as that of its optimizer, is not for a new run. */
weft_status weft_initial_pair(const weft_initial *w, const weft_graph *g, weft_initial_pairs *p)
{
    const weft_safetensors *first =
        w->folder ? &w->checkpoint.tensors[WEFT_PARAMETERS_FILE] : &w->tensors;
    WEFT_TRY(weft_initial_leaves(g, p));
    WEFT_TRY(WEFT_NEW(&p->of, p->count + 1));
    WEFT_TRY(WEFT_NEW(&p->unused, first->count + 1));
    WEFT_TRY(WEFT_NEW(&p->applied, w->map.count));
    WEFT_TRY(pair_file(w, first, true, p));
    if (!w->folder) return WEFT_OK;
    return pair_file(w, &w->checkpoint.tensors[WEFT_STATE_FILE], false, p);
}

/* The shape of a tensor, or of its part, in the order of dimensions of a rule. */
static weft_shape shape_of(const weft_initial_source *s)
{
    const weft_name_rule *rule = s->rule;
    weft_shape whole = s->tensor->shape, shape = whole;
    if (rule->parts > 0 && whole.dim[rule->cut] % rule->parts == 0)
        whole.dim[rule->cut] /= rule->parts;
    for (int d = 0; d < shape.rank; d++)
        shape.dim[d] = whole.dim[rule->rank > 0 ? rule->order[d] : d];
    return shape;
}

bool weft_initial_fits(const weft_initial_pairs *p, int i)
{
    const weft_initial_source *s = &p->of[i];
    weft_type type = weft_graph_value_type(p->graph, p->leaf[i]);
    double number;
    if (!s->tensor) return false;
    weft_shape shape = shape_of(s);
    weft_initial_shape_there(p->names, p->leaf[i], &type.shape);
    return weft_shape_equal(&shape, &type.shape) && !weft_initial_anew(p->names, p->leaf[i]) &&
           (s->tensor->bytes == 0 || weft_safetensors_number(s->tensor, 0, &number));
}

/* --- the report --- */

/* A list of names that ends after the first ten. */
typedef struct list {
    weft_text *text;
    int count;
} list;

static bool begin_item(list *l)
{
    if (l->count++ >= LISTED) return false;
    weft_text_add(l->text, l->count > 1 ? ", " : "");
    return true;
}

static void end_list(const list *l)
{
    if (l->count > LISTED) weft_text_add(l->text, " and %d more", l->count - LISTED);
}

/* Lists the leaves that no tensor fits: those that have one of another shape or type (wrong), or
 * those that have none. */
static void list_leaves(const weft_initial_pairs *p, bool wrong, list *l)
{
    char ours[128], theirs[128];
    for (int i = 0; i < p->count; i++) {
        const weft_initial_source *s = &p->of[i];
        weft_type type = weft_graph_value_type(p->graph, p->leaf[i]);
        if ((s->tensor != NULL) != wrong || weft_initial_fits(p, i) ||
            weft_initial_anew(p->names, p->leaf[i]) || !begin_item(l))
            continue;
        weft_text_add(l->text, "%s", weft_graph_value_name(p->graph, p->leaf[i]));
        if (!wrong) continue;
        weft_shape shape = shape_of(s);
        weft_text_add(l->text, " (%s%s there, %s here)", s->tensor->dtype,
                      weft_shape_text(&shape, theirs, sizeof(theirs)),
                      weft_shape_text(&type.shape, ours, sizeof(ours)));
    }
    end_list(l);
}

static int count_fitting(const weft_initial_pairs *p)
{
    int count = 0;
    for (int i = 0; i < p->count; i++) count += weft_initial_fits(p, i);
    return count;
}

static void add_part(weft_text *text, const char *begin, const weft_initial_pairs *p, bool wrong)
{
    weft_text part = {0};
    list l = {.text = &part};
    list_leaves(p, wrong, &l);
    if (l.count > 0 && part.data)
        weft_text_add(text, "; begin anew, %s there (%d): %.*s", begin, l.count, (int)part.size,
                      part.data);
    text->failed |= part.failed;
    free(part.data);
}

static void add_unused(weft_text *text, const weft_initial_pairs *p)
{
    list l = {.text = text};
    if (p->unused_count == 0) return;
    weft_text_add(text, "; stand for nothing here (%zu): ", p->unused_count);
    for (size_t i = 0; i < p->unused_count; i++)
        if (begin_item(&l)) weft_text_add_printable(text, p->unused[i]->name);
    end_list(&l);
}

/* Lists the rules of a user's map that hold for no tensor, as one with a misspelt name does. */
static void add_idle_rules(weft_text *text, const weft_initial *w, const weft_initial_pairs *p)
{
    list l = {.text = text};
    for (size_t r = 0; r < w->own_rules; r++) {
        if (p->applied[r]) continue;
        if (l.count == 0) weft_text_add(text, "; rules of the map that never apply: ");
        if (!begin_item(&l)) continue;
        weft_text_add_printable(text, w->map.rules[r].from);
        weft_text_add(text, " -> ");
        weft_text_add_printable(text, w->map.rules[r].to);
    }
    end_list(&l);
}

/* Adds how many would begin so with the names and layouts of PyTorch, if that are more. */
static void add_torch(weft_text *text, const weft_initial *w, const weft_initial_pairs *p)
{
    static const char map[] = "torch";
    weft_initial as = *w;
    weft_initial_pairs pairs = {0};
    const char *rules = weft_name_map_text(map);
    as.map = (weft_name_map){0};
    weft_status status = weft_name_map_add(map, rules, strlen(rules), &as.map);
    if (status == WEFT_OK) status = weft_initial_pair(&as, p->graph, &pairs);
    int fitting = status == WEFT_OK ? count_fitting(&pairs) : 0;
    if (fitting > count_fitting(p))
        weft_text_add(text, "; give %s:%s, with which %d do, if PyTorch wrote it", w->file, map,
                      fitting);
    weft_initial_pairs_free(&pairs);
    weft_name_map_free(&as.map);
}

/* ARGUMENT: nothing fits. */
weft_status weft_initial_report(const weft_initial *w, const weft_initial_pairs *p, char **out)
{
    weft_text text = {0};
    int fitting = count_fitting(p);
    if (fitting == 0)
        weft_text_add(&text,
                      "%s: none of its tensors fits one of the %d parameters and statistics "
                      "of this model by name and shape, for which FILE:MAP has rules",
                      w->file, p->count);
    else
        weft_text_add(&text, "%s: %d of %d parameters and statistics begin with its numbers",
                      w->file, fitting, p->count);
    if (!w->there) add_torch(&text, w, p); /* it is not Weft's own */
    add_part(&text, "of another shape or type", p, true);
    add_part(&text, "missing", p, false);
    add_unused(&text, p);
    add_idle_rules(&text, w, p);
    if (w->there)
        weft_initial_names_tell(p->names, w->here, w->there, &text);
    else if (fitting == p->count && (w->here->column_names || w->here->class_names))
        weft_text_add(&text, "; the file has no names of features and classes, which are "
                             "taken to stand in the order of these data");
    WEFT_TRY(weft_text_take(&text, out));
    if (fitting > 0) return WEFT_OK;
    weft_status status = weft_fail(WEFT_ERR_ARGUMENT, "%s", *out);
    free(*out);
    *out = NULL;
    return status;
}
