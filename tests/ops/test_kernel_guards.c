/* Runs every kernel that devices in host memory have for the nodes of the operator cases, alone, in
 * f32 and bf16, with each operand, each result and the scratch memory between guards, which no
 * kernel may write. Libraries choose their layouts, so padding belongs to a result, and is written
 * too: programs reuse memory, and readers compute with the zeros in padding. */
#include <stdio.h>

#include "base/base.h"
#include "device/device.h"
#include "op_cases.h"
#include "program/program.h"

enum { GUARD = 4096, MARK = 0xa5 };

typedef struct guarded {
    char *room;
    size_t bytes;
    weft_memory memory;
} guarded;

/* Memory whose bytes are all `fill`: of operands zero, which is an index and a number that any
 * operator takes. */
static weft_address open_guarded(guarded *g, weft_device *device, size_t bytes, int fill)
{
    void *room;
    g->bytes = bytes;
    assert_ok(weft_new_aligned(bytes + 2 * GUARD, &room));
    g->room = room;
    memset(g->room, MARK, bytes + 2 * GUARD);
    memset(g->room + GUARD, fill, bytes);
    g->memory = (weft_memory){.device = device, .base = g->room + GUARD};
    return (weft_address){&g->memory, 0};
}

/* Whether the guards are whole; frees the memory. */
static bool close_guarded(guarded *g)
{
    bool whole = true;
    for (size_t i = 0; i < GUARD; i++)
        whole = whole && (unsigned char)g->room[i] == MARK &&
                (unsigned char)g->room[GUARD + g->bytes + i] == MARK;
    free(g->room);
    return whole;
}

/* Bytes of a number of a result that the kernel has not written: a NaN that no operation makes. */
enum { UNWRITTEN = 0xff };

static bool is_written(const guarded *g, size_t size)
{
    static const unsigned char unwritten[8] = {UNWRITTEN, UNWRITTEN, UNWRITTEN, UNWRITTEN,
                                               UNWRITTEN, UNWRITTEN, UNWRITTEN, UNWRITTEN};
    bool written = true;
    for (size_t at = 0; at + size <= g->bytes; at += size)
        written = written && memcmp(g->room + GUARD + at, unwritten, size) != 0;
    return written;
}

static void run_kernel(const char *name, weft_device *device, const weft_kernel *kernel,
                       const weft_group *group)
{
    static guarded in[WEFT_GROUP_VALUES], out[WEFT_GROUP_VALUES], scratch;
    weft_address from[WEFT_GROUP_VALUES], to[WEFT_GROUP_VALUES];
    weft_bound *bound;
    bool whole = true;
    for (int i = 0; i < group->in_count; i++)
        from[i] = open_guarded(&in[i], device, kernel->in[i]->bytes, 0);
    for (int o = 0; o < group->out_count; o++)
        to[o] = open_guarded(&out[o], device, kernel->out[o]->bytes, UNWRITTEN);
    weft_address room = open_guarded(&scratch, device, kernel->scratch, UNWRITTEN);
    assert_ok(weft_kernel_bind(kernel, &bound));
    assert_ok(weft_bound_place(bound, from, to, room));
    assert_ok(weft_bound_run(bound, NULL));
    bound->ops->destroy(bound);
    for (int o = 0; o < group->out_count; o++) {
        weft_dtype dtype = weft_value_type(group->graph, group->out[o])->dtype;
        if (weft_dtype_is_float(dtype) && !is_written(&out[o], weft_dtype_size(dtype)))
            fail_msg("%s: %s (%s, %s) leaves a number of result %d or of its padding unwritten",
                     name, group->node[0]->name, group->node[0]->op->name, kernel->text, o);
    }
    for (int i = 0; i < group->in_count; i++) whole = close_guarded(&in[i]) && whole;
    for (int o = 0; o < group->out_count; o++) whole = close_guarded(&out[o]) && whole;
    whole = close_guarded(&scratch) && whole;
    if (!whole)
        fail_msg("%s: %s (%s, %s) writes outside of its memory", name, group->node[0]->name,
                 group->node[0]->op->name, kernel->text);
}

static int run_node(const char *name, weft_device *device, const weft_graph *g,
                    const weft_node *node)
{
    weft_group group = {.graph = g, .node = {node}, .count = 1, .out_count = node->out_count};
    const weft_layout *in[WEFT_GROUP_VALUES] = {NULL};
    weft_candidate list[WEFT_CANDIDATES];
    int runs = 0;
    for (int i = 0; i < node->in_count; i++)
        if (weft_group_in(&group, node->in[i]) < 0) group.in[group.in_count++] = node->in[i];
    for (int o = 0; o < node->out_count; o++) group.out[o] = node->out + o;
    int count = device->ops->candidates(device, &group, in, list);
    for (int c = 0; c < count; c++) {
        weft_kernel *kernel;
        weft_status status = device->ops->kernel(device, &group, &list[c], in, &kernel);
        if (status == WEFT_ERR_UNSUPPORTED) continue;
        assert_ok(status);
        run_kernel(name, device, kernel, &group);
        kernel->ops->destroy(kernel);
        runs++;
    }
    return runs;
}

static void test_guards(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "reference"};
    static const weft_dtype types[] = {WEFT_F32, WEFT_BF16};
    for (size_t d = 0; d < WEFT_COUNT(devices); d++)
        for (size_t t = 0; t < WEFT_COUNT(types); t++) {
            int runs = 0;
            for (int c = 0; c < op_case_count; c++) {
                fixture f;
                weft_store *store;
                fixture_start(&f, &op_cases[c], types[t]);
                assert_ok(weft_store_create(f.context, devices[d], 1, &store));
                for (size_t n = 0; n < f.graph->node_count; n++) {
                    const weft_node *node = f.graph->nodes[n];
                    if (node->op->view == WEFT_VIEW_NEVER && !node->op->transfer)
                        runs +=
                            run_node(op_cases[c].name, store->schema->devices[0], f.graph, node);
                }
                weft_store_destroy(&store);
                fixture_end(&f);
            }
            assert_true(runs > op_case_count);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_guards)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
