/* The hosts of a job, parsed from --hosts NAME:RANKS,..., and the search for the host that is
 * lost. */
#ifndef WEFT_JOB_HOSTS_H
#define WEFT_JOB_HOSTS_H

#include <sys/types.h>

#include "base/base.h"

typedef struct weft_machine {
    char *name;
    int slots;   /* number of its ranks */
    pid_t agent; /* process (ssh) by which the launcher reaches the host; 0: not seen yet */
    bool gone;   /* lost: its agent has ended, or an error message of the launcher names it */
} weft_machine;

typedef struct weft_hosts {
    weft_machine *host;
    int count; /* 0: --hosts was not given */
} weft_hosts;

weft_status weft_hosts_parse(const char *text, weft_hosts *out) WEFT_NODISCARD;
void weft_hosts_free(weft_hosts *hosts);
/* Writes the list of hosts in the syntax of launchers. */
weft_status weft_hosts_text(const weft_hosts *hosts, char **out) WEFT_NODISCARD;

/* The index of the host with this name, or of the host of this rank, since launchers fill one host
 * after the other. -1: unknown. */
int weft_hosts_find(const weft_hosts *hosts, const char *name);
int weft_hosts_of_rank(const weft_hosts *hosts, int rank);

/* Finds the launcher's agents, which are children whose command line names a host (children that
 * run `program` are ranks), and sets `gone` of hosts whose agent has ended. */
void weft_hosts_look(weft_hosts *hosts, pid_t launcher, const char *program);
/* Sets `gone` of the hosts that an error message names, since the agent that printed it may have
 * ended before weft_hosts_look saw it. */
void weft_hosts_mention(weft_hosts *hosts, const char *line);
void weft_hosts_forget(weft_hosts *hosts); /* before another launcher is started */
/* The index of the only host that is `gone`; -1: none, or several. */
int weft_hosts_gone(const weft_hosts *hosts);

void weft_hosts_remove(weft_hosts *hosts, int i);

#endif
