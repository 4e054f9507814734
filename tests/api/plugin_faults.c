/* Source of a plug-in for plugin_examples.sh whose entries do what they must not, as their
 * arguments say. */
#include <math.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "weft/services.h"

static const weft_services *weft;

/* Faults of the data source: at one sample of one epoch, or as it opens. */
enum {
    FAILS,
    FAILS_SILENTLY,
    WRITES_LESS,
    WRITES_NEGATIVE,
    GIVES_NAN,
    GIVES_OTHER_CLASS,
    NEGATIVE_COUNT,
    NEGATIVE_SIZE,
    NO_TARGET,
    UNNAMED_INPUT,
    WORKS
};

typedef struct faulty {
    double how, epoch, sample;
} faulty;

static weft_status data_open(weft_context *context, const char *arguments,
                             const weft_data_stats *trained, void **state, weft_data_form *form)
{
    faulty *f;
    weft_status status = weft->allocate(sizeof(*f), &f);
    if (status != WEFT_OK) return status;
    const weft_spec_key keys[] = {{.name = "how", .number = &f->how, .high = WORKS},
                                  {.name = "epoch", .number = &f->epoch, .high = 100},
                                  {.name = "sample", .number = &f->sample, .high = 100},
                                  {.name = NULL}};
    (void)context, (void)trained;
    *state = f;
    status = weft->parse("data faulty", arguments, keys);
    *form = (weft_data_form){.inputs = 1,
                             .input[0] = {.name = "x",
                                          .dtype = WEFT_F32,
                                          .shape = {1, {f->how == NEGATIVE_SIZE ? -4 : 4}}},
                             .count = {f->how == NEGATIVE_COUNT ? -1 : 40, 10},
                             .classes = 2,
                             .unlabelled = f->how == NO_TARGET,
                             .threads = 4};
    if (f->how == UNNAMED_INPUT) form->input[0].name[0] = '\0';
    if (status != WEFT_OK) free(f);
    return status;
}

static weft_status data_read(void *state, const weft_sample_key *key, weft_sample *sample)
{
    const faulty *f = state;
    bool now = !getenv("FAULTS_MENDED") && key->epoch == (int64_t)f->epoch &&
               key->sample == (int64_t)f->sample;
    if (sample->label)
        *sample->label = f->how == GIVES_OTHER_CLASS && key->sample == (int64_t)f->sample
                             ? 7
                             : (int32_t)(key->sample % 2);
    if (!sample->input[0]) return WEFT_OK;
    for (int i = 0; i < 4; i++)
        ((float *)sample->input[0])[i] =
            now && f->how == GIVES_NAN ? NAN : (float)((key->sample + i) % 3);
    sample->written[0] = !now                        ? 16
                         : f->how == WRITES_LESS     ? 3
                         : f->how == WRITES_NEGATIVE ? -16
                                                     : 16;
    if (now && f->how == FAILS_SILENTLY) return WEFT_ERR_IO;
    return now && f->how == FAILS ? weft->fail(WEFT_ERR_IO, "the lamp is out") : WEFT_OK;
}

static const weft_data_ops data = {sizeof(data), data_open, free, data_read};

/* The codec of kind `how`: 0: fails, 1: chooses nothing at all, 2: more than all, 3: one twice. The
 * codec faulty-form: 0: fails, 1: writes more than there is room, 2: what it refuses itself, 3:
 * what only servers refuse, as too large. */
static weft_status codec_open(const char *arguments, int64_t count, void **state)
{
    double *how;
    weft_status status = weft->allocate(sizeof(*how), &how);
    if (status != WEFT_OK) return status;
    const weft_spec_key keys[] = {{.name = "how", .number = how, .high = 3}, {.name = NULL}};
    (void)count;
    *state = how;
    status = weft->parse("codec faulty", arguments, keys);
    if (status != WEFT_OK) free(how);
    return status;
}

static weft_status codec_choose(void *state, const weft_codec_choice *choice)
{
    int how = (int)*(const double *)state;
    choice->at[0] = choice->at[1] = 1;
    if (how > 1) *choice->chosen = how == 2 ? choice->count + 1 : 2;
    return how == 0 ? weft->fail(WEFT_ERR_IO, "the lamp is out") : WEFT_OK;
}

static const weft_codec_rule codec = {
    .struct_size = sizeof(codec), .open = codec_open, .close = free, .choose = codec_choose};

static weft_status form_encode(void *state, const weft_codec_choice *choice, uint8_t *body,
                               weft_codec_message *message)
{
    int how = (int)*(const double *)state;
    (void)choice;
    body[0] = (uint8_t)how;
    message->number = (uint32_t)how;
    message->bytes = how == 1 ? message->bytes + 1 : 1;
    return how == 0 ? weft->fail(WEFT_ERR_IO, "the lamp is out") : WEFT_OK;
}

static bool form_valid(const weft_codec_message *message, double most)
{
    return message->bytes == 1 && message->number == 3 && most > 0x1p63;
}

static void form_add(const weft_codec_message *message, int64_t begin, int64_t n, double scale,
                     void *to)
{
    (void)message, (void)begin, (void)n, (void)scale, (void)to;
}

static const weft_codec_rule form = {.struct_size = sizeof(form),
                                     .open = codec_open,
                                     .close = free,
                                     .encode = form_encode,
                                     .valid = form_valid,
                                     .add = form_add};

/* Policies of servers: the function complete of one returns the option c less 2, or with c = 9 far
 * too many; the function late of the other an unknown fate. */
static int policy_complete(const weft_server_pending *pending)
{
    return pending->count == 9 ? INT_MAX : pending->count - 2;
}

static int policy_first(const weft_server_pending *pending)
{
    return pending->of_clock;
}

static bool policy_begin(const weft_server_waiting *learner)
{
    (void)learner;
    return true;
}

static weft_late policy_late(int64_t clocks)
{
    (void)clocks;
    return (weft_late)7;
}

static const weft_server_policy_ops policies[] = {{.struct_size = sizeof(policies[0]),
                                                   .counts = true,
                                                   .complete = policy_complete,
                                                   .may_begin = policy_begin},
                                                  {.struct_size = sizeof(policies[0]),
                                                   .rounds = true,
                                                   .complete = policy_first,
                                                   .may_begin = policy_begin,
                                                   .late = policy_late}};

/* A transport of 2 ranks that says it has sent more than it was given, of 3 that fails, and of 4
 * that gives bytes that nobody has sent. */
static weft_status transport_open(int ranks, void **state)
{
    int *given;
    weft_status status = weft->allocate(sizeof(*given), &given);
    if (status == WEFT_OK) *given = ranks;
    if (status == WEFT_OK) *state = given;
    return status;
}

static weft_status transport_send(void *state, int from, int to, const void *sent, size_t bytes,
                                  size_t *moved)
{
    (void)from, (void)to, (void)sent;
    *moved = *(const int *)state == 4 ? bytes : bytes + 1;
    return *(const int *)state == 3 ? weft->fail(WEFT_ERR_IO, "the lamp is out") : WEFT_OK;
}

static weft_status transport_receive(void *state, int to, int from, void *out, size_t bytes,
                                     size_t *moved)
{
    (void)from, (void)to;
    *moved = *(const int *)state == 4 ? bytes : 0;
    memset(out, 0xff, *moved);
    return WEFT_OK;
}

static const weft_transport_ops transport = {.struct_size = sizeof(transport),
                                             .open = transport_open,
                                             .close = free,
                                             .send = transport_send,
                                             .receive = transport_receive};

/* An exchange of which learner 1 fails: at `how` 0 as it opens, 1 before step 2, 2 after step 3
 * without a message, 3 at the end; at 4 all learners declare a state of 3 bytes. */
typedef struct faulty_exchange {
    weft_exchange head;
    double how;
} faulty_exchange;

static weft_status exchange_fails(const weft_exchange *exchange, int how)
{
    const faulty_exchange *f = (const faulty_exchange *)exchange;
    bool now = (int)f->how == how && exchange->setup.endpoint->learner == 1;
    return now ? weft->fail(WEFT_ERR_IO, "the lamp is out") : WEFT_OK;
}

static weft_status exchange_open(weft_exchange *exchange, const char *arguments,
                                 const weft_exchange_setup *setup)
{
    const weft_spec_key keys[] = {
        {.name = "how", .number = &((faulty_exchange *)exchange)->how, .high = 4}, {.name = NULL}};
    WEFT_TRY(weft->parse("exchange faulty", arguments, keys));
    return setup ? exchange_fails(exchange, 0) : WEFT_OK;
}

static weft_status exchange_before(weft_exchange *exchange, int64_t step)
{
    return step == 2 ? exchange_fails(exchange, 1) : WEFT_OK;
}

static weft_status exchange_after(weft_exchange *exchange, weft_step_result *result)
{
    result->met = true;
    if (result->step == 3 && ((faulty_exchange *)exchange)->how == 2 &&
        exchange->setup.endpoint->learner == 1)
        return WEFT_ERR_IO;
    return weft->average_learners(exchange, false);
}

static weft_status exchange_end(weft_exchange *exchange)
{
    return exchange_fails(exchange, 3);
}

static bool exchange_state(weft_exchange *exchange, int i, weft_exchange_state *out)
{
    *out = (weft_exchange_state){
        .name = "few", .like_parameters = true, .data = exchange, .bytes = 3, .alike = true};
    return ((faulty_exchange *)exchange)->how == 4 && i == 0;
}

static const weft_exchange_ops exchange = {
    .struct_size = sizeof(exchange),
    .size = sizeof(faulty_exchange),
    .lockstep = true,
    .open = exchange_open,
    .step = {.before = exchange_before, .after = exchange_after},
    .life = {.state = exchange_state, .end = exchange_end}};

static const weft_entry entries[] = {
    {.kind = WEFT_KIND_EXCHANGE, .name = "faulty", .form = "faulty[:how=N]", .ops = &exchange},
    {.kind = WEFT_KIND_ENGINE, .name = "faulty", .ops = &transport},
    {.kind = WEFT_KIND_SERVER_POLICY, .name = "faulty", .ops = &policies[0]},
    {.kind = WEFT_KIND_SERVER_POLICY, .name = "faulty-late", .ops = &policies[1]},
    {.kind = WEFT_KIND_CODEC, .name = "faulty", .form = "faulty[:how=N]", .ops = &codec},
    {.kind = WEFT_KIND_CODEC, .name = "faulty-form", .ops = &form},
    {.kind = WEFT_KIND_DATA, .name = "faulty", .form = "faulty[:how=N]", .ops = &data},
    {.name = NULL}};

WEFT_PLUGIN(weft, entries);
