/* Builds topologies: the neighbours of each peer, and a spanning tree for each origin. */
#include "exchange/gossip/gossip.h"

typedef struct edges {
    int peers, columns; /* columns: of a torus; else 0 */
    bool halves;
    bool *there; /* [peers][peers] */
} edges;

static bool half_of(const edges *e, int peer)
{
    int field = e->columns ? peer / e->columns + peer % e->columns : peer;
    return field % 2 == 0;
}

static void join(edges *e, int a, int b)
{
    if (a == b || (e->halves && half_of(e, a) == half_of(e, b))) return;
    e->there[a * e->peers + b] = e->there[b * e->peers + a] = true;
}

static void join_all(edges *e, uint64_t seed)
{
    (void)seed;
    for (int a = 0; a < e->peers; a++)
        for (int b = 0; b < a; b++) join(e, a, b);
}

static void join_ring(edges *e, uint64_t seed)
{
    (void)seed;
    for (int a = 0; a < e->peers; a++) join(e, a, (a + 1) % e->peers);
}

static int columns_of(int peers)
{
    int rows = 1;
    for (int r = 2; r * r <= peers; r++)
        if (peers % r == 0) rows = r;
    return peers / rows;
}

static void join_torus(edges *e, uint64_t seed)
{
    int columns = e->columns, rows = e->peers / columns;
    (void)seed;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            join(e, r * columns + c, r * columns + (c + 1) % columns);
            join(e, r * columns + c, (r + 1) % rows * columns + c);
        }
}

static void join_random(edges *e, uint64_t seed)
{
    weft_random random;
    weft_random_start(&random, seed, 77);
    join_ring(e, seed);
    for (int k = 0; k < e->peers; k++)
        join(e, (int)(weft_random_u32(&random) % (uint32_t)e->peers),
             (int)(weft_random_u32(&random) % (uint32_t)e->peers));
}

static const struct {
    const char *name;
    void (*join)(edges *e, uint64_t seed);
    bool torus;
} topologies[] = {
    {"all", join_all, false},
    {"ring", join_ring, false},
    {"torus", join_torus, true},
    {"random", join_random, false},
};

static const char *topology_name(const void *user, int i)
{
    (void)user;
    return i < (int)WEFT_COUNT(topologies) ? topologies[i].name : NULL;
}

static weft_status find(const char *name, size_t *out)
{
    char near[256];
    for (size_t i = 0; i < WEFT_COUNT(topologies); i++)
        if (strcmp(topologies[i].name, name) == 0) {
            *out = i;
            return WEFT_OK;
        }
    return weft_fail(WEFT_ERR_ARGUMENT, "there is no topology=%s%s", name,
                     weft_suggest(near, sizeof(near), name, topology_name, NULL));
}

static weft_status list_neighbours(const edges *e, weft_topology *out)
{
    int n = e->peers, count = 0;
    for (int i = 0; i < n * n; i++) count += e->there[i];
    *out = (weft_topology){.peers = n};
    weft_status status = WEFT_NEW(&out->first, n + 1);
    if (status == WEFT_OK) status = WEFT_NEW(&out->list, count);
    if (status == WEFT_OK) status = WEFT_NEW(&out->asks, n);
    WEFT_TRY(status);
    count = 0;
    for (int a = 0; a < n; a++) {
        out->first[a] = count;
        out->asks[a] = half_of(e, a);
        for (int b = 0; b < n; b++)
            if (e->there[a * n + b]) out->list[count++] = b;
    }
    out->first[n] = count;
    return WEFT_OK;
}

/* Breadth-first search from `origin`: a peer receives the origin's updates from the first peer
 * found that is one hop nearer to it. queue: [peers]. */
static void span(const weft_topology *t, int origin, int *queue)
{
    int *from = t->from + (size_t)origin * (size_t)t->peers, end = 1;
    for (int i = 0; i < t->peers; i++) from[i] = -1;
    queue[0] = origin;
    for (int i = 0; i < end && end < t->peers; i++)
        for (int e = t->first[queue[i]]; e < t->first[queue[i] + 1]; e++) {
            int next = t->list[e];
            if (next == origin || from[next] >= 0) continue;
            from[next] = queue[i];
            queue[end++] = next;
        }
}

static weft_status find_ways(weft_topology *t)
{
    int *queue;
    WEFT_TRY(WEFT_NEW(&queue, t->peers));
    weft_status status = WEFT_NEW(&t->from, (size_t)t->peers * (size_t)t->peers);
    for (int o = 0; o < t->peers && status == WEFT_OK; o++) span(t, o, queue);
    free(queue);
    return status;
}

weft_status weft_topology_make(const char *name, int peers, bool halves, uint64_t seed,
                               weft_topology *out)
{
    size_t which = 0;
    WEFT_TRY(find(name, &which));
    if (peers < 2)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d peer has nobody to talk to; give -n 2 or more",
                         peers);
    edges e = {.peers = peers, .halves = halves};
    if (topologies[which].torus) e.columns = columns_of(peers);
    WEFT_TRY(WEFT_NEW(&e.there, (size_t)peers * (size_t)peers));
    topologies[which].join(&e, seed);
    weft_status status = list_neighbours(&e, out);
    free(e.there);
    if (status == WEFT_OK) status = find_ways(out);
    if (status != WEFT_OK) weft_topology_free(out);
    return status;
}

void weft_topology_free(weft_topology *topology)
{
    free(topology->first);
    free(topology->list);
    free(topology->asks);
    free(topology->from);
    *topology = (weft_topology){.peers = 0};
}
