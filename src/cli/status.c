/* weft status and leave: what somebody asks who is no member of a run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "members.h"

static const weft_option *table(const weft_context *context)
{
    return weft_cluster_table((weft_context *)(uintptr_t)context, WEFT_CLUSTER_GUEST);
}

/* --- weft status --- */

static int print_members(const weft_cluster_status *s)
{
    int lines = 2;
    printf("%s%s%s\n",
           s->fault     ? "the run has failed: "
           : s->over    ? "the run is over"
           : s->running ? "the run goes on"
                        : "the run waits for members",
           s->fault ? s->fault : "", "");
    printf("%10s  %-8s %4s %10s %10s %12s %10s %8s\n", "member", "role", "slot", "clock", "loss",
           "samples/s", "staleness", "silent");
    for (int i = 0; i < s->count; i++) {
        const weft_cluster_member *m = &s->members[i];
        bool server = strcmp(m->role, "server") == 0;
        char loss[32] = "-", rate[32] = "-", staleness[32] = "-";
        if (!server && m->clock > 0) {
            (void)snprintf(loss, sizeof(loss), "%.4f", m->loss);
            (void)snprintf(rate, sizeof(rate), "%.0f", m->rate);
        }
        if (server) (void)snprintf(staleness, sizeof(staleness), "%.2f", m->staleness);
        printf("%10" PRIu32 "  %-8s %4d %10" PRId64 " %10s %12s %10s %7.1fs%s\n", m->id, m->role,
               m->slot, m->clock, loss, rate, staleness, m->silent, m->leaving ? "  leaving" : "");
        lines++;
    }
    printf("samples/s is the learner's own over its last steps; clock is its finished steps, or a "
           "server's "
           "updates; silent is the time since a member was last heard\n");
    fflush(stdout);
    return lines + 1;
}

/* On a terminal again and again, over what was there. */
static weft_status show(weft_context *context, const char *address, const weft_cluster_options *o)
{
    bool live = isatty(STDOUT_FILENO);
    int lines = 0;
    while (true) {
        weft_cluster_status s;
        weft_status status = weft_cluster_look(context, address, o, &wanted_stop, 0, &s);
        if (status != WEFT_OK) return status;
        if (lines) printf("\033[%dA\033[J", lines);
        lines = print_members(&s);
        bool ends = s.over || s.fault;
        weft_cluster_status_free(&s);
        if (!live || ends || wanted_stop.wanted) return WEFT_OK;
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
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
    .summary = "show who takes part in a run",
    .text =
        "Members of the run of the coordinator at that address: their steps (a server's updates),\n"
        "the loss of the last step, samples a second, how stale updates were, and how long ago "
        "they\n"
        "were heard of. On a terminal it goes on until Ctrl-C.",
    .examples = "  weft status tcp://127.0.0.1:7070\n",
    .table = table,
    .run = run_status,
};

/* --- weft leave --- */

static int run_leave(weft_context *context, int argc, char **argv)
{
    weft_cluster_options o;
    weft_cluster_status s = {0};
    const char *words[2] = {NULL, NULL};
    int code = member_begin(context, WEFT_CLUSTER_GUEST, "leave", argc, argv, words, 2, &o);
    char *end = NULL;
    unsigned long id = words[1] ? strtoul(words[1], &end, 10) : 0;
    if (code == 0 && (*words[1] < '1' || *words[1] > '9' || *end || id > UINT32_MAX)) {
        char shown[64];
        fprintf(stderr, "weft: '%s' is no number of a member; weft status lists them\n",
                weft_printable(words[1], shown, sizeof(shown)));
        code = 2;
    }
    if (code) {
        weft_cluster_options_free(context, &o);
        return code;
    }
    weft_status status = weft_cluster_look(context, words[0], &o, &wanted_stop, (uint32_t)id, &s);
    bool known = false;
    for (int i = 0; i < s.count; i++) known = known || (s.members[i].id == id);
    if (status == WEFT_OK && !known) {
        fprintf(stderr, "weft: no member %s is there; weft status lists them\n", words[1]);
        code = 1;
    }
    if (status == WEFT_OK) weft_cluster_status_free(&s);
    int ended = member_end(context, &o, status);
    return ended ? ended : code;
}

const command command_leave = {
    .name = "leave",
    .usage = "tcp://HOST:PORT MEMBER",
    .summary = "let a member of a run go",
    .text = "The learner or server of that number (weft status lists them) ends after its step, "
            "and the\n"
            "others go on. A server that has parameters nobody else has is not let go.",
    .examples = "  weft leave tcp://127.0.0.1:7070 2718281828\n",
    .table = table,
    .run = run_leave,
};
