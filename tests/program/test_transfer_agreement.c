/* Ranks whose programs have transfers that do not fit together fail when the programs are created,
 * and the error names the first difference; otherwise they would wait for each other for ever. The
 * test draws graphs with collectives and messages between two or three ranks, and changes one
 * transfer on one rank. */
#include "ranks.h"

#include "weft/program.h"

enum { MOST = 12, SEEDS = 60 };

/* A transfer of a random graph. */
typedef struct drawn {
    bool message;
    int from, to, tag; /* sender, receiver and tag of a message */
    int elements;
    bool plain; /* layout not compared, as if this rank alone had planned plain sums */
} drawn;

typedef enum change {
    NOTHING,
    LEFT_OUT,
    ANOTHER_SIZE,
    SWAPPED,
    ANOTHER_TAG,
    PLAIN,
    CHANGES
} change;

typedef struct scene {
    drawn list[MOST];
    int count, ranks;
    change what;
    int where, who; /* the transfer and the rank that the change is about */
} scene;

static uint32_t seed;
static int draw(int below)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)below);
}

static bool takes_part(const drawn *d, int rank)
{
    return !d->message || d->from == rank || d->to == rank;
}

static weft_value add_transfer(weft_graph *g, const drawn *d, int at, int ranks, int rank)
{
    char name[32];
    const weft_init zero = {WEFT_INIT_CONSTANT, 0};
    weft_shape shape = weft_shape_of(1, (int64_t[]){d->elements});
    (void)snprintf(name, sizeof(name), "x%d", at);
    if (d->message && d->to == rank) {
        weft_attr attrs[] = {WEFT_ATTR_INT("peer", d->from), WEFT_ATTR_INT("tag", d->tag),
                             WEFT_ATTR_INT("shape", d->elements)};
        return weft_graph_node(g, "receive", name, NULL, 0, attrs, 3);
    }
    weft_value x = weft_graph_leaf(g, WEFT_VALUE_PARAM, name, WEFT_F32, &shape, zero);
    (void)snprintf(name, sizeof(name), "y%d", at);
    if (d->message) {
        weft_attr attrs[] = {WEFT_ATTR_INT("peer", d->to), WEFT_ATTR_INT("tag", d->tag)};
        return weft_graph_node(g, "send", name, &x, 1, attrs, 2);
    }
    weft_attr attrs[] = {WEFT_ATTR_INT("axes", 1), WEFT_ATTR_INT("ranks", ranks),
                         WEFT_ATTR_INT("index", rank), WEFT_ATTR_INT("plain", d->plain),
                         WEFT_ATTR_INT("compare", !d->plain)};
    return weft_graph_node(g, "all_reduce", name, &x, 1, attrs, 5);
}

/* Gives this rank's list of transfers, with the change if the rank is `who`. */
static void changed(const scene *s, int rank, drawn *list, int *count)
{
    *count = s->count;
    memcpy(list, s->list, sizeof(s->list));
    if (rank != s->who) return;
    drawn *d = &list[s->where];
    switch (s->what) {
    case LEFT_OUT: memmove(d, d + 1, (size_t)(--*count - s->where) * sizeof(*d)); break;
    case ANOTHER_SIZE: d->elements += 1; break;
    case ANOTHER_TAG: d->tag += 100; break;
    case PLAIN: d->plain = true; break;
    case SWAPPED: {
        drawn other = d[1];
        d[1] = d[0];
        d[0] = other;
        break;
    }
    default: break;
    }
}

static void build(weft_comm *world, void *user)
{
    const scene *s = user;
    drawn list[MOST];
    int count, rank = weft_comm_rank(world), fetched = 0;
    weft_context *context;
    weft_graph *g;
    weft_store *store;
    weft_instance *instance = NULL;
    weft_value fetch[MOST];
    weft_comm *axis;
    changed(s, rank, list, &count);
    rank_ok(weft_context_create(&context));
    rank_ok(weft_graph_create(context, WEFT_F32, &g));
    for (int i = 0; i < count; i++)
        if (takes_part(&list[i], rank))
            fetch[fetched++] = add_transfer(g, &list[i], i, s->ranks, rank);
    rank_ok(weft_graph_status(g));
    rank_ok(weft_comm_split(world, 0, rank, &axis));
    weft_comms comms = {.learner = world, .axes = {[1] = axis}};
    weft_program_options o;
    weft_program_options_init(&o);
    o.fetch = fetch;
    o.fetch_count = fetched;
    rank_ok(weft_store_create(context, "reference", 1, &store));
    weft_status status = weft_instance_build_with(store, g, &o, &comms, &instance);
    if (s->what == NOTHING) {
        rank_ok(status);
    } else {
        rank_check(status == WEFT_ERR_INTERNAL);
        rank_check(strstr(weft_last_message(), "do not fit together: as transfer"));
    }
    weft_instance_destroy(&instance);
    weft_store_destroy(&store);
    weft_graph_destroy(&g);
    weft_comm_close(&axis);
    weft_context_destroy(&context);
}

/* Whether the change affects transfer `where` on rank `who`. */
static bool applies(const scene *s)
{
    const drawn *d = &s->list[s->where];
    if (!takes_part(d, s->who)) return false;
    if (s->what == ANOTHER_TAG) return d->message;
    if (s->what == PLAIN) return !d->message;
    /* Two collectives in the other order. Values are named by their index in the list, so only
     * different sizes tell the collectives apart. */
    return s->what != SWAPPED || (s->where + 1 < s->count && !d->message && !d[1].message &&
                                  d->elements != d[1].elements);
}

static void test_drawn(void **state)
{
    (void)state;
    int refused[CHANGES] = {0};
    for (int k = 0; k < SEEDS; k++) {
        seed = (uint32_t)k * 2654435761u + 1;
        scene s = {.ranks = 2 + draw(2)};
        s.count = 1 + draw(MOST - 1);
        for (int i = 0; i < s.count; i++) {
            drawn *d = &s.list[i];
            *d = (drawn){
                .message = draw(2), .from = draw(s.ranks), .tag = i, .elements = 1 + draw(9)};
            d->to = (d->from + 1 + draw(s.ranks - 1)) % s.ranks;
        }
        for (change c = NOTHING; c < CHANGES; c++) {
            s.what = c;
            s.where = draw(s.count);
            s.who = draw(s.ranks);
            if (c != NOTHING && !applies(&s)) continue;
            refused[c]++;
            on_ranks("threads", s.ranks, build, &s);
        }
    }
    for (change c = NOTHING; c < CHANGES; c++) assert_true(refused[c] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drawn)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
