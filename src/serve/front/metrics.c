/* Writes the metrics in the text format of Prometheus: under the names of the Triton Inference
 * Server (nv_*), and some of Weft's own (weft_*). */
#include <math.h>
#include <stdio.h>

#include "serve/front/metrics.h"

/* The values of one version of a model. */
typedef struct row {
    weft_servable *served;
    char labels[400]; /* model="...",version="..." */
    weft_batch_queue_stats line;
    weft_compute_times spent;
    weft_generation_stats generation;
    weft_generation_times times;
    double last;
} row;

typedef struct metric {
    const char *name, *type, *help, *more; /* more: an additional label, or "" */
    double (*of)(const row *r);
} metric;

#define OF(name, expression)                                                                       \
    static double name(const row *r)                                                               \
    {                                                                                              \
        return (double)(expression);                                                               \
    }                                                                                              \
    struct of_##name /* requires a semicolon after the macro */
OF(success, r->line.requests);
OF(failed, r->line.failed);
OF(late, r->line.expired);
OF(refused, r->line.refused);
OF(cancelled, r->line.cancelled);
OF(rows, r->line.rows);
OF(batches, r->line.batches);
OF(began_full, r->line.reasons[WEFT_BATCH_FULL]);
OF(began_enough, r->line.reasons[WEFT_BATCH_ENOUGH]);
OF(began_waited, r->line.reasons[WEFT_BATCH_WAITED]);
OF(began_no_more, r->line.reasons[WEFT_BATCH_NO_MORE]);
OF(pending, r->line.waiting);
OF(pending_rows, r->line.waiting_rows);
OF(running, r->line.running);
OF(request_us, (r->line.queue_seconds + r->line.compute_seconds) * 1e6);
OF(queue_us, r->line.queue_seconds * 1e6);

OF(input_us, r->spent.input * 1e6);
OF(infer_us, r->spent.infer * 1e6);
OF(output_us, r->spent.output * 1e6);
OF(wait, r->line.max_delay);
OF(need, r->line.min_rows);
OF(limit, r->line.max_rows);
OF(rate, r->line.rate);
OF(burstiness, r->line.burstiness);
OF(predicted, r->line.predicted);
OF(decisions, r->line.decisions);
OF(generating, r->generation.active);
OF(texts, r->generation.texts);
OF(refused_texts, r->generation.refused);
OF(drawn, r->generation.tokens);
OF(positions, r->generation.positions);
OF(position_batches, r->generation.batches);
static const char success_name[] = "nv_inference_request_success",
                  failure_name[] = "nv_inference_request_failure",
                  reasons_name[] = "weft_batches_total";
static const metric metrics[] = {
    {success_name, "counter", "Requests answered successfully", "", success},
    {failure_name, "counter", "Requests refused or failed", ",reason=\"OTHER\"", failed},
    {failure_name, NULL, NULL, ",reason=\"TIMEOUT\"", late},
    {failure_name, NULL, NULL, ",reason=\"REJECTED\"", refused},
    {failure_name, NULL, NULL, ",reason=\"CANCELED\"", cancelled},
    {"nv_inference_count", "counter", "Rows computed", "", rows},
    {"nv_inference_exec_count", "counter", "Batches computed", "", batches},
    {"nv_inference_pending_request_count", "gauge", "Requests in the queue", "", pending},
    {"nv_inference_request_duration_us", "counter",
     "Total time of requests from arrival to response, in microseconds", "", request_us},
    {"nv_inference_queue_duration_us", "counter",
     "Total time of requests in the queue, in microseconds", "", queue_us},
    {"nv_inference_compute_input_duration_us", "counter",
     "Total time in which input was copied into batches, in microseconds", "", input_us},
    {"nv_inference_compute_infer_duration_us", "counter",
     "Total time of batch computations, in microseconds", "", infer_us},
    {"nv_inference_compute_output_duration_us", "counter",
     "Total time in which output was copied from batches, in microseconds", "", output_us},
    {reasons_name, "counter", "Batches computed, by why they began", ",reason=\"full\"",
     began_full},
    {reasons_name, NULL, NULL, ",reason=\"enough\"", began_enough},
    {reasons_name, NULL, NULL, ",reason=\"waited\"", began_waited},
    {reasons_name, NULL, NULL, ",reason=\"no_more\"", began_no_more},
    {"weft_queue_rows", "gauge", "Rows in the queue", "", pending_rows},
    {"weft_batches_running", "gauge", "Batches that are being computed now", "", running},
    {"weft_batch_wait_seconds", "gauge",
     "Longest queueing delay that the batching policy allows, in seconds", "", wait},
    {"weft_batch_need_rows", "gauge",
     "Rows with which the batching policy starts a batch before that delay", "", need},
    {"weft_batch_limit_rows", "gauge", "Largest number of rows of a batch", "", limit},
    {"weft_arrival_rate", "gauge", "Estimated arrival rate, in requests per second; 0: not known",
     "", rate},
    {"weft_arrival_burstiness", "gauge",
     "Squared coefficient of variation of the interarrival times", "", burstiness},
    {"weft_latency_predicted_seconds", "gauge",
     "Latency that the batching policy predicts for its goal, in seconds; 0: no prediction", "",
     predicted},
    {"weft_policy_decisions_total", "counter", "Number of changes of the batching policy's choice",
     "", decisions},
    {"weft_generating", "gauge", "Texts that are being generated now", "", generating},
    {"weft_generated_texts_total", "counter", "Texts that were generated, or failed", "", texts},
    {"weft_generation_refused_total", "counter",
     "Texts that were refused, since too many were being generated", "", refused_texts},
    {"weft_generated_tokens_total", "counter", "Tokens that were drawn", "", drawn},
    {"weft_generation_positions_total", "counter",
     "Positions computed for generation, those of prompts among them", "", positions},
    {"weft_generation_batches_total", "counter", "Batches of such positions", "", position_batches},
};

/* Copies the value of a label, with the escapes of the Prometheus format. */
static void escape(const char *from, char *to, size_t room)
{
    size_t used = 0;
    for (; *from && used + 2 < room; from++) {
        bool escaped = *from == '\\' || *from == '"' || *from == '\n';
        if (escaped) to[used++] = '\\';
        to[used++] = *from;
        if (*from == '\n') to[used - 1] = 'n';
    }
    to[used] = '\0';
}

static void label(const char *name, int64_t version, char *out, size_t room)
{
    char escaped[300];
    escape(name, escaped, sizeof(escaped));
    (void)snprintf(out, room, "model=\"%s\",version=\"%lld\"", escaped, (long long)version);
}

static void head(weft_text *text, const char *name, const char *type, const char *help)
{
    weft_text_add(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Writes a histogram of times with the cells of weft_batch_queue_stats. */
static void add_times(weft_text *text, const char *name, const row *r, const int64_t *cells,
                      double sum)
{
    int64_t below = 0;
    for (int i = 0; i < WEFT_LATENCY_CELLS; i++) {
        below += cells[i];
        /* Only every second cell from 16 us to 95 s is written, which is enough for quantiles. */
        if (i % 2 == 0 && i >= 16 && i < 108)
            weft_text_add(text, "%s_bucket{%s,le=\"%.9g\"} %lld\n", name, r->labels,
                          1e-6 * exp2(i / 4.0), (long long)below);
    }
    weft_text_add(text, "%s_bucket{%s,le=\"+Inf\"} %lld\n%s_sum{%s} %.9g\n%s_count{%s} %lld\n",
                  name, r->labels, (long long)below, name, r->labels, sum, name, r->labels,
                  (long long)below);
}

static void add_latencies(weft_text *text, const row *rows, int count)
{
    head(text, "weft_latency_seconds", "histogram",
         "Latency of requests from arrival to response, in seconds");
    for (int r = 0; r < count; r++)
        add_times(text, "weft_latency_seconds", &rows[r], rows[r].line.latency,
                  rows[r].line.queue_seconds + rows[r].line.compute_seconds);
    head(text, "weft_generation_first_token_seconds", "histogram",
         "Time from a generation request to its first token, in seconds");
    for (int r = 0; r < count; r++)
        add_times(text, "weft_generation_first_token_seconds", &rows[r], rows[r].times.first_token,
                  rows[r].times.first_token_seconds);
    head(text, "weft_generation_next_token_seconds", "histogram",
         "Time from a token of a text to the next one, in seconds");
    for (int r = 0; r < count; r++)
        add_times(text, "weft_generation_next_token_seconds", &rows[r], rows[r].times.next_token,
                  rows[r].times.next_token_seconds);
    head(text, "weft_generation_seconds", "histogram",
         "Latency of whole texts from request to last token, in seconds");
    for (int r = 0; r < count; r++)
        add_times(text, "weft_generation_seconds", &rows[r], rows[r].times.whole,
                  rows[r].times.whole_seconds);
}

/* Writes the histogram of rows per batch; the upper bounds are powers of two, up to the first that
 * is not below the row limit. */
static void add_batches(weft_text *text, const row *r)
{
    weft_servable_info about;
    weft_compute_times t;
    int64_t below = 0, sum = 0;
    int i = 0;
    weft_compute_stats *stats = weft_servable_compute_stats(r->served);
    weft_servable_describe(r->served, &about);
    bool there = weft_compute_stats_size(stats, i, &t);
    for (int64_t le = 1;; le *= 2) {
        for (; there && t.rows <= le; there = weft_compute_stats_size(stats, ++i, &t)) {
            below += t.count;
            sum += t.rows * t.count;
        }
        weft_text_add(text, "weft_batch_rows_bucket{%s,le=\"%lld\"} %lld\n", r->labels,
                      (long long)le, (long long)below);
        if (le >= about.limit) break;
    }
    weft_text_add(text,
                  "weft_batch_rows_bucket{%s,le=\"+Inf\"} %lld\n"
                  "weft_batch_rows_sum{%s} %lld\nweft_batch_rows_count{%s} %lld\n",
                  r->labels, (long long)below, r->labels, (long long)sum, r->labels,
                  (long long)below);
}

static void add_states(weft_text *text, weft_service *service)
{
    weft_service_item item;
    char labels[400];
    head(text, "weft_model_ready", "gauge",
         "1: the model version is ready for inference; 0: it is not");
    for (int i = 0; weft_service_entry(service, i, &item); i++) {
        label(item.name, item.version, labels, sizeof(labels));
        weft_text_add(text, "weft_model_ready{%s} %d\n", labels, item.ready);
    }
}

static weft_status collect(weft_service *service, row **rows, int *count)
{
    weft_service_item item;
    weft_servable_info about;
    size_t capacity = 0;
    for (int i = 0; weft_service_entry(service, i, &item); i++) {
        weft_servable *servable = weft_service_hold_entry(service, i);
        if (!servable) continue;
        weft_status status = WEFT_GROW(rows, &capacity, *count);
        if (status != WEFT_OK) {
            weft_servable_release(&servable);
            return status;
        }
        row *r = &(*rows)[(*count)++];
        r->served = servable;
        weft_servable_describe(servable, &about);
        label(about.name, about.version, r->labels, sizeof(r->labels));
        weft_batch_queue_describe(weft_servable_queue(servable), &r->line);
        weft_servable_generation_stats(servable, &r->generation);
        weft_servable_generation_times(servable, &r->times);
        weft_compute_stats_total(weft_servable_compute_stats(servable), &r->spent, &r->last);
    }
    return WEFT_OK;
}

static void add_lines(weft_text *text, const row *rows, int count)
{
    for (size_t m = 0; m < WEFT_COUNT(metrics); m++) {
        if (metrics[m].help) head(text, metrics[m].name, metrics[m].type, metrics[m].help);
        for (int r = 0; r < count; r++)
            weft_text_add(text, "%s{%s%s} %.15g\n", metrics[m].name, rows[r].labels,
                          metrics[m].more, metrics[m].of(&rows[r]));
    }
    add_latencies(text, rows, count);
    head(text, "weft_batch_rows", "histogram", "Number of rows per batch");
    for (int r = 0; r < count; r++) add_batches(text, &rows[r]);
}

static void add_build(weft_text *text)
{
    char compiler[160];
    escape(__VERSION__, compiler, sizeof(compiler));
    head(text, "weft_build_info", "gauge", "1, with the version of Weft and its compiler");
    weft_text_add(text, "weft_build_info{version=\"%s\",compiler=\"%s\"} 1\n", weft_version(),
                  compiler);
}

weft_status weft_write_metrics(weft_service *service, int64_t connections, weft_reply *reply)
{
    weft_text *text = &reply->text;
    row *rows = NULL;
    int count = 0;
    weft_status status = collect(service, &rows, &count);
    if (status == WEFT_OK) {
        add_lines(text, rows, count);
        add_states(text, service);
        head(text, "weft_open_connections", "gauge",
             "Open connections of clients, without those for metrics alone");
        weft_text_add(text, "weft_open_connections %lld\n", (long long)connections);
        add_build(text);
        weft_metrics_process(text);
    }
    for (int r = 0; r < count; r++) weft_servable_release(&rows[r].served);
    free(rows);
    reply->code = 200;
    reply->type = "text/plain; version=0.0.4; charset=utf-8";
    return status != WEFT_OK ? status : text->failed ? weft_fail_memory(text->size) : WEFT_OK;
}
