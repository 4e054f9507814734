/* Implements generators: a checkpoint's model, which computes one position of a sequence in a run
 * from the states that the positions before it have left. */
#include "weft/generate.h"

#include "data/data.h"
#include "models/models.h"
#include "train/sampling.h"
#include "train/step_program.h"
#include "train/token_text.h"
#include "train/train.h"

struct weft_generator {
    weft_context *context; /* its own, with the requested number of threads */
    weft_checkpoint checkpoint;
    weft_train_options run;    /* options of the run that wrote it */
    weft_tokenizer *tokenizer; /* NULL: tokens are numbers */
    char *mesh;                /* NULL: one rank */
    weft_core_sets *cores;     /* of the ranks; NULL: not bound */
    weft_rank_team *team;
    weft_mesh_weights weights;
    weft_step_program program; /* whose first row is the sequence */
    int64_t position;          /* of the next token */
    int32_t *sequence;         /* [window] the tokens before `position`, if that is limited */
    double *logits;            /* [tokens] */
    weft_sampler sampler;
};

/* --- opening --- */

/* Starts the ranks, each with its share of the cores. */
static weft_status open_ranks(weft_generator *g, const char *device, int threads)
{
    weft_mesh_weights *w = &g->weights;
    uint64_t seed = (uint64_t)g->run.task.seed;
    WEFT_TRY(weft_mesh_weights_open(g->context, device, seed, g->mesh, &g->checkpoint, w));
    if (w->ranks > 1) WEFT_TRY(weft_core_sets_make(w->ranks, false, &g->cores));
    int each = threads > 0 ? threads : weft_context_threads(g->context) / w->ranks;
    WEFT_TRY(weft_context_set_threads(g->context, WEFT_MAX(each, 1)));
    return weft_rank_team_open(g->context, w->ranks, g->cores, 0, &g->team);
}

static weft_status open_all(weft_generator *g, const char *checkpoint, const char *device,
                            int threads)
{
    const weft_option *table = weft_train_table(g->context);
    WEFT_TRY(weft_checkpoint_open_model(checkpoint, table, &g->checkpoint));
    WEFT_TRY(weft_settings_give(&g->checkpoint.settings, table, &g->run));
    WEFT_TRY(weft_step_program_check(&g->checkpoint));
    const weft_data_stats *s = &g->checkpoint.stats;
    if (s->tokenizer)
        WEFT_TRY(weft_tokenizer_read(g->checkpoint.path, s->tokenizer, &g->tokenizer));
    WEFT_TRY(WEFT_NEW(&g->sequence, s->input[0].shape.dim[0]));
    WEFT_TRY(WEFT_NEW(&g->logits, s->classes));
    WEFT_TRY(weft_sampler_open(s->classes, &g->sampler));
    WEFT_TRY(open_ranks(g, device, threads));
    WEFT_TRY(weft_step_program_build(g->context, &g->checkpoint, &g->run, &g->weights, g->team, 1,
                                     &g->program));
    return weft_mesh_weights_load(&g->weights, &g->checkpoint, g->program.one.graph);
}

weft_status weft_generator_open(weft_context *context, const char *checkpoint, const char *device,
                                const char *mesh, int threads, weft_generator **out)
{
    WEFT_NEED(context, device, out);
    weft_generator *g;
    if (!checkpoint || !*checkpoint)
        return weft_fail(WEFT_ERR_ARGUMENT, "no checkpoint is given; add --checkpoint DIR/latest");
    if (threads < 0 || threads > 1024)
        return weft_fail(WEFT_ERR_ARGUMENT, "%d threads, must be from 0 (by the cores) to 1024",
                         threads);
    WEFT_TRY(WEFT_NEW(&g, 1));
    weft_status status = weft_context_with_threads(context, threads, &g->context);
    if (status == WEFT_OK && mesh) status = weft_strdup(mesh, &g->mesh);
    if (status == WEFT_OK) status = open_all(g, checkpoint, device, threads);
    if (status == WEFT_OK)
        *out = g;
    else
        weft_generator_close(&g);
    return status;
}

void weft_generator_close(weft_generator **generator)
{
    if (!generator || !*generator) return;
    weft_generator *g = *generator;
    weft_step_program_free(&g->program);
    weft_rank_team_close(&g->team);
    weft_mesh_weights_close(&g->weights);
    weft_core_sets_free(&g->cores);
    free(g->mesh);
    weft_sampler_close(&g->sampler);
    weft_tokenizer_free(&g->tokenizer);
    if (g->context) weft_options_free(weft_train_table(g->context), &g->run);
    weft_checkpoint_close(&g->checkpoint);
    weft_context_destroy(&g->context);
    free(g->sequence);
    free(g->logits);
    free(g);
    *generator = NULL;
}

int weft_generator_tokens(const weft_generator *generator)
{
    WEFT_NEED_ELSE(0, generator);
    return generator->program.vocabulary;
}

/* --- text --- */

weft_status weft_generator_encode(const weft_generator *generator, const char *text,
                                  int32_t **tokens, int64_t *count)
{
    WEFT_NEED(generator, text, tokens, count);
    return weft_tokens_encode(generator->tokenizer, generator->program.vocabulary, text, tokens,
                              count);
}

size_t weft_generator_decode(const weft_generator *generator, int32_t token, char *text,
                             size_t room)
{
    WEFT_NEED_ELSE(0, generator, text);
    WEFT_CHECK_INDEX_ELSE(0, token, generator->program.vocabulary);
    return weft_tokens_decode(generator->tokenizer, token, text, room);
}

bool weft_generator_has_text(const weft_generator *generator)
{
    WEFT_NEED_ELSE(false, generator);
    return generator->tokenizer != NULL;
}

int32_t weft_generator_first(const weft_generator *generator)
{
    WEFT_NEED_ELSE(0, generator);
    return weft_tokens_first(generator->tokenizer);
}

/* --- the sequence --- */

void weft_generator_reset(weft_generator *generator)
{
    WEFT_NEED_VOID(generator);
    generator->position = 0;
}

static weft_status decode_step(weft_generator *g, int32_t token)
{
    if (g->position == 0) WEFT_TRY(weft_step_program_clear(&g->program, 0));
    weft_step_program_set(&g->program, 0, token, g->position);
    WEFT_TRY(weft_step_program_run(&g->program));
    if (weft_step_program_is_limited(&g->program)) g->sequence[g->position] = token;
    g->position++;
    return WEFT_OK;
}

/* Goes on from the later half of the positions, since all are used. */
static weft_status slide(weft_generator *g)
{
    int64_t window = g->program.window, keep = window / 2, first = window - keep;
    weft_generator_reset(g);
    for (int64_t i = 0; i < keep; i++) WEFT_TRY(decode_step(g, g->sequence[first + i]));
    return WEFT_OK;
}

int64_t weft_generator_needed(const weft_generator *generator, int64_t count)
{
    WEFT_NEED_ELSE(0, generator);
    if (count < 0) return 0;
    return weft_step_program_needed(&generator->program, count);
}

weft_status weft_generator_feed(weft_generator *generator, int32_t token)
{
    WEFT_NEED(generator);
    weft_generator *g = generator;
    int tokens = g->program.vocabulary;
    if (token < 0 || token >= tokens)
        return weft_fail(WEFT_ERR_ARGUMENT, "token %d, must be from 0 to %d", token, tokens - 1);
    if (weft_step_program_is_limited(&g->program) && g->position == g->program.window)
        WEFT_TRY(slide(g));
    WEFT_TRY(decode_step(g, token));
    weft_step_program_logits(&g->program, 0, g->logits);
    return WEFT_OK;
}

const double *weft_generator_logits(const weft_generator *generator)
{
    WEFT_NEED_ELSE(NULL, generator);
    return generator->position > 0 ? generator->logits : NULL;
}

weft_status weft_generator_draw(weft_generator *generator, const weft_sampling *sampling,
                                int32_t *token)
{
    WEFT_NEED(generator, sampling, token);
    if (generator->position == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "the sequence is empty; feed a token first");
    return weft_sampler_sample(&generator->sampler, sampling, generator->logits, token);
}
