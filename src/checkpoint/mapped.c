/* Writes the parameters and statistics of a model under the names and in the layouts of another
 * program: by the rules with which --init reads its files (name_map.h), backwards. */
#include "checkpoint/initial.h"

#include "weft/output.h"

/* A tensor of the file. */
typedef struct mapped {
    char *name;
    weft_type type;
    int parts;                   /* 0: it is a counter of steps */
    const weft_name_rule **rule; /* [parts] */
    int *leaf;                   /* [parts] */
} mapped;

typedef struct mapping {
    const weft_checkpoint *checkpoint;
    const weft_name_map *map;
    weft_initial_pairs leaves;
    bool *taken; /* [leaves] */
    mapped *tensor;
    size_t count, capacity;
} mapping;

static void free_mapping(mapping *m)
{
    for (size_t i = 0; i < m->count; i++) {
        free(m->tensor[i].name);
        free((void *)m->tensor[i].rule);
        free(m->tensor[i].leaf);
    }
    free(m->tensor);
    free(m->taken);
    weft_initial_pairs_free(&m->leaves);
}

static const char *leaf_name(const mapping *m, int leaf)
{
    return weft_graph_value_name(m->leaves.graph, m->leaves.leaf[leaf]);
}

/* The tensor of the checkpoint, which weft_checkpoint_check_leaves has found. */
static const weft_tensor *leaf_tensor(const mapping *m, int leaf)
{
    const weft_tensor *found = NULL;
    for (int file = 0; file < 2 && !found; file++)
        found = weft_safetensors_find(&m->checkpoint->tensors[file], leaf_name(m, leaf));
    return found;
}

/* The type in the checkpoint, whose weights may be narrower than the graph has them. */
static weft_type leaf_type(const mapping *m, int leaf)
{
    weft_type type = weft_graph_value_type(m->leaves.graph, m->leaves.leaf[leaf]);
    (void)weft_safetensors_real(leaf_tensor(m, leaf)->dtype, &type.dtype);
    return type;
}

/* Whether the rule makes a tensor, whose name is set, of the leaf, perhaps with other leaves. */
static bool rule_fits(const mapping *m, const weft_name_rule *rule, int leaf, char *name)
{
    const char *ours = leaf_name(m, leaf);
    return strcmp(rule->to, "-") != 0 &&
           (rule->rank == 0 || rule->rank == leaf_type(m, leaf).shape.rank) &&
           weft_name_rewrite(rule->to, ours, rule->from, true, name) &&
           weft_initial_allows(&m->leaves, rule, leaf, rule->to, ours);
}

/* Finds part k of a tensor: a leaf of this type that is not taken, and its rule; NULL: there is
 * none. */
static const weft_name_rule *find_part(const mapping *m, const weft_name_rule *first, int k,
                                       const char *name, int like, int *leaf)
{
    char ours[WEFT_MAPPED_NAME];
    const weft_shape shape = leaf_type(m, like).shape;
    for (size_t r = 0; r < m->map->count; r++) {
        const weft_name_rule *rule = &m->map->rules[r];
        if (rule->parts != first->parts || rule->part != k || rule->cut != first->cut ||
            strcmp(rule->from, first->from) != 0 ||
            !weft_name_rewrite(rule->from, name, rule->to, false, ours))
            continue;
        *leaf = weft_initial_leaf(&m->leaves, ours);
        if (*leaf < 0 || m->taken[*leaf]) continue;
        const weft_shape own = leaf_type(m, *leaf).shape;
        if (weft_shape_equal(&own, &shape)) return rule;
    }
    return NULL;
}

static weft_status add(mapping *m, const char *name, int parts, mapped **out)
{
    WEFT_TRY(WEFT_GROW(&m->tensor, &m->capacity, m->count));
    mapped *t = *out = &m->tensor[m->count++];
    t->parts = parts;
    t->type.dtype = WEFT_I64;
    WEFT_TRY(WEFT_NEW(&t->rule, parts + 1));
    WEFT_TRY(WEFT_NEW(&t->leaf, parts + 1));
    return weft_strdup(name, &t->name);
}

/* Adds the tensor of a rule that fits; *done: all parts of it are there. */
static weft_status add_tensor(mapping *m, const weft_name_rule *rule, int leaf, const char *name,
                              bool *done)
{
    const weft_type ours = leaf_type(m, leaf);
    mapped *t;
    int at = leaf;
    for (int k = 0; k < rule->parts; k++)
        if (!find_part(m, rule, k, name, leaf, &at)) return WEFT_OK;
    WEFT_TRY(add(m, name, WEFT_MAX(rule->parts, 1), &t));
    for (int k = 0; k < t->parts; k++) {
        t->rule[k] = rule->parts > 0 ? find_part(m, rule, k, name, leaf, &at) : rule;
        t->leaf[k] = at;
    }
    for (int k = 0; k < t->parts; k++) m->taken[t->leaf[k]] = true;
    t->type = ours;
    for (int d = 0; d < ours.shape.rank; d++)
        t->type.shape.dim[rule->rank > 0 ? rule->order[d] : d] = ours.shape.dim[d];
    if (rule->parts > 0) t->type.shape.dim[rule->cut] *= rule->parts;
    *done = true;
    return WEFT_OK;
}

/* ARGUMENT: no rule makes a tensor of the leaf. */
static weft_status map_leaf(mapping *m, const char *title, int leaf)
{
    char name[WEFT_MAPPED_NAME];
    bool done = false;
    for (size_t r = 0; r < m->map->count && !done; r++)
        if (rule_fits(m, &m->map->rules[r], leaf, name))
            WEFT_TRY(add_tensor(m, &m->map->rules[r], leaf, name, &done));
    if (done) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s: map '%s' has no rule that makes a tensor of '%s', so this model has no "
                     "such names; leave the map out, or give a file of rules their/name -> "
                     "our/name",
                     m->checkpoint->path, title, leaf_name(m, leaf));
}

/* Adds the counters of steps, which are no tensors of ours. */
static weft_status add_counters(mapping *m)
{
    char name[WEFT_MAPPED_NAME];
    mapped *t;
    for (size_t r = 0; r < m->map->count; r++) {
        const weft_name_rule *rule = &m->map->rules[r];
        for (int i = 0; i < m->leaves.count && rule->beside && strcmp(rule->to, "-") == 0; i++)
            if (weft_name_rewrite(rule->beside, leaf_name(m, i), rule->from, true, name))
                WEFT_TRY(add(m, name, 0, &t));
    }
    return WEFT_OK;
}

/* ARGUMENT: --init, with the same map, would not read the tensors as those that they are. */
static weft_status check_way_back(const mapping *m, const char *title)
{
    weft_initial file = {.file = m->checkpoint->path, .map = *m->map};
    weft_initial_pairs p = {0};
    WEFT_TRY(WEFT_NEW(&file.tensors.tensors, m->count));
    file.tensors.count = m->count;
    for (size_t i = 0; i < m->count; i++)
        file.tensors.tensors[i] =
            (weft_tensor){.name = m->tensor[i].name, .shape = m->tensor[i].type.shape};
    weft_status status = weft_initial_pair(&file, m->leaves.graph, &p);
    for (size_t i = 0; i < m->count && status == WEFT_OK; i++)
        for (int k = 0; k < m->tensor[i].parts && status == WEFT_OK; k++) {
            const weft_initial_source *s = &p.of[m->tensor[i].leaf[k]];
            if (s->tensor == &file.tensors.tensors[i] && s->rule == m->tensor[i].rule[k]) continue;
            status = weft_fail(WEFT_ERR_ARGUMENT,
                               "map '%s' makes the tensor '%s' of '%s', and another of its rules "
                               "would read that; put the rule of '%s' first",
                               title, m->tensor[i].name, leaf_name(m, m->tensor[i].leaf[k]),
                               leaf_name(m, m->tensor[i].leaf[k]));
        }
    weft_initial_pairs_free(&p);
    free(file.tensors.tensors);
    return status;
}

static const char *mapped_name(void *user, size_t i)
{
    return ((const mapping *)user)->tensor[i].name;
}

static weft_type mapped_type(void *user, size_t i)
{
    return ((const mapping *)user)->tensor[i].type;
}

static weft_status mapped_read(void *user, size_t i, void *data)
{
    const mapping *m = user;
    const mapped *t = &m->tensor[i];
    const size_t size = weft_dtype_size(t->type.dtype);
    weft_rule_walk walk;
    if (t->parts == 0) memcpy(data, &m->checkpoint->position.step, size);
    for (int k = 0; k < t->parts; k++) {
        const weft_tensor *ours = leaf_tensor(m, t->leaf[k]);
        weft_rule_walk_begin(t->rule[k], &ours->shape, &t->type.shape, &walk);
        for (size_t at = 0; at < ours->bytes; at += size, weft_rule_walk_next(&walk))
            memcpy((char *)data + (size_t)walk.theirs * size, ours->data + at, size);
    }
    return WEFT_OK;
}

static weft_status write_mapped(mapping *m, const char *title, const char *file)
{
    weft_status status = WEFT_NEW(&m->taken, m->leaves.count + 1);
    for (int i = 0; i < m->leaves.count && status == WEFT_OK; i++)
        if (!m->taken[i]) status = map_leaf(m, title, i);
    if (status == WEFT_OK) status = add_counters(m);
    if (status == WEFT_OK) status = check_way_back(m, title);
    if (status != WEFT_OK) return status;
    const weft_tensor_list list = {m->count, mapped_name, mapped_type, mapped_read, m, "pt", NULL};
    return weft_safetensors_write(file, WEFT_OUTPUT_REPLACE, &list, NULL, NULL);
}

weft_status weft_checkpoint_write_mapped(const weft_checkpoint *c, const weft_graph *graph,
                                         const char *map, const char *file)
{
    weft_name_map rules = {0};
    mapping m = {.checkpoint = c, .map = &rules};
    if (!weft_name_map_text(map) && weft_output_same(map, file))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "output '%s' is the file of the map, which would be lost; give another",
                         file);
    weft_status status = weft_name_map_open(map, &rules);
    if (status == WEFT_OK && !weft_name_map_text(map))
        status = weft_name_map_add(map, WEFT_NAME_STAYS, strlen(WEFT_NAME_STAYS), &rules);
    if (status == WEFT_OK) status = weft_initial_leaves(graph, &m.leaves);
    if (status == WEFT_OK) status = write_mapped(&m, map, file);
    free_mapping(&m);
    weft_name_map_free(&rules);
    return status;
}
