/* Tree sums over V leaves, whose numbers give other bits in any other order. Each engine, number of
 * ranks, algorithm, and distribution of leaves over ranks must give the bits of the fixed tree.
 * "test_comm_tree_sums mpi" under mpirun tests the engine mpi. */
#include "comm/comm.h"
#include "ranks.h"

static const char *engine_only;

static float leaf(int v, int64_t i)
{
    static const float scale[] = {1e4f, 1e-3f, 1.0f};
    uint32_t x = (uint32_t)v * 7919u + (uint32_t)(i % 65537) * 104729u + 1u;
    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 12;
    x *= 0x297a2d39u;
    x ^= x >> 15;
    return ((float)x / 4e9f - 0.5f) * scale[v % 3];
}

/* The sum, in the order of the tree, of the leaves from `first` to first + 2^level - 1 that are
 * below `leaves`. */
static float subtree(int leaves, int first, int level, int64_t i)
{
    if (level == 0) return leaf(first, i);
    int middle = first + (1 << (level - 1));
    float left = subtree(leaves, first, level - 1, i);
    return middle < leaves ? left + subtree(leaves, middle, level - 1, i) : left;
}

typedef struct sum_case {
    int leaves; /* 0: one for each rank */
    int64_t count;
    bool scatter, inplace;
} sum_case;

/* The contribution of a rank with the leaves first to last - 1: the sums of the largest subtrees
 * that the rank holds completely. */
static float *brought(int leaves, int first, int last, int64_t count, int *parts)
{
    *parts = weft_tree_parts(leaves, first, last);
    float *send = malloc((size_t)*parts * (size_t)count * sizeof(float) + 4);
    int at = first;
    for (int p = 0; p < *parts; p++) {
        int level = 0, end = at + 1;
        while (end < last && at % (2 << level) == 0) { /* while a larger subtree fits */
            int next = at + (2 << level) < leaves ? at + (2 << level) : leaves;
            if (next > last) break;
            level++;
            end = next;
        }
        for (int64_t i = 0; i < count; i++) send[p * count + i] = subtree(leaves, at, level, i);
        at = end;
    }
    return at == last ? send : NULL;
}

/* Gives uneven counts for the ranks; rank 1 gets none. */
static void share(int64_t count, int n, int64_t *counts)
{
    int64_t left = count;
    for (int r = 0; r < n; r++) {
        counts[r] = r == n - 1 ? left : r == 1 ? 0 : count / n + (r % 3 == 0 ? 1 : -1);
        if (counts[r] < 0 || counts[r] > left) counts[r] = 0;
        left -= counts[r];
    }
}

static void sums(weft_comm *c, void *user)
{
    const sum_case *k = user;
    int me = weft_comm_rank(c), n = weft_comm_size(c), v = k->leaves ? k->leaves : n, parts;
    int top = 0;
    int64_t counts[8], from = 0, to = k->count;
    share(k->count, n, counts);
    float *send = brought(v, v * me / n, v * (me + 1) / n, k->count, &parts);
    rank_check(send != NULL);
    if (k->scatter) {
        for (int r = 0; r < me; r++) from += counts[r];
        to = from + counts[me];
    }
    bool inplace = k->inplace && parts == 1 && (!k->scatter || k->leaves == 0);
    float *receive = inplace ? send + from : malloc((size_t)(to - from) * sizeof(float) + 4);
    weft_transfer t = {.kind = k->scatter ? WEFT_REDUCE_SCATTER : WEFT_ALL_REDUCE,
                       .send = send,
                       .receive = receive,
                       .count = k->count,
                       .counts = counts,
                       .leaves = k->leaves,
                       .parts = parts};
    rank_ok(weft_comm_run(c, &t));
    while (1 << top < v) top++;
    for (int64_t i = from; i < to; i++) {
        float want = subtree(v, 0, top, i);
        rank_check(memcmp(&want, &receive[i - from], sizeof(want)) == 0);
    }
    if (!inplace) free(receive);
    free(send);
}

static void over_leaves(int n, const char *engine)
{
    /* Few elements; many; and so many that some ranks have more than 64 KiB each. */
    static const int64_t few[] = {1, 5, 333, 512, 513, 3000}, many[] = {70000, 150000};
    for (int which = 0; which < 4; which++) {
        bool scatter = which & 1, inplace = which & 2;
        for (int leaves = 0; leaves <= 3 * n; leaves = leaves ? leaves + 1 : n)
            for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++)
                on_ranks(engine, engine_only ? 0 : n, sums,
                         &(sum_case){leaves, few[i], scatter, inplace});
        for (int k = 0; k < 3; k++)
            for (size_t i = 0; i < 2; i++)
                on_ranks(engine, engine_only ? 0 : n, sums,
                         &(sum_case){k ? (k + 1) * n - k % 2 : 0, many[i], scatter, inplace});
    }
}

static int ranks_of_job(void)
{
    weft_context *context;
    weft_comm *comms[WEFT_MAX_RANKS];
    int local;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_comm_open(context, engine_only, 0, comms, &local));
    int n = weft_comm_size(comms[0]);
    weft_comm_close(&comms[0]);
    weft_context_destroy(&context);
    return n;
}

static void test_sums(void **state)
{
    (void)state;
    if (engine_only) {
        over_leaves(ranks_of_job(), engine_only);
        return;
    }
    over_leaves(1, "self");
    for (int n = 1; n <= 8; n += n > 3 && getenv("WEFT_FAST") ? 3 : 1) over_leaves(n, "threads");
    over_leaves(3, PLUGINS "/libsockets.so");
}

/* More messages than the engine has under way at a time. With 5 ranks, rank 1 stands in for a sixth
 * rank and rank 3 for an eighth, so some ranks send two kinds of messages to the same rank in one
 * round. */
static void test_many_messages(void **state)
{
    (void)state;
    if (!engine_only) return;
    for (int64_t bytes = 256; bytes <= 1024; bytes *= 4)
        for (int scatter = 0; scatter < 2; scatter++)
            for (int64_t count = 3000; count <= 75000; count *= 25) {
                weft_mpi_set_piece(bytes);
                on_ranks(engine_only, 0, sums, &(sum_case){0, count, scatter, false});
                on_ranks(engine_only, 0, sums, &(sum_case){11, count, scatter, false});
            }
    weft_mpi_set_piece(1 << 30);
}

int main(int argc, char **argv)
{
    engine_only = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums),
                                       cmocka_unit_test(test_many_messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
