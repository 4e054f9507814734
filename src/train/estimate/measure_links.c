/* Measures the links between machines pairwise: the way there and back of a small message, and
 * messages that grow until they take long beside that. In each round every machine is in one pair
 * at most, so that no port has two messages. */
#include "base/sort.h"
#include "train/estimate/measure.h"

enum { WARM = 2, LEAST_WAYS = 7, MOST_WAYS = 200, LARGE_TIMES = 3 };
/* Bytes: of the first large message, and at most. */
enum { FIRST_SIZE = 1 << 16, MOST_SIZE = 1 << 26 };

typedef struct side {
    weft_comm *comm;
    int peer;
    float *room;    /* MOST_SIZE bytes */
    double seconds; /* that the small messages of a pair take, and a large one */
} side;

static weft_status pass(const side *e, weft_transfer_kind kind, int64_t count)
{
    return weft_comm_run(e->comm,
                         WEFT_TRANSFER(.kind = kind, .dtype = WEFT_F32,
                                       .what = "a measured message", .send = e->room,
                                       .receive = e->room, .count = count, .peer = e->peer));
}

/* A machine that does something else makes messages late, and none early: the tenth part of them
 * that is the fastest tells of the link. */
static double fastest(double *samples, int count)
{
    weft_sort_doubles(samples, (size_t)count);
    return samples[count / 10];
}

/* The leader of a pair tells in each small message whether the other end is to answer it. */
static weft_status answer_ways(const side *e)
{
    for (;;) {
        WEFT_TRY(pass(e, WEFT_RECEIVE, 1));
        if (e->room[0] == 0) return WEFT_OK;
        WEFT_TRY(pass(e, WEFT_SEND, 1));
    }
}

static weft_status time_ways(const side *e, double *latency)
{
    double samples[MOST_WAYS], begun = weft_seconds();
    for (int i = -WARM; i < MOST_WAYS; i++) {
        bool enough = i >= LEAST_WAYS && weft_seconds() - begun > e->seconds;
        double begin = weft_seconds();
        e->room[0] = enough || i == MOST_WAYS - 1 ? 0 : 1;
        WEFT_TRY(pass(e, WEFT_SEND, 1));
        if (e->room[0] == 0) {
            *latency = fastest(samples, i);
            return WEFT_OK;
        }
        WEFT_TRY(pass(e, WEFT_RECEIVE, 1));
        if (i >= 0) samples[i] = (weft_seconds() - begin) / 2;
    }
    return WEFT_OK;
}

/* The size of each large message comes before it, in elements (a power of two); 0 ends them. */
static weft_status answer_large(const side *e)
{
    for (;;) {
        WEFT_TRY(pass(e, WEFT_RECEIVE, 1));
        int64_t count = (int64_t)e->room[0];
        if (count == 0) return WEFT_OK;
        WEFT_TRY(pass(e, WEFT_SEND, 1));
        WEFT_TRY(pass(e, WEFT_RECEIVE, count));
        WEFT_TRY(pass(e, WEFT_SEND, 1));
    }
}

/* The time of a message of so many elements, until this end knows that the other one has it. */
static weft_status time_large(const side *e, int64_t count, double *seconds)
{
    e->room[0] = (float)count;
    WEFT_TRY(pass(e, WEFT_SEND, 1));
    if (count == 0) return WEFT_OK;
    WEFT_TRY(pass(e, WEFT_RECEIVE, 1)); /* the other end is ready */
    double begin = weft_seconds();
    WEFT_TRY(pass(e, WEFT_SEND, count));
    WEFT_TRY(pass(e, WEFT_RECEIVE, 1));
    *seconds = weft_seconds() - begin;
    return WEFT_OK;
}

static weft_status time_fastest(const side *e, int64_t count, double *seconds)
{
    double samples[LARGE_TIMES];
    for (int i = 0; i < LARGE_TIMES; i++) WEFT_TRY(time_large(e, count, &samples[i]));
    *seconds = fastest(samples, LARGE_TIMES);
    return WEFT_OK;
}

/* Messages have ways there and back before and behind their bytes, which do not depend on their
 * size: two sizes tell how long the bytes take. */
static weft_status time_bandwidth(const side *e, double latency, double *bandwidth)
{
    double seconds = 0, half, whole, enough = WEFT_MAX(e->seconds, 12 * latency);
    int64_t count = FIRST_SIZE / (int64_t)sizeof(float);
    do {
        count *= 2;
        WEFT_TRY(time_large(e, count, &seconds));
    } while (seconds < enough && 2 * count * (int64_t)sizeof(float) <= MOST_SIZE);
    WEFT_TRY(time_fastest(e, count / 2, &half));
    WEFT_TRY(time_fastest(e, count, &whole));
    double longer = WEFT_MAX(whole - half, whole / 8); /* most of it is their time */
    int64_t more = count - count / 2;
    *bandwidth = (double)more * sizeof(float) / longer;
    return time_large(e, 0, &seconds);
}

/* Measures from this rank to its peer, or is the other end of that. */
static weft_status measure_way(const side *e, bool leads, double *latency, double *bandwidth)
{
    if (!leads) {
        WEFT_TRY(answer_ways(e));
        return answer_large(e);
    }
    WEFT_TRY(time_ways(e, latency));
    return time_bandwidth(e, *latency, bandwidth);
}

/* The peer of a rank in a round, in which each of `even` ranks meets another one; over all rounds
 * each meets all others. */
static int peer_of(int rank, int round, int even)
{
    int last = even - 1;
    if (rank == last) {
        for (int r = 0; r < last; r++)
            if (2 * r % last == round) return r;
    }
    int other = (round - rank + last) % last;
    return other == rank ? last : other;
}

weft_status weft_measure_links(weft_comm *comm, double seconds, weft_measure_end *end,
                               double *latency, double *bandwidth)
{
    int n = weft_comm_size(comm), me = weft_comm_rank(comm), even = n + n % 2;
    side e = {.comm = comm};
    /* A round has both ways, each with small messages, messages that grow, and large ones. */
    e.seconds = WEFT_MIN(WEFT_MAX(seconds / (even - 1) / 16, 0.02), 0.2);
    weft_status status = weft_new_aligned(MOST_SIZE, &e.room);
    if (status == WEFT_OK) memset(e.room, 0, MOST_SIZE);
    for (int round = 0; round < even - 1 && status == WEFT_OK; round++) {
        e.peer = peer_of(me, round, even);
        status = weft_comm_barrier(comm);
        if (e.peer >= n) continue;
        for (int way = 0; way < 2 && status == WEFT_OK; way++) {
            bool leads = (me < e.peer) == (way == 0);
            status = weft_measure_go_on(end);
            if (status == WEFT_OK)
                status = measure_way(&e, leads, &latency[e.peer], &bandwidth[e.peer]);
        }
    }
    free(e.room);
    return status;
}
