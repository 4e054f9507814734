/* The topologies of gossip peers: which peers are neighbours, and over which tree an update reaches
 * all peers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "exchange/gossip/gossip.h"

static const char *const topologies[] = {"all", "ring", "torus", "random"};

/* Asserts that an update of origin o reaches every peer once, over edges of the topology. */
static void assert_spans(const weft_topology *t, int o)
{
    const int *from = t->parent + (ptrdiff_t)o * t->peers;
    for (int p = 0; p < t->peers; p++) {
        int at = p, steps = 0;
        for (; at != o; at = from[at], steps++) {
            bool edge = false;
            assert_true(steps < t->peers && from[at] >= 0);
            for (int e = t->first[at]; e < t->first[at + 1]; e++)
                edge = edge || t->list[e] == from[at];
            assert_true(edge);
        }
    }
    assert_int_equal(from[o], -1);
}

static void test_topologies(void **state)
{
    (void)state;
    weft_topology t;
    assert_int_equal(weft_topology_make("tours", 4, false, 1, &t), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_message(), "did you mean 'torus'"));
    assert_int_equal(weft_topology_make("ring", 1, false, 1, &t), WEFT_ERR_ARGUMENT);
    for (size_t k = 0; k < WEFT_COUNT(topologies); k++)
        for (int n = 2; n <= 40; n++)
            for (int halves = 0; halves < 2; halves++) {
                bool reached[40] = {true};
                assert_int_equal(weft_topology_make(topologies[k], n, halves, 9, &t), WEFT_OK);
                for (int round = 0; round < n; round++)
                    for (int a = 0; a < n; a++)
                        for (int e = t.first[a]; e < t.first[a + 1]; e++) {
                            assert_true(t.list[e] != a);
                            if (halves) assert_true(t.active[a] != t.active[t.list[e]]);
                            reached[t.list[e]] = reached[t.list[e]] || reached[a];
                        }
                for (int a = 0; a < n; a++) assert_true(reached[a]);
                for (int o = 0; o < n; o++) assert_spans(&t, o);
                weft_topology_free(&t);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topologies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
