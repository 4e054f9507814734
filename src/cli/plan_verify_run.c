/* The runs of weft plan --verify: each is a weft train of its own, whose metrics are read. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "plan_verify.h"

/* --- processes --- */

static int wait_for(pid_t pid)
{
    int how;
    while (waitpid(pid, &how, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

/* Starts weft with its standard output and its errors in one pipe. */
static pid_t start(char *const *words, int out[2])
{
    char program[4096];
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length < 0 || posix_spawn_file_actions_init(&actions) != 0) return -1;
    program[length] = '\0';
    bool set = posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO) == 0 &&
               posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO) == 0 &&
               posix_spawn_file_actions_addclose(&actions, out[0]) == 0 &&
               posix_spawn_file_actions_addclose(&actions, out[1]) == 0;
    int why = set ? posix_spawn(&pid, program, &actions, NULL, words, environ) : ENOMEM;
    posix_spawn_file_actions_destroy(&actions);
    if (why != 0) pid = -1;
    errno = why;
    return pid;
}

/* Passes the request to stop on to the run, of which nothing is kept: a second one ends it at once,
 * if a signal of the terminal has not reached it, too. */
static void pass_on(pid_t pid, double *asked)
{
    static const double SECOND = 0.3; /* after the first one, in seconds */
    bool first = *asked == 0;
    if (!wanted_stop.wanted || (!first && clock_seconds() - *asked < SECOND)) return;
    *asked = first ? clock_seconds() : INFINITY;
    kill(pid, SIGINT);
}

/* Lines of metrics begin with a brace; the first one that does not is an error. */
static void take_line(char *line, verify_line_fn *fn, void *user, char *error)
{
    static const char prefix[] = "weft: ";
    bool named = strncmp(line, prefix, strlen(prefix)) == 0;
    fn(user, line);
    if (*line != '{' && !*error)
        (void)snprintf(error, VERIFY_REASON, "%s", named ? line + strlen(prefix) : line);
}

static void read_lines(int from, pid_t pid, verify_line_fn *fn, void *user, char *error)
{
    enum { LOOK = 50, ROOM = 1 << 20 }; /* milliseconds; bytes of a line */
    char *text = malloc(ROOM), *end;
    size_t size = 0;
    double asked = 0;
    *error = '\0';
    while (text) {
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int count = poll(&ready, 1, LOOK);
        pass_on(pid, &asked);
        if (count <= 0) continue;
        ssize_t got = read(from, text + size, ROOM - 1 - size);
        if (got <= 0) break;
        size += (size_t)got;
        text[size] = '\0';
        char *at = text;
        for (; (end = strchr(at, '\n')); at = end + 1) {
            *end = '\0';
            take_line(at, fn, user, error);
        }
        size -= (size_t)(at - text);
        memmove(text, at, size);
        if (size == ROOM - 1) size = 0; /* no line of a run is so long */
    }
    free(text);
}

int verify_run(char *const *words, verify_line_fn *line, void *user, char *error)
{
    int out[2];
    pid_t pid = pipe(out) == 0 ? start(words, out) : -2;
    (void)snprintf(error, VERIFY_REASON, "a run cannot be started: %s", strerror(errno));
    if (pid == -2) return -1;
    close(out[1]);
    if (pid > 0) read_lines(out[0], pid, line, user, error);
    close(out[0]);
    return pid > 0 ? wait_for(pid) : -1;
}

/* --- runs --- */

enum { FOUR = 4, LEAST_STEPS = 16, MOST_STEPS = 4000, OWN_WORDS = 12, MOST_WORDS = 32 };

typedef struct reading {
    double batch;
    double rates[MOST_STEPS], bytes[MOST_STEPS]; /* of each step: samples a second, bytes sent */
    int steps;
    double learners, planned, peak, exchanged;
} reading;

/* The number behind a key of a line of metrics, or the sum of a list of them; 0: there is none. */
static double number_of(const char *line, const char *key)
{
    char quoted[64], *end;
    double sum = 0;
    (void)snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    const char *at = strstr(line, quoted);
    if (!at) return 0;
    at += strlen(quoted);
    do {
        at += *at == '[' || *at == ',';
        sum += strtod(at, &end);
        bool list = end > at && *end == ',' && end[1] != '"';
        at = list ? end : "";
    } while (*at == ',');
    return sum;
}

static void on_line(void *user, const char *line)
{
    reading *r = user;
    if (strstr(line, "\"event\":\"step\"") && r->steps < MOST_STEPS) {
        r->rates[r->steps] = number_of(line, "samples_per_second");
        r->bytes[r->steps++] = number_of(line, "comm_bytes");
    }
    if (!strstr(line, "\"event\":\"summary\"")) return;
    r->learners = number_of(line, "learners");
    r->planned = number_of(line, "rank_bytes");
    r->peak = number_of(line, "peak_rss_bytes");
    r->exchanged = number_of(line, "exchange_bytes");
}

/* The mean of the steps after the first four, which warm up: learners take longer for one of
 * several, so that a median says little of their rate. */
static double step_seconds(const reading *r)
{
    double sum = 0;
    for (int i = FOUR; i < r->steps; i++) sum += r->batch * r->learners / r->rates[i];
    return r->steps > FOUR ? sum / (r->steps - FOUR) : 0;
}

/* Without the first group, and without the last, at whose end learners meet in any case. */
static double step_bytes(const reading *r)
{
    double sum = 0;
    int count = r->steps > 2 * FOUR ? r->steps - 2 * FOUR : 0;
    for (int i = 0; i < count; i++) sum += r->bytes[FOUR + i] / count;
    return sum;
}

/* The second of two runs whose exchange sends has twice as many steps. */
static int steps_of(const verified *v, const verified *before, double seconds)
{
    double wanted = seconds / fmax(v->step.seconds, 1e-6);
    if (before && before->exchanged > 0) return 2 * before->steps;
    return FOUR * (int)(fmin(fmax(wanted, LEAST_STEPS), MOST_STEPS / 2.0) / FOUR);
}

/* The words of the run: the options of the command line, the strategy's, and those that make it
 * quiet and short. Words of own[] are in `text`. */
static int add_strategy(const char *words, char *text, size_t size, char **own)
{
    int count = 0;
    size_t at = 0;
    for (const char *w = words; *w && count < MOST_WORDS;) {
        size_t length = strcspn(w, " \t\n");
        if (length > 0 && at + length + 3 < size) {
            own[count++] = text + at;
            at += (size_t)snprintf(text + at, size - at, "--%.*s", (int)length, w) + 1;
        }
        w += length + strspn(w + length, " \t\n");
    }
    return count;
}

/* The bytes that a learner's exchange sends in a step. */
static double exchanged_bytes(const verified *v, const verified *before)
{
    int steps = before ? v->steps - before->steps : v->steps;
    double bytes = before ? v->exchanged - before->exchanged : v->exchanged;
    return steps > 0 && v->step.counted_learners > 0 ? bytes / steps / v->step.counted_learners : 0;
}

static void read_figures(reading *r, const verified *before, verified *v)
{
    v->seconds = step_seconds(r);
    v->exchanged = r->exchanged;
    v->sent = step_bytes(r) + exchanged_bytes(v, before);
    v->planned = r->planned;
    v->peak = r->peak;
    if (v->seconds <= 0) (void)snprintf(v->reason, VERIFY_REASON, "the run had too few steps");
}

void verify_train(verified *v, const verified *before, double seconds, double batch, int argc,
                  char **argv)
{
    char text[2048], steps[24];
    char **words = calloc((size_t)(argc + OWN_WORDS + MOST_WORDS), sizeof(*words));
    reading *r = calloc(1, sizeof(*r));
    int count = 0;
    char *const first[] = {"weft", "train"}, *const after[] = {"--quiet", "--metrics=-", steps};
    v->steps = steps_of(v, before, seconds);
    (void)snprintf(steps, sizeof(steps), "--steps=%d", v->steps);
    if (words && r) {
        for (size_t i = 0; i < 2; i++) words[count++] = first[i];
        for (int i = 0; i < argc; i++) words[count++] = argv[i];
        count += add_strategy(v->words, text, sizeof(text), words + count);
        for (size_t i = 0; i < 3; i++) words[count++] = after[i];
        r->batch = batch;
        int code = verify_run(words, on_line, r, v->reason);
        if (code == 0) *v->reason = '\0';
        if (code != 0 && !*v->reason)
            (void)snprintf(v->reason, VERIFY_REASON, "the run ended with the code %d", code);
        if (code == 0) read_figures(r, before, v);
    }
    free(words);
    free(r);
}
