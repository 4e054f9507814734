/* Tests the supervision of worker processes (weft serve --processes) and of members
 * (--engine processes), here shell scripts. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "job/job.h"
#include "support.h"

static char told[16384];
static int readied;

static char shell[256]; /* the program of the processes: a link to a shell, which they may remove */
static int missed;      /* starts that failed without the link */

/* The link is made again when its lack is told for the second time. */
static void tell(void *user, const char *line)
{
    (void)user;
    if (strstr(line, "cannot be started: No such file") && ++missed == 2)
        assert_int_equal(symlink("/bin/sh", shell), 0);
    size_t used = strlen(told);
    (void)snprintf(told + used, sizeof(told) - used, "%s\n", line);
}

/* Called when all workers are ready: ends the job. */
static void ready(void *user)
{
    (void)user;
    readied++;
    raise(SIGTERM);
}

/* Supervises two shells that run these commands, as workers, or as a coordinator and a learner;
 * returns the exit code of the job. */
static int run_as(bool workers, char *first, char *second)
{
    static const weft_part_role members[] = {WEFT_PART_COORDINATOR, WEFT_PART_LEARNER};
    char dash[] = "-c", *words[2][3] = {{dash, first}, {dash, second}}, *none[] = {NULL};
    weft_job_part parts[2];
    for (int i = 0; i < 2; i++)
        parts[i] = (weft_job_part){.role = workers ? WEFT_PART_WORKER : members[i],
                                   .slot = workers ? i : 0,
                                   .words = words[i]};
    weft_job_options o = {.workers = workers,
                          .members = !workers,
                          .parts = parts,
                          .part_count = 2,
                          .failure_timeout = 10,
                          .ready = ready};
    int code = -1;
    told[0] = '\0';
    readied = missed = 0;
    assert_int_equal(weft_job_supervise(&o, shell[0] ? shell : "/bin/sh", none, tell, NULL, &code),
                     WEFT_OK);
    return code;
}

static int run(char *first, char *second)
{
    return run_as(true, first, second);
}

#define BUILT "echo 'weft: [rank 0 on here: built] ' >&2; "
#define SERVES BUILT "trap 'exit 0' TERM; while :; do sleep 0.02; done"

static void all_end_when_told(void **state)
{
    (void)state;
    char serves[] = SERVES;
    assert_int_equal(run(serves, serves), 0);
    assert_int_equal(readied, 1);
    assert_string_equal(told, "");
}

static void what_cannot_begin_ends_all(void **state)
{
    (void)state;
    char serves[] = SERVES,
         fails[] = "echo 'weft: [rank 0 on here: io] no such file' >&2; echo more >&2; exit 3";
    assert_int_equal(run(fails, serves), 3);
    assert_string_equal(told, "more\nweft: no such file\n");
    assert_int_equal(run(serves, fails), 3);
    assert_string_equal(told, "more\nweft: no such file\n");
    assert_int_equal(readied, 0);
}

/* A worker that dies 5 times before it is ready ends the job. Pauses in between: 0.25, 0.5, 1, 2
 * s. */
static void what_never_lives_is_given_up(void **state)
{
    (void)state;
    char serves[] = SERVES, dies[] = "kill -KILL $$";
    double began = weft_seconds();
    assert_int_equal(run(dies, serves), 1);
    double took = weft_seconds() - began;
    assert_true(took > 3.7);
    assert_non_null(strstr(told, "process 0 died of signal 9 (Killed); it is started again in 2 s "
                                 "(0 of 2 processes serve)\n"));
    assert_non_null(strstr(told, "process 0 died of signal 9 (Killed), 5 times before it was "
                                 "ready\n"));
    assert_null(strstr(told, "process 1"));
}

/* The worker leaves a folder when it dies the first time, so that it lives the second time. */
static void what_dies_is_started_again(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-XXXXXX", second[400], serves[] = SERVES;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(second, sizeof(second),
                   "if mkdir %s/x 2>/dev/null; then kill -KILL $$; fi; " SERVES, folder);
    assert_int_equal(run(serves, second), 0);
    assert_int_equal(readied, 1);
    assert_string_equal(told, "weft: process 1 died of signal 9 (Killed); it is started again in "
                              "0.25 s (1 of 2 processes serve)\n");
    (void)snprintf(second, sizeof(second), "%s/x", folder);
    assert_int_equal(rmdir(second), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* A worker that does not end in time is killed, which makes the job fail. */
static void what_does_not_end_is_killed(void **state)
{
    (void)state;
    char serves[] = SERVES, deaf[] = BUILT "trap '' TERM; while :; do sleep 0.02; done";
    assert_int_equal(run(serves, deaf), 1);
    assert_string_equal(told, "weft: processes that have not ended after 5 s are killed\n");
    char badly[] = BUILT "trap 'exit 1' TERM; while :; do sleep 0.02; done";
    assert_int_equal(run(serves, badly), 1);
    assert_string_equal(told, "weft: process 1 ended with code 1\n");
}

/* A process dies, and two attempts to start it again fail. */
static void a_start_that_fails_is_tried_again(void **state)
{
    (void)state;
    char folder[] = "/tmp/weft-XXXXXX", mark[64], dies[400], worker[500], learner[500],
         waits[] = "while :; do sleep 0.02; done", serves[] = SERVES;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(mark, sizeof(mark), "%s/x", folder);
    (void)snprintf(shell, sizeof(shell), "%s/sh", folder);
    (void)snprintf(dies, sizeof(dies), "if mkdir %s 2>/dev/null; then rm %s; kill -KILL $$; fi; ",
                   mark, shell);
    (void)snprintf(worker, sizeof(worker), "%s" SERVES, dies);
    (void)snprintf(learner, sizeof(learner), "%sexit 0", dies);
    for (int workers = 0; workers < 2; workers++) {
        assert_int_equal(symlink("/bin/sh", shell), 0);
        assert_int_equal(run_as(workers, workers ? serves : waits, workers ? worker : learner), 0);
        assert_int_equal(missed, 2);
        assert_non_null(strstr(told, workers ? "weft: process 1: " : "weft: learner 0: "));
        assert_non_null(strstr(told, workers ? "No such file or directory; it is started again in "
                                               "0.5 s (1 of 2 processes serve)\n"
                                             : "No such file or directory; it is started again (98 "
                                               "restarts left)\n"));
        assert_int_equal(unlink(shell), 0);
        assert_int_equal(rmdir(mark), 0);
    }
    shell[0] = '\0';
    assert_int_equal(rmdir(folder), 0);
}

/* A process that ignores SIGCHLD gets no exit codes; the supervisor does not ignore it meanwhile.
 */
static void an_ignored_sigchld_hides_no_end(void **state)
{
    (void)state;
    char fails[] = "exit 1", ends[] = "exit 0", waits[] = "while :; do sleep 0.02; done",
         serves[] = SERVES;
    assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    assert_int_equal(run(serves, serves), 0);
    assert_int_equal(run_as(false, waits, ends), 0);
    assert_int_equal(run_as(false, waits, fails), 1);
    assert_true(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
}

/* An error of the first learner after its last step, as in writing a trace, is that of the job. */
static void a_late_error_is_told(void **state)
{
    (void)state;
    char waits[] = "while :; do sleep 0.02; done",
         late[] = "echo 'weft: [rank 0 on here: finished] ' >&2; sleep 0.3;"
                  "echo 'weft: [rank 0 on here: io] the disk is full' >&2; exit 1";
    assert_int_equal(run_as(false, waits, late), 1);
    assert_string_equal(told, "weft: the disk is full\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_end_when_told),
        cmocka_unit_test(what_cannot_begin_ends_all),
        cmocka_unit_test(what_never_lives_is_given_up),
        cmocka_unit_test(what_dies_is_started_again),
        cmocka_unit_test(what_does_not_end_is_killed),
        cmocka_unit_test(a_start_that_fails_is_tried_again),
        cmocka_unit_test(an_ignored_sigchld_hides_no_end),
        cmocka_unit_test(a_late_error_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
