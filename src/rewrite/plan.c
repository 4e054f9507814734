/* Creates plans: parses the mesh, the user's pinned shardings and placements, and keeps the
 * shardings of leaves. */
#include <math.h>
#include <stdio.h>

#include "rewrite/rewrite.h"

static const char *const axis_names[AXES] = {"data", "domain", "tensor", "pipeline"};

const char *weft_axis_name(int axis)
{
    return axis >= 0 && axis < AXES ? axis_names[axis] : NULL;
}

static const char *axis_candidate(const void *user, int i)
{
    (void)user;
    return weft_axis_name(i);
}

int weft_plan_axis(const weft_plan *plan, int axis)
{
    WEFT_NEED_ELSE(0, plan);
    WEFT_CHECK_INDEX_ELSE(0, axis, AXES);
    return plan->size[axis];
}

/* The order of the axes in rank numbers, innermost first. With the user's placement each place is
 * one rank. */
static const int order[AXES] = {AXIS_TENSOR, AXIS_DOMAIN, AXIS_DATA, AXIS_PIPELINE};

int weft_plan_coordinate(const weft_plan *plan, int rank, int axis)
{
    WEFT_NEED_ELSE(-1, plan);
    WEFT_CHECK_INDEX_ELSE(-1, axis, AXES);
    WEFT_CHECK_INDEX_ELSE(-1, rank, plan->options.ranks);
    for (int i = 0; i < AXES; i++) {
        int size = plan->size[order[i]];
        if (order[i] == axis) return rank % size;
        rank /= size;
    }
    return 0;
}

int weft_plan_places(const weft_plan *plan)
{
    WEFT_NEED_ELSE(0, plan);
    return plan->places;
}

int weft_plan_place(const weft_plan *plan, int rank)
{
    WEFT_NEED_ELSE(-1, plan);
    return weft_plan_coordinate(plan, rank, AXIS_PIPELINE);
}

/* The rank with the same coordinates at another place. */
int weft_plan_rank_at(const weft_plan *plan, int rank, int place)
{
    int each = plan->size[AXIS_TENSOR] * plan->size[AXIS_DOMAIN] * plan->size[AXIS_DATA];
    return rank % each + place * each;
}

const char *weft_plan_idle_axis(const weft_plan *plan)
{
    for (int a = 0; a < SHARD_AXES; a++)
        if (plan->size[a] > 1 && !plan->splits[a]) return weft_axis_name(a);
    return NULL;
}

leaf_plan *weft_plan_leaf(const weft_plan *plan, const char *name)
{
    int found = weft_names_find(&plan->leaf_names, name);
    return found < 0 ? NULL : &plan->leaves[found];
}

weft_status weft_plan_add_leaf(weft_plan *plan, const char *name, leaf_plan **out)
{
    *out = weft_plan_leaf(plan, name);
    if (*out) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&plan->leaves, &plan->leaf_capacity, plan->leaf_count));
    leaf_plan leaf = {.split = all_whole, .place = ANYWHERE};
    WEFT_TRY(weft_strdup(name, &leaf.name));
    weft_status status = weft_names_add(&plan->leaf_names, leaf.name, (int)plan->leaf_count);
    if (status != WEFT_OK) {
        free(leaf.name);
        return status;
    }
    *out = &plan->leaves[plan->leaf_count];
    plan->leaves[plan->leaf_count++] = leaf;
    return WEFT_OK;
}

/* --- parsing "key=value,key=value" --- */

typedef weft_status (*pair_fn)(weft_plan *plan, const weft_graph *graph, const char *key,
                               const char *value);

typedef struct pairs {
    weft_plan *plan;
    const weft_graph *graph;
    const char *what, *text;
    pair_fn fn;
} pairs;

static weft_status take_pair(void *user, char *piece)
{
    const pairs *p = user;
    char *equals = strrchr(piece, '=');
    if (!equals || equals == piece || !equals[1])
        return weft_fail(WEFT_ERR_ARGUMENT, "%s '%s': '%s' is not of the form NAME=VALUE", p->what,
                         p->text, piece);
    *equals = '\0';
    return p->fn(p->plan, p->graph, piece, equals + 1);
}

static weft_status each_pair(weft_plan *plan, const weft_graph *graph, const char *what,
                             const char *text, pair_fn fn)
{
    pairs p = {plan, graph, what, text, fn};
    return text && *text ? weft_each_piece(what, text, take_pair, &p) : WEFT_OK;
}

static int find_axis(const char *name)
{
    for (int a = 0; a < AXES; a++)
        if (strcmp(axis_names[a], name) == 0) return a;
    return -1;
}

static weft_status no_axis(const char *name)
{
    char near[64];
    return weft_fail(WEFT_ERR_ARGUMENT, "no mesh axis is named '%s'%s", name,
                     weft_suggest(near, sizeof(near), name, axis_candidate, NULL));
}

static weft_status mesh_pair(weft_plan *plan, const weft_graph *graph, const char *key,
                             const char *value)
{
    (void)graph;
    int64_t size;
    int axis = find_axis(key);
    if (axis < 0) return no_axis(key);
    if (!weft_parse_int(value, &size) || size < 1 || size > 1024)
        return weft_fail(WEFT_ERR_ARGUMENT, "mesh axis %s has size '%s', must be from 1 to 1024",
                         key, value);
    if (plan->size[axis] != 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "mesh axis %s is given twice", key);
    plan->size[axis] = (int)size;
    return WEFT_OK;
}

weft_status weft_mesh_ranks(const char *mesh, int64_t *out)
{
    WEFT_NEED(mesh, out);
    weft_plan plan = {0};
    WEFT_TRY(each_pair(&plan, NULL, "mesh", mesh, mesh_pair));
    *out = 1;
    for (int a = 0; a < AXES; a++) *out *= plan.size[a] ? plan.size[a] : 1;
    return WEFT_OK;
}

weft_status weft_mesh_axis(const char *mesh, const char *axis, int64_t *out)
{
    WEFT_NEED(mesh, axis, out);
    weft_plan plan = {0};
    int a = find_axis(axis);
    if (a < 0) return no_axis(axis);
    WEFT_TRY(each_pair(&plan, NULL, "mesh", mesh, mesh_pair));
    *out = plan.size[a] ? plan.size[a] : 1;
    return WEFT_OK;
}

/* The dimension of a leaf that `name` means: a number, a label of the first node that reads the
 * leaf, or "in" or "out" for the input or output dimension of a weight; -1: none. */
static int find_dim(const weft_graph *g, weft_value leaf, const char *name)
{
    int64_t number;
    int rank = g->values[leaf].type.shape.rank;
    if (weft_parse_int(name, &number)) return number >= 0 && number < rank ? (int)number : -1;
    for (size_t n = 0; n < g->node_count; n++)
        for (int i = 0; i < g->nodes[n]->in_count; i++) {
            weft_signature s;
            if (g->nodes[n]->in[i] != leaf) continue;
            if (weft_node_signature(g, g->nodes[n], &s) != WEFT_OK) return -1;
            for (int d = 0; d < rank; d++) {
                const char *label = s.operand[i].label[d].name; /* cg: channels of a group */
                bool in =
                    strcmp(label, "k") == 0 || strcmp(label, "c") == 0 || strcmp(label, "cg") == 0;
                bool out = strcmp(label, "n") == 0 || strcmp(label, "o") == 0;
                if (strcmp(label, name) == 0 || (in && strcmp(name, "in") == 0) ||
                    (out && strcmp(name, "out") == 0))
                    return d;
            }
            return -1;
        }
    return -1;
}

static weft_status shard_leaf(weft_plan *plan, const weft_graph *graph, const char *name,
                              const char *dimension, const char *value)
{
    leaf_plan *leaf;
    int axis = find_axis(value);
    if (axis < 0) return no_axis(value);
    if (axis >= SHARD_AXES)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "shard: '%s' is to be split over the %s axis, which cuts the model into "
                         "stages and splits no tensor; give data, domain or tensor",
                         name, value);
    if (!plan->named[axis] && plan->size[axis] == 1)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "shard: '%s' is to be split over the %s axis, which this mesh does not "
                         "have; give --mesh %s=N, or leave the split out",
                         name, value, value);
    weft_value v = weft_graph_find(graph, name);
    if (v == WEFT_NO_VALUE)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "shard: nothing in this model is named '%s'; weft "
                         "inspect shows the names",
                         name);
    int dim = find_dim(graph, v, dimension);
    if (dim < 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "shard: '%s' has no dimension '%s'; give a number from 0 to %d%s", name,
                         dimension, graph->values[v].type.shape.rank - 1,
                         find_dim(graph, v, "out") < 0 ? "" : ", in or out");
    int64_t have = graph->values[v].type.shape.dim[dim];
    if (have < plan->size[axis])
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "shard: dimension %s of '%s' has %lld elements, too few for %s=%d",
                         dimension, name, (long long)have, value, plan->size[axis]);
    WEFT_TRY(weft_plan_add_leaf(plan, name, &leaf));
    for (int a = 0; a < SHARD_AXES; a++)
        if (leaf->fixed[a] && (a == axis || leaf->split.at[a] == dim))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "shard: '%s' is split twice in a way that cannot be "
                             "combined",
                             name);
    leaf->split.at[axis] = plan->size[axis] > 1 ? (int16_t)dim : WHOLE;
    leaf->fixed[axis] = true;
    return WEFT_OK;
}

static weft_status shard_pair(weft_plan *plan, const weft_graph *graph, const char *key,
                              const char *value)
{
    const char *colon = strrchr(key, ':');
    char *name;
    if (!colon)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "shard '%s=%s' must be LEAF:DIMENSION=AXIS, such as "
                         "fc1/weight:out=tensor",
                         key, value);
    WEFT_TRY(weft_format(&name, "%.*s", (int)(colon - key), key));
    weft_status status = shard_leaf(plan, graph, name, colon + 1, value);
    free(name);
    return status;
}

static weft_status place_pair(weft_plan *plan, const weft_graph *graph, const char *key,
                              const char *value)
{
    (void)graph;
    int64_t place;
    const char *colon = strchr(value, ':');
    size_t kind = colon ? (size_t)(colon - value) : 0;
    static const char *const words[] = {"cpu", "rank"};
    bool known = false;
    for (size_t i = 0; i < WEFT_COUNT(words); i++)
        known = known || (strlen(words[i]) == kind && strncmp(value, words[i], kind) == 0);
    if (!known || !weft_parse_int(colon + 1, &place) || place < 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "place '%s=%s': a place is cpu:K or rank:K with K from 0", key, value);
    if (place >= plan->places)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "place '%s=%s': there is no device %s; -n %d gives %s:0 to %s:%d", key,
                         value, value, plan->places, kind == 3 ? "cpu" : "rank",
                         kind == 3 ? "cpu" : "rank", plan->places - 1);
    WEFT_TRY(WEFT_GROW(&plan->rules, &plan->rule_capacity, plan->rule_count));
    place_rule rule = {.place = (int)place};
    WEFT_TRY(weft_strdup(key, &rule.pattern));
    plan->rules[plan->rule_count++] = rule;
    return WEFT_OK;
}

/* --- the plan --- */

extern const weft_strategy weft_strategy_zero, weft_strategy_virtual_workers;
const weft_strategy *const weft_strategies[STRATEGIES] = {&weft_strategy_zero,
                                                          &weft_strategy_virtual_workers};

weft_status weft_plan_check_exchange(const weft_plan_options *options, const char *exchange)
{
    for (int i = 0; i < STRATEGIES; i++)
        if (weft_strategies[i]->updated_elsewhere)
            WEFT_TRY(weft_strategies[i]->updated_elsewhere(options, exchange));
    return WEFT_OK;
}

void weft_plan_options_init_size(weft_plan_options *options, size_t size)
{
    const weft_plan_options ours = {.struct_size = sizeof(weft_plan_options), .ranks = 1};
    weft_give_struct(options, size, &ours, sizeof(ours));
}

static weft_status add_up_shares(weft_plan *p)
{
    const double *shares = p->options.shares;
    int n = p->size[AXIS_DATA];
    double sum = 0;
    WEFT_TRY(WEFT_NEW(&p->shares, n));
    for (int c = 0; c < n; c++) {
        if (!(shares[c] > 0) || isinf(shares[c]))
            return weft_fail(WEFT_ERR_ARGUMENT, "the share of rank %d is %g, must be above 0", c,
                             shares[c]);
        p->shares[c] = sum += shares[c];
    }
    for (int c = 0; c < n; c++) p->shares[c] /= sum;
    /* Windows and products over a part of another dimension need parts of equal size. */
    for (size_t i = 0; i < p->leaf_count; i++)
        if (p->leaves[i].split.at[AXIS_DATA] >= 0)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "shard: '%s' is to be split over the data axis, whose ranks have "
                             "unlike shares of the batch; split it over another axis, or leave "
                             "--shares out",
                             p->leaves[i].name);
    return WEFT_OK;
}

int64_t weft_plan_part_start(const weft_plan *p, int axis, int64_t count, int c)
{
    int n = p->size[axis];
    int64_t begin = 0;
    if (axis != AXIS_DATA || !p->shares || count < n) return weft_part_start(count, c, n);
    for (int k = 1; k <= c; k++) { /* every part has at least one position */
        int64_t most = count - (n - k);
        begin = WEFT_MIN(WEFT_MAX(llround((double)count * p->shares[k - 1]), begin + 1), most);
    }
    return begin;
}

static weft_status fill(weft_plan *p, const weft_graph *graph)
{
    const weft_plan_options *o = &p->options;
    bool placed = o->place && *o->place;
    int64_t product = 1;
    WEFT_TRY(each_pair(p, graph, "mesh", o->mesh, mesh_pair));
    if (placed && o->mesh && *o->mesh)
        return weft_fail(WEFT_ERR_ARGUMENT, "place and mesh contradict each other: give one of "
                                            "them");
    if (!placed && !(o->mesh && *o->mesh)) p->size[AXIS_DATA] = o->ranks;
    if (placed) p->size[AXIS_PIPELINE] = o->ranks;
    for (int a = 0; a < AXES; a++) {
        p->named[a] =
            p->size[a] > 0 && o->mesh && *o->mesh; /* also if it has one rank, as after a restart */
        if (p->size[a] == 0) p->size[a] = 1;
        product *= p->size[a];
    }
    if (product != o->ranks)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "mesh '%s' has %lld ranks, but there are %d; the sizes must multiply to "
                         "that",
                         o->mesh, (long long)product, o->ranks);
    p->places = p->size[AXIS_PIPELINE];
    if (p->places > 63)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d %s, at most 63 are possible", p->places,
                         placed ? "ranks to place operators on" : "pipeline stages");
    WEFT_TRY(each_pair(p, graph, "shard", o->shard, shard_pair));
    WEFT_TRY(each_pair(p, graph, "place", o->place, place_pair));
    if (o->shares) WEFT_TRY(add_up_shares(p));
    for (int i = 0; i < STRATEGIES; i++)
        if (weft_strategies[i]->check) WEFT_TRY(weft_strategies[i]->check(p));
    return weft_place_check(p, graph);
}

weft_status weft_plan_create(const weft_graph *graph, const weft_plan_options *options,
                             weft_plan **out)
{
    WEFT_NEED(graph, options, out);
    weft_plan *p;
    weft_plan_options own, *o = &own;
    weft_plan_options_init(&own);
    WEFT_TAKE(weft_plan_options, options, ranks, &own);
    WEFT_TRY(weft_graph_status(graph));
    if (o->ranks < 1 || o->ranks > 1024)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d ranks, 1 to 1024 are possible", o->ranks);
    WEFT_TRY(WEFT_NEW(&p, 1));
    p->context = graph->context;
    p->options = *o;
    weft_status status = fill(p, graph);
    p->options.mesh = p->options.shard = p->options.place = NULL; /* owned by the caller */
    p->options.node_costs = p->options.shares = NULL;
    if (status == WEFT_OK && o->node_costs) {
        status = WEFT_NEW(&p->costs, weft_graph_node_count(graph));
        p->cost_count = weft_graph_node_count(graph);
        for (int n = 0; n < p->cost_count && p->costs; n++) p->costs[n] = o->node_costs[n];
    }
    if (status != WEFT_OK) {
        weft_plan_destroy(&p);
        return status;
    }
    *out = p;
    return WEFT_OK;
}

void weft_plan_destroy(weft_plan **plan)
{
    if (!plan || !*plan) return;
    weft_plan *p = *plan;
    for (size_t i = 0; i < p->leaf_count; i++) free(p->leaves[i].name);
    for (size_t i = 0; i < p->rule_count; i++) free(p->rules[i].pattern);
    weft_names_free(&p->leaf_names);
    free(p->leaves);
    free(p->rules);
    free(p->costs);
    free(p->shares);
    free(p);
    *plan = NULL;
}
