/* weft serve --processes: runs a supervisor of serving processes, and prints its URLs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static void on_ready(void *user, int port, const int *metrics)
{
    const weft_server_options *o = user;
    if (o->quiet) return;
    print_url("listening on ", o, port);
    printf(" with %d processes", (int)o->processes);
    for (int i = 0; metrics && i < (int)o->processes; i++) {
        print_url(i == 0 ? " (metrics of each at " : ", ", o, metrics[i]);
        printf("/metrics");
    }
    printf("%s\n", metrics ? ")" : "");
    flush_stdout();
}

int serve_processes(weft_context *context, weft_server_options *options, const char *const *words,
                    int count)
{
    char program[4096];
    int code = 1;
    ssize_t size = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (size < 0) {
        fprintf(stderr, "weft: the processes cannot be started: %s\n", strerror(errno));
        return 1;
    }
    program[size] = '\0';
    print_log(context, options->quiet);
    weft_status status = weft_server_supervise(context, options, words, count, program, on_ready,
                                               print_line, options, &code);
    return status == WEFT_OK ? code : report_failure(status);
}
