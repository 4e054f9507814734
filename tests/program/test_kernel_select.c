/* Which of a device's candidates for an operator is chosen: the cheapest, including the time to
 * reorder or copy operands; and what the dump of a program reports of the other candidates. The
 * test gives devices of the library other candidates or other estimated costs. */
#include <dlfcn.h>

#include "program/program.h"
#include "support.h"

/* Instruction sets of a processor as oneDNN reports them to the library; 0: those of this one. */
static unsigned claimed;
enum { AVX512 = 0x67, AVX512_BF16 = 0xe7, AMX = 0x3e7 };

/* The library's calls come here, those within oneDNN do not, so kernels run on this processor. */
unsigned dnnl_get_effective_cpu_isa(void);
unsigned dnnl_get_effective_cpu_isa(void)
{
    unsigned (*true_isa)(void) = (unsigned (*)(void))(uintptr_t)dlsym(RTLD_NEXT, __func__);
    return claimed ? claimed : true_isa();
}

/* A candidate that the device offers for offered_op; other operators have its own candidates. */
typedef struct offer {
    const char *name;
    double seconds;
    bool refuses; /* its kernel cannot be made */
    bool odd;     /* wants its operand in a layout of its own */
} offer;

static const weft_device_ops *true_ops; /* of the device, without the offers */
static weft_device_ops ops;
static const char *offered_op;
static const offer *offers;
static int offer_count;
static double price; /* factor of the estimated time of groups of several nodes; below 0: their
                      * kernels cannot be made */
static weft_layout odd;

static int offered(weft_device *device, const weft_group *group, const weft_layout *const *in,
                   weft_candidate out[WEFT_CANDIDATES])
{
    if (strcmp(group->node[0]->op->name, offered_op) != 0 || group->count > 1 || !offers) {
        int count = true_ops->candidates(device, group, in, out);
        for (int i = 0; i < count && group->count > 1; i++) out[i].seconds *= price;
        return count;
    }
    for (int i = 0; i < offer_count; i++)
        out[i] = (weft_candidate){offers[i].name, offers[i].seconds, &offers[i]};
    return offer_count;
}

static bool is_offer(const weft_candidate *candidate)
{
    for (int i = 0; i < offer_count; i++)
        if (candidate->how == &offers[i]) return true;
    return false;
}

static weft_status make(weft_device *device, const weft_group *group,
                        const weft_candidate *candidate, const weft_layout *const *in,
                        weft_kernel **out)
{
    weft_candidate theirs[WEFT_CANDIDATES];
    const offer *o = is_offer(candidate) ? candidate->how : NULL;
    if (group->count > 1 && price < 0)
        return weft_fail(WEFT_ERR_UNSUPPORTED, "not %d at a time", group->count);
    if (!o) return true_ops->kernel(device, group, candidate, in, out);
    if (o->refuses) return weft_fail(WEFT_ERR_UNSUPPORTED, "%s does not work here", o->name);
    assert_true(true_ops->candidates(device, group, in, theirs) > 0);
    WEFT_TRY(true_ops->kernel(device, group, &theirs[0], in, out));
    (void)snprintf((*out)->text, sizeof((*out)->text), "%s", o->name);
    if (!o->odd) return WEFT_OK;
    odd = *(*out)->in[0];
    odd.plain = false;
    memcpy(odd.text, "odd", sizeof("odd"));
    (*out)->in[0] = &odd;
    return WEFT_OK;
}

typedef struct bed {
    weft_context *context;
    weft_store *store;
    weft_graph *graph;
    weft_program *program;
    char *text;
} bed;

static void open_bed(bed *b, const char *device, const offer *list, int count)
{
    offered_op = "relu";
    offers = list;
    offer_count = count;
    price = 1;
    assert_ok(weft_context_create(&b->context));
    assert_ok(weft_store_create(b->context, device, 1, &b->store));
    true_ops = b->store->schema->devices[0]->ops;
    ops = *true_ops;
    ops.candidates = offered;
    ops.kernel = make;
    b->store->schema->devices[0]->ops = &ops;
    assert_ok(weft_graph_create(b->context, WEFT_F32, &b->graph));
}

static void close_bed(bed *b)
{
    weft_program_destroy(&b->program);
    free(b->text);
    weft_graph_destroy(&b->graph);
    weft_store_destroy(&b->store);
    weft_context_destroy(&b->context);
}

/* A leaf of 64 numbers, 256 bytes. A parameter has the layout that its first reader wants. */
static weft_value leaf(bed *b, weft_value_kind kind, const char *name)
{
    weft_shape shape = weft_shape_of(2, (int64_t[]){8, 8});
    return weft_graph_leaf(b->graph, kind, name, WEFT_F32, &shape,
                           (weft_init){WEFT_INIT_CONSTANT, -2});
}

static weft_value relu(bed *b, weft_value x)
{
    return weft_graph_node(b->graph, "relu", "relu", &x, 1, NULL, 0);
}

/* Creates the program that computes y, and its dump. */
static void plan(bed *b, weft_value y)
{
    assert_ok(weft_program_create(b->store, b->graph, &y, 1, &b->program));
    assert_ok(weft_program_text(b->program, &b->text));
}

static void assert_says(const bed *b, const char *words)
{
    if (!strstr(b->text, words)) fail_msg("the dump does not say '%s':\n%s", words, b->text);
}

static void assert_silent(const bed *b, const char *words)
{
    if (strstr(b->text, words)) fail_msg("the dump says '%s':\n%s", words, b->text);
}

/* Asserts what the dump says if these candidates are offered for the relu of an input, which is in
 * plain layout. */
static void assert_chosen(const char *device, const offer *list, int count, const char *words)
{
    bed b = {0};
    open_bed(&b, device, list, count);
    plan(&b, relu(&b, leaf(&b, WEFT_VALUE_INPUT, "x")));
    assert_says(&b, words);
    close_bed(&b);
}
#define CHOSEN(words, ...) CHOSEN_ON("reference", words, __VA_ARGS__)
#define CHOSEN_ON(device, words, ...)                                                              \
    assert_chosen(device, (const offer[]){__VA_ARGS__},                                            \
                  (int)(sizeof((const offer[]){__VA_ARGS__}) / sizeof(offer)), words)

static void test_the_cheapest_wins(void **state)
{
    (void)state;
    CHOSEN("[b] b 3 us of: a 5 us\n", {"a", 5e-6, false, false}, {"b", 3e-6, false, false});
    CHOSEN("[a] a 2 us of: b 3 us\n", {"a", 2e-6, false, false}, {"b", 3e-6, false, false});
    CHOSEN("[c] c 1 us of: a 2 us, b 3 us\n", {"a", 2e-6, false, false}, {"b", 3e-6, false, false},
           {"c", 1e-6, false, false});
    CHOSEN("[a]\n", {"a", 2e-6, false, false}); /* no choice to report */
}

static void test_ties_go_to_the_first(void **state)
{
    (void)state;
    CHOSEN("[a] a 3 us of: b 3 us\n", {"a", 3e-6, false, false}, {"b", 3e-6, false, false});
    /* Also if the costs are equal only with a reorder: 256 bytes are read and written at 20 GB a
     * second, after 50 ns. */
    double turn = 50e-9 + 512 / 20e9;
    CHOSEN("[a] a 3 us + 0.0756 us to move of: b", {"a", 3e-6, false, true},
           {"b", 3e-6 + turn, false, false});
    CHOSEN("[a] a 3.08 us of: b 3 us + 0.0756 us to move\n", {"a", 3e-6 + turn, false, false},
           {"b", 3e-6, false, true});
}

static void test_who_cannot_is_passed_over(void **state)
{
    (void)state;
    CHOSEN_ON("cpu", "[b] b 3 us of: a unsupported\n", {"a", 1e-6, true, false},
              {"b", 3e-6, false, false});
    CHOSEN_ON("cpu", "[reference] reference 0.13 us of: a unsupported, b unsupported\n",
              {"a", 1e-6, true, false}, {"b", 3e-6, true, false});
    CHOSEN_ON("cpu", "[reference] reference 0.13 us of: a unsupported\n", {"a", 1e-6, true, false});
}

/* The time of a reorder counts for an input, which is in plain layout, but not for a parameter,
 * which has the layout that its first reader wants. */
static void test_reorders_count(void **state)
{
    (void)state;
    static const offer near[] = {{"a", 3.00e-6, false, true}, {"b", 3.01e-6, false, false}};
    static const offer far[] = {{"a", 3e-6, false, true}, {"b", 4e-6, false, false}};
    assert_chosen("reference", near, 2, "[b] b 3.01 us of: a 3 us + 0.0756 us to move\n");
    assert_chosen("reference", far, 2, "[a] a 3 us + 0.0756 us to move of: b 4 us\n");
    bed b = {0};
    open_bed(&b, "reference", near, 2);
    plan(&b, relu(&b, leaf(&b, WEFT_VALUE_PARAM, "w")));
    assert_says(&b, "[a] a 3 us of: b 3.01 us\n");
    assert_silent(&b, "reorder w");
    close_bed(&b);
}

/* A second layout of a parameter is made once, and not in each run, so it costs nothing. */
static void test_what_is_made_once_is_free(void **state)
{
    (void)state;
    static const offer list[] = {{"a", 3.00e-6, false, true}, {"b", 3.01e-6, false, false}};
    bed b = {0};
    open_bed(&b, "reference", list, 2);
    weft_value w = leaf(&b, WEFT_VALUE_PARAM, "w");
    weft_value twice = weft_graph_node(b.graph, "add", "twice", (weft_value[]){w, w}, 2, NULL, 0);
    weft_value y =
        weft_graph_node(b.graph, "add", "y", (weft_value[]){twice, relu(&b, w)}, 2, NULL, 0);
    plan(&b, y);
    assert_says(&b, "[a] a 3 us of: b 3.01 us\n");
    assert_says(&b, "reorder w");
    close_bed(&b);
}

/* If the device is very slow, the reference device runs the operator, unless the copies there and
 * back take longer. */
static void test_the_reference_device_is_a_candidate(void **state)
{
    (void)state;
    static const struct {
        double seconds, copied_start;
        weft_value_kind kind;
        const char *words;
    } cases[] = {
        {10, 1e-5, WEFT_VALUE_INPUT,
         "[reference] reference 0.13 us + 10 us to move of: slow 1e+07"},
        {10, 1e-5, WEFT_VALUE_PARAM,
         "[reference] reference 0.13 us + 20.1 us to move of: slow 1e+07"},
        /* An input is copied either to the device or, as the result, from the reference device: the
         * time is the same. */
        {10, 20, WEFT_VALUE_INPUT,
         "[reference] reference 0.13 us + 2e+07 us to move of: slow 1e+07"},
        {10, 20, WEFT_VALUE_PARAM, "[slow]\n"},
        {0.9e-3, 1e-5, WEFT_VALUE_PARAM, "[slow]\n"}, /* a gain below 1 ms */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bed b = {0};
        offer slow = {"slow", cases[i].seconds, false, false};
        open_bed(&b, "distant", &slow, 1);
        ops.rates.copied_start = cases[i].copied_start;
        plan(&b, relu(&b, leaf(&b, cases[i].kind, "w")));
        assert_says(&b, cases[i].words);
        close_bed(&b);
    }
}

/* Only the device that made the index of a maxpool can read it, so no other device is a candidate
 * for its gradient. */
static void test_what_nobody_else_can_read(void **state)
{
    (void)state;
    static const offer none[] = {{"none", 1e-6, true, false}};
    bed b = {0};
    open_bed(&b, "cpu", none, 1);
    offered_op = "maxpool_grad";
    weft_shape image = weft_shape_of(4, (int64_t[]){2, 3, 4, 4});
    weft_attr attrs[] = {WEFT_ATTR_PAIR("kernel", 2, 2), WEFT_ATTR_PAIR("stride", 2, 2),
                         WEFT_ATTR_PAIR("size", 4, 4)};
    weft_value x = weft_graph_leaf(b.graph, WEFT_VALUE_INPUT, "x", WEFT_F32, &image,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_value y = weft_graph_node(b.graph, "maxpool", "pool", &x, 1, attrs, 2);
    weft_value dx =
        weft_graph_node(b.graph, "maxpool_grad", "dx", (weft_value[]){y, y + 1}, 2, attrs, 3);
    assert_refused(weft_program_create(b.store, b.graph, &dx, 1, &b.program), WEFT_ERR_UNSUPPORTED,
                   "none does not work here");
    close_bed(&b);
}

/* Nodes are fused if the fused kernel costs no more than separate ones, and can be made. */
static void test_fusion_has_a_price(void **state)
{
    (void)state;
    static const double prices[] = {1, 100, -1};
    for (int i = 0; i < 3; i++) {
        bed b = {0};
        open_bed(&b, "cpu", NULL, 0);
        price = prices[i];
        weft_value in[] = {leaf(&b, WEFT_VALUE_INPUT, "x"), leaf(&b, WEFT_VALUE_PARAM, "w")};
        plan(&b, relu(&b, weft_graph_node(b.graph, "dense", "dense", in, 2, NULL, 0)));
        (i > 0 ? assert_silent : assert_says)(&b, "dense+relu dense");
        assert_int_equal(weft_program_describe(b.program).instructions, i > 0 ? 2 : 1);
        close_bed(&b);
    }
}

/* The device's own candidates for a concat: loops over rows win in plain layout, oneDNN wins in
 * blocked layouts. */
static void test_of_the_cpu_device(void **state)
{
    (void)state;
    weft_attr axis = WEFT_ATTR_INT("axis", 1), padding = WEFT_ATTR_PAIR("padding", 1, 1);
    weft_shape image = weft_shape_of(4, (int64_t[]){8, 32, 8, 8});
    weft_shape kernel = weft_shape_of(4, (int64_t[]){32, 32, 3, 3});
    weft_init one = {WEFT_INIT_CONSTANT, 1};
    for (int blocked = 0; blocked < 2; blocked++) {
        bed b = {0};
        open_bed(&b, "cpu", NULL, 0);
        weft_value x[2];
        for (int i = 0; i < 2; i++) {
            const char *names[] = {"x0", "x1"};
            x[i] = weft_graph_leaf(b.graph, WEFT_VALUE_INPUT, names[i], WEFT_F32, &image, one);
        }
        weft_value w = weft_graph_leaf(b.graph, WEFT_VALUE_PARAM, "w", WEFT_F32, &kernel, one);
        for (int i = 0; i < 2 && blocked; i++)
            x[i] =
                weft_graph_node(b.graph, "conv", "conv", (weft_value[]){x[i], w}, 2, &padding, 1);
        plan(&b, weft_graph_node(b.graph, "concat", "join", x, 2, &axis, 1));
        /* Processors without blocked layouts have plain ones after convolutions too. */
        bool plain = !blocked || !strstr(b.text, "conv:aBcd");
        assert_says(&b, plain ? "[loop] rows" : "onednn");
        assert_says(&b, plain ? "of: onednn" : "of: rows");
        close_bed(&b);
    }
}

/* Appends to `out` the candidate that is chosen on such a processor for the gradient of a
 * convolution for its weight: of many channels and few positions, of operands of this type. */
static void choose_weight_grad(unsigned sets, weft_dtype dtype, char *out)
{
    const weft_layout *in[2];
    weft_candidate found[WEFT_CANDIDATES];
    weft_shape image = weft_shape_of(4, (int64_t[]){8, 64, 8, 8});
    weft_init one = {WEFT_INIT_CONSTANT, 1};
    weft_attr attrs[] = {WEFT_ATTR_PAIR("padding", 1, 1), WEFT_ATTR_PAIR("kernel", 3, 3)};
    bed b = {0};
    claimed = sets;
    open_bed(&b, "cpu", NULL, 0);
    weft_device *device = b.store->schema->devices[0];
    weft_value x = weft_graph_leaf(b.graph, WEFT_VALUE_INPUT, "x", dtype, &image, one);
    weft_value dy = weft_graph_leaf(b.graph, WEFT_VALUE_INPUT, "dy", dtype, &image, one);
    weft_value dw = weft_graph_node(b.graph, "conv_dw", "dw", (weft_value[]){x, dy}, 2, attrs, 2);
    assert_ok(weft_graph_status(b.graph));
    const weft_group group = {.graph = b.graph,
                              .node = {b.graph->nodes[b.graph->values[dw].node]},
                              .count = 1,
                              .in = {x, dy},
                              .in_count = 2,
                              .out = {dw},
                              .out_count = 1};
    for (int i = 0; i < 2; i++)
        assert_ok(true_ops->plain(device, weft_value_type(b.graph, group.in[i]), &in[i]));
    int count = true_ops->candidates(device, &group, in, found), least = 0;
    for (int i = 1; i < count; i++)
        if (found[i].seconds < found[least].seconds) least = i;
    strcat(strcat(out, count ? found[least].name : "none"), " ");
    close_bed(&b);
    claimed = 0;
}

/* Our own products of bf16 numbers are by AVX512-BF16, so they yield to oneDNN's where the
 * processor has AMX; those of f32 numbers do not, since AMX has none. */
static void test_amx_is_oneDNNs(void **state)
{
    char f32[64] = "", bf16[64] = "";
    (void)state;
    for (int i = 0; i < 3; i++) {
        static const unsigned sets[] = {AVX512, AVX512_BF16, AMX};
        choose_weight_grad(sets[i], WEFT_F32, f32);
        choose_weight_grad(sets[i], WEFT_BF16, bf16);
    }
    assert_string_equal(f32, "panels panels panels ");
    assert_string_equal(bf16, "in f32 panels direct ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cheapest_wins),
        cmocka_unit_test(test_ties_go_to_the_first),
        cmocka_unit_test(test_who_cannot_is_passed_over),
        cmocka_unit_test(test_reorders_count),
        cmocka_unit_test(test_what_is_made_once_is_free),
        cmocka_unit_test(test_the_reference_device_is_a_candidate),
        cmocka_unit_test(test_what_nobody_else_can_read),
        cmocka_unit_test(test_fusion_has_a_price),
        cmocka_unit_test(test_of_the_cpu_device),
        cmocka_unit_test(test_amx_is_oneDNNs),
    };
    return cmocka_run_group_tests_name("choose", tests, NULL, NULL);
}
