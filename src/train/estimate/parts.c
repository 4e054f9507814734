/* Adds up the parts of a step: the kernels of each layer, the work and the waits of each transfer,
 * and what is left. */
#include <stdio.h>

#include "train/estimate/parts.h"

const char *weft_step_cause_name(int cause)
{
    static const char *const names[] = {"kernels", "transfers", "links", "waiting", "rest"};
    return cause >= 0 && cause < (int)WEFT_COUNT(names) ? names[cause] : NULL;
}

weft_status weft_parts_new(const weft_tracks *tracks, const weft_trainer *t,
                           const weft_hosts *hosts, weft_parts *out)
{
    size_t names = tracks->name_count + 1;
    WEFT_TRY(WEFT_NEW(&out->track, tracks->count));
    WEFT_TRY(WEFT_NEW(&out->worked, names));
    WEFT_TRY(WEFT_NEW(&out->linked, names));
    WEFT_TRY(WEFT_NEW(&out->waited, names));
    WEFT_TRY(WEFT_NEW(&out->busy, hosts->machines));
    WEFT_TRY(WEFT_NEW(&out->count, tracks->line_ranks));
    WEFT_TRY(WEFT_NEW(&out->track_of, tracks->line_ranks));
    for (int r = 0; r < t->size; r++) {
        out->count[tracks->rank_of[r]]++;
        out->track_of[tracks->rank_of[r]] = tracks->of[r % t->mesh];
    }
    return WEFT_OK;
}

void weft_parts_free(weft_parts *parts)
{
    free(parts->track);
    free(parts->worked);
    free(parts->linked);
    free(parts->waited);
    free(parts->busy);
    free(parts->count);
    free(parts->track_of);
}

static void add_transfers(weft_parts *p, const weft_tracks *tracks, int id, double weight)
{
    const weft_track *track = &tracks->tracks[p->track_of[id]];
    for (size_t i = 0; i < track->part_count; i++) {
        weft_part_times times = weft_timeline_part(tracks->line, id, (int)i);
        int name = track->parts[i].name;
        p->worked[name] += weight * times.worked;
        p->linked[name] += weight * times.linked;
        p->waited[name] += weight * times.waited;
    }
}

void weft_parts_add(weft_parts *p, const weft_tracks *tracks, const weft_trainer *t,
                    const weft_hosts *hosts, const weft_slowness *slow, double end, double weight)
{
    double sent, busy, each = weight / t->size;
    p->weight += weight;
    for (int r = 0; r < t->size; r++) {
        int id = tracks->rank_of[r];
        weft_rank_times times = weft_timeline_rank(tracks->line, id);
        double own = slow ? slow->rank[r] : 1, slowest = slow ? slow->line[id] : 1;
        p->track[tracks->of[r % t->mesh]] += each * own / hosts->speed[r];
        p->unequal += each * times.computed * (1 - own / slowest);
        p->last += each * (end - times.end);
    }
    for (int id = 0; id < tracks->line_ranks; id++)
        add_transfers(p, tracks, id, each * p->count[id]);
    for (int m = 0; m < hosts->machines; m++) {
        weft_timeline_link(tracks->line, tracks->machine_of[m], &sent, &busy);
        p->busy[m] += weight * busy;
    }
}

/* --- telling --- */

typedef struct teller {
    weft_step_part_fn fn;
    void *user;
    double weight;
} teller;

static void tell(const teller *t, weft_step_cause cause, const char *name, double seconds)
{
    if (seconds != 0) t->fn(t->user, cause, name, seconds / t->weight);
}

static double kernels_of(const weft_parts *p, const weft_tracks *tracks, size_t name)
{
    double sum = 0;
    for (int i = 0; i < tracks->count; i++)
        if (name < tracks->tracks[i].kernel_count)
            sum += p->track[i] * tracks->tracks[i].kernels[name];
    return sum;
}

void weft_parts_tell(const weft_parts *p, const weft_tracks *tracks, const weft_hosts *hosts,
                     weft_step_part_fn fn, void *user)
{
    const teller t = {.fn = fn, .user = user, .weight = p->weight};
    double rest = 0;
    char link[48];
    for (size_t n = 0; n < tracks->name_count; n++) {
        tell(&t, WEFT_CAUSE_KERNELS, tracks->names[n], kernels_of(p, tracks, n));
        tell(&t, WEFT_CAUSE_TRANSFERS, tracks->names[n], p->worked[n]);
        tell(&t, WEFT_CAUSE_LINKS, tracks->names[n], p->linked[n]);
        tell(&t, WEFT_CAUSE_WAITING, tracks->names[n], p->waited[n]);
    }
    tell(&t, WEFT_CAUSE_WAITING, "end of the last rank", p->last);
    tell(&t, WEFT_CAUSE_WAITING, "slower machines", p->unequal);
    for (int i = 0; i < tracks->count; i++) rest += p->track[i] * tracks->tracks[i].rest;
    tell(&t, WEFT_CAUSE_REST, "the host", rest);
    for (int m = 0; m < hosts->machines; m++) {
        (void)snprintf(link, sizeof(link), "link of machine %d", m);
        tell(&t, WEFT_CAUSE_BUSY, link, p->busy[m]);
    }
}
