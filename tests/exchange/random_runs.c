/* Random choices, messages and the main loop of tests that simulate random runs from seeds. */
#include "random_runs.h"

#include <stdlib.h>

#include "fast.h"

void tell(const fate *f, const char *format, ...)
{
    va_list list;
    if (!f->loud) return;
    va_start(list, format);
    (void)vfprintf(stderr, format, list);
    va_end(list);
}

void wrong(fate *f, const char *format, ...)
{
    va_list list;
    if (*f->why) return;
    va_start(list, format);
    (void)vsnprintf(f->why, sizeof(f->why), format, list);
    va_end(list);
    tell(f, "WRONG: %s\n", f->why);
}

void must(weft_status status)
{
    if (status != WEFT_OK) fail_msg("%s", weft_last_message());
}

int pick(fate *f, int n)
{
    return (int)(weft_random_u32(&f->random) % (uint32_t)n);
}

weft_sim_link draw_link(fate *f, weft_sim_link most)
{
    weft_random *r = &f->random;
    weft_sim_link link = {.latency = weft_random_between(r, 0.001, 0.05),
                          .bandwidth = pick(f, 2) ? 0 : 1e6};
    if (pick(f, 4) == 0) return link;
    link.jitter = weft_random_between(r, 0, most.jitter);
    link.lost = weft_random_between(r, 0, most.lost);
    link.twice = weft_random_between(r, 0, most.twice);
    link.reordered = weft_random_between(r, 0, most.reordered);
    return link;
}

weft_actor_id pick_alive(fate *f, int first, int count)
{
    int from = pick(f, count);
    for (int i = 0; i < count; i++) {
        weft_actor_id id = (weft_actor_id)(first + (from + i) % count);
        const weft_actor *a = weft_sim_actor(f->sim, id);
        if (a && !a->done) return id;
    }
    return 0;
}

void stop_actor(fate *f, weft_actor_id id, bool sleeps, double at, double until)
{
    tell(f, "%8.2f actor %u %s until %g\n", at, id, sleeps ? "sleeps" : "dies", until);
    must(sleeps ? weft_sim_pause(f->sim, id, at, until) : weft_sim_kill(f->sim, id, at));
}

const weft_actor *coordinator_of(const fate *f)
{
    const weft_actor *a = weft_sim_actor(f->sim, WEFT_COORDINATOR);
    return a && !a->done ? a : NULL;
}

void isolate(const fate *f, int first, int count, double at, double until)
{
    for (int i = 0; i < count; i++)
        must(weft_sim_cut(f->sim, WEFT_COORDINATOR, (weft_actor_id)(first + i), at, until));
}

void begin_sim(fate *f, weft_sim_options options)
{
    options.struct_size = sizeof(options);
    options.seed = f->seed;
    must(weft_sim_create(&options, &f->sim));
    must(weft_sim_add(f->sim, WEFT_COORDINATOR, 0));
}

static void run_until(fate *f, const fault_plan *plan, void *user, double at)
{
    for (double t = weft_sim_stats(f->sim).now; t < at && !*f->why;) {
        t = WEFT_MIN(t + 0.25, at);
        if (weft_sim_run(f->sim, t) != WEFT_OK) wrong(f, "%s", weft_last_message());
        plan->look(user);
    }
}

void play_faults(fate *f, const fault_plan *plan, void *user)
{
    double at = 0;
    bool more = true;
    for (int faults = pick(f, plan->most); faults > 0 && more; faults--) {
        at += weft_random_between(&f->random, 0.1, plan->gap);
        run_until(f, plan, user, at);
        more = plan->hit(user, at);
    }
    do run_until(f, plan, user, at += 20);
    while (!*f->why && at < plan->end && (at < f->quiet || !plan->has_ended(user)));
}

static uint64_t number_of(const char *name, uint64_t usual)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : usual;
}

void play_all(uint64_t usual, fate_play play, const char *counted)
{
    uint64_t one = number_of("WEFT_CHAOS_SEED", 0),
             runs = number_of("WEFT_CHAOS", paths_alone() ? usual / 8 : usual), bad = 0;
    uint64_t from = one ? one : 1, until = one ? one + 1 : runs + 1;
    int count = 0;
    for (uint64_t seed = from; seed < until; seed++) {
        fate f = {.seed = seed, .loud = one != 0};
        uint64_t digest = play(&f);
        count += f.count;
        if (seed % 16 == 0 && !*f.why) { /* the same seed must give the same run */
            fate again = {.seed = seed};
            if (play(&again) != digest) wrong(&f, "another run than before");
        }
        if (*f.why && bad++ < 20)
            print_message("seed %llu: %s (WEFT_CHAOS_SEED=%llu tells more)\n",
                          (unsigned long long)seed, f.why, (unsigned long long)seed);
    }
    print_message("%llu runs, %d %s, %llu wrong\n", (unsigned long long)(until - from), count,
                  counted, (unsigned long long)bad);
    assert_int_equal(bad, 0);
}
