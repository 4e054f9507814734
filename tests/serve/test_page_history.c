/* The history and the charts of the status page, in virtual time. */
#include <math.h>
#include <stdlib.h>

#include "serve/front/page.h"
#include "support.h"

/* Statistics of a queue that has counted for `t` seconds; each field grows at a rate of its own. */
static weft_batch_queue_stats stats_at(int64_t t)
{
    weft_batch_queue_stats s = {.requests = 2 * t,
                                .rows = 3 * t,
                                .failed = 5 * t,
                                .expired = 7 * t,
                                .refused = 11 * t,
                                .cancelled = 13 * t,
                                .batches = 17 * t,
                                .queue_seconds = 0.5 * (double)t,
                                .compute_seconds = 0.25 * (double)t};
    for (int i = 0; i < WEFT_LATENCY_CELLS; i++) s.latency[i] = (i + 1) * t;
    for (int i = 0; i < WEFT_BATCH_CELLS; i++) s.batch[i] = (i + 2) * t;
    return s;
}

/* The difference of two samples is what was counted between them. */
static void test_difference(void **state)
{
    (void)state;
    weft_batch_queue_stats before = stats_at(40), after = stats_at(100), want = stats_at(60), got;
    weft_history_difference(&before, &after, &got);
    assert_memory_equal(&got, &want, sizeof(got));
}

/* Samples are kept for at least the time that charts show, the oldest first, and not more densely
 * than needed, whatever the number of calls. */
static void test_ring(void **state)
{
    (void)state;
    const weft_version_history *p = NULL;
    weft_history *h;
    assert_ok(weft_history_create(&h));
    for (int i = 0; i < 4000; i++) {
        weft_batch_queue_stats s = stats_at(i);
        assert_ok(weft_history_add(h, "m", 1, 1000 + 0.25 * i, &s, &p));
        double last = weft_version_history_sample(p, p->count - 1)->at;
        assert_true(1000 + 0.25 * i - last < 2);
    }
    assert_int_equal(p->count, WEFT_HISTORY_SAMPLES);
    for (int i = 0; i < p->count; i++) {
        const weft_history_sample *s = weft_version_history_sample(p, i);
        assert_true(s->stats.requests == 2 * (int64_t)((s->at - 1000) * 4));
        if (i > 0) assert_true(s->at - weft_version_history_sample(p, i - 1)->at >= 1);
    }
    double first = weft_version_history_sample(p, 0)->at;
    assert_true(1000 + 0.25 * 3999 - first >= WEFT_HISTORY_SECONDS);
    weft_history_free(&h);
}

/* Versions have histories of their own; a version that was loaded anew begins anew. */
static void test_versions(void **state)
{
    (void)state;
    const weft_version_history *one, *two, *other;
    weft_history *h;
    weft_batch_queue_stats much = stats_at(50), little = stats_at(1);
    assert_ok(weft_history_create(&h));
    assert_ok(weft_history_add(h, "m", 1, 10, &much, &one));
    assert_ok(weft_history_add(h, "m", 2, 10, &much, &two));
    assert_ok(weft_history_add(h, "n", 1, 10, &much, &other));
    assert_ok(weft_history_add(h, "m", 1, 20, &much, &one));
    assert_true(one != two && one != other && two != other);
    assert_int_equal(one->count, 2);
    assert_int_equal(two->count, 1);
    assert_ok(weft_history_add(h, "m", 1, 30, &little, &one));
    assert_int_equal(one->count, 1);
    assert_true(weft_version_history_sample(one, 0)->at == 30);
    weft_history_free(&h);
}

/* The history of a version that has ended is dropped when charts do not show it any more, so
 * versions that follow each other do not take ever more memory. */
static void test_ended_versions(void **state)
{
    (void)state;
    const weft_version_history *first, *old, *other, *now;
    weft_history *h;
    weft_batch_queue_stats s = stats_at(50);
    assert_ok(weft_history_create(&h));
    assert_ok(weft_history_add(h, "m", 1, 10, &s, &old));
    assert_ok(weft_history_add(h, "n", 1, 10, &s, &other));
    assert_ok(weft_history_add(h, "m", 2, 20, &s, &now));
    assert_true(now != old && now != other);
    assert_ok(weft_history_add(h, "n", 1, 20 + WEFT_HISTORY_SECONDS, &s, &other));
    first = old;
    assert_ok(weft_history_add(h, "m", 3, 20 + WEFT_HISTORY_SECONDS, &s, &old));
    assert_ptr_equal(old, first);
    assert_int_equal(old->count, 1);
    assert_int_equal(other->count, 2);
    weft_history_free(&h);
}

/* The number after the first `key` from *at on; *at is moved to it. */
static double number(const char **at, const char *key)
{
    const char *found = strstr(*at, key);
    assert_non_null(found);
    *at = found + strlen(key);
    return strtod(*at, NULL);
}

/* The bars stand on the axis and are as high as their share; each has its share written above. */
static void test_bars(void **state)
{
    (void)state;
    int64_t cells[WEFT_BATCH_CELLS] = {30, 0, 60, 10};
    const double want[] = {30, 60, 10};
    double tall[3], right = 0;
    weft_text text = {0};
    weft_chart_batches(&text, cells, 8);
    assert_false(text.failed);
    const char *at = text.data;
    for (int i = 0; i < 3; i++) {
        double x = number(&at, "<rect class=\"bar\" x=\""), y = number(&at, " y=\"");
        double width = number(&at, " width=\"");
        tall[i] = number(&at, " height=\"");
        double middle = number(&at, "<text class=\"bar\" x=\""), above = number(&at, " y=\"");
        double percent = number(&at, ">");
        assert_true(x >= right && width > 0 && middle > x && middle < x + width);
        assert_true(above < y && above > 0 && y + tall[i] > 100 && y + tall[i] < 150);
        assert_true(percent == want[i]);
        right = x + width;
    }
    assert_null(strstr(at, "<rect class=\"bar\""));
    assert_true(right < 360);
    assert_true(fabs(tall[0] / tall[1] - 0.5) < 0.01);
    assert_true(fabs(tall[2] / tall[1] - 1 / 6.0) < 0.01);
    free(text.data);
}

/* Ends of the previous text on a line of a chart, by the class of the texts, if a character is 6.5
 * wide. */
static void check_apart(const char *svg, const char *class, int64_t limit)
{
    char key[64];
    double end = 0;
    (void)snprintf(key, sizeof(key), "<text class=\"%s\"", class);
    for (const char *at = svg; (at = strstr(at, key));) {
        double x = number(&at, " x=\""), characters = 0;
        at = strchr(at, '>') + 1;
        for (const char *c = at; *c != '<'; c++)
            characters += ((unsigned char)*c & 0xc0) != 0x80 && *c != ';';
        if (strncmp(at, "&lt;", 4) == 0) characters -= 2;
        if (x - characters * 3.25 < end)
            fail_msg("limit %lld: %.20s overlaps the text before", (long long)limit, at);
        end = x + characters * 3.25;
    }
    assert_true(end > 0);
}

/* The texts of the bars do not overlap, for any limit on batches. */
static void test_bar_texts(void **state)
{
    (void)state;
    int64_t cells[WEFT_BATCH_CELLS] = {0};
    for (int i = 0; i < WEFT_BATCH_CELLS; i++) cells[i] = i == 2 ? 1000000 : 1 + i % 2 * 2000;
    for (int64_t limit = 1; limit <= 4096; limit += 1 + limit / 7) {
        weft_text text = {0};
        cells[2] = limit > 2 ? 1000000 : 0;
        weft_chart_batches(&text, cells, limit);
        check_apart(text.data, "x", limit);
        check_apart(text.data, "bar", limit);
        free(text.data);
    }
}

/* The charts of a history: a line of requests a second, the percentiles, and what is drawn without
 * samples. */
static void test_lines(void **state)
{
    (void)state;
    const weft_version_history *p = NULL;
    weft_history *h;
    weft_text rate = {0}, latency = {0}, none = {0};
    assert_ok(weft_history_create(&h));
    for (int t = 0; t <= 100; t += 2) {
        weft_batch_queue_stats s = stats_at(t);
        memset(s.latency, 0, sizeof(s.latency));
        s.latency[40] = 2 * t;
        assert_ok(weft_history_add(h, "m", 1, t, &s, &p));
    }
    weft_chart_rate(&rate, p, 100);
    weft_chart_latency(&latency, p, 100);
    assert_null(strstr(rate.data, "nothing to draw"));
    assert_null(strstr(latency.data, "nothing to draw"));
    assert_null(strstr(rate.data, "nan"));
    assert_null(strstr(latency.data, "nan"));
    weft_chart_rate(&none, &(weft_version_history){.count = 0}, 100);
    assert_non_null(strstr(none.data, "nothing to draw"));
    free(rate.data);
    free(latency.data);
    free(none.data);
    weft_history_free(&h);
}

/* Numbers for people: few digits, and a unit. */
static void test_numbers(void **state)
{
    (void)state;
    const struct {
        double x;
        const char *count, *seconds;
    } rows[] = {{0, "0", "0 µs"},          {1, "1", "1 s"},          {1.234, "1.23", "1.23 s"},
                {12.34, "12.3", "12.3 s"}, {123.4, "123", "123 s"},  {0.0456, "0.05", "45.6 ms"},
                {2e-5, "0.00", "20 µs"},   {9999, "9999", "9999 s"}, {12340, "12.3 k", "12340 s"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        weft_text count = {0}, seconds = {0};
        weft_add_count(&count, rows[i].x);
        weft_add_seconds(&seconds, rows[i].x);
        assert_string_equal(count.data, rows[i].count);
        assert_string_equal(seconds.data, rows[i].seconds);
        free(count.data);
        free(seconds.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_difference), cmocka_unit_test(test_ring),
        cmocka_unit_test(test_versions),   cmocka_unit_test(test_ended_versions),
        cmocka_unit_test(test_bars),       cmocka_unit_test(test_bar_texts),
        cmocka_unit_test(test_lines),      cmocka_unit_test(test_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
