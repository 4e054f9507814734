/* A program that runs a job and has child processes of its own. The supervisor ends all processes
 * that the job leaves behind, and leaves the program's own children alone, also those that start
 * while the job runs. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"
#include "weft/train.h"

static pid_t start_child(int code)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (code < 0) (void)execlp("sleep", "sleep", "100", (char *)NULL);
        _exit(code);
    }
    return pid;
}

static bool alive(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

/* Starts two children of the program while the job runs. */
static void *start_more(void *user)
{
    pid_t *own = user;
    usleep(300000);
    own[1] = start_child(-1);
    own[2] = start_child(7);
    return NULL;
}

static int read_pid(const char *path)
{
    int pid = -1;
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    if (fscanf(file, "%d", &pid) != 1) pid = -1;
    fclose(file);
    unlink(path);
    return pid;
}

static void only_what_it_started_is_ended(void **state)
{
    (void)state;
    char shell[] = "-c", folder[] = "/tmp/weft-embed-XXXXXX", script[600];
    static const char *const names[] = {"group", "session", "double"};
    char *words[] = {shell, script, NULL};
    weft_train_options options = {0};
    pid_t own[3] = {start_child(-1)};
    pthread_t thread;
    int code = 0, status = 0, was = -1;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(script, sizeof(script),
                   "cd %s; sleep 100 & echo $! >group; setsid sleep 100 & echo $! >session; "
                   "(setsid sh -c 'echo $$ >double; exec sleep 100' &); sleep 1; exit 3",
                   folder);
    assert_ok(weft_train_options_init(fresh_context(), &options));
    assert_int_equal(pthread_create(&thread, NULL, start_more, own), 0);
    assert_ok(weft_job_run(fresh_context(), &options, "/bin/sh", words, NULL, NULL, &code));
    pthread_join(thread, NULL);
    assert_int_equal(code, 3);
    for (int i = 0; i < 3; i++) {
        char path[200];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        int pid = read_pid(path);
        assert_true(pid > 0);
        if (kill(pid, 0) == 0) fail_msg("the job's process %d ('%s') is left", pid, names[i]);
    }
    for (int i = 0; i < 2; i++) {
        if (!alive(own[i])) fail_msg("child %d of the program was ended with its job", i);
        kill(own[i], SIGKILL);
        assert_int_equal(waitpid(own[i], &status, 0), own[i]);
    }
    assert_int_equal(waitpid(own[2], &status, 0), own[2]); /* the supervisor has not reaped it */
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(prctl(PR_GET_CHILD_SUBREAPER, &was), 0);
    assert_int_equal(was, 0);
    assert_null(getenv("WEFT_SUPERVISED"));
    weft_options_free(weft_train_table(fresh_context()), &options);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_what_it_started_is_ended)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
