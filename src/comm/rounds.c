/* Chooses how ranks that send messages sum and gather, and counts the rounds: the engine mpi plans
 * them so, and estimates take their latencies from here. */
#include "comm/comm.h"

/* Most bytes for recursive doubling: on one machine, where a round has little latency, so that the
 * bytes moved and added dominate from a smaller size on, and across several. */
enum { NEAR = 2 << 10, FAR = 16 << 10 };
enum { DIRECT = 64 << 10 }; /* least bytes of a part */

weft_sum_way weft_sum_way_of(bool scatters, int ranks, int64_t bytes, bool near)
{
    bool even = (ranks & (ranks - 1)) == 0;
    if (ranks <= WEFT_DIRECT_RANKS && ranks > 2 && bytes / ranks >= DIRECT && (scatters || !even))
        return WEFT_SUM_DIRECT;
    return scatters || bytes > (near ? NEAR : FAR) ? WEFT_SUM_HALVING : WEFT_SUM_DOUBLING;
}

int weft_comm_levels(int ranks)
{
    int levels = 0;
    while ((int64_t)1 << levels < ranks) levels++;
    return levels;
}

/* Rounds of all levels in which some ranks exchange data with others of another machine: `each`
 * ranks of a machine that are a whole number of blocks of a level stay among themselves. */
static int far_levels(int ranks, int each)
{
    int far = 0;
    for (int level = 0; level < weft_comm_levels(ranks); level++)
        far += ranks > each && each % (2 << level) != 0;
    return far;
}

int weft_comm_rounds(weft_transfer_kind kind, int ranks, int each, int64_t bytes)
{
    int levels = far_levels(ranks, each), passes = kind == WEFT_ALL_REDUCE ? 2 : 1;
    if (levels == 0) return 0;
    switch (kind) {
    case WEFT_ALL_REDUCE:
    case WEFT_REDUCE_SCATTER:
        switch (weft_sum_way_of(passes == 1, ranks, bytes, false)) {
        case WEFT_SUM_DIRECT: return passes;
        case WEFT_SUM_HALVING: return passes * levels;
        case WEFT_SUM_DOUBLING: break;
        }
        return levels;
    case WEFT_ALL_GATHER:
    case WEFT_BROADCAST:
    case WEFT_BARRIER: return levels;
    case WEFT_GATHER:
    case WEFT_ALL_TO_ALL:
    case WEFT_SEND:
    case WEFT_RECEIVE: break;
    }
    return 1;
}
