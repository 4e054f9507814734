/* Finds ranks that are at any time in equal states, so that one of them stands for all: the
 * coarsest partition in which ranks of a class have equal programs and machines, and transfer with
 * equal ranks (colour refinement; Paige and Tarjan 1987). Where ranks of a machine send over its
 * link in transfers of their own, the link serves one after the other, and they are not equal. */
#include "train/estimate/tracks.h"

typedef struct refinement {
    const weft_trainer *t;
    const weft_hosts *hosts;
    const weft_groups *groups;
    const weft_tracks *tracks;
    uint64_t *ways, *places;         /* [tracks] bit sets: groups, places of messages */
    uint64_t *color, *next, *sorted; /* [ranks] equal for ranks that are equal so far */
    uint64_t *machine;               /* [machines] of the colors of its ranks, in order */
    uint64_t *group;                 /* [ranks] of the groups of one way, likewise */
    int *seen;                       /* [machines] */
} refinement;

static uint64_t mix_real(uint64_t hash, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return weft_mix(hash, bits);
}

static int track_of(const refinement *f, int rank)
{
    return f->tracks->of[rank % f->t->mesh];
}

static void find_ways(const refinement *f)
{
    for (int i = 0; i < f->tracks->count; i++) {
        const weft_track *track = &f->tracks->tracks[i];
        for (size_t p = 0; p < track->part_count; p++) {
            const weft_track_part *part = &track->parts[p];
            const weft_rank_groups *way = weft_groups_with(f->groups, part->with);
            if (way)
                f->ways[i] |= (uint64_t)1 << (way - f->groups->ways);
            else
                f->places[i] |= (uint64_t)1 << part->place;
        }
    }
}

static bool crosses(const refinement *f, const weft_rank_groups *way, int g)
{
    const int *machine = f->hosts->machine;
    for (int i = way->begin[g]; i < way->begin[g + 1]; i++)
        if (machine[way->member[i]] != machine[way->member[way->begin[g]]]) return true;
    return false;
}

/* The transfers of a rank that cross links, as a number. */
static uint64_t crossing(const refinement *f, int rank)
{
    const int *machine = f->hosts->machine;
    uint64_t sum = 1;
    int track = track_of(f, rank);
    for (size_t w = 0; w < f->groups->count; w++) {
        const weft_rank_groups *way = &f->groups->ways[w];
        if (f->ways[track] >> w & 1 && crosses(f, way, way->of[rank]))
            sum = weft_mix(weft_mix(sum, w), (uint64_t)way->of[rank]);
    }
    for (int p = 0; p < f->tracks->places; p++)
        if (f->places[track] >> p & 1 &&
            machine[weft_rank_at_place(f->t, f->tracks, rank, p)] != machine[rank])
            sum = weft_mix(weft_mix(sum, (uint64_t)p), (uint64_t)rank);
    return sum;
}

/* Ranks of a machine that use its link in different transfers differ by the order in which they are
 * on the machine. */
static void tell_apart(const refinement *f)
{
    int size = f->t->size;
    for (int r = 0; r < size; r++) f->next[r] = crossing(f, r);
    for (int r = 0, begin = 0, different = 0; r < size; r++) {
        int before = begin;
        if (f->hosts->machine[r] != f->hosts->machine[begin]) begin = before = r, different = 0;
        while (before < r && f->next[before] != f->next[r]) before++;
        f->sorted[r] = before < r ? f->sorted[before] : (uint64_t)different++;
        f->color[r] = weft_mix(f->color[r], f->sorted[r]);
    }
}

static void begin(const refinement *f)
{
    for (int r = 0; r < f->t->size; r++) {
        const weft_wire *wire = &f->hosts->wires[f->hosts->machine[r]];
        const weft_machine_group *g = f->hosts->group[f->hosts->machine[r]];
        uint64_t color = (uint64_t)f->tracks->kind[r % f->t->mesh];
        color = mix_real(mix_real(mix_real(color, g->jitter), g->slow), g->slowdown);
        color = mix_real(mix_real(color, f->hosts->speed[r]), wire->latency);
        f->color[r] = mix_real(color, wire->bandwidth);
    }
    tell_apart(f);
}

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int count_colors(const refinement *f)
{
    int count = 0, size = f->t->size;
    memcpy(f->sorted, f->color, (size_t)size * sizeof(*f->color));
    qsort(f->sorted, (size_t)size, sizeof(*f->sorted), ascending);
    for (int r = 0; r < size; r++) count += r == 0 || f->sorted[r] != f->sorted[r - 1];
    return count;
}

static void color_machines(const refinement *f)
{
    for (int m = 0; m < f->hosts->machines; m++) f->machine[m] = 0;
    for (int r = 0; r < f->t->size; r++) {
        uint64_t *machine = &f->machine[f->hosts->machine[r]];
        *machine = weft_mix(*machine, f->color[r]);
    }
}

/* Members count in their order, with the order of their machines. */
static uint64_t color_group(const refinement *f, const weft_rank_groups *way, int g)
{
    uint64_t sum = (uint64_t)way->with;
    int machines = 0;
    for (int i = way->begin[g]; i < way->begin[g + 1]; i++)
        f->seen[f->hosts->machine[way->member[i]]] = -1;
    for (int i = way->begin[g]; i < way->begin[g + 1]; i++) {
        int *seen = &f->seen[f->hosts->machine[way->member[i]]];
        if (*seen < 0) *seen = machines++;
        sum = weft_mix(weft_mix(sum, f->color[way->member[i]]), (uint64_t)*seen);
    }
    return sum;
}

static void refine(refinement *f)
{
    int size = f->t->size;
    color_machines(f);
    for (int r = 0; r < size; r++)
        f->next[r] = weft_mix(f->color[r], f->machine[f->hosts->machine[r]]);
    for (size_t w = 0; w < f->groups->count; w++) {
        const weft_rank_groups *way = &f->groups->ways[w];
        for (int g = 0; g < way->count; g++) f->group[g] = color_group(f, way, g);
        for (int r = 0; r < size; r++)
            if (f->ways[track_of(f, r)] >> w & 1)
                f->next[r] = weft_mix(f->next[r], f->group[way->of[r]]);
    }
    for (int r = 0; r < size; r++)
        for (int p = 0; p < f->tracks->places; p++)
            if (f->places[track_of(f, r)] >> p & 1)
                f->next[r] =
                    weft_mix(f->next[r], f->color[weft_rank_at_place(f->t, f->tracks, r, p)]);
    uint64_t *kept = f->color;
    f->color = f->next;
    f->next = kept;
}

/* Numbers equal colors by the first that has each; returns how many there are. */
static int number(const uint64_t *color, int count, int *out)
{
    int numbers = 0;
    for (int i = 0; i < count; i++) {
        int before = 0;
        while (color[before] != color[i]) before++;
        out[i] = before < i ? out[before] : numbers++;
    }
    return numbers;
}

/* Gives each rank and machine a place of its own, in the order of the numbers. */
static void spread(int *numbers, int *count, int all)
{
    int next = 0;
    for (int n = 0; n < *count; n++)
        for (int i = 0; i < all; i++)
            if (numbers[i] == n) numbers[i] = -1 - next++;
    for (int i = 0; i < all; i++) numbers[i] = -1 - numbers[i];
    *count = all;
}

static weft_status allocate(refinement *f, weft_tracks *out)
{
    size_t size = (size_t)f->t->size, machines = (size_t)f->hosts->machines;
    WEFT_TRY(WEFT_NEW(&f->ways, out->count));
    WEFT_TRY(WEFT_NEW(&f->places, out->count));
    WEFT_TRY(WEFT_NEW(&f->color, size));
    WEFT_TRY(WEFT_NEW(&f->next, size));
    WEFT_TRY(WEFT_NEW(&f->sorted, size));
    WEFT_TRY(WEFT_NEW(&f->group, size));
    WEFT_TRY(WEFT_NEW(&f->machine, machines));
    WEFT_TRY(WEFT_NEW(&f->seen, machines));
    WEFT_TRY(WEFT_NEW(&out->rank_of, size));
    return WEFT_NEW(&out->machine_of, machines);
}

static void find(refinement *f, weft_tracks *out)
{
    find_ways(f);
    begin(f);
    for (int before = 0, now = count_colors(f); now > before;) {
        before = now;
        refine(f);
        now = count_colors(f);
    }
    color_machines(f);
    out->line_ranks = number(f->color, f->t->size, out->rank_of);
    out->line_machines = number(f->machine, f->hosts->machines, out->machine_of);
    if (!out->apart) return;
    spread(out->rank_of, &out->line_ranks, f->t->size);
    spread(out->machine_of, &out->line_machines, f->hosts->machines);
}

weft_status weft_equal_ranks_find(const weft_trainer *t, const weft_hosts *hosts,
                                  const weft_groups *groups, weft_tracks *out)
{
    refinement f = {.t = t, .hosts = hosts, .groups = groups, .tracks = out};
    weft_status status = allocate(&f, out);
    if (status == WEFT_OK) find(&f, out);
    free(f.ways);
    free(f.places);
    free(f.color);
    free(f.next);
    free(f.sorted);
    free(f.group);
    free(f.machine);
    free(f.seen);
    return status;
}
