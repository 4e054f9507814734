/* Tests the ranks and hosts of a job: which of them are named when they do not start, how many
 * ranks are left for a restart after deaths, and which host a message means. */
#include <signal.h>

#include "job/child.h"
#include "supervised_job.h"

/* Ranks that have been in MPI_Init and read or compute are waited for, however long they take; one
 * that is still in MPI_Init is not. The limit is one second. A rank that is on another machine, as
 * in an allocation that mpirun finds by itself, shares no page and says that it is built. */
static void slow_data_are_no_hang(void **state)
{
    (void)state;
    char *words[] = {"sh", "-c", "t=$(date +%s); while [ $(($(date +%s) - t)) -lt 4 ]; do :; done",
                     NULL};
    const char *const none[] = {NULL};
    weft_job_options hurried = options;
    hurried.timeout = -4; /* and the grace of five seconds */
    enum { HERE, MISSING, AFAR, CASES };
    for (int kind = 0; kind < CASES; kind++) {
        bool missing = kind == MISSING;
        job j = begin(2, NULL);
        weft_child c;
        j.options = &hurried;
        assert_ok(weft_child_start(words, none, SIGKILL, false, &c));
        atomic_store(&page.pid[0], (int)c.pid);
        atomic_store(&page.pid[1], kind == HERE ? (int)c.pid : 0);
        if (kind == AFAR) hear(&j, "weft: [rank 1 on another.machine: built]\n");
        weft_job_watch(&j, &c);
        (void)weft_child_end(&c);
        assert_int_equal(j.cut_short, missing);
        assert_int_equal(strstr(told, "has not started after 1 s: rank 1") != NULL, missing);
    }
}

/* If the ranks of a job do not start, those that have not are named, with their hosts where these
 * are known, and the machines of the allocation. The limit is one second. */
static void absent_ranks_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *hosts, *lines;
        const char *says[4];
    } cases[] = {
        {NULL, "", {"after 1 s: ranks 0 1 2 3 have not (of 4 ranks, 0 have)"}},
        {NULL,
         "weft: [rank 0 on alpha: started]\nweft: [rank 1 on alpha: started]\n",
         {"after 1 s: ranks 2 3 have not (of 4 ranks, 2 have, on alpha)",
          "'mpirun -n 4 hostname' must print a line for each rank",
          "(SLURM_JOB_NODELIST=alpha,beta)"}},
        {"alpha:3,beta:1",
         "weft: [rank 0 on alpha: started]\nweft: [rank 1 on alpha: started]\n"
         "weft: [rank 2 on alpha: started]\n",
         {"after 1 s: rank 3 (on beta) has not (of 4 ranks, 3 have, on alpha)",
          "each of --hosts alpha:3,beta:1 must answer to 'ssh HOST true'"}},
        {NULL,
         "weft: [rank 0 on al: started]\nweft: [rank 1 on alp: started]\n"
         "weft: [rank 2 on al: started]\nweft: [rank 3 on alp: started]\n",
         {"after 1 s: all 4 ranks have, on al,alp, but they do not reach each other in MPI_Init"}},
    };
    char *words[] = {"sleep", "60", NULL};
    const char *const none[] = {NULL};
    weft_job_options hurried = options;
    hurried.timeout = -4; /* and the grace of five seconds */
    assert_int_equal(setenv("SLURM_JOB_NODELIST", "alpha,beta", 1), 0);
    for (size_t i = 0; i < WEFT_COUNT(cases); i++) {
        job j = begin(4, cases[i].hosts);
        weft_child c;
        hurried.hosts = cases[i].hosts;
        j.options = &hurried;
        assert_ok(weft_child_start(words, none, SIGKILL, false, &c));
        hear(&j, cases[i].lines);
        weft_job_watch(&j, &c);
        (void)weft_child_end(&c);
        assert_true(j.cut_short);
        for (int k = 0; k < 4 && cases[i].says[k]; k++)
            if (!strstr(told, cases[i].says[k]))
                fail_msg("'%s' is not in '%s'", cases[i].says[k], told);
        weft_hosts_free(&j.hosts);
    }
    assert_int_equal(unsetenv("SLURM_JOB_NODELIST"), 0);
}

/* The ranks with which a job restarts after some deaths, counted by hand. With an exchange, as many
 * learners restart as are complete, but at least two. In one learner the data axis of the mesh gets
 * shorter; its length must divide the virtual workers. */
static const struct {
    int ranks, workers, deaths, left;
    const char *mesh, *exchange, *place, *then; /* then: new mesh; "": the user's */
    bool alone;
} deaths[] = {
    {4, 0, 0, 4, NULL, NULL, NULL, "", false},
    {4, 0, 1, 3, NULL, NULL, NULL, "data=3", false},
    {2, 0, 1, 1, NULL, NULL, NULL, "data=1", true},
    {1, 0, 1, 1, NULL, NULL, NULL, "data=1", true},
    {4, 8, 1, 2, NULL, NULL, NULL, "data=2", false}, /* 3 does not divide 8 */
    {4, 4, 1, 2, NULL, NULL, NULL, "data=2", false},
    {8, 12, 1, 6, NULL, NULL, NULL, "data=6", false},
    {6, 6, 1, 3, NULL, NULL, NULL, "data=3", false},
    {6, 6, 2, 2, NULL, NULL, NULL, "data=2", false},
    {6, 0, 1, 4, "data=3,tensor=2", NULL, NULL, "domain=1,tensor=2,pipeline=1,data=2", false},
    {6, 0, 3, 2, "data=3,tensor=2", NULL, NULL, "domain=1,tensor=2,pipeline=1,data=1", true},
    {8, 0, 1, 6, "data=4,tensor=2", NULL, NULL, "domain=1,tensor=2,pipeline=1,data=3", false},
    {6, 0, 1, 3, "data=2,pipeline=3", NULL, NULL, "domain=1,tensor=1,pipeline=3,data=1", true},
    {8, 0, 1, 4, "pipeline=2,data=2,domain=2", NULL, NULL, "domain=2,tensor=1,pipeline=2,data=1",
     true},
    {3, 0, 1, 3, "tensor=3", NULL, NULL, "domain=1,tensor=3,pipeline=1,data=1",
     true}, /* every rank is needed */
    {4, 0, 1, 4, NULL, NULL, "*=cpu:0", "", false},
    {2, 0, 1, 2, NULL, NULL, "a*=rank:0,*=rank:1", "", false},
    {4, 0, 1, 3, NULL, "average:every=2", NULL, "", false},
    {4, 0, 2, 2, NULL, "average:every=2", NULL, "", false},
    {2, 0, 1, 2, NULL, "average:every=2", NULL, "", false}, /* two learners at least */
    {6, 0, 1, 4, "tensor=2", "average:every=2", NULL, "", false},
    {6, 0, 2, 4, "tensor=2", "average:every=2", NULL, "", false},
    {4, 0, 1, 4, "tensor=2", "average:every=2", NULL, "", false},
    {8, 0, 1, 6, "data=2", "average:every=2", NULL, "", false},
    {12, 0, 1, 9, "tensor=3", "average:every=2", NULL, "", false},
    {12, 0, 1, 8, "data=2,tensor=2", "average:every=2", NULL, "", false},
};

static void what_is_left_is_started_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < WEFT_COUNT(deaths); i++) {
        weft_job_options o = {.checkpoint = folder,
                              .virtual_workers = deaths[i].workers,
                              .mesh = deaths[i].mesh,
                              .exchange = deaths[i].exchange,
                              .place = deaths[i].place};
        job j = begin(deaths[i].ranks, NULL);
        j.options = &o;
        weft_job_shrink(&j); /* no rank has died yet */
        for (int death = 0; death < deaths[i].deaths; death++) {
            j.dead = 1;
            weft_job_shrink(&j);
        }
        if (j.ranks != deaths[i].left || strcmp(j.mesh, deaths[i].then) != 0 ||
            j.alone != deaths[i].alone)
            fail_msg("case %zu: %lld ranks, mesh '%s', alone %d", i, (long long)j.ranks, j.mesh,
                     j.alone);
    }
    /* Ranks that are threads of one process all restart. */
    job j = begin(4, NULL);
    j.mpi = false;
    j.dead = 1;
    weft_job_shrink(&j);
    assert_int_equal(j.ranks, 4);
    /* A lost host takes its ranks with it. */
    j = begin(5, "alpha:2,beta:3");
    j.lost_at = 1;
    weft_job_shrink(&j);
    assert_int_equal(j.ranks, 2);
    assert_string_equal(j.mesh, "data=2");
    weft_hosts_free(&j.hosts);
}

/* A message names a host where one is expected; elsewhere a word is a word, even if a host has that
 * name. */
static void messages_name_hosts(void **state)
{
    static const struct {
        const char *line;
        int gone; /* index of the host; -1: none */
    } cases[] = {
        {"This may be a problem of a firewall, which all nodes need to let through.", -1},
        {"Warning: Permanently added 'b' (ED25519) to the list of known hosts.", -1},
        {"[b:224  :0:224] a message", -1},
        {"slots: 4 of 4 are taken", -1},
        {"ssh: Could not resolve hostname a: Name or service not known", 0},
        {"ssh: connect to host b port 22: Connection refused", 1},
        {"  Remote host:   b", 1},
        {"a.example.org: Permission denied (publickey).", 0},
        {"user@b: Permission denied (publickey).", 1},
        {"a: Permission denied (publickey).", 0},
        {"srun: error: b: task 1: Exited with exit code 1", 1},
        {"Connection to b closed by remote host.", 1},
        {"Connection reset by a port 22", 0},
        {"Timeout, server b not responding.", 1},
        {"could not start a daemon on n-3 (10.0.0.7)", 3},
        {"could not start a daemon on node 4", 2},
    };
    (void)state;
    for (size_t i = 0; i < WEFT_COUNT(cases); i++) {
        weft_hosts h;
        assert_int_equal(weft_hosts_parse("a:4,b:4,4,n-3", &h), WEFT_OK);
        weft_hosts_mention(&h, cases[i].line);
        int gone = weft_hosts_gone(&h);
        bool any = h.host[0].gone || h.host[1].gone || h.host[2].gone || h.host[3].gone;
        if (gone != cases[i].gone || any != (cases[i].gone >= 0))
            fail_msg("'%s' names host %d, not %d", cases[i].line, gone, cases[i].gone);
        weft_hosts_free(&h);
    }
}

static void hosts_are_read(void **state)
{
    (void)state;
    weft_hosts h;
    char *text;
    assert_int_equal(weft_hosts_parse("a:2,user-b,10.0.0.7:3", &h), WEFT_OK);
    assert_int_equal(h.count, 3);
    assert_int_equal(weft_hosts_of_rank(&h, 1), 0);
    assert_int_equal(weft_hosts_of_rank(&h, 2), 1);
    assert_int_equal(weft_hosts_of_rank(&h, 5), 2);
    assert_int_equal(weft_hosts_of_rank(&h, 6), -1);
    assert_int_equal(weft_hosts_find(&h, "a.example.org"), 0);
    assert_int_equal(weft_hosts_find(&h, "10.0.0.8"), -1);
    weft_hosts_remove(&h, 1);
    assert_int_equal(weft_hosts_text(&h, &text), WEFT_OK);
    assert_string_equal(text, "a:2,10.0.0.7:3");
    weft_free(text);
    weft_hosts_free(&h);
    assert_refused(weft_hosts_parse("a:0", &h), WEFT_ERR_ARGUMENT, "'a:0' is no NAME:RANKS");
    assert_refused(weft_hosts_parse("a:2,:3", &h), WEFT_ERR_ARGUMENT, "has no name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slow_data_are_no_hang),
        cmocka_unit_test(absent_ranks_are_named),
        cmocka_unit_test(what_is_left_is_started_again),
        cmocka_unit_test(messages_name_hosts),
        cmocka_unit_test(hosts_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
