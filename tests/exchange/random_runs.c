/* Random choices, messages and the main loop of tests that simulate random runs from seeds. */
#include "random_runs.h"

#include <stdlib.h>

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

static uint64_t number_of(const char *name, uint64_t usual)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : usual;
}

void play_all(uint64_t usual, fate_play play, const char *counted)
{
    uint64_t one = number_of("WEFT_CHAOS_SEED", 0), runs = number_of("WEFT_CHAOS", usual), bad = 0;
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
