/* Renders the status page: the models, their states and their statistics, as HTML. */
#include <stdio.h>

#include "serve/front/infer_internal.h"
#include "serve/front/page.h"

/* Seconds before now over which the page's figures are computed. */
enum { RECENT = 60 };

static const char style[] =
    ":root{color-scheme:light dark;--ground:#f4f5f8;--card:#fff;--ink:#171a21;--soft:#5b6472;"
    "--line:#e3e6ec;--blue:#2f6feb;--amber:#d97706;--red:#d1293d;--green:#178a4c}"
    "@media(prefers-color-scheme:dark){:root{--ground:#0f1218;--card:#181c25;--ink:#e9ecf2;"
    "--soft:#98a2b3;--line:#2a303c;--blue:#6ea0ff;--amber:#f0a742;--red:#ff7282;--green:#4cc38a}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);"
    "font:15px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans',sans-serif;"
    "font-variant-numeric:tabular-nums}main{max-width:1240px;margin:0 auto;padding:24px 20px 40px}"
    "header{display:flex;flex-wrap:wrap;align-items:baseline;gap:4px 18px;margin:0 4px 18px}"
    "h1{font-size:24px;letter-spacing:-.01em;margin:0}header span{color:var(--soft)}"
    "header b{color:var(--ink);font-weight:600}"
    "article{background:var(--card);border:1px solid var(--line);border-radius:12px;"
    "padding:18px 20px;margin:0 0 18px}"
    ".head{display:flex;flex-wrap:wrap;align-items:center;gap:6px 10px}"
    "h2{font-size:18px;margin:0;overflow-wrap:anywhere}"
    ".chip{font-size:12px;line-height:1;padding:4px 8px;border-radius:99px;"
    "border:1px solid var(--line);color:var(--soft)}"
    ".chip::before{content:'';display:inline-block;width:7px;height:7px;border-radius:9px;"
    "margin-right:6px;background:currentColor}.plain::before{display:none}"
    ".ready{color:var(--green)}.loading{color:var(--amber)}.away{color:var(--red)}"
    ".about{color:var(--soft);font-size:13px}"
    ".reason{color:var(--red);margin:10px 0 0;overflow-wrap:anywhere}.soft{color:var(--soft)}"
    "dl{display:grid;grid-template-columns:repeat(5,1fr);"
    "gap:12px 18px;margin:16px 0 6px}dt{color:var(--soft);font-size:12.5px}"
    "dd{margin:0;font-size:21px;font-weight:600;letter-spacing:-.01em;white-space:nowrap}"
    "dd small{font-size:12.5px;font-weight:400;color:var(--soft);letter-spacing:0}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(300px,100%),1fr));"
    "gap:14px 22px;margin-top:14px;border-top:1px solid var(--line);padding-top:14px}"
    "figure{margin:0}figcaption{font-size:13px;color:var(--soft);margin-bottom:4px}"
    "svg{display:block;width:100%;height:auto;overflow:visible}svg text{font-size:11px;"
    "fill:var(--soft)}svg .y{text-anchor:end}svg .none{text-anchor:middle;font-size:13px}"
    ".grid,.axis{stroke:var(--line);stroke-width:1}.area{fill:var(--blue);fill-opacity:.16}"
    "rect.bar{fill:var(--blue)}text.bar{text-anchor:middle}"
    "path.rate,path.p50,path.p95,path.p99{fill:none;stroke-width:1.8;"
    "stroke-linejoin:round;stroke-linecap:round}path.rate,path.p50{stroke:var(--blue)}"
    "path.p95{stroke:var(--amber)}path.p99{stroke:var(--red)}"
    ".expected{stroke:var(--soft);stroke-width:1.4;stroke-dasharray:3 4}"
    "i{display:inline-block;width:14px;border-top:3px solid;margin:0 5px 3px 10px;"
    "vertical-align:middle}i.p50{color:var(--blue)}i.p95{color:var(--amber)}i.p99{color:var(--red)}"
    "i.expected{border-top:2px dashed;color:var(--soft)}"
    "footer{color:var(--soft);font-size:13px;margin:0 4px}footer a{color:var(--blue);"
    "margin-right:14px}#gone{display:none;position:fixed;inset:0 0 auto;padding:8px;"
    "text-align:center;color:#fff;background:var(--red)}.lost #gone{display:block}"
    "@media(max-width:560px){main{padding:16px 10px 28px}article{padding:14px}"
    "dl{grid-template-columns:1fr 1fr;gap:10px 12px}dd{font-size:18px}}";

/* Replaces the contents of the page every two seconds. Without scripts, the browser reloads the
 * page. */
static const char script[] =
    "setInterval(async()=>{if(document.hidden)return;try{const r=await fetch(location.href,"
    "{cache:'no-store'});if(!r.ok)throw 0;const d=new DOMParser().parseFromString(await r.text(),"
    "'text/html');document.querySelector('main').replaceWith(d.querySelector('main'));"
    "document.body.classList.remove('lost')}catch(e){document.body.classList.add('lost')}},2000)";

static void add_escaped(weft_text *text, const char *s)
{
    for (; *s; s++) {
        const char *as = *s == '<'   ? "&lt;"
                         : *s == '>' ? "&gt;"
                         : *s == '&' ? "&amp;"
                         : *s == '"' ? "&quot;"
                                     : NULL;
        if (as)
            weft_text_add(text, "%s", as);
        else
            weft_text_add_bytes(text, s, 1);
    }
}

/* --- one model --- */

static void figure(weft_text *text, const char *name)
{
    weft_text_add(text, "<div><dt>%s</dt><dd>", name);
}

static void seconds_or_none(weft_text *text, const char *name, double seconds, bool known)
{
    figure(text, name);
    if (known)
        weft_add_seconds(text, seconds);
    else
        weft_text_add(text, "–");
    weft_text_add(text, "</dd></div>");
}

static void policy_figures(weft_text *text, const weft_batch_queue_stats *now)
{
    figure(text, "waits for a batch");
    if (now->max_delay > 0 && now->max_delay < 1e6)
        weft_add_seconds(text, now->max_delay);
    else
        weft_text_add(text, "0");
    if (now->max_delay > 0 && now->min_rows > 1)
        weft_text_add(text, " <small>or %lld rows</small>", (long long)now->min_rows);
    weft_text_add(text, "</dd></div>");
    figure(text, "in the queue");
    weft_text_add(text, "%lld", (long long)now->waiting);
    if (now->running)
        weft_text_add(text, " <small>+ %lld computed</small>", (long long)now->running);
    weft_text_add(text, "</dd></div>");
}

/* Writes the figures of a model. now: current statistics; done: what was added to them in the last
 * `seconds`. */
static void figures(weft_text *text, const weft_batch_queue_stats *now,
                    const weft_batch_queue_stats *done, double seconds)
{
    bool any = done->requests > 0;
    int64_t lost = done->failed + done->expired + done->refused;
    weft_text_add(text, "<dl>");
    figure(text, "requests / s");
    weft_add_count(text, seconds > 0 ? (double)done->requests / seconds : 0);
    weft_text_add(text, "</dd></div>");
    seconds_or_none(
        text, "mean",
        any ? (done->queue_seconds + done->compute_seconds) / (double)done->requests : 0, any);
    seconds_or_none(text, "expected", now->predicted, now->predicted > 0);
    seconds_or_none(text, "median", weft_latency_quantile(done->latency, 0.5), any);
    seconds_or_none(text, "95th percentile", weft_latency_quantile(done->latency, 0.95), any);
    seconds_or_none(text, "99th percentile", weft_latency_quantile(done->latency, 0.99), any);
    figure(text, "rows of a batch");
    weft_add_count(text, done->batches ? (double)done->rows / (double)done->batches : 0);
    weft_text_add(text, "</dd></div>");
    policy_figures(text, now);
    figure(text, "not answered");
    weft_add_count(text, (double)lost);
    if (done->requests + lost > 0 && lost > 0)
        weft_text_add(text, " <small>%.2g%%</small>",
                      100.0 * (double)lost / (double)(done->requests + lost));
    weft_text_add(text, "</dd></div></dl>");
}

/* Writes the figures of a model's generation since it was loaded, if it has generated. */
static void generation_figures(weft_text *text, const weft_servable *servable)
{
    weft_generation_stats g;
    weft_servable_generation_stats(servable, &g);
    if (g.active + g.texts == 0) return;
    weft_text_add(text, "<dl>");
    figure(text, "texts generated");
    weft_add_count(text, (double)g.texts);
    if (g.active) weft_text_add(text, " <small>+ %lld now</small>", (long long)g.active);
    weft_text_add(text, "</dd></div>");
    figure(text, "tokens drawn");
    weft_add_count(text, (double)g.tokens);
    weft_text_add(text, "</dd></div>");
    figure(text, "positions of a batch");
    weft_add_count(text, g.batches ? (double)g.positions / (double)g.batches : 0);
    weft_text_add(text, "</dd></div></dl>");
}

static void charts(weft_text *text, const weft_version_history *samples, double now,
                   const weft_batch_queue_stats *done, int64_t limit)
{
    weft_text_add(text, "<div class=\"charts\"><figure><figcaption>Requests a "
                        "second</figcaption>");
    weft_chart_rate(text, samples, now);
    weft_text_add(text, "</figure><figure><figcaption>Latency <i class=\"p50\"></i>median"
                        "<i class=\"p95\"></i>95%%<i class=\"p99\"></i>99%%"
                        "<i class=\"expected\"></i>expected</figcaption>");
    weft_chart_latency(text, samples, now);
    weft_text_add(text, "</figure><figure><figcaption>Rows of batches</figcaption>");
    weft_chart_batches(text, done->batch, limit);
    weft_text_add(text, "</figure></div>");
}

/* The newest sample that is at least RECENT seconds old, or the oldest one if none is. */
static const weft_history_sample *recent(const weft_version_history *samples, double now)
{
    int i = samples->count - 1;
    while (i > 0 && now - weft_version_history_sample(samples, i)->at < RECENT) i--;
    return weft_version_history_sample(samples, i);
}

static weft_status lively(weft_text *text, weft_history *history, weft_servable *servable,
                          double *rate)
{
    weft_servable_info about;
    weft_batch_queue_stats stats, done;
    const weft_version_history *samples;
    double now = weft_seconds();
    weft_servable_describe(servable, &about);
    weft_batch_queue_describe(weft_servable_queue(servable), &stats);
    WEFT_TRY(weft_history_add(history, about.name, about.version, now, &stats, &samples));
    const weft_history_sample *before = recent(samples, now);
    double seconds = now - before->at;
    weft_history_difference(&before->stats, &stats, &done);
    figures(text, &stats, &done, seconds > 0.5 ? seconds : 0);
    generation_figures(text, servable);
    charts(text, samples, now, &done, about.limit);
    *rate += seconds > 0.5 ? (double)done.requests / seconds : 0;
    return WEFT_OK;
}

/* The names and shapes of the inputs; the name is left out where there is one. */
static void add_inputs(weft_text *text, const weft_servable_info *about)
{
    char shape[128];
    for (int k = 0; k < about->inputs; k++) {
        const weft_input *in = &about->input[k];
        weft_shape row = weft_infer_row_shape(about, k);
        weft_text_add(text, k ? " and " : ", ");
        if (about->inputs > 1) add_escaped(text, in->name);
        weft_text_add(text, "%s%s", about->inputs > 1 ? " " : "",
                      row.rank ? weft_shape_text(&row, shape, sizeof(shape)) : "1");
        if (in->values > 0) weft_text_add(text, " of %d tokens", in->values);
    }
    weft_text_add(text, " to ");
    if (about->positions > 0) weft_text_add(text, "%lld times ", (long long)about->positions);
}

static void heading(weft_text *text, const weft_service_item *item, const weft_servable *servable)
{
    weft_servable_info about;
    const char *state = item->state == WEFT_SERVABLE_READY     ? "ready"
                        : item->state == WEFT_SERVABLE_LOADING ? "loading"
                        : item->unloaded                       ? "unloaded"
                                                               : "away";
    weft_text_add(text, "<div class=\"head\"><h2>");
    add_escaped(text, item->name);
    weft_text_add(text, "</h2><span class=\"chip %s\">%s</span>", state,
                  strcmp(state, "away") == 0 ? "not available" : state);
    if (item->version)
        weft_text_add(text, "<span class=\"chip plain\">version %lld</span>",
                      (long long)item->version);
    if (servable) {
        weft_servable_describe(servable, &about);
        weft_text_add(text, "<span class=\"about\">");
        add_escaped(text, about.model);
        add_inputs(text, &about);
        if (about.targets)
            weft_text_add(text, "%d %s%s, ", about.targets, about.binary ? "label" : "number",
                          weft_plural(about.targets));
        else
            weft_text_add(text, "%d classes, ", about.classes);
        add_escaped(text, about.policy);
        weft_text_add(text, "</span>");
    }
    weft_text_add(text, "</div>");
    if (item->reason[0]) {
        weft_text_add(text, "<p class=\"reason%s\">", item->unloaded ? " soft" : "");
        add_escaped(text, item->reason);
        weft_text_add(text, "</p>");
    }
}

/* --- the page --- */

static void add_age(weft_text *text, double seconds)
{
    long long s = (long long)seconds;
    if (s < 120)
        weft_text_add(text, "%lld s", s);
    else if (s < 7200)
        weft_text_add(text, "%lld min", s / 60);
    else if (s < 172800)
        weft_text_add(text, "%lld h", s / 3600);
    else
        weft_text_add(text, "%lld days", s / 86400);
}

static void add_header(weft_text *text, double age, int ready, int models, double rate,
                       bool draining)
{
    weft_text_add(text, "<header><h1>Weft</h1>");
    if (draining) weft_text_add(text, "<span class=\"chip away\">about to end</span>");
    weft_text_add(text, "<span><b>%d</b> of %d model%s ready</span><span><b>", ready, models,
                  weft_plural(models));
    weft_add_count(text, rate);
    weft_text_add(text, "</b> requests a second in the last minute</span><span>up for <b>");
    add_age(text, age);
    weft_text_add(text, "</b></span><span>version %s</span></header>", weft_version());
}

/* *models: how many there are, without those that a client has unloaded. */
static weft_status add_models(weft_text *text, weft_service *service, weft_history *history,
                              int *ready, int *models, double *rate)
{
    weft_service_item item;
    for (int i = 0; weft_service_entry(service, i, &item); i++) {
        weft_servable *servable = weft_service_hold(service, item.name, item.version);
        *ready += servable != NULL;
        *models += !item.unloaded;
        weft_text_add(text, "<article>");
        heading(text, &item, servable);
        weft_status status = servable ? lively(text, history, servable, rate) : WEFT_OK;
        weft_text_add(text, "</article>");
        weft_servable_release(&servable);
        WEFT_TRY(status);
    }
    if (*models == 0) weft_text_add(text, "<article>No model is served.</article>");
    return WEFT_OK;
}

weft_status weft_write_page(weft_service *service, weft_history *history, bool draining,
                            weft_reply *reply)
{
    weft_text models = {0}, *text = &reply->text;
    int ready = 0, count = 0;
    double rate = 0, age = weft_seconds() - weft_history_lock(history);
    weft_status status = add_models(&models, service, history, &ready, &count, &rate);
    weft_history_unlock(history);
    weft_text_add(text, "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
                        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                        "<title>Weft</title><link rel=\"icon\" href=\"data:,\"><noscript>"
                        "<meta http-equiv=\"refresh\" content=\"5\"></noscript><style>");
    weft_text_add_bytes(text, style, sizeof(style) - 1);
    weft_text_add(text, "</style></head><body><div id=\"gone\">The server does not answer; these "
                        "are its last values.</div><main>");
    add_header(text, age, ready, count, rate, draining);
    if (models.data) weft_text_add_bytes(text, models.data, models.size);
    weft_text_add(text, "<footer>Figures are those of the last minute. <a href=\"/metrics\">"
                        "metrics</a><a href=\"/v2/models/stats\">statistics</a></footer></main>"
                        "<script>");
    weft_text_add_bytes(text, script, sizeof(script) - 1);
    weft_text_add(text, "</script></body></html>\n");
    bool failed = models.failed || text->failed;
    free(models.data);
    reply->code = 200;
    reply->type = "text/html; charset=utf-8";
    return status != WEFT_OK ? status : failed ? weft_fail_memory(text->size) : WEFT_OK;
}
