/* Runs the gossip exchange in the simulator, with the same peer actors as in a real run; peer i is
 * actor i. */
#include "base/tree_sum.h"
#include "exchange/simulated.h"
#include "exchange/gossip/peer_internal.h"
#include "exchange/codec_checkpoint.h"

typedef struct gossip_sim {
    weft_sim_exchange head;
    const weft_peer_mode *mode;
    weft_topology topology;
    const char *codec;
    /* Excludes padding from the codecs, and holds the codec state of one learner for a
     * checkpoint. */
    weft_codec_checkpoint *codec_state;
    int stored_learner;       /* index + 1 of the learner in `codec_state`; 0: none */
    weft_codec **codecs;      /* [learners]; NULL where the mode sends no updates */
    const weft_actor **peers; /* [learners]: owned by the simulation */
} gossip_sim;

static void sim_close(weft_sim_exchange *exchange)
{
    gossip_sim *c = (gossip_sim *)exchange;
    for (int i = 0; c->codecs && i < c->head.sim_options.learners; i++)
        weft_codec_close(&c->codecs[i]);
    weft_codec_checkpoint_close(&c->codec_state);
    weft_topology_free(&c->topology);
    free((void *)c->codecs);
    free((void *)c->peers);
    free(c);
}

static weft_status sim_make(weft_sim_exchange *exchange, weft_actor_id id, weft_actor **out)
{
    gossip_sim *c = (gossip_sim *)exchange;
    const weft_sim_exchange_options *s = &c->head.sim_options;
    int i = (int)id;
    if (!c->mode->pairs) {
        WEFT_TRY(weft_codec_open(s->context, c->codec, s->dtype, s->count, &c->codecs[i]));
        WEFT_TRY(weft_codec_checkpoint_exclude_padding(c->codec_state, c->codecs[i], 0));
    }
    weft_peer_options options = {.struct_size = sizeof(options),
                                 .mode = c->mode,
                                 .me = i,
                                 .topology = &c->topology,
                                 .seed = 1,
                                 .dtype = s->dtype,
                                 .count = s->count,
                                 .parameters = s->parameters[i],
                                 .codec = c->codecs[i],
                                 .empty = s->empty ? &s->empty[i] : NULL,
                                 .steps = s->steps,
                                 .min_rto = 1};
    WEFT_TRY(weft_peer_create(&options, out));
    c->peers[i] = *out;
    return WEFT_OK;
}

/* The mean of the peers' parameters, as at the end of a real run. */
static weft_status sim_result(weft_sim_exchange *exchange, bool over, void *parameters)
{
    gossip_sim *c = (gossip_sim *)exchange;
    const weft_sim_exchange_options *s = &c->head.sim_options;
    const void **each;
    (void)over;
    c->stored_learner = 0;
    WEFT_TRY(WEFT_NEW(&each, s->learners));
    weft_tree tree = {.dtype = s->dtype,
                      .ranks = s->learners,
                      .leaves = s->learners,
                      .source = each,
                      .stride = s->count};
    weft_status status = weft_new_bytes(&tree.room, 1, weft_tree_room(s->learners, 0));
    if (status == WEFT_OK) {
        for (int i = 0; i < s->learners; i++) each[i] = weft_peer_parameters(c->peers[i]);
        weft_tree_sum(&tree, 0, s->count, parameters);
        for (int64_t i = 0; i < s->count; i++)
            weft_number_put(s->dtype, parameters, i,
                            weft_number_get(s->dtype, parameters, i) / s->learners);
    }
    free(tree.room);
    free((void *)each);
    return status;
}

static bool sim_state(weft_sim_exchange *exchange, int learner, int i, weft_exchange_state *out)
{
    gossip_sim *c = (gossip_sim *)exchange;
    if (c->codecs[learner] && c->stored_learner != learner + 1)
        weft_codec_checkpoint_store(c->codec_state, c->codecs[learner], 0);
    c->stored_learner = learner + 1;
    return weft_codec_checkpoint_state(c->codec_state, i, out);
}

static const weft_sim_exchange_ops sim_ops = {
    .close = sim_close,
    .make = sim_make,
    .result = sim_result,
    .state = sim_state,
};

static weft_status open_sim(gossip_sim *c, const char *arguments)
{
    char *topology = NULL;
    weft_status status = weft_gossip_parse(arguments, &topology, &c->mode);
    if (status == WEFT_OK)
        status = weft_gossip_codec(c->mode, c->head.sim_options.codec, &c->codec);
    if (status == WEFT_OK)
        status = weft_topology_make(topology, c->head.sim_options.learners, c->mode->pairs, 1,
                                    &c->topology);
    free(topology);
    const weft_sim_exchange_options *s = &c->head.sim_options;
    if (status == WEFT_OK)
        status =
            weft_codec_checkpoint_open(s->context, c->codec, NULL, s->store, NULL, &c->codec_state);
    if (status == WEFT_OK)
        status = weft_codec_checkpoint_note_momentum(c->codec_state, s->context, s->store, s->codec,
                                                     s->optimizer);
    if (status == WEFT_OK) status = WEFT_NEW(&c->codecs, s->learners);
    return status == WEFT_OK ? WEFT_NEW(&c->peers, c->head.sim_options.learners) : status;
}

weft_status weft_gossip_simulate(const char *arguments, const weft_sim_exchange_options *options,
                                 weft_sim_exchange **out)
{
    gossip_sim *c;
    WEFT_TRY(WEFT_NEW(&c, 1));
    c->head.ops = &sim_ops;
    c->head.sim_options = *options;
    c->head.actors = options->learners;
    weft_status status = open_sim(c, arguments);
    if (status == WEFT_OK)
        *out = &c->head;
    else
        sim_close(&c->head);
    return status;
}
