/* Finds the ranks that transfer with each other: those that differ on some axes alone, those of a
 * learner, and those of one position in all learners. */
#include "train/estimate/tracks.h"

const weft_rank_groups *weft_groups_with(const weft_groups *groups, int with)
{
    for (size_t i = 0; i < groups->count; i++)
        if (groups->ways[i].with == with) return &groups->ways[i];
    return NULL;
}

/* A number below that of all ranks, which ranks of one group share: the rank with their coordinates
 * that do not differ, and 0 on the axes that do. */
static int key_of(const weft_trainer *t, const weft_tracks *tracks, int with, int rank)
{
    int within = rank % t->mesh, base = rank - within;
    const int *at = &tracks->position[within * tracks->axes];
    if (with == WEFT_WITH_LEARNER) return base;
    if (with == WEFT_WITH_LEARNERS) return within;
    for (int r = 0; r < within; r++) {
        const int *other = &tracks->position[r * tracks->axes];
        bool together = true;
        for (int a = 0; a < tracks->axes && together; a++)
            together = with & 1 << a || other[a] == at[a];
        if (together) return base + r;
    }
    return rank;
}

/* Sorts the ranks by their groups. */
static weft_status fill(const weft_trainer *t, const weft_tracks *tracks, weft_rank_groups *g)
{
    int *sizes;
    WEFT_TRY(WEFT_NEW(&g->of, t->size));
    WEFT_TRY(WEFT_NEW(&g->member, t->size));
    WEFT_TRY(WEFT_NEW(&g->begin, t->size + 1));
    WEFT_TRY(WEFT_NEW(&sizes, t->size));
    for (int r = 0; r < t->size; r++) {
        int lowest = key_of(t, tracks, g->with, r);
        g->of[r] = lowest == r ? g->count++ : g->of[lowest];
        sizes[g->of[r]]++;
    }
    for (int i = 0; i < g->count; i++) g->begin[i + 1] = g->begin[i] + sizes[i];
    for (int r = t->size; r-- > 0;) g->member[g->begin[g->of[r]] + --sizes[g->of[r]]] = r;
    free(sizes);
    return WEFT_OK;
}

static weft_status add_way(const weft_trainer *t, const weft_tracks *tracks, int with,
                           weft_groups *out)
{
    if (with == WEFT_WITH_PLACE || weft_groups_with(out, with)) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(&out->ways, &out->capacity, out->count));
    out->ways[out->count] = (weft_rank_groups){.with = with};
    return fill(t, tracks, &out->ways[out->count++]);
}

weft_status weft_groups_make(const weft_trainer *t, const weft_tracks *tracks, weft_groups *out)
{
    for (int i = 0; i < tracks->count; i++)
        for (size_t p = 0; p < tracks->tracks[i].part_count; p++)
            WEFT_TRY(add_way(t, tracks, tracks->tracks[i].parts[p].with, out));
    return WEFT_OK;
}

void weft_groups_free(weft_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        free(groups->ways[i].of);
        free(groups->ways[i].begin);
        free(groups->ways[i].member);
    }
    free(groups->ways);
    *groups = (weft_groups){.count = 0};
}

int weft_rank_at_place(const weft_trainer *t, const weft_tracks *tracks, int rank, int place)
{
    int within = rank % t->mesh, each = t->mesh / tracks->places;
    return rank - within + within % each + place * each;
}
