/* weft status and weft leave: ask the coordinator for the members of an elastic run, or to have one
 * leave, as a client that is no member itself. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "elastic.h"

static const weft_option *table(const weft_context *context)
{
    return weft_cluster_table((weft_context *)(uintptr_t)context, WEFT_CLUSTER_GUEST);
}

/* --- weft status --- */

void print_run(const weft_cluster_status *s)
{
    printf("run %08llx: model %s, exchange %s", (unsigned long long)(s->run & 0xffffffff), s->model,
           s->exchange);
    if (s->steps > 0) printf(", %" PRId64 " step%s", s->steps, weft_plural(s->steps));
    printf("\ndata: %s\n", s->data);
}

const char *count_members(const weft_cluster_status *s, char *out, size_t size)
{
    bool waits = !s->running && !s->over;
    int learners = waits ? s->learners_expected : s->learners;
    int servers = waits ? s->servers_expected : s->servers;
    size_t used = 0;
    if (waits) used = (size_t)snprintf(out, size, "%d of ", s->learners);
    used +=
        (size_t)snprintf(out + used, size - used, "%d learner%s", learners, weft_plural(learners));
    if (s->servers_expected == 0) return out;
    used += (size_t)snprintf(out + used, size - used, ", ");
    if (waits) used += (size_t)snprintf(out + used, size - used, "%d of ", s->servers);
    (void)snprintf(out + used, size - used, "%d server%s", servers, weft_plural(servers));
    return out;
}

static void print_progress(const weft_cluster_status *s)
{
    char text[64];
    const char *state = s->fault     ? "failed"
                        : s->over    ? "over"
                        : s->running ? "under way"
                                     : "waits for members";
    printf("%s: %s", state, count_members(s, text, sizeof(text)));
    bool known = s->over || s->learners > 0 || s->step > 0; /* servers alone know no step */
    if (s->running && s->steps > 0 && known)
        printf("; step %" PRId64 " of %" PRId64 " (%.0f %%)", s->step, s->steps,
               100.0 * (double)s->step / (double)s->steps);
    if (s->running && s->rate > 0) printf("; %.0f samples/s of all learners", s->rate);
    printf("\n");
    if (s->fault) printf("fault: %s\n", s->fault);
}

static void print_member(const weft_cluster_member *m)
{
    bool server = strcmp(m->role, "server") == 0;
    char loss[32] = "-", rate[32] = "-", staleness[32] = "-";
    if (!server && m->rate > 0) {
        (void)score_text(m->loss, loss, sizeof(loss));
        (void)snprintf(rate, sizeof(rate), "%.0f", m->rate);
    }
    char device[64] = "";
    size_t used = 0;
    if (m->device_busy > 0)
        used =
            (size_t)snprintf(device, sizeof(device), "  device %.0f %% busy", 100 * m->device_busy);
    if (m->device_total > 0)
        (void)snprintf(device + used, sizeof(device) - used, "%s %.0f of %.0f MB",
                       used > 0 ? "," : "  device", (double)m->device_used / 1e6,
                       (double)m->device_total / 1e6);
    if (server && m->step > 0) (void)snprintf(staleness, sizeof(staleness), "%.2f", m->staleness);
    printf("%-12s %10" PRIu32 "  %-16s %10" PRId64 " %10s %10s %9s %6.1f s ago%s%s\n", m->name,
           m->id, *m->host ? m->host : "-", m->step, loss, rate, staleness, m->silent, device,
           m->leaving ? "  leaving" : "");
}

enum { EVENTS_SHOWN = 5 };

static void print_events(const weft_cluster_status *s)
{
    int first = s->event_count > EVENTS_SHOWN ? s->event_count - EVENTS_SHOWN : 0;
    for (int i = first; i < s->event_count; i++)
        printf("%6.0f s ago: %s\n", s->events[i].ago, s->events[i].text);
}

/* Prints the status of the run. stale: seconds since the coordinator sent it; 0: it is new. */
static void print_status(const weft_cluster_status *s, double stale)
{
    if (stale > 0)
        printf("STALE: the coordinator has not answered for %.0f s; this was its last answer\n",
               stale);
    print_run(s);
    print_progress(s);
    printf("%-12s %10s  %-16s %10s %10s %10s %9s %12s\n", "member", "number", "host", "step",
           "loss", "samples/s", "staleness", "last heard");
    for (int i = 0; i < s->count; i++) print_member(&s->members[i]);
    print_events(s);
    printf(
        "step: steps that a learner has finished, updates of learners that a server has applied\n"
        "samples/s: of that learner; staleness: updates between read and write, mean\n");
    flush_stdout();
}

/* Seconds for which weft status waits for an answer of a coordinator that has answered before. */
static const double SOON = 2;

/* Prints the status once or, on a terminal, every second until the run is over. The screen is
 * cleared each time, since lines may be longer than the terminal is wide. A signal ends that, and
 * is no failure. While the coordinator does not answer, its last status is printed and marked as
 * stale. */
static weft_status show(weft_context *context, const char *address, weft_cluster_options *o)
{
    bool live = isatty(STDOUT_FILENO);
    double timeout = o->train.job.timeout, answered = 0;
    weft_cluster_status last = {0}, s;
    weft_status status;
    while (true) {
        status = weft_cluster_look(context, address, o, &wanted_stop, 0, &s);
        double now = seconds_now();
        if (status == WEFT_OK) {
            weft_cluster_status_free(&last);
            last = s;
            answered = now;
        } else if (status != WEFT_ERR_PEER || answered == 0 || now - answered > timeout) {
            break;
        }
        if (live) printf("\033[H\033[2J");
        print_status(&last, status == WEFT_OK ? 0 : now - answered);
        if (status == WEFT_OK && (!live || last.over || last.fault)) break;
        o->train.job.timeout = SOON < timeout ? SOON : timeout;
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        status = wanted_stop.wanted ? WEFT_ERR_INTERRUPTED : WEFT_OK;
        if (status != WEFT_OK) break;
    }
    if (status == WEFT_ERR_INTERRUPTED && answered > 0) status = WEFT_OK;
    weft_cluster_status_free(&last);
    return status;
}

static int run_status(weft_context *context, int argc, char **argv)
{
    weft_cluster_options o;
    const char *address = NULL;
    int code = member_begin(context, WEFT_CLUSTER_GUEST, "status", argc, argv, &address, 1, &o);
    if (code) {
        weft_cluster_options_free(context, &o);
        return code;
    }
    return member_end(context, &o, show(context, address, &o));
}

const command command_status = {
    .name = "status",
    .usage = "tcp://HOST:PORT",
    .summary = "show the members of an elastic run",
    .text =
        "Prints the run of the coordinator at this address (model, exchange, step of the\n"
        "total), its members with their hosts, steps (of a server: updates applied), loss of the\n"
        "last step, samples per second, mean staleness, time since the last heartbeat, how busy\n"
        "and how full a learner's device with memory of its own is (opencl, cuda), and the\n"
        "members that joined, left or were lost. On a terminal it updates until Ctrl-C; the\n"
        "table is marked as stale while the coordinator does not answer.",
    .examples = "  weft status tcp://127.0.0.1:7070\n",
    .table = table,
    .run = run_status,
};

/* --- weft leave --- */

/* The id of the member with this name or number; 0: there is none. */
static uint32_t number_of(const weft_cluster_status *s, const char *word)
{
    char *end = NULL;
    unsigned long id = *word >= '1' && *word <= '9' ? strtoul(word, &end, 10) : 0;
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->members[i].name, word) == 0 || (end && !*end && s->members[i].id == id))
            return s->members[i].id;
    return 0;
}

static int run_leave(weft_context *context, int argc, char **argv)
{
    weft_cluster_options o;
    weft_cluster_status s = {0};
    const char *words[2] = {NULL, NULL};
    int code = member_begin(context, WEFT_CLUSTER_GUEST, "leave", argc, argv, words, 2, &o);
    if (code) {
        weft_cluster_options_free(context, &o);
        return code;
    }
    weft_status status = weft_cluster_look(context, words[0], &o, &wanted_stop, 0, &s);
    uint32_t id = status == WEFT_OK ? number_of(&s, words[1]) : 0;
    weft_cluster_status_free(&s);
    if (status == WEFT_OK && id == 0) {
        char shown[64];
        fprintf(stderr,
                "weft: '%s' is neither the name nor the number of a member; weft status "
                "lists them\n",
                weft_printable(words[1], shown, sizeof(shown)));
        code = 1;
    }
    if (id) status = weft_cluster_look(context, words[0], &o, &wanted_stop, id, &s);
    weft_cluster_status_free(&s);
    int ended = member_end(context, &o, status);
    return ended ? ended : code;
}

const command command_leave = {
    .name = "leave",
    .usage = "tcp://HOST:PORT MEMBER",
    .summary = "ask a member of an elastic run to leave",
    .text =
        "The member with this name or id (see weft status) finishes its step and leaves; the\n"
        "other members continue. A server that holds the only copy of a range is not dismissed;\n"
        "copies on servers that were asked to leave do not count.",
    .examples = "  weft leave tcp://127.0.0.1:7070 'learner 1'\n"
                "  weft leave tcp://127.0.0.1:7070 2718281828\n",
    .table = table,
    .run = run_leave,
};
