/* Checks, before anything runs, that the transfers of a learner's ranks match.
 *
 * Ranks that share a communicator must run the same collectives in the same order, and the messages
 * that a rank sends with a tag must be those that its peer receives. Without this check, a rank
 * that has a collective which the other ranks lack would deadlock the job. */
#include <stdio.h>

#include "program/transfer.h"

enum { TEXT = 200 };

/* A transfer, with a hash of everything that all its ranks must agree on. */
typedef struct meant {
    uint64_t hash;
    size_t order;
    const weft_graph *graph;
    const weft_node *node;
    int space; /* memory of its operands */
} meant;

typedef struct sequence {
    meant *at;
    size_t count, capacity;
} sequence;

static const weft_type *type_of(const meant *m)
{
    return weft_value_type(m->graph, m->node->in_count > 0 ? m->node->in[0] : m->node->out);
}

static uint64_t mix_shape(uint64_t hash, const weft_shape *s)
{
    hash = weft_mix(hash, (uint64_t)s->rank);
    for (int i = 0; i < s->rank; i++) hash = weft_mix(hash, (uint64_t)s->dim[i]);
    return hash;
}

/* Hashes a collective: its name, its attributes that are equal on all ranks, and the shapes that
 * are. If a value is split, ranks have parts of different shapes, so only the shape of the whole is
 * hashed. */
static uint64_t hash_collective(const meant *m)
{
    static const char *const attrs[] = {"axes",  "ranks",  "dim",    "from",
                                        "whole", "leaves", "compare"};
    const weft_node *n = m->node;
    int parts = (int)weft_node_int(n, "parts", 0, 1);
    uint64_t hash = weft_mix(weft_hash_text(n->op->name), weft_hash_text(n->name));
    hash = weft_mix(hash, (uint64_t)m->space);
    hash = weft_mix(hash, (uint64_t)type_of(m)->dtype);
    for (size_t i = 0; i < WEFT_COUNT(attrs); i++)
        hash = weft_mix(hash, (uint64_t)weft_node_int(n, attrs[i], 0, 0));
    for (int i = 0; n->op->transfer->whole_in && i < n->in_count; i += parts)
        hash = mix_shape(hash, &weft_in(m->graph, n, i)->shape);
    for (int i = 0; !n->op->transfer->whole_in && n->op->transfer->whole_out && i < n->out_count;
         i++)
        hash = mix_shape(hash, &weft_out(m->graph, n, i)->shape);
    return hash;
}

static uint64_t hash_message(const meant *m)
{
    uint64_t hash = weft_mix((uint64_t)weft_node_int(m->node, "tag", 0, 0), type_of(m)->dtype);
    hash = weft_mix(hash, (uint64_t)m->space);
    return weft_mix(hash, (uint64_t)weft_shape_elements(&type_of(m)->shape));
}

/* Lists the collectives of a communicator. */
static weft_status collectives(const weft_program *p, const weft_comms *comms,
                               const weft_comm *comm, sequence *out)
{
    out->count = 0;
    for (size_t i = 0; i < p->code_count; i++) {
        if (!p->code[i].transfer) continue;
        meant m = {.graph = p->code[i].group.graph,
                   .node = p->code[i].group.node[0],
                   .space = p->code[i].space};
        if (m.node->op->transfer->message || weft_transfer_comm(comms, m.node) != comm) continue;
        m.hash = hash_collective(&m);
        WEFT_TRY(WEFT_GROW(&out->at, &out->capacity, out->count));
        out->at[out->count++] = m;
    }
    return WEFT_OK;
}

static int by_tag(const void *a, const void *b)
{
    const meant *x = a, *y = b;
    int64_t s = weft_node_int(x->node, "tag", 0, 0), t = weft_node_int(y->node, "tag", 0, 0);
    return s != t ? (s > t) - (s < t) : (x->order > y->order) - (x->order < y->order);
}

/* Lists the messages that this rank sends to a peer, or receives from it, in the order of tags. */
static weft_status messages(const weft_program *p, bool sends, int peer, sequence *out)
{
    out->count = 0;
    for (size_t i = 0; i < p->code_count; i++) {
        if (!p->code[i].transfer) continue;
        meant m = {.graph = p->code[i].group.graph,
                   .node = p->code[i].group.node[0],
                   .space = p->code[i].space};
        if (!m.node->op->transfer->message || (m.node->in_count > 0) != sends ||
            weft_node_int(m.node, "peer", 0, 0) != peer)
            continue;
        m.hash = hash_message(&m);
        m.order = i;
        WEFT_TRY(WEFT_GROW(&out->at, &out->capacity, out->count));
        out->at[out->count++] = m;
    }
    if (out->count > 0) qsort(out->at, out->count, sizeof(*out->at), by_tag);
    return WEFT_OK;
}

static uint64_t hash_of(const sequence *s)
{
    uint64_t hash = s->count;
    for (size_t i = 0; i < s->count; i++) hash = weft_mix(hash, s->at[i].hash);
    return hash;
}

static weft_status gather(weft_comm *comm, const void *mine, size_t bytes, void *all)
{
    return weft_comm_run(comm,
                         WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                       .what = "the transfers of the ranks' programs", .send = mine,
                                       .receive = all, .count = (int64_t)bytes));
}

static void describe(const sequence *s, size_t i, char *out)
{
    if (i >= s->count) {
        (void)snprintf(out, TEXT, "no more");
        return;
    }
    const weft_type *type = type_of(&s->at[i]);
    char shape[80];
    weft_shape_text(&type->shape, shape, sizeof(shape));
    (void)snprintf(out, TEXT, "%s of %.60s (%s, %s)", s->at[i].node->op->name, s->at[i].node->name,
                   weft_dtype_name(type->dtype), shape);
}

/* Fails with a message that names the first difference between the sequences of ranks a and b. All
 * ranks of the communicator call it; the sequences of ranks other than a and b do not matter. */
static weft_status name_difference(weft_comm *comm, const sequence *mine, int a, int b)
{
    int n = weft_comm_size(comm);
    uint64_t *hashes;
    char *texts = NULL, text[TEXT] = "";
    size_t i = 0;
    WEFT_TRY(WEFT_NEW(&hashes, n));
    weft_status status = WEFT_NEW(&texts, (size_t)n * TEXT);
    for (bool same = true; same && status == WEFT_OK; i += same) {
        uint64_t hash = i < mine->count ? mine->at[i].hash | 1 : 0;
        status = gather(comm, &hash, sizeof(hash), hashes);
        same = hashes[a] == hashes[b] && hashes[a] != 0;
    }
    describe(mine, i, text);
    if (status == WEFT_OK) status = gather(comm, text, TEXT, texts);
    if (status == WEFT_OK)
        status = weft_fail(
            WEFT_ERR_INTERNAL,
            "programs of the ranks of a learner do not fit together: as transfer %zu "
            "between them, rank %d has %.*s, and rank %d has %.*s; please report it "
            "with the command and the model",
            i + 1, a, TEXT - 1, texts + (size_t)a * TEXT, b, TEXT - 1, texts + (size_t)b * TEXT);
    free(texts);
    free(hashes);
    return status;
}

static weft_status compare_collectives(const weft_program *p, const weft_comms *comms,
                                       weft_comm *comm, sequence *s)
{
    uint64_t *all;
    int n = weft_comm_size(comm), other = 0;
    WEFT_TRY(collectives(p, comms, comm, s));
    uint64_t mine = hash_of(s);
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = gather(comm, &mine, sizeof(mine), all);
    for (int r = n; r-- > 1;)
        if (all[r] != all[0]) other = r;
    free(all);
    if (status == WEFT_OK && other > 0) status = name_difference(comm, s, 0, other);
    return status;
}

/* Compares the hashes of all messages that each rank sends to and receives from each other rank. */
static weft_status compare_messages(const weft_program *p, weft_comm *comm, sequence *s)
{
    size_t n = (size_t)weft_comm_size(comm), me = (size_t)weft_comm_rank(comm), from = n, to = n;
    uint64_t *mine, *all = NULL;
    WEFT_TRY(WEFT_NEW(&mine, 2 * n));
    weft_status status = WEFT_NEW(&all, 2 * n * n);
    for (size_t r = 0; r < 2 * n && status == WEFT_OK; r++) {
        status = messages(p, r < n, (int)(r % n), s);
        mine[r] = hash_of(s);
    }
    if (status == WEFT_OK) status = gather(comm, mine, 2 * n * sizeof(*mine), all);
    for (size_t i = 0; i < n * n && from == n && status == WEFT_OK; i++)
        if (all[i / n * 2 * n + i % n] != all[i % n * 2 * n + n + i / n]) {
            from = i / n;
            to = i % n;
        }
    free(all);
    free(mine);
    if (status != WEFT_OK || from == n) return status;
    s->count = 0;
    if (me == from) WEFT_TRY(messages(p, true, (int)to, s));
    if (me == to) WEFT_TRY(messages(p, false, (int)from, s));
    return name_difference(comm, s, (int)from, (int)to);
}

weft_status weft_program_agree(const weft_program *p, const weft_comms *comms)
{
    sequence s = {0};
    weft_status status = WEFT_OK;
    if (!comms) return WEFT_OK;
    for (int mask = 0; mask <= WEFT_MESH_MASKS && status == WEFT_OK; mask++) {
        weft_comm *comm = mask < WEFT_MESH_MASKS ? comms->axes[mask] : comms->learner;
        if (comm && weft_comm_size(comm) > 1) status = compare_collectives(p, comms, comm, &s);
    }
    if (status == WEFT_OK && comms->learner && weft_comm_size(comms->learner) > 1)
        status = compare_messages(p, comms->learner, &s);
    free(s.at);
    return status;
}
