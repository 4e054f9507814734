/* Operands and attributes that do not fit an operator: each node of each case of op_cases.c is
 * built again with one thing wrong. The operator refuses the node, or it accepts the node and all
 * shapes then fit its label signature. */
#include <math.h>

#include "graph/graph.h"
#include "op_cases.h"

enum { FEW = 6 }; /* up to so many operands, every subset is tried */

/* The change that may make a node invalid: the type of some operands, their number of dimensions,
 * the length of an axis, or a missing attribute. */
typedef struct misfit {
    unsigned operands; /* bit i: operand i is changed */
    bool type;
    int more, longer, without; /* change of dimensions; axis and attribute, from 1; 0: none */
} misfit;

static weft_value misfitting(fixture *f, int i, weft_value v, const misfit *m)
{
    char name[32];
    weft_type type = weft_graph_value_type(f->graph, v);
    weft_shape *shape = &type.shape;
    if (m->type) type.dtype = type.dtype == WEFT_I32 ? weft_graph_real(f->graph) : WEFT_I32;
    if (m->more > 0) shape->dim[shape->rank++] = 1;
    if (m->more < 0) shape->rank--;
    if (m->longer > 0) shape->dim[m->longer - 1]++;
    (void)snprintf(name, sizeof(name), "misfit%d", i);
    return weft_graph_leaf(f->graph, WEFT_VALUE_INPUT, name, type.dtype, shape,
                           (weft_init){WEFT_INIT_CONSTANT, 0});
}

/* Whether an operator says that it takes the types of these operands. */
static bool takes_types(const weft_graph *g, const weft_op *op, const weft_value *in, int count)
{
    bool takes = op->takes[0] != 0;
    for (int i = 0; i < count; i++)
        takes = takes && weft_operator_takes(op, i) >> weft_graph_value_type(g, in[i]).dtype & 1;
    return takes;
}

/* Checks node n, which was changed and accepted, against node `was` of the same operator: the
 * shapes of n must fit its label signature. */
static void obeys_its_signature(const weft_graph *g, int was, int n, const misfit *m,
                                const char *what)
{
    weft_shape shapes[2 * MOST_INPUTS];
    const weft_node *node = g->nodes[n], *before = g->nodes[was];
    bool alike = true;
    char *labels;
    assert_true(node->in_count + node->out_count <= 2 * MOST_INPUTS);
    for (int i = 0; i < node->in_count; i++)
        shapes[i] = weft_graph_value_type(g, node->in[i]).shape;
    for (int i = 0; i < node->out_count; i++) {
        weft_shape *out = &shapes[node->in_count + i];
        *out = weft_graph_value_type(g, node->out + i).shape;
        weft_shape then = weft_graph_value_type(g, before->out + i).shape;
        alike = alike && out->rank == then.rank &&
                memcmp(out->dim, then.dim, (size_t)then.rank * sizeof(then.dim[0])) == 0;
    }
    assert_ok(weft_graph_node_labels(g, n, &labels));
    if (weft_labels_check(labels, shapes, node->in_count, node->out_count) != WEFT_OK)
        fail_msg("%s is taken and does not fit: %s", what, weft_last_message());
    /* Windows over a result: the size of the result is an attribute to which only one size of the
     * operand belongs, so another size must be refused. */
    if (m->longer && alike && strchr(strstr(labels, "->"), '~'))
        fail_msg("%s is taken for a result of the same size: %s", what, labels);
    weft_free(labels);
}

static void check(const op_case *c, int n, const misfit *m)
{
    fixture f;
    weft_value in[MOST_INPUTS];
    weft_attr attrs[16];
    char what[200];
    int attr_count = 0;
    fixture_start(&f, c, WEFT_F32);
    const weft_node *node = f.graph->nodes[n];
    const char *op = node->op->name;
    (void)snprintf(what, sizeof(what),
                   "%s: %s, operands 0x%x, type %d, dimensions %d, axis %d, without '%s'", c->name,
                   op, m->operands, m->type, m->more, m->longer,
                   m->without ? node->attrs[m->without - 1].name : "");
    for (int i = 0; i < node->in_count; i++)
        in[i] = m->operands >> i & 1 ? misfitting(&f, i, node->in[i], m) : node->in[i];
    assert_true(node->attr_count <= (int)(sizeof(attrs) / sizeof(*attrs)));
    for (int a = 0; a < node->attr_count; a++)
        if (a != m->without - 1) attrs[attr_count++] = node->attrs[a];
    assert_ok(weft_graph_status(f.graph));
    int made = weft_graph_node_count(f.graph);
    (void)weft_graph_node(f.graph, op, "again", in, node->in_count, attrs, attr_count);
    weft_status status = weft_graph_status(f.graph);
    if (status == WEFT_OK) {
        if (m->type && !takes_types(f.graph, node->op, in, node->in_count))
            fail_msg("%s: is taken", what);
        obeys_its_signature(f.graph, n, made, m, what);
    } else if (status != WEFT_ERR_ARGUMENT || !strstr(weft_last_message(), "again")) {
        fail_msg("%s: %s", what, weft_last_message());
    }
    fixture_end(&f);
}

static void each_node(void (*look)(const op_case *c, const weft_graph *g, int n))
{
    for (int c = 0; c < op_case_count; c++) {
        fixture f;
        fixture_start(&f, &op_cases[c], WEFT_F32);
        for (int n = 0; n < weft_graph_node_count(f.graph); n++)
            if (f.graph->nodes[n]->in_count < MOST_INPUTS) look(&op_cases[c], f.graph, n);
        fixture_end(&f);
    }
}

static void misfit_operands(const op_case *c, const weft_graph *g, int n)
{
    int count = g->nodes[n]->in_count;
    if (paths_alone() && strchr(c->name, '_') && n % 2) return;
    for (int i = 0; i < count; i++) {
        int rank = weft_graph_value_type(g, g->nodes[n]->in[i]).shape.rank;
        if (rank < WEFT_MAX_RANK) check(c, n, &(misfit){.operands = 1u << i, .more = 1});
        if (rank > 0) check(c, n, &(misfit){.operands = 1u << i, .more = -1});
        for (int d = 1; d <= rank; d++) check(c, n, &(misfit){.operands = 1u << i, .longer = d});
    }
    for (unsigned some = 1; some < 1u << count; some++)
        if (count <= FEW || (some & (some - 1)) == 0)
            check(c, n, &(misfit){.operands = some, .type = true});
}

static void misfit_attributes(const op_case *c, const weft_graph *g, int n)
{
    for (int a = 1; a <= g->nodes[n]->attr_count; a++) check(c, n, &(misfit){.without = a});
}

static void operands_fit_or_are_refused(void **state)
{
    (void)state;
    each_node(misfit_operands);
}

static void attributes_are_there_or_missed(void **state)
{
    (void)state;
    each_node(misfit_attributes);
}

/* A dimension that must be whole in an operand is whole in the result too, since no rank could
 * compute a part of it. */
static void whole_on_both_sides(const op_case *c, const weft_graph *g, int n)
{
    weft_signature s;
    const weft_node *node = g->nodes[n];
    assert_ok(weft_node_signature(g, node, &s));
    for (int i = 0; i < node->in_count; i++)
        for (int o = node->in_count; o < node->in_count + node->out_count; o++)
            for (int d = 0; d < s.operand[i].rank; d++)
                for (int k = 0; k < s.operand[o].rank; k++) {
                    const weft_label *in = &s.operand[i].label[d], *out = &s.operand[o].label[k];
                    if (strcmp(in->name, out->name) == 0 && in->whole != out->whole)
                        fail_msg("%s: %s: label %s of operand %d and result %d", c->name,
                                 node->op->name, in->name, i, o - node->in_count);
                }
}

static void what_is_whole_stays_whole(void **state)
{
    (void)state;
    each_node(whole_on_both_sides);
}

/* Operators that add numbers up take real ones alone; those that move them take any type. */
static void transfers_that_add_take_real_numbers(void **state)
{
    (void)state;
    const weft_attr known[] = {
        WEFT_ATTR_INT("axes", 1),  WEFT_ATTR_INT("ranks", 2),        WEFT_ATTR_INT("index", 0),
        WEFT_ATTR_INT("dim", 1),   WEFT_ATTR_INT("from", 0),         WEFT_ATTR_INT("whole", 4),
        WEFT_ATTR_INT("peer", 1),  {"window", 4, {1, 1, 0, 4}, 0.0}, WEFT_ATTR_INT("tag", 3),
        WEFT_ATTR_INT("parts", 1),
    };
    const weft_dtype types[] = {WEFT_F32, WEFT_I32, WEFT_U8, WEFT_I64, WEFT_BOOL};
    const weft_entry *e;
    int seen = 0;
    for (int i = 0; (e = weft_context_entry(fresh_context(), WEFT_KIND_OPERATOR, i)); i++) {
        const weft_op *op = e->ops;
        if (!op->transfer || op->max_inputs == 0) continue;
        for (size_t t = 0; t < WEFT_COUNT(types); t++) {
            weft_context *context;
            weft_graph *g;
            weft_attr attrs[WEFT_COUNT(known)];
            int count = 0;
            /* Two ranks have two rows each. */
            weft_shape shape = weft_shape_of(2, (int64_t[]){4, 2});
            for (size_t a = 0; a < WEFT_COUNT(known); a++)
                for (int k = 0; op->attrs && op->attrs[k]; k++)
                    if (strcmp(op->attrs[k], known[a].name) == 0) attrs[count++] = known[a];
            assert_ok(weft_context_create(&context));
            assert_ok(weft_graph_create(context, WEFT_F32, &g));
            weft_value x = weft_graph_leaf(g, WEFT_VALUE_INPUT, "x", types[t], &shape,
                                           (weft_init){WEFT_INIT_CONSTANT, 0});
            (void)weft_graph_node(g, op->name, "it", &x, 1, attrs, count);
            bool moves = strcmp(op->name, "all_gather") == 0 ||
                         strcmp(op->name, "all_to_all") == 0 || strcmp(op->name, "send") == 0;
            if (types[t] != WEFT_F32 && !moves)
                assert_refused(weft_graph_status(g), WEFT_ERR_ARGUMENT, "it");
            else
                assert_ok(weft_graph_status(g));
            weft_graph_destroy(&g);
            weft_context_destroy(&context);
        }
        seen++;
    }
    assert_true(seen >= 7);
}

/* Attributes just inside and just outside their limits; the operands are [2, 3, 4, 5]. */
static const struct limit {
    const char *op;
    int operands;
    weft_attr attrs[3];
    const char *words; /* NULL: the node is accepted */
} limits[] = {
    {"dropout", 3, {WEFT_ATTR_REAL("rate", 0)}, NULL},
    {"dropout", 3, {WEFT_ATTR_REAL("rate", 0.999)}, NULL},
    {"dropout", 3, {WEFT_ATTR_REAL("rate", 1)}, "the rate is 1"},
    {"dropout", 3, {WEFT_ATTR_REAL("rate", -0.001)}, "the rate is -0.001"},
    {"dropout", 3, {WEFT_ATTR_REAL("rate", NAN)}, "the rate is nan"},
    {"concat", 2, {WEFT_ATTR_INT("axis", 0)}, NULL},
    {"concat", 2, {WEFT_ATTR_INT("axis", 3)}, NULL},
    {"concat", 2, {WEFT_ATTR_INT("axis", 4)}, "axis 4, the tensor has 4 dimensions"},
    {"concat", 2, {WEFT_ATTR_INT("axis", -1)}, "axis -1"},
    {"slice",
     1,
     {WEFT_ATTR_INT("axis", 3), WEFT_ATTR_INT("start", 0), WEFT_ATTR_INT("stop", 5)},
     NULL},
    {"slice",
     1,
     {WEFT_ATTR_INT("axis", 3), WEFT_ATTR_INT("start", 4), WEFT_ATTR_INT("stop", 5)},
     NULL},
    {"slice",
     1,
     {WEFT_ATTR_INT("axis", 3), WEFT_ATTR_INT("start", 4), WEFT_ATTR_INT("stop", 6)},
     "4 up to 6 of an axis of 5"},
    {"slice",
     1,
     {WEFT_ATTR_INT("axis", 3), WEFT_ATTR_INT("start", 5), WEFT_ATTR_INT("stop", 5)},
     "5 up to 5"},
    {"slice",
     1,
     {WEFT_ATTR_INT("axis", 3), WEFT_ATTR_INT("start", -1), WEFT_ATTR_INT("stop", 5)},
     "-1 up to 5"},
    {"pad",
     1,
     {WEFT_ATTR_INT("axis", 2), WEFT_ATTR_INT("before", 0), WEFT_ATTR_INT("after", 0)},
     NULL},
    {"pad",
     1,
     {WEFT_ATTR_INT("axis", 2), WEFT_ATTR_INT("before", -1), WEFT_ATTR_INT("after", 2)},
     "must be from 0 to 2^40"},
    {"pad",
     1,
     {WEFT_ATTR_INT("axis", 2), WEFT_ATTR_INT("before", 2), WEFT_ATTR_INT("after", -1)},
     "must be from 0 to 2^40"},
    {"pad",
     1,
     {WEFT_ATTR_INT("axis", 2), WEFT_ATTR_INT("before", 1), WEFT_ATTR_INT("after", INT64_MAX)},
     "must be from 0 to 2^40"},
    {"reduce_sum", 1, {WEFT_ATTR_PAIR("axes", 0, 3)}, NULL},
    {"reduce_sum", 1, {WEFT_ATTR_PAIR("axes", 0, 4)}, "axis 4, the tensor has 4 dimensions"},
    {"reduce_sum", 1, {WEFT_ATTR_PAIR("axes", -1, 3)}, "axis -1"},
    {"reshape", 1, {WEFT_ATTR_PAIR("shape", 12, 10)}, NULL},
    {"reshape", 1, {WEFT_ATTR_PAIR("shape", 12, 11)}, "120 elements cannot become 132"},
    {"reshape", 1, {WEFT_ATTR_PAIR("shape", 120, 0)}, "dimension 1 is 0"},
    {"reshape", 1, {WEFT_ATTR_PAIR("shape", -12, -10)}, "dimension 0 is -12"},
    {"transpose", 1, {{"perm", 4, {3, 1, 0, 2}, 0}}, NULL},
    {"transpose", 1, {{"perm", 4, {3, 1, 0, 3}, 0}}, "not a permutation"},
    {"transpose", 1, {{"perm", 4, {3, 1, 0, 4}, 0}}, "not a permutation"},
    {"transpose", 1, {{"perm", 4, {3, 1, 0, -1}, 0}}, "not a permutation"},
    {"transpose", 1, {{"perm", 3, {2, 1, 0}, 0}}, "with 4 numbers"},
    {"split", 1, {{"sizes", 2, {3, 2}, 0}, WEFT_ATTR_INT("axis", 3)}, NULL},
    {"split", 1, {{"sizes", 2, {3, 3}, 0}, WEFT_ATTR_INT("axis", 3)}, "add up to 6, axis 3 has 5"},
    {"maxpool", 1, {WEFT_ATTR_PAIR("kernel", 4, 5)}, NULL},
    {"maxpool",
     1,
     {WEFT_ATTR_PAIR("kernel", 5, 5)},
     "height: the window of 5 is larger than the padded input of 4"},
    {"maxpool", 1, {WEFT_ATTR_PAIR("kernel", 4, 6)}, "width: the window of 6"},
    {"maxpool", 1, {WEFT_ATTR_PAIR("kernel", 0, 2)}, "at least 1"},
    {"avgpool", 1, {WEFT_ATTR_PAIR("kernel", 2, 2), WEFT_ATTR_PAIR("stride", 1, 0)}, "at least 1"},
    {"avgpool", 1, {WEFT_ATTR_PAIR("kernel", 2, 2), WEFT_ATTR_PAIR("padding", 1, 1)}, NULL},
    {"avgpool",
     1,
     {WEFT_ATTR_PAIR("kernel", 2, 2), WEFT_ATTR_PAIR("padding", 2, 1)},
     "height: padding 2 must be smaller"},
    {"avgpool",
     1,
     {WEFT_ATTR_PAIR("kernel", 2, 2), WEFT_ATTR_PAIR("padding", 1, -1)},
     "at least 0"},
    {"avgpool",
     1,
     {WEFT_ATTR_PAIR("kernel", 2, 2), WEFT_ATTR_PAIR("stride", 65536, 65537)},
     "at most 65536"},
};

/* Writes into the buffer what is wrong with the graph's answer to a node; "": nothing. */
static void judge_limit(const struct limit *l, char *buffer, size_t size)
{
    weft_context *context;
    weft_graph *g;
    weft_value in[3];
    int count = 0;
    weft_shape shape = weft_shape_of(4, (int64_t[]){2, 3, 4, 5}), scalar = weft_shape_of(0, NULL);
    bool drops = strcmp(l->op, "dropout") == 0; /* it also reads the step and the first sample */
    assert_ok(weft_context_create(&context));
    assert_ok(weft_graph_create(context, WEFT_F32, &g));
    for (int i = 0; i < l->operands; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "x%d", i);
        in[i] = weft_graph_leaf(g, WEFT_VALUE_INPUT, name, drops && i ? WEFT_I32 : WEFT_F32,
                                drops && i ? &scalar : &shape, (weft_init){WEFT_INIT_CONSTANT, 0});
    }
    while (count < 3 && l->attrs[count].name) count++;
    (void)weft_graph_node(g, l->op, "it", in, l->operands, l->attrs, count);
    weft_status status = weft_graph_status(g);
    bool right = l->words ? status == WEFT_ERR_ARGUMENT && strstr(weft_last_message(), l->words)
                          : status == WEFT_OK;
    (void)snprintf(buffer, size, "%s",
                   right               ? ""
                   : status == WEFT_OK ? "is taken"
                                       : weft_last_message());
    weft_graph_destroy(&g);
    weft_context_destroy(&context);
}

static void attributes_have_limits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        char wrong[1024];
        judge_limit(&limits[i], wrong, sizeof(wrong));
        if (wrong[0]) fail_msg("limit %zu, %s: %s", i, limits[i].op, wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_fit_or_are_refused),
        cmocka_unit_test(attributes_are_there_or_missed),
        cmocka_unit_test(attributes_have_limits),
        cmocka_unit_test(transfers_that_add_take_real_numbers),
        cmocka_unit_test(what_is_whole_stays_whole),
    };
    return cmocka_run_group_tests_name("misfits", tests, NULL, NULL);
}
