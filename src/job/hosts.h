/* The machines of a job, parsed from --hosts NAME:RANKS,... */
#ifndef WEFT_JOB_HOSTS_H
#define WEFT_JOB_HOSTS_H

#include <sys/types.h>

#include "base/base.h"

typedef struct weft_machine {
    char *name;
    int slots;   /* number of its ranks */
    pid_t agent; /* process by which the launcher reaches it (ssh); 0: not seen yet */
    bool gone;   /* the agent has ended */
} weft_machine;

typedef struct weft_hosts {
    weft_machine *host;
    int count; /* 0: --hosts was not given */
} weft_hosts;

weft_status weft_hosts_parse(const char *text, weft_hosts *out) WEFT_NODISCARD;
void weft_hosts_free(weft_hosts *hosts);
/* The list in the syntax of launchers. */
weft_status weft_hosts_text(const weft_hosts *hosts, char **out) WEFT_NODISCARD;

/* The index of a name, or of the host of a rank: launchers fill one host after the other. -1:
 * unknown. */
int weft_hosts_find(const weft_hosts *hosts, const char *name);
int weft_hosts_of_rank(const weft_hosts *hosts, int rank);

/* Finds the launcher's agents: children whose command line names a host; those that run `program`
 * are ranks. */
void weft_hosts_look(weft_hosts *hosts, pid_t launcher, const char *program);
/* An error message of an agent names its host; the agent may have ended without being seen. */
void weft_hosts_mention(weft_hosts *hosts, const char *line);
void weft_hosts_forget(weft_hosts *hosts); /* before another launcher is started */
/* The only host whose agent has ended, or -1. */
int weft_hosts_gone(const weft_hosts *hosts);

void weft_hosts_remove(weft_hosts *hosts, int i);

#endif
