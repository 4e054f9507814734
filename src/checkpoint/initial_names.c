/* Places weights of --init by names: the features, classes, targets or tokens of the run by those
 * of the checkpoint. */
#include "checkpoint/initial_names.h"

#include <math.h>

#include "data/tokenizer.h"
#include "formats/table.h"

/* --- names --- */

/* The texts of all tokens. */
static weft_status token_names(const weft_data_stats *stats, char ***out, int64_t *count)
{
    weft_tokenizer *t;
    WEFT_TRY(weft_tokenizer_read("tokenizer", stats->tokenizer, &t));
    weft_status status = WEFT_NEW(out, t->tokens);
    for (*count = 0; *count < t->tokens && status == WEFT_OK; ++*count) {
        size_t size;
        const char *bytes = t->ops->decode(t, (int32_t)*count, &size);
        status = weft_format(&(*out)[*count], "%.*s", (int)size, bytes);
    }
    weft_tokenizer_free(&t);
    return status;
}

/* The names along the inputs or the outputs of a model for these data; none: they have numbers. */
static weft_status names_of(const weft_data_stats *s, int which, const char **what, char ***out,
                            int64_t *count)
{
    char **names = NULL;
    *count = 0;
    if (s->tokenizer && s->inputs == 1 && (which == WEFT_NAMED_INPUTS || s->positions > 0)) {
        *what = "tokens";
        return token_names(s, out, count);
    }
    /* Targets that are the features have no names of their own. */
    int64_t features = s->column_names ? weft_shape_elements(&s->input[0].shape) : 0;
    bool again = s->targets > 1 && s->targets == features && !s->target_names;
    if (which == WEFT_NAMED_INPUTS || again) {
        *what = "features";
        if (which == WEFT_NAMED_INPUTS) return weft_initial_feature_names(s, out, count);
        names = s->column_names;
        *count = features;
    } else if (s->classes > 0) {
        *what = "classes";
        names = s->positions > 0 && s->tokenizer ? NULL : s->class_names;
        *count = names ? s->classes : 0;
    } else {
        *what = "targets";
        names = s->target_names;
        *count = names ? s->targets : 0;
    }
    return weft_strings_copy(names, *count, out);
}

typedef struct place {
    const char *name;
    int64_t at;
} place;

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const place *)a)->name, ((const place *)b)->name);
}

/* Finds each name there. All stay where they are if the names are the same in the same order. */
static weft_status match(weft_named_axis *a)
{
    place *sorted;
    bool same = a->count == a->theirs;
    if (!a->name || !a->their_name) return WEFT_OK;
    for (int64_t i = 0; i < a->count && same; i++) same = strcmp(a->name[i], a->their_name[i]) == 0;
    if (same) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&a->from, a->count));
    WEFT_TRY(WEFT_NEW(&sorted, a->theirs));
    for (int64_t i = 0; i < a->theirs; i++) sorted[i] = (place){a->their_name[i], i};
    qsort(sorted, (size_t)a->theirs, sizeof(*sorted), compare_places);
    for (int64_t i = 0; i < a->count; i++) {
        const place key = {a->name[i], 0};
        const place *found =
            bsearch(&key, sorted, (size_t)a->theirs, sizeof(*sorted), compare_names);
        a->from[i] = found ? found->at : -1;
        a->known += found != NULL;
    }
    free(sorted);
    return WEFT_OK;
}

static weft_status read_axis(const weft_data_stats *here, const weft_data_stats *there, int which,
                             weft_named_axis *a)
{
    const char *what = NULL;
    WEFT_TRY(names_of(here, which, &a->what, &a->name, &a->count));
    WEFT_TRY(names_of(there, which, &what, &a->their_name, &a->theirs));
    return strcmp(what, a->what) == 0 ? match(a) : WEFT_OK;
}

weft_status weft_initial_names_find(const weft_data_stats *here, const weft_data_stats *there,
                                    const weft_graph *graph, const weft_model_values *values,
                                    weft_initial_names **out)
{
    weft_initial_names *n;
    *out = NULL;
    WEFT_TRY(WEFT_NEW(&n, 1));
    n->graph = graph;
    weft_status status =
        WEFT_NEW(&n->of, WEFT_NAMED_AXES + (here->table ? here->table->columns : 0));
    n->axes = status == WEFT_OK ? WEFT_NAMED_AXES : 0;
    for (int i = 0; i < WEFT_NAMED_AXES && status == WEFT_OK; i++)
        status = read_axis(here, there, i, &n->of[i]);
    if (status == WEFT_OK) status = weft_initial_read_columns(here, there, n);
    bool needed = false;
    for (int i = WEFT_NAMED_AXES; i < n->axes && status == WEFT_OK; i++) status = match(&n->of[i]);
    if (status != WEFT_OK) {
        weft_initial_names_free(&n);
        return status;
    }
    weft_named_axis *in = &n->of[WEFT_NAMED_INPUTS], *made = &n->of[WEFT_NAMED_OUTPUTS];
    n->outputs = made;
    if (strcmp(in->what, made->what) == 0) {
        n->outputs = in;
        free(made->from);
        made->from = NULL;
    }
    for (int i = 0; i < n->axes; i++) needed |= n->of[i].from != NULL;
    if (needed) status = weft_named_dimensions_find(here, n, values);
    if (status == WEFT_OK && needed)
        *out = n;
    else
        weft_initial_names_free(&n);
    return status;
}

void weft_initial_names_free(weft_initial_names **names)
{
    weft_initial_names *n = *names;
    if (!n) return;
    for (int i = 0; i < n->axes; i++) {
        weft_strings_free(&n->of[i].name, n->of[i].count);
        weft_strings_free(&n->of[i].their_name, n->of[i].theirs);
        free(n->of[i].from);
        free(n->of[i].tensor);
    }
    free(n->of);
    free(n->weight);
    free(n->anew);
    free(n->mixed);
    free(n->mixes);
    free(n->along);
    free(n);
    *names = NULL;
}

const weft_named_axis *weft_initial_axis(const weft_initial_names *n, weft_value leaf, int d)
{
    return n && n->along[leaf][d] ? &n->of[n->along[leaf][d] - 1] : NULL;
}

bool weft_initial_anew(const weft_initial_names *n, weft_value leaf)
{
    bool anew = n && n->anew[leaf];
    for (int d = 0; d < WEFT_MAX_RANK && n; d++) {
        const weft_named_axis *a = weft_initial_axis(n, leaf, d);
        anew |= a && a->known == 0;
    }
    return anew;
}

void weft_initial_shape_there(const weft_initial_names *n, weft_value leaf, weft_shape *shape)
{
    for (int d = 0; d < shape->rank; d++) {
        const weft_named_axis *a = weft_initial_axis(n, leaf, d);
        if (a) shape->dim[d] = a->theirs;
    }
}

bool weft_initial_move(const weft_initial_names *n, weft_value leaf, int rank, const int64_t *at,
                       const int64_t *along, int64_t *from)
{
    for (int d = 0; d < rank && n; d++) {
        const weft_named_axis *a = weft_initial_axis(n, leaf, d);
        if (!a) continue;
        if (a->from[at[d]] < 0) return false;
        *from += (a->from[at[d]] - at[d]) * along[d];
    }
    return true;
}

/* --- the report --- */

enum { LISTED = 10 };

/* Appends the names of `name` that `other` lacks. */
static void add_lacking(weft_text *text, const char *begin, char **name, int64_t count,
                        char **other, int64_t others)
{
    int64_t lacking = 0;
    weft_text list = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t k = 0;
        while (k < others && strcmp(name[i], other[k]) != 0) k++;
        if (k < others || lacking++ >= LISTED) continue;
        weft_text_add(&list, "%s'", lacking > 1 ? ", " : "");
        weft_text_add_printable(&list, name[i]);
        weft_text_add(&list, "'");
    }
    if (lacking > 0 && list.data)
        weft_text_add(text, "%s (%lld): %.*s", begin, (long long)lacking, (int)list.size,
                      list.data);
    if (lacking > LISTED) weft_text_add(text, " and %lld more", (long long)lacking - LISTED);
    text->failed |= list.failed;
    free(list.data);
}

/* Appends the parameters and statistics along an axis, or those that begin anew since it is mixed
 * (axis NULL). */
static int add_leaves(weft_text *text, const weft_initial_names *n, const weft_named_axis *axis)
{
    int count = 0;
    for (weft_value v = 0; v < weft_graph_value_count(n->graph); v++) {
        weft_value_kind kind = weft_graph_value_kind(n->graph, v);
        bool is = !axis && n->anew[v];
        for (int d = 0; d < WEFT_MAX_RANK && axis; d++) is |= weft_initial_axis(n, v, d) == axis;
        is = is && (kind == WEFT_VALUE_PARAM ||
                    (kind == WEFT_VALUE_STATE &&
                     weft_graph_role(n->graph, v, NULL) == WEFT_ROLE_STATISTIC));
        if (is && count++ < LISTED)
            weft_text_add(text, "%s%s", count > 1 ? ", " : "", weft_graph_value_name(n->graph, v));
    }
    if (count > LISTED) weft_text_add(text, " and %d more", count - LISTED);
    return count;
}

static void tell_axis(const weft_initial_names *n, const weft_named_axis *a, weft_text *text)
{
    weft_text leaves = {0};
    int count = a->from ? add_leaves(&leaves, n, a) : 0;
    if (count > 0 && leaves.data && a->known == 0)
        weft_text_add(text, "; all %s%s%s have other names, so these begin anew: %.*s", a->what,
                      a->column ? " of " : "", a->column ? a->column : "", (int)leaves.size,
                      leaves.data);
    else if (count > 0 && leaves.data)
        weft_text_add(text,
                      "; %lld of %lld %s%s%s are known by name and keep their numbers in %.*s",
                      (long long)a->known, (long long)a->count, a->what, a->column ? " of " : "",
                      a->column ? a->column : "", (int)leaves.size, leaves.data);
    text->failed |= leaves.failed;
    free(leaves.data);
    if (count == 0 || a->known == 0) return;
    add_lacking(text, ", new ones begin anew", a->name, a->count, a->their_name, a->theirs);
    add_lacking(text, ", those of the file that are not here are left out", a->their_name,
                a->theirs, a->name, a->count);
}

/* How far apart the normalisations of feature j here and feature k there are: by how many
 * deviations a number moves, or is stretched. */
static double apart(const weft_data_stats *here, int64_t j, const weft_data_stats *there, int64_t k)
{
    double moved = fabs(here->mean[j] - there->mean[k]) / there->deviation[k];
    return WEFT_MAX(moved, fabs(log(here->deviation[j] / there->deviation[k])));
}

/* Tells of the feature whose normalisation differs most, if that matters: by a tenth. */
static void tell_scale(const weft_initial_names *n, const weft_data_stats *here,
                       const weft_data_stats *there, weft_text *text)
{
    const double matters = 0.1;
    const weft_named_axis *in = n ? n->of : NULL;
    bool moved = in && in->from && here->features > 1 && there->features > 1;
    int64_t most = -1, their = 0, count = WEFT_MAX(here->features, there->features);
    double worst = matters;
    if (moved ? in->count != here->features || in->theirs != there->features
              : here->features > 1 && there->features > 1 && here->features != there->features)
        return;
    for (int64_t i = 0; i < count && here->bytes == there->bytes; i++) {
        int64_t j = here->features > 1 ? i : 0;
        int64_t k = there->features == 1 ? 0 : !moved ? i : j < in->count ? in->from[j] : -1;
        if (k < 0 || apart(here, j, there, k) <= worst) continue;
        worst = apart(here, j, there, k);
        most = j;
        their = k;
    }
    if (most < 0) return;
    weft_text_add(text, "; features are normalised otherwise than those the weights were trained "
                        "with: ");
    if (here->column_names && here->features > 1) {
        weft_text_add(text, "'");
        weft_text_add_printable(text, here->column_names[most]);
        weft_text_add(text, "' ");
    }
    weft_text_add(text, "by mean %.4g and deviation %.4g, there %.4g and %.4g", here->mean[most],
                  here->deviation[most], there->mean[their], there->deviation[their]);
}

void weft_initial_names_tell(const weft_initial_names *n, const weft_data_stats *here,
                             const weft_data_stats *there, weft_text *text)
{
    for (int i = 0; n && i < n->axes; i++) tell_axis(n, &n->of[i], text);
    bool mixed = false;
    for (weft_value v = 0; n && v < weft_graph_value_count(n->graph); v++) mixed |= n->anew[v];
    if (mixed) {
        weft_text_add(text, "; begin anew, since positions there are mixed before names could "
                            "place them: ");
        add_leaves(text, n, NULL);
    }
    tell_scale(n, here, there, text);
}
