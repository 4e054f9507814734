/* Runs scripts of scripted_actor.h: makes the actors, and a simulation that has them. */
#include "scripted_actor.h"

void note(player *p, int64_t what)
{
    script *s = p->says;
    if (s->notes == 64) return;
    s->noted[s->notes] = weft_actor_now(&p->head);
    s->what[s->notes++] = what;
}

static weft_status play_begin(weft_actor *a)
{
    player *p = (player *)a;
    return p->says->begin ? p->says->begin(p) : WEFT_OK;
}
static weft_status play_message(weft_actor *a, const weft_message *message)
{
    player *p = (player *)a;
    return p->says->message ? p->says->message(p, message) : WEFT_OK;
}
static weft_status play_timer(weft_actor *a, int timer)
{
    player *p = (player *)a;
    return p->says->timer ? p->says->timer(p, timer) : WEFT_OK;
}
static weft_status play_part(weft_actor *a, int64_t ticket, int part)
{
    player *p = (player *)a;
    return p->says->part ? p->says->part(p, ticket, part) : WEFT_OK;
}
static weft_status play_computed(weft_actor *a, int64_t ticket)
{
    player *p = (player *)a;
    return p->says->computed ? p->says->computed(p, ticket) : WEFT_OK;
}
static void play_destroy(weft_actor *a)
{
    free(a);
}

static const weft_actor_ops player_ops = {
    .name = "player",
    .begin = play_begin,
    .message = play_message,
    .timer = play_timer,
    .part = play_part,
    .computed = play_computed,
    .destroy = play_destroy,
};

weft_status make(void *user, weft_actor_id id, int life, weft_actor **out)
{
    script *all = user;
    player *p;
    WEFT_TRY(WEFT_NEW(&p, 1));
    p->head.ops = &player_ops;
    p->says = &all[id];
    p->says->lives = life + 1;
    *out = &p->head;
    return WEFT_OK;
}

static weft_status compute(void *user, weft_actor *actor, int64_t ticket, weft_sim_work *work)
{
    script *s = &((script *)user)[actor->id];
    (void)ticket;
    work->seconds = s->seconds;
    work->parts = s->shares;
    work->part_count = s->parts;
    for (int i = 0; i < s->parts; i++) s->shares[i] = (double)(i + 1) / s->parts;
    return WEFT_OK;
}

static weft_status have_computed(void *user, weft_actor *actor, int64_t ticket)
{
    script *s = &((script *)user)[actor->id];
    assert_int_equal(ticket, s->said);
    s->said++;
    return WEFT_OK;
}

weft_sim *simulate(script *all, int count, weft_sim_link link, uint64_t seed)
{
    weft_sim *sim;
    weft_sim_options options = {.struct_size = sizeof(options),
                                .seed = seed,
                                .link = link,
                                .make = make,
                                .compute = compute,
                                .computed = have_computed,
                                .user = all};
    assert_int_equal(weft_sim_create(&options, &sim), WEFT_OK);
    for (int i = 0; i < count; i++)
        assert_int_equal(weft_sim_add(sim, (weft_actor_id)i, 0), WEFT_OK);
    return sim;
}

weft_status send_bytes(player *p, weft_actor_id to, uint32_t type, size_t bytes)
{
    weft_buffer *blob;
    WEFT_TRY(weft_buffer_new(bytes, &blob));
    weft_status status =
        weft_actor_send(&p->head, to, &(weft_message){.type = type, .payload = blob});
    weft_buffer_unref(&blob);
    return status;
}

weft_status note_message(player *p, const weft_message *message)
{
    note(p, message->type);
    return WEFT_OK;
}
