/* Messages of any length, over every engine as in test_comm.c. */
#include "comm/comm.h"
#include "collectives.h"

/* The engine mpi cuts transfers into pieces of 32 or 256 bytes here, in place of the 2^30 bytes
 * that MPI can count; some lengths are a whole number of pieces. */
static void pieces(weft_comm *c, void *user)
{
    (void)user;
    static const int64_t counts[] = {0, 1, 7, 8, 9, 64, 333};
    for (size_t d = 0; d < 4; d++)
        for (size_t s = 0; s < sizeof(counts) / sizeof(counts[0]); s++) {
            all_gather(c, dtypes[d], counts[s]);
            gather(c, dtypes[d], counts[s]);
            all_to_all(c, dtypes[d], counts[s]);
            broadcast(c, dtypes[d], counts[s]);
            ring(c, dtypes[d], counts[s]);
            if (dtypes[d] != WEFT_U8) all_reduce(c, dtypes[d], 20 * counts[s], s % 2);
            if (dtypes[d] != WEFT_U8) reduce_scatter(c, dtypes[d], 20 * counts[s]);
        }
}

/* As for memory of a device, where the communicator takes its addresses. */
static weft_status run_by_address(weft_comm *c, const weft_transfer *t)
{
    weft_operation *o;
    WEFT_TRY(weft_comm_prepare(c, t, &o));
    o->by_address = c->ops->reads && c->ops->reads(WEFT_POINTER_HOST);
    weft_status status = weft_operation_start(o);
    if (status == WEFT_OK) status = weft_operation_wait(o);
    weft_operation_destroy(&o);
    return status;
}

static void addresses(weft_comm *c, void *user)
{
    (void)user;
    for (int64_t count = 0; count < 40; count += 13) {
        all_gather(c, WEFT_F64, count);
        all_to_all(c, WEFT_U8, count);
    }
}

static void test_pieces(void **state)
{
    (void)state;
    for (int64_t bytes = 32; bytes <= 256; bytes *= 8) {
        weft_mpi_set_piece(bytes);
        everywhere(pieces, NULL);
    }
    weft_mpi_set_piece(32);
    run_transfer = run_by_address;
    everywhere(addresses, NULL);
    run_transfer = weft_comm_run;
    weft_mpi_set_piece(1 << 30);
}

/* A message of more bytes than MPI counts; takes 5 GB. */
static void huge(weft_comm *c, void *user)
{
    (void)user;
    const int64_t count = ((int64_t)1 << 31) + 13;
    uint8_t *data = malloc((size_t)count);
    int me = weft_comm_rank(c), last = weft_comm_size(c) - 1;
    rank_check(data != NULL);
    weft_transfer t = {.kind = me == 0 ? WEFT_SEND : WEFT_RECEIVE,
                       .dtype = WEFT_U8,
                       .send = data,
                       .receive = data,
                       .count = count,
                       .peer = me == 0 ? last : 0};
    for (int round = 0; round < 2; round++) { /* 0: a message; 1: a broadcast back */
        int from = round ? last : 0;
        for (int64_t i = 0; i < count; i++)
            data[i] = me == from ? (uint8_t)((uint64_t)i * 2654435761u >> 13) : 0;
        if (round || (me != 0 && me != last)) t.kind = WEFT_BROADCAST;
        if (round) t.peer = last;
        if (round || me == 0 || me == last) rank_ok(weft_comm_run(c, &t));
        for (int64_t i = 0; i < count && (round || me == last); i++)
            rank_check(data[i] == (uint8_t)((uint64_t)i * 2654435761u >> 13));
    }
    free(data);
}

static void test_huge(void **state)
{
    (void)state;
    if (engine_only && getenv("WEFT_HUGE"))
        on_ranks(engine_only, 0, huge, NULL);
    else if (engine_only)
        print_message("SKIPPED: 2 GiB in one message, over MPI with WEFT_HUGE=1 only\n");
}

static void large(weft_comm *c, void *user)
{
    (void)user;
    const int64_t count = 16 << 20; /* 64 MiB of floats */
    all_reduce(c, WEFT_F32, count, true);
    all_reduce(c, WEFT_F32, count, false);
    ring(c, WEFT_F32, count);
}

static void test_large(void **state)
{
    (void)state;
    if (engine_only)
        on_ranks(engine_only, 0, large, NULL);
    else
        on_ranks("threads", 3, large, NULL);
}

int main(int argc, char **argv)
{
    engine_only = argc > 1 ? argv[1] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_huge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
