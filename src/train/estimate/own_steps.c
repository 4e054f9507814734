/* The steps of learners that do not wait for each other, without their exchange. */
#include "train/estimate/forecast.h"
#include "train/estimate/learner_time.h"
#include "train/estimate/placed_learners.h"

/* Makes the programs, and the timeline of learners that do not meet. */
static weft_status make_tracks(weft_forecast *f, const weft_site *site, weft_context *context,
                               const weft_train_options *options, int learners)
{
    f->cluster = site->cluster;
    f->times = site->times;
    WEFT_TRY(weft_forecast_open(f, context, options));
    f->tracks.meets = false;
    f->period = 0;
    if (f->t->learners != learners)
        return weft_fail(WEFT_ERR_INTERNAL, "%d learners are estimated in place of %d",
                         f->t->learners, learners);
    return weft_tracks_make(f->t, f->times, &f->hosts, &f->tracks);
}

static weft_status sum_up(weft_forecast *f, weft_own_steps *out)
{
    double alone;
    WEFT_TRY(weft_forecast_step(f, NULL, &out->sum, &alone));
    weft_forecast_ends(f, out->seconds);
    out->rest = f->tracks.rest;
    memcpy(out->by, f->tracks.by, sizeof(out->by));
    memcpy(out->errors, f->tracks.errors, sizeof(out->errors));
    out->sent = weft_forecast_sent(f);
    out->programs = weft_forecast_programs(f);
    return WEFT_OK;
}

weft_status weft_site_learners(const weft_site *site, weft_context *context,
                               const weft_train_options *options, const weft_estimate_end *end,
                               int learners, weft_own_steps *out)
{
    weft_forecast f = {.tracks = {.end = end}};
    *out = (weft_own_steps){.seconds = out->seconds};
    memset(out->seconds, 0, (size_t)learners * sizeof(*out->seconds));
    weft_status status = make_tracks(&f, site, context, options, learners);
    if (status == WEFT_OK) status = sum_up(&f, out);
    weft_forecast_close(&f);
    return status;
}

static bool is_wanted(void *stop)
{
    return weft_stop_wanted(stop);
}

weft_status weft_estimate_placed(weft_context *context, const weft_train_options *options,
                                 const weft_site *site, const weft_stop *stop, int learners,
                                 weft_placed_learners *out)
{
    const weft_estimate_end end = {.asked = is_wanted, .user = (void *)(uintptr_t)stop};
    weft_forecast f = {.tracks = {.end = &end}};
    *out = (weft_placed_learners){.learners = 0};
    weft_status status = make_tracks(&f, site, context, options, learners);
    if (status == WEFT_OK)
        status = weft_placed_learners_open(f.t, &site->cluster, site->times, &f.hosts, out);
    if (status == WEFT_OK) status = weft_timeline_run(f.tracks.line, false, NULL);
    if (status == WEFT_OK) weft_forecast_ends(&f, out->seconds);
    weft_forecast_close(&f);
    return status;
}
