/* Tests the simulator: times of messages and computations, replay by seed, faults, and a
 * retransmitting protocol that gets through all faults of a link. */
#include <math.h>

#include "scripted_actor.h"

/* --- links --- */

static weft_status send_three(player *p)
{
    for (uint32_t i = 0; i < 3; i++) WEFT_TRY(send_bytes(p, 0, i, 936));
    return WEFT_OK;
}

/* Messages of 1000 bytes on links of 1000 bytes a second: each sender has sent its three messages
 * after 1, 2 and 3 s, and the receiver takes one message a second from both senders. */
static void test_times(void **state)
{
    (void)state;
    script all[3] = {{.message = note_message}, {.begin = send_three}, {.begin = send_three}};
    weft_sim *sim = simulate(all, 3, (weft_sim_link){.latency = 0.5, .bandwidth = 1000}, 1);
    assert_int_equal(weft_sim_run(sim, INFINITY), WEFT_OK);
    assert_int_equal(all[0].notes, 6);
    for (int i = 0; i < 6; i++) {
        assert_true(fabs(all[0].noted[i] - (1.5 + i)) < 1e-9);
        assert_int_equal(all[0].what[i], i / 2);
    }
    weft_sim_report r = weft_sim_stats(sim);
    assert_int_equal(r.messages, 6);
    assert_int_equal(r.bytes, 6000);
    assert_int_equal(r.lost, 0);
    assert_int_equal(r.waiting, 0);
    assert_int_equal(r.most_bytes, 6000);
    assert_true(fabs(r.seconds - 6.5) < 1e-9);
    weft_sim_destroy(&sim);
}

/* A duplicated or lost message takes the time of its sender's link once, and bytes count when they
 * have crossed it, so at no time are there more than the link carries. */
static void test_bytes_in_flight(void **state)
{
    (void)state;
    for (int fault = 0; fault < 3; fault++) {
        script all[3] = {{.message = note_message}, {.begin = send_three}, {.begin = send_three}};
        weft_sim_link link = {
            .latency = 0.5, .bandwidth = 1000, .twice = fault == 1, .lost = fault == 2};
        weft_sim *sim = simulate(all, 3, link, 1);
        for (int at = 0; at <= 8; at++) {
            assert_int_equal(weft_sim_run(sim, at), WEFT_OK);
            weft_sim_report r = weft_sim_stats(sim);
            int sent = at > 3 ? 3 : at > 0 ? at - 1 : 0; /* the latest has half a second to go */
            assert_int_equal(r.bytes, at > 3 ? 6000 : 2000 * sent);
            assert_int_equal(r.messages, 6);
        }
        assert_int_equal(weft_sim_run(sim, INFINITY), WEFT_OK);
        assert_int_equal(all[0].notes, fault == 0 ? 6 : fault == 1 ? 12 : 0);
        weft_sim_report r = weft_sim_stats(sim);
        assert_true(fabs(r.arrived - (fault == 0 ? 6.5 : fault == 1 ? 12.5 : 3.5)) < 1e-9);
        weft_sim_destroy(&sim);
    }
}

/* The latency in seconds is the id of the sender. */
static weft_sim_link by_sender(void *user, weft_actor_id from, weft_actor_id to)
{
    (void)user;
    (void)to;
    return (weft_sim_link){.latency = from};
}

static void test_links_by_name(void **state)
{
    (void)state;
    script all[3] = {{.message = note_message}, {.begin = send_three}, {.begin = send_three}};
    weft_sim *sim;
    weft_sim_options options = {
        .struct_size = sizeof(options), .link_of = by_sender, .make = make, .user = all};
    assert_int_equal(weft_sim_create(&options, &sim), WEFT_OK);
    for (weft_actor_id i = 0; i < 3; i++) assert_int_equal(weft_sim_add(sim, i, 0), WEFT_OK);
    assert_int_equal(weft_sim_run(sim, INFINITY), WEFT_OK);
    assert_int_equal(all[0].notes, 6);
    for (int i = 0; i < 6; i++) assert_true(all[0].noted[i] == (i < 3 ? 1 : 2));
    weft_sim_destroy(&sim);
}

/* --- faults --- */

static weft_status tick(player *p, int timer)
{
    (void)timer;
    note(p, p->seen++);
    if (p->seen < 10) WEFT_TRY(weft_actor_set_timer(&p->head, 3, 1));
    return WEFT_OK;
}

static weft_status start_ticking(player *p)
{
    return weft_actor_set_timer(&p->head, 3, 1);
}

/* A restarted actor begins without its old state, and its old timer does not run out. */
static void test_kill(void **state)
{
    (void)state;
    script all[1] = {{.begin = start_ticking, .timer = tick}};
    weft_sim *sim = simulate(all, 1, (weft_sim_link){0}, 1);
    assert_int_equal(weft_sim_kill(sim, 0, 3.5), WEFT_OK);
    assert_int_equal(weft_sim_restart(sim, 0, 3.75), WEFT_OK);
    assert_int_equal(weft_sim_restart(sim, 0, 4), WEFT_OK); /* no effect, since it lives */
    assert_int_equal(weft_sim_run(sim, 6), WEFT_OK);
    static const double when[] = {1, 2, 3, 4.75, 5.75};
    static const int64_t what[] = {0, 1, 2, 0, 1};
    assert_int_equal(all[0].notes, 5);
    assert_int_equal(all[0].lives, 2);
    for (int i = 0; i < 5; i++) {
        assert_true(all[0].noted[i] == when[i]);
        assert_int_equal(all[0].what[i], what[i]);
    }
    assert_int_equal(weft_sim_kill(sim, 7, 9), WEFT_ERR_ARGUMENT);
    weft_sim_destroy(&sim);
}

static weft_status send_on(player *p, int timer)
{
    (void)timer;
    WEFT_TRY(send_bytes(p, 0, (uint32_t)p->sent++, 0));
    return p->sent < 10 ? weft_actor_set_timer(&p->head, 0, 1) : WEFT_OK;
}

static weft_status start_sending(player *p)
{
    return send_on(p, 0);
}

/* The sender sends a message each second, which arrives a quarter of a second later. A pause of the
 * receiver delays messages; a cut link or a dead receiver loses them. */
static void test_pause_and_cut(void **state)
{
    (void)state;
    script all[2] = {{.message = note_message}, {.begin = start_sending, .timer = send_on}};
    weft_sim *sim = simulate(all, 2, (weft_sim_link){.latency = 0.25}, 1);
    assert_int_equal(weft_sim_pause(sim, 0, 0.5, 3), WEFT_OK);    /* delays 1 and 2 */
    assert_int_equal(weft_sim_cut(sim, 1, 0, 4.1, 5.5), WEFT_OK); /* loses 4, in flight, and 5 */
    assert_int_equal(weft_sim_kill(sim, 0, 7.5), WEFT_OK);
    assert_int_equal(weft_sim_restart(sim, 0, 8.1), WEFT_OK); /* 8 was sent before */
    assert_int_equal(weft_sim_run(sim, INFINITY), WEFT_OK);
    static const double when[] = {0.25, 3, 3, 3.25, 6.25, 7.25, 9.25};
    static const int64_t what[] = {0, 1, 2, 3, 6, 7, 9};
    assert_int_equal(all[0].notes, 7);
    for (int i = 0; i < 7; i++) {
        assert_true(all[0].noted[i] == when[i]);
        assert_int_equal(all[0].what[i], what[i]);
    }
    assert_int_equal(weft_sim_stats(sim).lost, 3);
    weft_sim_destroy(&sim);
}

/* --- computations --- */

static weft_status start_computing(player *p)
{
    return weft_actor_compute(&p->head, p->sent++);
}
static weft_status note_part(player *p, int64_t ticket, int part)
{
    assert_int_equal(p->says->said, ticket + 1); /* the result exists before the actor is told */
    note(p, 10 * ticket + part);
    return WEFT_OK;
}
static weft_status compute_again(player *p, int64_t ticket)
{
    note(p, 100 + ticket);
    return ticket < 1 ? start_computing(p) : WEFT_OK;
}
static weft_status compute_twice(player *p)
{
    WEFT_TRY(start_computing(p));
    return start_computing(p);
}

static void test_compute(void **state)
{
    (void)state;
    script all[2] = {{.begin = start_computing,
                      .part = note_part,
                      .computed = compute_again,
                      .seconds = 2,
                      .parts = 2},
                     {.begin = start_computing, .seconds = 1}};
    weft_sim *sim = simulate(all, 2, (weft_sim_link){0}, 1);
    assert_int_equal(weft_sim_run(sim, INFINITY), WEFT_OK);
    static const double when[] = {1, 2, 2, 3, 4, 4};
    static const int64_t what[] = {0, 1, 100, 10, 11, 101};
    for (int i = 0; i < 6; i++) {
        assert_true(all[0].noted[i] == when[i]);
        assert_int_equal(all[0].what[i], what[i]);
    }
    assert_int_equal(all[0].said, 2);
    assert_int_equal(all[1].said, 1);
    assert_true(weft_sim_stats(sim).utilisation == (4.0 + 1) / 4 / 2);
    weft_sim_destroy(&sim);
    script two[1] = {{.begin = compute_twice, .seconds = 1}};
    sim = simulate(two, 1, (weft_sim_link){0}, 1);
    assert_int_equal(weft_sim_run(sim, INFINITY), WEFT_ERR_INTERNAL);
    assert_string_equal(weft_last_message(),
                        "the player at 0 s: a computation is going on already");
    weft_sim_destroy(&sim);
}

/* --- a stop-and-wait protocol with retransmission, over a bad link --- */

enum { NUMBERS = 200, ACKNOWLEDGED = 1, NUMBER = 2 };

static weft_status send_number(player *p)
{
    int64_t number = p->sent;
    return weft_actor_send(
        &p->head, 0,
        &(weft_message){.type = NUMBER, .head = &number, .head_bytes = sizeof(number)});
}
static weft_status send_first(player *p)
{
    p->sent = 1;
    WEFT_TRY(weft_actor_set_timer(&p->head, 0, 0.1));
    return send_number(p);
}
static weft_status send_again(player *p, int timer)
{
    (void)timer;
    WEFT_TRY(weft_actor_set_timer(&p->head, 0, 0.1));
    return send_number(p);
}
static weft_status send_next(player *p, const weft_message *message)
{
    int64_t number;
    memcpy(&number, message->head, sizeof(number));
    if (number != p->sent) return WEFT_OK;
    if (p->sent++ == NUMBERS) return weft_actor_set_timer(&p->head, 0, -1);
    return send_again(p, 0);
}
static weft_status add_number(player *p, const weft_message *message)
{
    int64_t number;
    memcpy(&number, message->head, sizeof(number));
    if (number == p->seen + 1) {
        p->seen++;
        p->sent += number;
    }
    return weft_actor_send(&p->head, message->from,
                           &(weft_message){.type = ACKNOWLEDGED,
                                           .head = message->head,
                                           .head_bytes = message->head_bytes});
}

static uint64_t run_protocol(uint64_t seed, weft_sim_report *report)
{
    script all[2] = {{.message = add_number},
                     {.begin = send_first, .timer = send_again, .message = send_next}};
    weft_sim_link bad = {.latency = 0.01,
                         .jitter = 0.05,
                         .bandwidth = 1e5,
                         .lost = 0.2,
                         .twice = 0.2,
                         .reordered = 0.3};
    weft_sim *sim = simulate(all, 2, bad, seed);
    assert_int_equal(weft_sim_run(sim, INFINITY), WEFT_OK);
    const player *p = (const player *)weft_sim_actor(sim, 0);
    assert_int_equal(p->seen, NUMBERS);
    assert_int_equal(p->sent, NUMBERS * (NUMBERS + 1) / 2);
    *report = weft_sim_stats(sim);
    weft_sim_destroy(&sim);
    return report->digest;
}

static void test_bad_link(void **state)
{
    (void)state;
    uint64_t lost = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        weft_sim_report a, b;
        assert_true(run_protocol(seed, &a) == run_protocol(seed, &b));
        assert_memory_equal(&a, &b, sizeof(a));
        assert_true(run_protocol(seed + 1000, &b) != a.digest);
        assert_true(a.waiting == 0 && a.held_bytes == 0);
        lost += a.lost;
    }
    assert_true(lost > 50 * NUMBERS / 10);
}

/* --- many actors --- */

enum { RING = 1000, ROUNDS = 100 };

static weft_status pass_on(player *p, const weft_message *message)
{
    if (message->type == RING * ROUNDS) return WEFT_OK;
    return weft_actor_send(&p->head, (p->head.id + 1) % RING,
                           &(weft_message){.type = message->type + 1, .payload = message->payload});
}
static weft_status begin_ring(player *p)
{
    return p->head.id == RING - 1 ? send_bytes(p, 0, 1, 1000) : WEFT_OK;
}

static void test_ring(void **state)
{
    (void)state;
    script *all;
    assert_int_equal(WEFT_NEW(&all, RING), WEFT_OK);
    for (int i = 0; i < RING; i++) all[i] = (script){.begin = begin_ring, .message = pass_on};
    weft_sim *sim = simulate(all, RING, (weft_sim_link){.latency = 1}, 1);
    assert_int_equal(weft_sim_run(sim, INFINITY), WEFT_OK);
    weft_sim_report r = weft_sim_stats(sim);
    assert_int_equal(r.messages, RING * ROUNDS);
    assert_int_equal(r.most_waiting, 2); /* the message that is handled, and the next one */
    assert_true(r.seconds == RING * ROUNDS);
    weft_sim_destroy(&sim);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),         cmocka_unit_test(test_bytes_in_flight),
        cmocka_unit_test(test_links_by_name), cmocka_unit_test(test_kill),
        cmocka_unit_test(test_pause_and_cut), cmocka_unit_test(test_compute),
        cmocka_unit_test(test_bad_link),      cmocka_unit_test(test_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
