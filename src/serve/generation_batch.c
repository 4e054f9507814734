/* The batches of generation: programs for several numbers of rows, in which sequences have the rows
 * that hold their states. A sequence stays in its row as long as it can, so that its states are
 * copied only when the number of sequences changes. */
#include "serve/generation.h"

/* Bytes that the states of all rows of an executor's largest program may have. */
static const size_t MOST_STATES = (size_t)512 << 20;

/* --- creation --- */

static weft_status build_batch(weft_servable *s, weft_rank_team *team, int64_t rows,
                               weft_step_batch *out)
{
    out->rows = rows;
    WEFT_TRY(WEFT_NEW(&out->owner, rows));
    return weft_step_program_build(s->context, &s->checkpoint, &s->run, &s->weights, team, rows,
                                   &out->program);
}

/* Builds the programs of an executor: for 1, 2, 4, ... rows, up to the limit of a batch and of
 * memory. */
static weft_status build_batches(weft_servable *s, weft_generation_engine *g, int executor)
{
    weft_step_batch *batches = &g->batches[executor * WEFT_STEP_SIZES];
    WEFT_TRY(build_batch(s, g->teams[executor], 1, &batches[0]));
    g->state_bytes = weft_step_program_state_bytes(&batches[0].program);
    int64_t fit = (int64_t)(MOST_STATES / WEFT_MAX(g->state_bytes, 1));
    int64_t most = WEFT_MIN(s->sequences, WEFT_MAX(fit, 1));
    for (g->sizes = 1; g->sizes < WEFT_STEP_SIZES && 1 << g->sizes <= most; g->sizes++)
        WEFT_TRY(build_batch(s, g->teams[executor], 1 << g->sizes, &batches[g->sizes]));
    return WEFT_OK;
}

static weft_status create(weft_servable *s, const weft_core_sets *cores, weft_generation_engine *g)
{
    int ranks = s->weights.ranks;
    const char *tokenizer = s->checkpoint.stats.tokenizer;
    g->executors = s->executors;
    if (tokenizer) WEFT_TRY(weft_tokenizer_read(s->checkpoint.path, tokenizer, &g->tokenizer));
    WEFT_TRY(WEFT_NEW(&g->batches, s->executors * WEFT_STEP_SIZES));
    WEFT_TRY(WEFT_NEW(&g->teams, s->executors));
    for (int e = 0; e < s->executors; e++)
        WEFT_TRY(weft_rank_team_open(s->context, ranks, cores, e * ranks, &g->teams[e]));
    for (int e = 0; e < s->executors; e++) WEFT_TRY(build_batches(s, g, e));
    return WEFT_OK;
}

weft_status weft_generation_engine_create(weft_servable *servable, const weft_core_sets *cores,
                                          weft_generation_engine **out)
{
    weft_generation_engine *g;
    weft_status status = weft_step_program_check(&servable->checkpoint);
    *out = NULL;
    if (status != WEFT_OK) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&g, 1));
    pthread_mutex_init(&g->lock, NULL);
    status = create(servable, cores, g);
    if (status == WEFT_OK)
        *out = g;
    else
        weft_generation_engine_free(&g);
    return status == WEFT_ERR_UNSUPPORTED ? WEFT_OK : status;
}

void weft_generation_engine_free(weft_generation_engine **engine)
{
    if (!engine || !*engine) return;
    weft_generation_engine *g = *engine;
    for (int i = 0; g->batches && i < g->executors * WEFT_STEP_SIZES; i++) {
        weft_step_program_free(&g->batches[i].program);
        free(g->batches[i].owner);
    }
    free(g->batches);
    for (int e = 0; g->teams && e < g->executors; e++) weft_rank_team_close(&g->teams[e]);
    free(g->teams);
    weft_tokenizer_free(&g->tokenizer);
    pthread_mutex_destroy(&g->lock);
    free(g);
    *engine = NULL;
}

/* --- rows; the caller holds the lock --- */

/* Copies the states of a sequence out of its row. */
static weft_status take_out(weft_generation *s)
{
    if (!s->home) return WEFT_OK;
    WEFT_TRY(weft_step_program_save(&s->home->program, s->row, s->states));
    s->home->owner[s->row] = NULL;
    s->home = NULL;
    return WEFT_OK;
}

static weft_status put_in(weft_step_batch *b, int64_t row, weft_generation *s)
{
    if (b->owner[row]) WEFT_TRY(take_out(b->owner[row]));
    WEFT_TRY(take_out(s));
    if (!s->fresh) WEFT_TRY(weft_step_program_load(&b->program, row, s->states));
    b->owner[row] = s;
    s->home = b;
    s->row = row;
    return WEFT_OK;
}

/* Gives each sequence of a batch a row: its own, if its states are in this batch, or else the first
 * that no other one of them has. */
static weft_status assign_rows(weft_step_batch *b, void *const *sequences, int count)
{
    int64_t row = 0;
    bool taken[1 << (WEFT_STEP_SIZES - 1)] = {false};
    for (int i = 0; i < count; i++) {
        const weft_generation *s = sequences[i];
        if (s->home == b) taken[s->row] = true;
    }
    for (int i = 0; i < count; i++) {
        weft_generation *s = sequences[i];
        if (s->home == b) continue;
        /* Rows without an owner first, so that others keep their states in place. */
        for (row = 0; row < b->rows && (taken[row] || b->owner[row]);) row++;
        if (row == b->rows)
            for (row = 0; taken[row];) row++;
        taken[row] = true;
        WEFT_TRY(put_in(b, row, s));
    }
    return WEFT_OK;
}

void weft_generation_leave_row(weft_generation_engine *engine, weft_generation *sequence)
{
    pthread_mutex_lock(&engine->lock);
    if (sequence->home) sequence->home->owner[sequence->row] = NULL;
    sequence->home = NULL;
    pthread_mutex_unlock(&engine->lock);
}

/* --- a batch --- */

/* Makes the ranks of an executor and their instances anew, after a failure in one rank. The states
 * of all rows are lost: the sequences that had them compute their tokens again. */
static weft_status recover(const weft_servable *s, int executor)
{
    weft_generation_engine *g = s->generation;
    weft_step_batch *batches = &g->batches[executor * WEFT_STEP_SIZES];
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < g->sizes; i++) {
        weft_step_program_close(&batches[i].program);
        for (int64_t row = 0; row < batches[i].rows; row++) {
            weft_generation *owner = batches[i].owner[row];
            if (!owner) continue;
            owner->home = NULL;
            owner->fresh = true;
            owner->computed = owner->first;
            batches[i].owner[row] = NULL;
        }
    }
    weft_status status = weft_rank_team_restart(s->context, g->teams[executor]);
    for (int i = 0; i < g->sizes && status == WEFT_OK; i++)
        status = weft_step_program_reopen(&batches[i].program, &s->weights);
    pthread_mutex_unlock(&g->lock);
    return status;
}

/* When all positions of the model are used, the sequence goes on from the later half of them, whose
 * states are computed again. */
static void slide(const weft_step_program *p, weft_generation *s)
{
    int64_t window = p->window;
    if (!weft_step_program_is_limited(p) || s->computed - s->first < window) return;
    s->first = s->computed - window / 2;
    s->computed = s->first;
    s->fresh = true;
}

/* Draws the next token of a sequence, if all its tokens are computed. */
static void draw(weft_generation *s, const weft_step_program *p)
{
    s->drawn = false;
    if (s->computed < s->count) return;
    weft_step_program_logits(p, s->row, s->logits);
    weft_status status = WEFT_GROW(&s->tokens, &s->capacity, s->count);
    if (status == WEFT_OK)
        status =
            weft_sampler_sample(&s->sampler, &s->request.sampling, s->logits, &s->tokens[s->count]);
    s->drawn = status == WEFT_OK;
    s->count += s->drawn;
    weft_error_catch(&s->error, status);
}

weft_status weft_generation_run(void *user, int executor, void *const *sequences, int count,
                                int64_t rows)
{
    const weft_servable *servable = user;
    weft_generation_engine *g = servable->generation;
    int size = 0, drawn = 0;
    while (1 << size < rows) size++;
    weft_step_batch *b = &g->batches[executor * WEFT_STEP_SIZES + size];
    const weft_step_program *p = &b->program;
    if (weft_rank_team_has_failed(g->teams[executor])) WEFT_TRY(recover(servable, executor));
    pthread_mutex_lock(&g->lock);
    for (int i = 0; i < count; i++) slide(p, sequences[i]);
    weft_status status = assign_rows(b, sequences, count);
    pthread_mutex_unlock(&g->lock);
    WEFT_TRY(status);
    for (int i = 0; i < count; i++) {
        weft_generation *s = sequences[i];
        if (s->fresh) WEFT_TRY(weft_step_program_clear(p, s->row));
        s->fresh = false;
        weft_step_program_set(p, s->row, s->tokens[s->computed], s->computed - s->first);
    }
    WEFT_TRY(weft_step_program_run(p));
    for (int i = 0; i < count; i++) {
        weft_generation *s = sequences[i];
        s->computed++;
        draw(s, p);
        drawn += s->drawn;
    }
    pthread_mutex_lock(&g->lock);
    g->counts.batches++;
    g->counts.positions += count;
    g->counts.tokens += drawn;
    pthread_mutex_unlock(&g->lock);
    return WEFT_OK;
}
