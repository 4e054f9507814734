/* Generates text for requests: makes a sequence of each, and queues its positions one after the
 * other. */
#include "serve/generation.h"
#include "serve/batch/batch_internal.h"

enum { MOST_TEXT = 2048 }; /* bytes of the text of one token */

void weft_generation_request_init_size(weft_generation_request *request, size_t size)
{
    const weft_generation_request ours = {.struct_size = sizeof(weft_generation_request),
                                          .tokens = 16,
                                          .end_token = -1,
                                          .sampling = {.temperature = 1, .top_p = 1, .seed = 1}};
    weft_give_struct(request, size, &ours, sizeof(ours));
}

static void free_sequence(weft_generation *s)
{
    weft_sampler_close(&s->sampler);
    free(s->tokens);
    free(s->states);
    free(s->logits);
    free(s);
}

/* --- the end --- */

/* Counts a time from `since` until now, and returns now. The caller holds the lock. */
static double count_time(int64_t *cells, double *sum, double since)
{
    double now = weft_seconds();
    weft_latency_count(cells, now - since);
    *sum += now - since;
    return now;
}

static void finish(weft_generation *s, const weft_request_result *result)
{
    weft_servable *servable = s->servable;
    weft_generation_engine *g = servable->generation;
    weft_generation_leave_row(g, s);
    pthread_mutex_lock(&g->lock);
    g->counts.active--;
    g->counts.texts++;
    if (result->status == WEFT_OK)
        (void)count_time(g->times.whole, &g->times.whole_seconds, s->began);
    pthread_mutex_unlock(&g->lock);
    s->request.done(s->request.user, result);
    free_sequence(s);
    weft_servable_release(&servable);
}

static void fail(weft_generation *s, weft_status status, const char *message)
{
    finish(s, &(weft_request_result){.status = status, .message = message});
}

/* --- positions --- */

static void computed(void *user, const weft_request_result *result);

static weft_status queue_position(weft_generation *s, double queue_timeout)
{
    weft_request request;
    weft_request_init(&request);
    request.queue_timeout = queue_timeout;
    request.priority = s->request.priority;
    request.user = s;
    request.done = computed;
    return weft_batch_queue_submit(s->servable->generation->queue, &request, NULL);
}

static void count_token(weft_generation *s)
{
    weft_generation_engine *g = s->servable->generation;
    weft_generation_times *c = &g->times;
    pthread_mutex_lock(&g->lock);
    s->token_sent = s->token_sent > 0
                        ? count_time(c->next_token, &c->next_token_seconds, s->token_sent)
                        : count_time(c->first_token, &c->first_token_seconds, s->began);
    pthread_mutex_unlock(&g->lock);
}

/* Hands a drawn token over. false: the receiver wants no more. */
static bool send_token(weft_generation *s, int32_t token)
{
    char text[MOST_TEXT];
    size_t size = weft_tokens_decode(s->servable->generation->tokenizer, token, text, sizeof(text));
    return s->request.token(s->request.user, text, size);
}

/* Called when a position is computed, or could not be: goes on with the next one. */
static void computed(void *user, const weft_request_result *result)
{
    weft_generation *s = user;
    weft_error error = {0};
    if (result->status != WEFT_OK || s->error.status != WEFT_OK) {
        bool own = s->error.status != WEFT_OK;
        fail(s, own ? s->error.status : result->status, own ? s->error.message : result->message);
        return;
    }
    if (s->drawn) count_token(s);
    bool ends = s->drawn && s->tokens[s->count - 1] == s->request.end_token;
    bool goes_on = ends       ? false
                   : s->drawn ? send_token(s, s->tokens[s->count - 1])
                              : s->request.token(s->request.user, "", 0);
    if (s->count == s->end || !goes_on) {
        finish(s, result);
        return;
    }
    weft_status status = queue_position(s, 0);
    weft_error_catch(&error, status);
    if (status != WEFT_OK) fail(s, status, error.message);
}

/* --- the begin --- */

/* Encodes the prompt; only those of its tokens are kept that determine what follows. */
static weft_status read_prompt(weft_generation *s)
{
    const weft_generation_engine *g = s->servable->generation;
    const weft_step_program *p = &g->batches[0].program;
    int64_t count = 1;
    if (!s->request.prompt) {
        WEFT_TRY(WEFT_NEW(&s->tokens, 1));
        s->tokens[0] = weft_tokens_first(g->tokenizer);
    } else {
        int32_t *tokens;
        WEFT_TRY(
            weft_tokens_encode(g->tokenizer, p->vocabulary, s->request.prompt, &tokens, &count));
        s->tokens = tokens;
    }
    if (count == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "the prompt is empty; give at least one token, or "
                                            "leave the prompt out");
    int64_t needed = weft_step_program_needed(p, count);
    memmove(s->tokens, s->tokens + (count - needed), (size_t)needed * sizeof(*s->tokens));
    s->capacity = (size_t)count;
    s->count = needed;
    s->end = needed + s->request.tokens;
    return WEFT_OK;
}

static weft_status make_sequence(weft_servable *servable, const weft_generation_request *request,
                                 weft_generation *s)
{
    const weft_generation_engine *g = servable->generation;
    int values = g->batches[0].program.vocabulary;
    s->servable = servable;
    s->request = *request;
    s->fresh = true;
    s->began = weft_seconds();
    WEFT_TRY(read_prompt(s));
    WEFT_TRY(weft_sampling_check(&request->sampling));
    if (request->end_token < -1 || request->end_token >= values)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "end_token is %lld, must be from 0 to %d, or -1 for none",
                         (long long)request->end_token, values - 1);
    WEFT_TRY(weft_new_bytes(&s->states, WEFT_MAX(g->state_bytes, 1), 1));
    WEFT_TRY(WEFT_NEW(&s->logits, values));
    return weft_sampler_open(values, &s->sampler);
}

static weft_status check(const weft_servable *servable, const weft_generation_request *q)
{
    if (!q->token || !q->done)
        return weft_fail(WEFT_ERR_ARGUMENT, "a generation request needs token and done");
    if (q->tokens < 1 || q->tokens > WEFT_MOST_GENERATED)
        return weft_fail(WEFT_ERR_ARGUMENT, "%lld tokens, must be from 1 to %d",
                         (long long)q->tokens, WEFT_MOST_GENERATED);
    if (!(q->queue_timeout >= 0))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the queue timeout of a request is %g s, must be 0 or more",
                         q->queue_timeout);
    if (servable->generation) return WEFT_OK;
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "model '%s' does not predict the next token from those before it, so it "
                     "cannot generate",
                     servable->name);
}

/* Counts a sequence in, unless there are too many. */
static weft_status count_in(weft_generation_engine *g)
{
    pthread_mutex_lock(&g->lock);
    bool fits = g->counts.active < g->most_active;
    g->counts.active += fits;
    g->counts.refused += !fits;
    pthread_mutex_unlock(&g->lock);
    return fits ? WEFT_OK
                : weft_fail(WEFT_ERR_BUSY, "%lld texts are being generated, and no more may wait",
                            (long long)g->most_active);
}

weft_status weft_servable_generate(weft_servable *servable, const weft_generation_request *given)
{
    WEFT_NEED_AS("servable, request", servable, given);
    weft_generation *s;
    weft_generation_request own, *request = &own;
    weft_generation_request_init(&own);
    WEFT_TAKE(weft_generation_request, given, done, &own);
    WEFT_TRY(check(servable, request));
    WEFT_TRY(WEFT_NEW(&s, 1));
    weft_status status = make_sequence(servable, request, s);
    if (status == WEFT_OK) status = count_in(servable->generation);
    if (status != WEFT_OK) {
        free_sequence(s);
        return status;
    }
    weft_servable_hold(servable);
    /* From here on an executor may end the sequence at any time. */
    status = queue_position(s, request->queue_timeout);
    if (status == WEFT_OK) return WEFT_OK;
    weft_generation_engine *g = servable->generation;
    pthread_mutex_lock(&g->lock);
    g->counts.active--;
    pthread_mutex_unlock(&g->lock);
    free_sequence(s);
    weft_servable_release(&servable);
    return status;
}

void weft_servable_generation_stats(const weft_servable *servable, weft_generation_stats *out)
{
    WEFT_NEED_VOID(servable, out);
    weft_generation_engine *g = servable->generation;
    *out = (weft_generation_stats){.active = 0};
    if (!g) return;
    pthread_mutex_lock(&g->lock);
    *out = g->counts;
    pthread_mutex_unlock(&g->lock);
}

void weft_servable_generation_times(const weft_servable *servable, weft_generation_times *out)
{
    WEFT_NEED_VOID(servable, out);
    weft_generation_engine *g = servable->generation;
    *out = (weft_generation_times){.whole_seconds = 0};
    if (!g) return;
    pthread_mutex_lock(&g->lock);
    *out = g->times;
    pthread_mutex_unlock(&g->lock);
}
