/* Tests how a supervisor interprets exit codes, the status page and the launcher's output: which
 * rank or host failed and where, which message is printed, and whether the job may restart. */
#include <signal.h>

#include "job/child.h"
#include "supervised_job.h"

enum { FAILED = 1 << 8 }; /* wait status of exit code 1 */

#define RULE "--------------------------------------------------------------------------\n"
#define DEATH                                                                                      \
    RULE "mpirun noticed that process rank %d with PID 36 on node alpha exited on signal 9 ("      \
         "Killed).\n" RULE

static void the_dead_rank_is_told_about(void **state)
{
    (void)state;
    for (int r = 0; r < 4; r++) {
        char words[400], want[200];
        job j = begin(4, NULL);
        (void)snprintf(words, sizeof(words), DEATH, r);
        (void)snprintf(
            want, sizeof(want),
            "weft: rank %d on alpha died of signal 9 (Killed) in step %d, in all-reduce of "
            "value %d\n",
            r, 100 + r, r);
        hear(&j, words);
        weft_job_end_output(&j);
        weft_job_ended(&j, FAILED);
        weft_job_report_death(&j);
        assert_string_equal(told, want);
    }
}

static void waiting_ranks_are_heard_once(void **state)
{
    (void)state;
    job j = begin(4, "alpha:2,beta:2");
    hear(&j, "weft: [rank 0 on alpha: built] \nweft: [rank 1 on alpha.example.org: built] \n"
             "weft: [rank 2 on beta: built] \nweft: [rank 3 on beta: built] \n");
    assert_string_equal(told, "");
    hear(
        &j,
        "weft: [rank 1 on alpha: peer] rank 1 waited 3 s in x; ranks that wait: 0, missing: 2 3\n");
    hear(
        &j,
        "weft: [rank 0 on alpha: peer] rank 0 waited 3 s in y; ranks that wait: 1, missing: 2 3\n");
    weft_job_end_output(&j);
    assert_string_equal(
        told, "weft: rank 1 waited 3 s in x; ranks that wait: 0, missing: 2 3 (on beta)\n");
    weft_job_ended(&j, FAILED);
    assert_int_equal(j.lost_at, 1);
    weft_job_report_death(&j);
    assert_non_null(strstr(told, "weft: host beta is lost in step 103\n"));
    assert_true(weft_job_can_restart(&j, 1));
    weft_job_shrink(&j);
    assert_int_equal(j.ranks, 2);
    assert_int_equal(j.hosts.count, 1);
    weft_hosts_free(&j.hosts);
}

/* A launcher may fill hosts in another order than that of --hosts, so ranks report their host. */
static void ranks_say_where_they_are(void **state)
{
    (void)state;
    job j = begin(3, "beta:1,alpha:2");
    hear(&j, "weft: [rank 0 on alpha: built] \nweft: [rank 1 on alpha: built] \nweft: [rank 2 on "
             "beta: built] \n");
    hear(&j, "weft: [rank 0 on alpha: peer] rank 0 waited 3 s in x; missing: 2\n");
    weft_job_ended(&j, FAILED);
    assert_int_equal(j.lost_at, 0);
    weft_hosts_free(&j.hosts);
    /* If only one of a host's two ranks hangs, the host is not lost. */
    j = begin(4, "alpha:2,beta:2");
    hear(&j, "weft: [rank 0 on alpha: built] \nweft: [rank 0 on alpha: peer] rank 0 waited 3 s in "
             "x; missing: 3\n");
    weft_job_ended(&j, FAILED);
    assert_int_equal(j.lost_at, -1);
    weft_hosts_free(&j.hosts);
}

static void own_failures_name_their_rank(void **state)
{
    (void)state;
    job j = begin(4, "alpha:2,beta:2");
    hear(&j, "weft: [rank 3 on beta: io] the disk is full\nweft: [rank 0 on alpha: peer] waited\n");
    assert_string_equal(told, "weft: the disk is full (rank 3 on beta)\n");
    assert_false(weft_job_stopped(&j, 143, 0)); /* 143: the launcher ended the others */
    weft_hosts_free(&j.hosts);
}

/* Warnings and other output of the start explain no later failure, and no host is lost for them. */
static void what_was_said_before_explains_nothing(void **state)
{
    (void)state;
    static const char start[] =
        "Warning: Permanently added 'beta' (ED25519) to the list of known hosts.\n"
        "weft: net.yaml:4: no layer reads 'side'\nweft: [rank 0 on alpha: built] \n";
    job j = begin(3, NULL);
    j.mpi = false;
    hear(&j, start);
    weft_job_ended(&j, 9); /* wait status of SIGKILL */
    weft_job_report_death(&j);
    assert_non_null(strstr(told, "the process of 3 ranks on "));
    j = begin(3, "alpha:1,beta:2");
    hear(&j, start);
    hear(&j, RULE "mpirun has exited due to process rank 1 with PID 87 on node alpha exiting "
                  "improperly.\n" RULE);
    weft_job_end_output(&j);
    weft_job_ended(&j, FAILED);
    weft_job_report_death(&j);
    assert_non_null(strstr(told, "weft: rank 1 left the job in step 101"));
    assert_int_equal(weft_hosts_gone(&j.hosts), -1);
    weft_hosts_free(&j.hosts);
    /* The launcher's message when it cannot start explains the failure. */
    j = begin(3, NULL);
    hear(&j, "mpirun: no such program\n");
    weft_job_ended(&j, FAILED);
    weft_job_report_death(&j);
    assert_string_equal(told, "mpirun: no such program\n");
}

/* A job is restarted after the death of a rank, but not after an error that a rank itself has
 * reported, since the error would come again. */
static void only_deaths_begin_again(void **state)
{
    (void)state;
    char words[200];
    for (int s = WEFT_ERR_ARGUMENT; s <= WEFT_ERR_INTERNAL; s++) {
        job j = begin(3, NULL);
        if (s == WEFT_ERR_INTERRUPTED) continue;
        (void)snprintf(words, sizeof(words), "weft: [rank 2 on alpha: %s] x\n",
                       weft_status_name((weft_status)s));
        hear(&j, words);
        hear(&j, words); /* another rank says the same */
        assert_string_equal(told, "weft: x\n");
        assert_int_equal(j.own, s == WEFT_ERR_PEER ? 0 : s == WEFT_ERR_ARGUMENT ? 2 : 1);
        assert_int_equal(weft_job_can_restart(&j, 1), s == WEFT_ERR_PEER);
    }
}

static void a_stop_is_no_death(void **state)
{
    (void)state;
    static const int codes[] = {129, 130, 143};
    for (size_t i = 0; i < WEFT_COUNT(codes); i++) {
        job j = begin(2, NULL);
        hear(&j, "weft: [rank 0 on alpha: interrupted] stopped after step 7\n");
        assert_true(weft_job_stopped(&j, codes[i], 0));
        assert_true(weft_job_stopped(&j, 137, SIGINT));
        assert_false(weft_job_stopped(&j, 137, 0));
        assert_false(weft_job_stopped(&j, 1, 0));
        assert_false(weft_job_stopped(&j, 0, SIGINT)); /* the job has ended normally */
        assert_string_equal(told, "");
        assert_string_equal(j.stopped, "weft: stopped after step 7");
        assert_false(weft_job_unsaved(&j, 137, 1));
        j.stopped[0] = '\0';
        assert_true(weft_job_unsaved(&j, 137, 1));
        assert_false(weft_job_unsaved(&j, 137, 2)); /* all were killed at once, as wanted */
    }
}

/* A child that someone else has reaped, as the kernel does where SIGCHLD is ignored, has ended, and
 * with a failure, as far as is known. */
static void a_child_without_a_status_has_failed(void **state)
{
    (void)state;
    char *words[] = {"true", NULL};
    const char *const none[] = {NULL};
    weft_child c;
    double until = weft_seconds() + 60;
    assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    assert_ok(weft_child_start(words, none, SIGKILL, false, &c));
    while (!weft_child_ended(&c) && weft_seconds() < until)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    assert_true(weft_child_ended(&c));
    assert_int_equal(weft_child_end(&c), FAILED);
    assert_true(signal(SIGCHLD, SIG_DFL) == SIG_IGN);
}

/* The death of the launcher removes no rank from the job, and a message about a rank number that
 * the job does not have is ignored. */
static void a_launcher_is_no_rank(void **state)
{
    (void)state;
    job j = begin(3, NULL);
    weft_job_ended(&j, 9); /* wait status of SIGKILL */
    weft_job_report_death(&j);
    assert_non_null(strstr(told, "weft: mpirun (3 ranks) on "));
    assert_non_null(strstr(told, " died of signal 9 (Killed) in step 100; rank 0 in all-reduce"));
    assert_true(weft_job_can_restart(&j, 137));
    weft_job_shrink(&j);
    assert_int_equal(j.ranks, 3);
    char words[400];
    j = begin(3, NULL);
    (void)snprintf(words, sizeof(words), DEATH, 1 << 30);
    hear(&j, words);
    weft_job_end_output(&j);
    assert_int_equal(j.dead, -1);
    /* Without mpirun, one process has all ranks. */
    j = begin(3, NULL);
    j.mpi = false;
    weft_job_ended(&j, 9);
    weft_job_report_death(&j);
    assert_non_null(strstr(told, "weft: the process of 3 ranks on "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dead_rank_is_told_about),
        cmocka_unit_test(waiting_ranks_are_heard_once),
        cmocka_unit_test(ranks_say_where_they_are),
        cmocka_unit_test(own_failures_name_their_rank),
        cmocka_unit_test(what_was_said_before_explains_nothing),
        cmocka_unit_test(only_deaths_begin_again),
        cmocka_unit_test(a_stop_is_no_death),
        cmocka_unit_test(a_child_without_a_status_has_failed),
        cmocka_unit_test(a_launcher_is_no_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
