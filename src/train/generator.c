/* Implements generators: a checkpoint's model, which computes one position of a sequence in a run
 * from the states that the positions before it have left. */
#include "weft/generate.h"

#include <stdio.h>

#include "data/data.h"
#include "data/tokenizer.h"
#include "models/models.h"
#include "train/sampling.h"
#include "train/train.h"

struct weft_generator {
    weft_context *context; /* its own, with the requested number of threads */
    weft_checkpoint checkpoint;
    weft_train_options run;    /* options of the run that wrote it */
    weft_tokenizer *tokenizer; /* NULL: tokens are numbers */
    weft_dtype real;
    weft_graph *graph;
    weft_store *store;
    weft_instance *instance;
    weft_value x, logits_of;
    weft_model_steps steps;
    int tokens;
    int64_t window, position; /* positions of a sample; position of the next token */
    int32_t *sequence;        /* [window] the tokens before `position`, if that is limited */
    double *logits;           /* [tokens] */
    weft_drawer drawer;
};

/* --- opening --- */

static weft_status check_data(const weft_generator *g)
{
    const weft_data_stats *s = &g->checkpoint.stats;
    if (s->inputs == 1 && s->input[0].values > 0 && s->positions > 0 &&
        s->classes == s->input[0].values)
        return WEFT_OK;
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "%s: its model does not predict the next token; train one on data text:FILE "
                     "or tokens:FILE, such as --model gpt",
                     g->checkpoint.path);
}

static weft_status build(weft_generator *g)
{
    weft_model_options model;
    weft_model_values values;
    weft_model_options_init(&model);
    model.model = g->run.task.model;
    weft_model_options_fit(&model, &g->checkpoint.stats);
    model.seed = (uint64_t)g->run.task.seed;
    WEFT_TRY(weft_graph_create(g->context, g->real, &g->graph));
    WEFT_TRY(weft_build_model_steps(g->graph, &model, &g->checkpoint.model, &g->steps, &values));
    g->x = weft_model_value(&values, WEFT_PORT_FEATURES);
    g->logits_of = weft_model_value(&values, WEFT_PORT_LOGITS);
    return WEFT_OK;
}

static weft_status make_instance(weft_generator *g, const char *device)
{
    weft_value *fetch;
    size_t count = g->steps.count;
    WEFT_TRY(WEFT_NEW(&fetch, count + 1));
    for (size_t i = 0; i < count; i++) fetch[i] = g->steps.states[i].out;
    fetch[count] = g->logits_of;
    weft_status status =
        weft_store_create(g->context, device, (uint64_t)g->run.task.seed, &g->store);
    if (status == WEFT_OK)
        status = weft_instance_build(g->store, g->graph, fetch, (int)count + 1, &g->instance);
    free(fetch);
    return status == WEFT_OK ? weft_checkpoint_load(&g->checkpoint, g->store, NULL) : status;
}

static weft_status open_all(weft_generator *g, const char *checkpoint, const char *device)
{
    const weft_option *table = weft_train_table(g->context);
    WEFT_TRY(weft_checkpoint_open(checkpoint, table, &g->checkpoint));
    WEFT_TRY(weft_settings_give(&g->checkpoint.settings, table, &g->run));
    WEFT_TRY(check_data(g));
    const weft_data_stats *s = &g->checkpoint.stats;
    g->real = WEFT_F32;
    (void)weft_dtype_parse(g->run.task.dtype, &g->real);
    g->tokens = s->classes;
    g->window = s->input[0].shape.dim[0];
    if (s->tokenizer)
        WEFT_TRY(weft_tokenizer_read(g->checkpoint.path, s->tokenizer, &g->tokenizer));
    WEFT_TRY(WEFT_NEW(&g->sequence, g->window));
    WEFT_TRY(WEFT_NEW(&g->logits, g->tokens));
    WEFT_TRY(weft_drawer_open(g->tokens, &g->drawer));
    WEFT_TRY(build(g));
    return make_instance(g, device);
}

weft_status weft_generator_open(weft_context *context, const char *checkpoint, const char *device,
                                int threads, weft_generator **out)
{
    weft_generator *g;
    if (!checkpoint)
        return weft_fail(WEFT_ERR_ARGUMENT, "no checkpoint is given; add --checkpoint DIR/latest");
    WEFT_TRY(WEFT_NEW(&g, 1));
    weft_status status = weft_context_with_threads(context, threads, &g->context);
    if (status == WEFT_OK) status = open_all(g, checkpoint, device);
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
    weft_instance_destroy(&g->instance);
    weft_store_destroy(&g->store);
    weft_graph_destroy(&g->graph);
    weft_model_steps_free(&g->steps);
    weft_drawer_close(&g->drawer);
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
    return generator->tokens;
}

/* --- text --- */

/* Reads numbers of tokens, separated by spaces. */
static weft_status read_numbers(const weft_generator *g, const char *text, int32_t *to,
                                int64_t *count)
{
    for (*count = 0; *(text += strspn(text, " \n")); text += strcspn(text, " \n")) {
        char word[24];
        int64_t number = -1;
        (void)snprintf(word, sizeof(word), "%.*s", (int)WEFT_MIN(strcspn(text, " \n"), 20), text);
        if (!weft_parse_int(word, &number) || number < 0 || number >= g->tokens)
            return weft_fail(WEFT_ERR_FORMAT,
                             "the prompt: '%s' is no token; the model was trained on numbers of "
                             "tokens from 0 to %d",
                             word, g->tokens - 1);
        to[(*count)++] = (int32_t)number;
    }
    return WEFT_OK;
}

weft_status weft_generator_encode(const weft_generator *generator, const char *text,
                                  int32_t **tokens, int64_t *count)
{
    const weft_bytes bytes = {.data = (const unsigned char *)text, .size = strlen(text)};
    if (generator->tokenizer)
        return weft_tokenizer_encode(generator->tokenizer, "the prompt", &bytes, tokens, count);
    WEFT_TRY(WEFT_NEW(tokens, bytes.size + 1));
    weft_status status = read_numbers(generator, text, *tokens, count);
    if (status != WEFT_OK) free(*tokens);
    return status;
}

size_t weft_generator_decode(const weft_generator *generator, int32_t token, char *text,
                             size_t room)
{
    const weft_tokenizer *t = generator->tokenizer;
    char number[16];
    size_t size = 0;
    const char *bytes = t ? t->ops->decode(t, token, &size) : number;
    if (!t) size = (size_t)snprintf(number, sizeof(number), "%d ", token);
    size = WEFT_MIN(size, room);
    memcpy(text, bytes, size);
    return size;
}

/* --- the sequence --- */

void weft_generator_reset(weft_generator *generator)
{
    const weft_model_steps *s = &generator->steps;
    generator->position = 0;
    for (size_t i = 0; i < s->count; i++) {
        weft_type type = weft_graph_value_type(generator->graph, s->states[i].in);
        void *state = weft_instance_input(generator->instance, s->states[i].in);
        if (state) memset(state, 0, weft_type_bytes(&type));
    }
}

/* Writes an integer to an input of the graph, unless no layer reads the input. */
static void put(const weft_generator *g, weft_value input, int32_t value)
{
    int32_t *to = weft_instance_input(g->instance, input);
    if (to) *to = value;
}

/* Moves the states that this position has left to where the next one reads them. */
static void carry(const weft_generator *g)
{
    for (size_t i = 0; i < g->steps.count; i++) {
        const weft_step_state *s = &g->steps.states[i];
        weft_type type = weft_graph_value_type(g->graph, s->out);
        size_t bytes = weft_type_bytes(&type);
        char *to = weft_instance_input(g->instance, s->in);
        if (to)
            memcpy(to + (s->row ? (size_t)g->position * bytes : 0),
                   weft_instance_output(g->instance, s->out), bytes);
    }
}

static weft_status run_position(weft_generator *g, int32_t token)
{
    put(g, g->x, token);
    put(g, g->steps.position, (int32_t)g->position);
    put(g, g->steps.positions, (int32_t)g->position);
    put(g, g->steps.lengths, (int32_t)g->position + 1);
    WEFT_TRY(weft_instance_run(g->instance, WEFT_PHASE_MICRO));
    carry(g);
    if (g->steps.limited) g->sequence[g->position] = token;
    g->position++;
    return WEFT_OK;
}

/* Goes on from the later half of the positions, since all are used. */
static weft_status slide(weft_generator *g)
{
    int64_t keep = g->window / 2, first = g->window - keep;
    weft_generator_reset(g);
    for (int64_t i = 0; i < keep; i++) WEFT_TRY(run_position(g, g->sequence[first + i]));
    return WEFT_OK;
}

int64_t weft_generator_needed(const weft_generator *g, int64_t count)
{
    int64_t each = g->window - g->window / 2; /* positions that slide() leaves */
    if (!g->steps.limited || count <= g->window) return count;
    return count - (count - g->window + each - 1) / each * each;
}

weft_status weft_generator_feed(weft_generator *generator, int32_t token)
{
    weft_generator *g = generator;
    if (token < 0 || token >= g->tokens)
        return weft_fail(WEFT_ERR_ARGUMENT, "token %d, must be from 0 to %d", token, g->tokens - 1);
    if (g->steps.limited && g->position == g->window) WEFT_TRY(slide(g));
    WEFT_TRY(run_position(g, token));
    const void *logits = weft_instance_output(g->instance, g->logits_of);
    for (int i = 0; i < g->tokens; i++)
        g->logits[i] =
            g->real == WEFT_F64 ? ((const double *)logits)[i] : (double)((const float *)logits)[i];
    return WEFT_OK;
}

const double *weft_generator_logits(const weft_generator *generator)
{
    return generator->position > 0 ? generator->logits : NULL;
}

weft_status weft_generator_draw(weft_generator *generator, const weft_sampling *sampling,
                                int32_t *token)
{
    if (generator->position == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "the sequence is empty; feed a token first");
    return weft_drawer_draw(&generator->drawer, sampling, generator->logits, token);
}
