/* Names of --init where a model embeds columns of a table: the numbers of an embedding are features
 * of the layers behind it, and the rows of its matrix stand for the categories of its column. */
#include <stdio.h>

#include "checkpoint/initial.h"
#include "formats/table.h"

static bool embeds(const weft_data_stats *s)
{
    bool any = false;
    for (int i = 0; s->table && i < s->table->columns; i++) any |= s->table->column[i].embedding;
    return any && s->column_names;
}

weft_status weft_initial_feature_names(const weft_data_stats *s, char ***out, int64_t *count)
{
    *count = s->column_names ? weft_shape_elements(&s->input[0].shape) : 0;
    if (!embeds(s)) return weft_strings_copy(s->column_names, *count, out);
    const weft_table *t = s->table;
    int64_t all = 0;
    for (int i = 0; i < t->columns; i++)
        all += t->column[i].embedding ? t->column[i].embedding : t->column[i].features;
    *count = 0;
    WEFT_TRY(WEFT_NEW(out, all));
    for (int i = 0; i < t->columns; i++) {
        const weft_table_column *c = &t->column[i];
        for (int k = 0; k < (c->embedding ? c->embedding : c->features); k++, ++*count)
            WEFT_TRY(c->embedding ? weft_format(&(*out)[*count], "%s (embedding %d)", c->name, k)
                                  : weft_strdup(s->column_names[c->first + k], &(*out)[*count]));
    }
    return WEFT_OK;
}

static int find_column(const weft_data_stats *s, const char *name)
{
    for (int i = 0; embeds(s) && i < s->table->columns; i++)
        if (s->table->column[i].embedding && strcmp(s->table->column[i].name, name) == 0) return i;
    return -1;
}

/* The categories of column i, and those of the column of its name there. */
static weft_status read_column(const weft_data_stats *here, const weft_data_stats *there, int i,
                               weft_named_axis *a)
{
    const weft_table_column *c = &here->table->column[i];
    int their = find_column(there, c->name);
    const weft_table_column *old = their < 0 ? NULL : &there->table->column[their];
    a->what = "categories";
    a->column = c->name;
    a->count = c->features;
    WEFT_TRY(weft_strings_copy(here->column_names + c->first, a->count, &a->name));
    if (!old) return WEFT_NEW(&a->their_name, 1);
    a->theirs = old->features;
    WEFT_TRY(weft_strings_copy(there->column_names + old->first, a->theirs, &a->their_name));
    return weft_format(&a->tensor, "column%d/weight", their);
}

weft_status weft_initial_read_columns(const weft_data_stats *here, const weft_data_stats *there,
                                      weft_initial_names *n)
{
    char name[32];
    for (int i = 0; embeds(here) && i < here->table->columns; i++) {
        if (!here->table->column[i].embedding) continue;
        weft_named_axis *a = &n->of[n->axes++];
        (void)snprintf(name, sizeof(name), "column%d/weight", i);
        a->leaf = weft_graph_find(n->graph, name);
        WEFT_TRY(read_column(here, there, i, a));
    }
    return WEFT_OK;
}

/* An embedding is named by the place of its column. */
void weft_initial_pair_columns(const weft_initial *w, weft_initial_pairs *p)
{
    const weft_safetensors *file =
        w->folder ? &w->checkpoint.tensors[WEFT_PARAMETERS_FILE] : &w->tensors;
    size_t kept = 0;
    for (int k = WEFT_NAMED_AXES; p->names && k < p->names->axes; k++)
        for (int i = 0; i < p->count; i++) {
            const weft_named_axis *a = &p->names->of[k];
            if (p->leaf[i] != a->leaf) continue;
            p->of[i].tensor = a->tensor ? weft_safetensors_find(file, a->tensor) : NULL;
            p->of[i].rule = &w->map.rules[w->map.count - 1];
        }
    for (size_t u = 0; u < p->unused_count; u++) {
        bool used = false;
        for (int i = 0; i < p->count; i++) used |= p->of[i].tensor == p->unused[u];
        if (!used) p->unused[kept++] = p->unused[u];
    }
    p->unused_count = kept;
}
