/* Runs a case by the command `weft train` with MPI processes, and reads its checkpoint, metrics and
 * messages. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hunt.h"

#ifdef WEFT_COMMAND
const char *const hunt_command = WEFT_COMMAND;
#else
const char *const hunt_command = "";
#endif

static void start(const words *w, const char *folder)
{
    static char train[] = "train", engine[] = "--engine", mpi[] = "mpi", quiet[] = "-q";
    static char metrics[] = "--metrics", timeout[] = "--timeout", seconds[] = "20";
    char file[TEXT], *all[sizeof(w->word) / sizeof(w->word[0]) + 16];
    int n = 0;
    (void)snprintf(file, sizeof(file), "%s.jsonl", folder);
    char *const more[] = {engine, mpi, quiet, metrics, file, timeout, seconds, NULL};
    char *name = strdup(hunt_command);
    if (!name) _exit(3);
    all[n++] = name;
    all[n++] = train;
    for (int i = 0; i < w->count; i++) all[n++] = w->word[i];
    for (int i = 0; i <= 7; i++) all[n++] = more[i];
    int log = open("command.log", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (log < 0 || dup2(log, 2) < 0 || dup2(log, 1) < 0) _exit(3);
    (void)execv(name, all);
    _exit(3);
}

/* Reads the error message from the command's log: the text behind "weft: ", or the whole log if no
 * line begins so. */
static void read_message(char *out, size_t room)
{
    char line[1024];
    FILE *f = fopen("command.log", "r");
    size_t used = 0;
    out[0] = '\0';
    while (f && fgets(line, sizeof(line), f)) {
        bool said = strncmp(line, "weft: ", 6) == 0;
        if (said) used = 0;
        line[strcspn(line, "\n")] = '\0';
        if (used + 1 < room)
            used += (size_t)snprintf(out + used, room - used, "%s", said ? line + 6 : line);
        if (said) break;
    }
    if (f) (void)fclose(f);
}

static void read_metrics(const char *folder, result *out)
{
    char file[TEXT], line[4096];
    (void)snprintf(file, sizeof(file), "%s.jsonl", folder);
    FILE *f = fopen(file, "r");
    while (f && fgets(line, sizeof(line), f)) {
        json_t *o = json_loads(line, 0, NULL);
        const char *event = json_string_value(json_object_get(o, "event"));
        const json_t *number = json_object_get(o, "loss");
        double loss = json_is_null(number) ? NAN : json_number_value(number);
        int step = (int)json_integer_value(json_object_get(o, "step"));
        if (event && strcmp(event, "step") == 0 && step >= 1 && step <= MOST_STEPS) {
            out->losses[step - 1] = loss;
            out->steps = step;
        }
        if (event && strcmp(event, "eval") == 0) {
            out->test_loss = loss;
            const json_t *r2 = json_object_get(o, "r2");
            out->figure = json_number_value(r2 ? r2 : json_object_get(o, "accuracy"));
        }
        json_decref(o);
    }
    if (f) (void)fclose(f);
}

void run_command(const hunt_case *c, const way *w, const char *folder, result *out)
{
    static words line;
    char latest[TEXT];
    int how = 0;
    memset(out, 0, sizeof(*out));
    case_words(c, w, folder, &line);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) start(&line, folder);
    while (child > 0 && waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
    if (child < 0 || !WIFEXITED(how) || WEXITSTATUS(how) != 0) {
        out->status = WEFT_ERR_PEER;
        read_message(out->message, sizeof(out->message));
        return;
    }
    read_metrics(folder, out);
    (void)snprintf(latest, sizeof(latest), "%s/latest", folder);
    if (tensors_read(latest, &out->tensors)) return;
    out->status = WEFT_ERR_FORMAT;
    (void)snprintf(out->message, sizeof(out->message), "%s: there is no whole checkpoint", latest);
}
