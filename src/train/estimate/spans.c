/* Tells the spans of a step: what each rank and link does, from when to when. */
#include "train/estimate/tracks.h"

typedef struct spans {
    const weft_tracks *tracks;
    int ranks, machines;
    weft_span_fn fn;
    void *user;
} spans;

/* A rank or a machine of the timeline stands for all that are equal to it. */
static void on_line(void *user, weft_line_act act, int where, int label, double start, double end)
{
    static const weft_span_kind kinds[] = {[WEFT_LINE_COMPUTES] = WEFT_SPAN_KERNEL,
                                           [WEFT_LINE_TRANSFERS] = WEFT_SPAN_TRANSFER,
                                           [WEFT_LINE_WAITS] = WEFT_SPAN_WAIT,
                                           [WEFT_LINE_SENDS] = WEFT_SPAN_SEND,
                                           [WEFT_LINE_RECEIVES] = WEFT_SPAN_RECEIVE};
    const spans *s = user;
    const weft_track_label *name = label > 0 ? &s->tracks->labels[label - 1] : NULL;
    bool rest = act == WEFT_LINE_COMPUTES && !name;
    bool link = act == WEFT_LINE_SENDS || act == WEFT_LINE_RECEIVES;
    const int *stands = link ? s->tracks->machine_of : s->tracks->rank_of;
    weft_span span = {.kind = rest ? WEFT_SPAN_REST : kinds[act],
                      .name = name ? name->text : NULL,
                      .phase = name ? name->phase : WEFT_PHASE_FORWARD,
                      .start = start,
                      .end = end};
    for (span.where = 0; span.where < (link ? s->machines : s->ranks); span.where++)
        if (stands[span.where] == where) s->fn(s->user, &span);
}

weft_status weft_tracks_tell(const weft_tracks *tracks, const weft_trainer *t,
                             const weft_hosts *hosts, bool whole, weft_span_fn fn, void *user)
{
    spans s = {
        .tracks = tracks, .ranks = t->size, .machines = hosts->machines, .fn = fn, .user = user};
    weft_timeline_watch(tracks->line, on_line, &s);
    weft_status status = weft_timeline_run(tracks->line, whole, NULL);
    weft_timeline_watch(tracks->line, NULL, NULL);
    return status;
}
