/* An HTTP server without a model, to measure what HTTP alone costs: it is that of libmicrohttpd,
 * and answers with the same bytes as a model with this many inputs and outputs would.
 * bench/serving.py compares a server of models with it.
 *
 *   bare_http PORT INPUTS OUTPUTS [THREADS] */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_OUTPUTS = 4096 };

typedef struct bare {
    struct MHD_Response *model, *answer;
} bare;

static enum MHD_Result answer(void *user, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **kept)
{
    static char began;
    const bare *b = user;
    (void)url;
    (void)version;
    (void)data;
    if (!*kept) {
        *kept = &began;
        return MHD_YES;
    }
    if (*size) { /* a part of the body, which is read and dropped */
        *size = 0;
        return MHD_YES;
    }
    return MHD_queue_response(connection, 200, strcmp(method, "POST") ? b->model : b->answer);
}

static struct MHD_Response *make_model(int inputs, int outputs)
{
    char text[512];
    int n = snprintf(text, sizeof(text),
                     "{\"name\":\"bare\",\"versions\":[\"1\"],\"platform\":\"none\",\"inputs\":[{"
                     "\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[-1,%d]}],\"outputs\":[{"
                     "\"name\":\"prediction\",\"datatype\":\"FP32\",\"shape\":[-1,%d]}]}",
                     inputs, outputs);
    return MHD_create_response_from_buffer((size_t)n, text, MHD_RESPMEM_MUST_COPY);
}

static struct MHD_Response *make_answer(int outputs)
{
    static char text[512 + 4 * MOST_OUTPUTS];
    int n = snprintf(text, 512,
                     "{\"model_name\":\"bare\",\"model_version\":\"1\",\"outputs\":[{\"name\":"
                     "\"prediction\",\"datatype\":\"FP32\",\"shape\":[1,%d],\"parameters\":{"
                     "\"binary_data_size\":%d}}]}",
                     outputs, 4 * outputs);
    char head[32];
    for (int i = 0; i < outputs; i++) {
        float share = 1.0F / (float)outputs;
        memcpy(text + n + 4 * i, &share, 4);
    }
    (void)snprintf(head, sizeof(head), "%d", n);
    struct MHD_Response *r =
        MHD_create_response_from_buffer((size_t)(n + 4 * outputs), text, MHD_RESPMEM_PERSISTENT);
    if (r && MHD_add_response_header(r, "Inference-Header-Content-Length", head) == MHD_YES &&
        MHD_add_response_header(r, "Content-Type", "application/octet-stream") == MHD_YES)
        return r;
    return NULL;
}

int main(int argc, char **argv)
{
    int port = argc > 1 ? atoi(argv[1]) : 0, inputs = argc > 2 ? atoi(argv[2]) : 784;
    int outputs = argc > 3 ? atoi(argv[3]) : 10, threads = argc > 4 ? atoi(argv[4]) : 1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sigset_t ends;
    int which;
    if (argc < 2 || inputs < 1 || outputs < 1 || outputs > MOST_OUTPUTS || threads < 1) {
        fprintf(stderr, "usage: bare_http PORT INPUTS OUTPUTS [THREADS]\n");
        return 2;
    }
    bare b = {make_model(inputs, outputs), make_answer(outputs)};
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    struct MHD_Daemon *daemon = NULL;
    struct MHD_OptionItem pool[] = {
        {threads > 1 ? MHD_OPTION_THREAD_POOL_SIZE : MHD_OPTION_END, threads, NULL},
        {MHD_OPTION_END, 0, NULL}};
    if (b.model && b.answer)
        daemon = MHD_start_daemon(
            MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, answer, &b,
            MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_CONNECTION_LIMIT, 12000U,
            MHD_OPTION_CONNECTION_TIMEOUT, 60U, MHD_OPTION_LISTEN_BACKLOG_SIZE, 1024U,
            MHD_OPTION_ARRAY, pool, MHD_OPTION_END);
    if (!daemon) {
        fprintf(stderr, "bare_http: cannot listen on port %d\n", port);
        return 1;
    }
    printf("listening on %d\n", MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    (void)sigwait(&ends, &which);
    MHD_stop_daemon(daemon);
    MHD_destroy_response(b.model);
    MHD_destroy_response(b.answer);
    return 0;
}
