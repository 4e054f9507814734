/* Builds topologies: the neighbours of each peer, and for each origin a spanning tree of shortest
 * paths by breadth-first search. */
#include "exchange/gossip/gossip.h"

typedef struct edges {
    int peers, columns; /* columns of a torus; else 0 */
    bool bipartite;
    bool *adjacent; /* [peers][peers] */
} edges;

static bool is_active(const edges *e, int peer)
{
    int field = e->columns ? peer / e->columns + peer % e->columns : peer;
    return field % 2 == 0;
}

static void add_edge(edges *e, int a, int b)
{
    if (a == b || (e->bipartite && is_active(e, a) == is_active(e, b))) return;
    e->adjacent[a * e->peers + b] = e->adjacent[b * e->peers + a] = true;
}

static void connect_all(edges *e, uint64_t seed)
{
    (void)seed;
    for (int a = 0; a < e->peers; a++)
        for (int b = 0; b < a; b++) add_edge(e, a, b);
}

static void connect_ring(edges *e, uint64_t seed)
{
    (void)seed;
    for (int a = 0; a < e->peers; a++) add_edge(e, a, (a + 1) % e->peers);
}

static int columns_of(int peers)
{
    int rows = 1;
    for (int r = 2; r * r <= peers; r++)
        if (peers % r == 0) rows = r;
    return peers / rows;
}

static void connect_torus(edges *e, uint64_t seed)
{
    int columns = e->columns, rows = e->peers / columns;
    (void)seed;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            add_edge(e, r * columns + c, r * columns + (c + 1) % columns);
            add_edge(e, r * columns + c, (r + 1) % rows * columns + c);
        }
}

static void connect_random(edges *e, uint64_t seed)
{
    weft_random random;
    weft_random_start(&random, seed, 77);
    connect_ring(e, seed);
    for (int k = 0; k < e->peers; k++)
        add_edge(e, (int)(weft_random_u32(&random) % (uint32_t)e->peers),
                 (int)(weft_random_u32(&random) % (uint32_t)e->peers));
}

static const struct {
    const char *name;
    void (*connect)(edges *e, uint64_t seed);
    bool torus;
} topologies[] = {
    {"all", connect_all, false},
    {"ring", connect_ring, false},
    {"torus", connect_torus, true},
    {"random", connect_random, false},
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
    for (int i = 0; i < n * n; i++) count += e->adjacent[i];
    *out = (weft_topology){.peers = n};
    weft_status status = WEFT_NEW(&out->first, n + 1);
    if (status == WEFT_OK) status = WEFT_NEW(&out->list, count);
    if (status == WEFT_OK) status = WEFT_NEW(&out->active, n);
    WEFT_TRY(status);
    count = 0;
    for (int a = 0; a < n; a++) {
        out->first[a] = count;
        out->active[a] = is_active(e, a);
        for (int b = 0; b < n; b++)
            if (e->adjacent[a * n + b]) out->list[count++] = b;
    }
    out->first[n] = count;
    return WEFT_OK;
}

/* Breadth-first search from `origin`: a peer receives the origin's updates from the neighbour that
 * the search visits first, which is one hop nearer to the origin. queue: [peers]. */
static void span(const weft_topology *t, int origin, int *queue)
{
    int *from = t->parent + (size_t)origin * (size_t)t->peers, end = 1;
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

static weft_status find_spanning_trees(weft_topology *t)
{
    int *queue;
    WEFT_TRY(WEFT_NEW(&queue, t->peers));
    weft_status status = WEFT_NEW(&t->parent, (size_t)t->peers * (size_t)t->peers);
    for (int o = 0; o < t->peers && status == WEFT_OK; o++) span(t, o, queue);
    free(queue);
    return status;
}

weft_status weft_topology_make(const char *name, int peers, bool bipartite, uint64_t seed,
                               weft_topology *out)
{
    size_t which = 0;
    WEFT_TRY(find(name, &which));
    if (peers < 2)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "gossip needs at least 2 peers, not %d; give -n 2 or more", peers);
    edges e = {.peers = peers, .bipartite = bipartite};
    if (topologies[which].torus) e.columns = columns_of(peers);
    WEFT_TRY(WEFT_NEW(&e.adjacent, (size_t)peers * (size_t)peers));
    topologies[which].connect(&e, seed);
    weft_status status = list_neighbours(&e, out);
    free(e.adjacent);
    if (status == WEFT_OK) status = find_spanning_trees(out);
    if (status != WEFT_OK) weft_topology_free(out);
    return status;
}

void weft_topology_free(weft_topology *topology)
{
    free(topology->first);
    free(topology->list);
    free(topology->active);
    free(topology->parent);
    *topology = (weft_topology){.peers = 0};
}
