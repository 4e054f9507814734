/* Measures the rates of this machine: the kernels of small networks, with all the ways to use its
 * cores, transfers between threads, codecs and copies. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "train/estimate/measure.h"

typedef struct measuring {
    weft_measuring *rates;
    weft_measured_setting settings[16];
    int setting_count;
    char *text; /* temporary file of the networks of texts; NULL: not written yet */
    int file;   /* its descriptor, below 0: none */
} measuring;

/* One rank with all cores, all cores with a rank each, and the powers of two between them. */
static void find_settings(measuring *m)
{
    int cores = weft_cores();
    m->settings[m->setting_count++] = (weft_measured_setting){cores, 1};
    for (int threads = cores / 2; threads > 1 && m->setting_count < 15; threads /= 2)
        m->settings[m->setting_count++] = (weft_measured_setting){threads, cores / threads};
    if (cores > 1) m->settings[m->setting_count++] = (weft_measured_setting){1, cores};
}

/* Writes a temporary file of a name that no other file has, which is locked until it is removed. */
static weft_status put_text(measuring *m, const char *text, size_t size)
{
    const char *root = getenv("TMPDIR");
    char *target;
    WEFT_TRY(weft_format(&target, "%s/weft-measure", root ? root : "/tmp"));
    weft_status status = weft_beside_tidy(target);
    if (status == WEFT_OK) status = weft_beside_open(target, 0600, &m->text, &m->file);
    free(target);
    WEFT_TRY(status);
    while (m->file >= 0 && size > 0) {
        ssize_t n = write(m->file, text, size);
        if (n < 0 && errno != EINTR) break;
        text += WEFT_MAX(n, (ssize_t)0);
        size -= (size_t)WEFT_MAX(n, (ssize_t)0);
    }
    if (m->file >= 0 && size == 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_IO,
                     "%s: cannot write a temporary file: %s; TMPDIR names another folder",
                     root ? root : "/tmp", strerror(errno));
}

static void remove_text(measuring *m)
{
    weft_beside_remove(&m->text);
    if (m->file >= 0) close(m->file);
}

/* Words of letters at random, with as many letters as tongues have. */
static weft_status write_text(measuring *m)
{
    enum { BYTES = 60000 };
    char *text;
    weft_random random;
    WEFT_TRY(WEFT_NEW(&text, BYTES));
    weft_random_start(&random, 1, 1);
    for (int i = 0; i < BYTES; i++) {
        int letter = (int)(weft_random_unit(&random) * 64);
        text[i] = letter < 10 ? ' ' : letter < 12 ? '\n' : (char)('!' + letter);
    }
    weft_status status = put_text(m, text, BYTES);
    free(text);
    return status;
}

weft_status weft_measure_go_on(weft_measure_end *end)
{
    if (!end || (!weft_stop_wanted(end->stop) && !weft_status_page_listen(&end->line)))
        return WEFT_OK;
    return weft_fail(WEFT_ERR_INTERRUPTED,
                     "stopped while this machine was measured; %s is not written", end->output);
}

static bool over(const measuring *m)
{
    return weft_seconds() - m->rates->begun > m->rates->options->seconds;
}

static void tell(const measuring *m, const char *what, double done)
{
    if (m->rates->fn) m->rates->fn(m->rates->user, what, done);
}

/* The shorter one of two runs counts. */
static void keep_sample(double *seconds, double sample)
{
    *seconds = *seconds > 0 ? WEFT_MIN(*seconds, sample) : sample;
}

/* Measures the networks again and again while there is time, so that the table knows how far runs
 * differ, and has some in which nothing disturbed the machine; the first network at least. */
static weft_status measure_networks(measuring *m)
{
    char what[160];
    double sample;
    for (int i = 0;; i++) {
        const weft_measured_network *n = weft_measured_network_at(i);
        if (!n) n = weft_measured_network_at(i = 0);
        for (int s = 0; s < m->setting_count; s++) {
            const weft_measured_setting *setting = &m->settings[s];
            WEFT_TRY(weft_measure_go_on(&m->rates->end));
            (void)snprintf(what, sizeof(what), "%.60s, %d rank%s of %d thread%s", n->model,
                           setting->ranks, weft_plural(setting->ranks), setting->threads,
                           weft_plural(setting->threads));
            double done = (weft_seconds() - m->rates->begun) / m->rates->options->seconds;
            tell(m, what, WEFT_MIN(done, 1.0));
            WEFT_TRY(weft_measure_network(m->rates->context, n, *setting, m->text, &m->rates->end,
                                          m->rates->times, &sample));
            if (setting->threads == 1) keep_sample(&m->rates->seconds[i], sample);
        }
        if (over(m)) return WEFT_OK;
    }
}

static weft_status measure_transfers(measuring *m)
{
    int most = m->rates->options->ranks > 0 ? (int)m->rates->options->ranks : weft_cores();
    for (int ranks = 2; ranks <= most;
         ranks = ranks < most && 2 * ranks > most ? most : 2 * ranks) {
        bool first;
        tell(m, "transfers between threads", 1);
        WEFT_TRY(weft_measure_transfers(m->rates->context, weft_train_engine_threads.name, ranks,
                                        &m->rates->end, m->rates->times, &first));
    }
    tell(m, "codecs and copies", 1);
    WEFT_TRY(weft_measure_work(m->rates->context, weft_cores(), &m->rates->end, m->rates->times));
    return weft_measure_messages(&m->rates->end, m->rates->times);
}

weft_status weft_measure_rates(weft_measuring *rates)
{
    measuring m = {.rates = rates, .file = -1};
    find_settings(&m);
    weft_status status = write_text(&m);
    if (status == WEFT_OK) status = measure_transfers(&m);
    if (status == WEFT_OK) status = measure_networks(&m);
    remove_text(&m);
    return status;
}
