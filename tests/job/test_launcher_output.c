/* The supervisor reads from the output of launchers how a job ended: recordings of four launchers
 * (tests/job/launcher_words/record) must give the rank that died or the host that was lost. The
 * test also covers how it reports the size of a job and counts restarts. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>

#include "job/supervisor.h"
#include "support.h"

typedef struct told {
    char text[16384];
    int lines;
} told;

static void tell(void *user, const char *line)
{
    told *t = user;
    size_t used = strlen(t->text);
    (void)snprintf(t->text + used, sizeof(t->text) - used, "%s\n", line);
    t->lines++;
}

/* Feeds a recording to a supervisor in pieces, and collects the lines that it passes on. */
static void hear(const char *launcher, const char *file, job *j, told *t)
{
    static const weft_job_options options;
    char path[512], piece[37]; /* pieces end in the middle of lines */
    memset(t, 0, sizeof(*t));
    *j = (job){.options = &options, .mpi = true, .ranks = 3, .dead = -1, .tell = tell, .user = t};
    (void)snprintf(path, sizeof(path), "%s/job/launcher_words/%s/%s", WEFT_TESTS_DIR, launcher,
                   file);
    FILE *f = fopen(path, "r");
    if (!f) fail_msg("%s is missing: record it with tests/job/launcher_words/record", path);
    for (size_t got; (got = fread(piece, 1, sizeof(piece), f)) > 0;) weft_job_hear(j, piece, got);
    (void)fclose(f);
    weft_job_end_output(j);
    if (j->in_block || j->line_size) fail_msg("%s is not heard to its end", path);
}

static const char *const open_mpis[] = {"openmpi-4.1", "openmpi-5.0"};
static const char *const mpichs[] = {"mpich-4.0", "mpich-4.2"};

static void deaths_name_their_rank(void **state)
{
    static const struct {
        const char *file, *where;
        bool left;
    } cases[] = {
        {"killed", "rank 1 on alpha died of signal 9 (Killed)", false},
        {"crashed", "rank 1 on alpha died of signal 11 (Segmentation fault)", false},
        {"left", "rank 1 left the job", true},
        {"left-0", "rank 1 left the job", true},
    };
    (void)state;
    for (size_t m = 0; m < WEFT_COUNT(open_mpis); m++)
        for (size_t c = 0; c < WEFT_COUNT(cases); c++) {
            job j;
            told t;
            hear(open_mpis[m], cases[c].file, &j, &t);
            if (j.dead != 1 || strcmp(j.where, cases[c].where) != 0 || j.left != cases[c].left)
                fail_msg("%s, %s: rank %d, '%s'", open_mpis[m], cases[c].file, j.dead, j.where);
            assert_false(j.no_host);
            /* A crash leaves a backtrace, which is passed on. The launcher's block says everything
             * about other deaths. */
            if (strcmp(cases[c].file, "crashed") != 0 && t.lines)
                fail_msg("%s, %s: passed on: %s", open_mpis[m], cases[c].file, t.text);
            assert_null(strstr(t.text, "reachable pairing"));
        }
}

static void lost_hosts_are_named(void **state)
{
    static const struct {
        const char *launcher, *file, *host;
    } cases[] = {
        {"openmpi-4.1", "lost-host", "beta"}, {"openmpi-5.0", "lost-host", "beta"},
        {"openmpi-4.1", "no-host", ""},       {"openmpi-5.0", "no-host", "nowhere"},
        {"openmpi-4.1", "no-hosts", ""},      {"mpich-4.0", "no-host", ""},
        {"mpich-4.2", "no-host", ""},
    };
    (void)state;
    for (size_t c = 0; c < WEFT_COUNT(cases); c++) {
        job j;
        told t;
        hear(cases[c].launcher, cases[c].file, &j, &t);
        if (!j.no_host || strcmp(j.lost_host, cases[c].host) != 0)
            fail_msg("%s, %s: host '%s' and not '%s'", cases[c].launcher, cases[c].file,
                     j.lost_host, cases[c].host);
        assert_int_equal(j.dead, -1);
        assert_null(strstr(t.text, "daemon")); /* messages of ssh are passed on */
        assert_null(strchr(t.text, '\r'));
    }
}

/* Output about anything but a death is passed on as it is, and no rank counts as dead. */
static void the_rest_is_passed_on(void **state)
{
    static const struct {
        const char *launcher, *file, *words;
    } cases[] = {
        {"openmpi-4.1", "aborted", "MPI_ABORT was invoked on rank 1"},
        {"openmpi-5.0", "aborted", "MPI_ABORT was invoked on rank 1"},
        {"mpich-4.0", "aborted", "application called MPI_Abort(MPI_COMM_WORLD, 3)"},
        {"mpich-4.2", "aborted", "application called MPI_Abort(MPI_COMM_WORLD, 3)"},
        {"openmpi-4.1", "no-program", "/tmp/no-such-program"},
        {"openmpi-5.0", "no-program", "/tmp/no-such-program"},
        {"mpich-4.0", "no-program", "/tmp/no-such-program"},
        {"mpich-4.2", "no-program", "/tmp/no-such-program"},
    };
    (void)state;
    for (size_t c = 0; c < WEFT_COUNT(cases); c++) {
        job j;
        told t;
        hear(cases[c].launcher, cases[c].file, &j, &t);
        if (j.dead != -1 || j.no_host || !j.explained || !strstr(t.text, cases[c].words))
            fail_msg("%s, %s: '%s'", cases[c].launcher, cases[c].file, t.text);
        assert_null(strstr(t.text, "prterun has exited"));
        assert_null(strstr(t.text, "----"));
    }
}

static void an_end_that_was_asked_for_is_silent(void **state)
{
    (void)state;
    for (size_t m = 0; m < WEFT_COUNT(open_mpis); m++) {
        job j;
        told t;
        hear(open_mpis[m], "stopped", &j, &t);
        if (t.lines || j.dead != -1 || j.no_host) fail_msg("%s: %s", open_mpis[m], t.text);
    }
}

/* The report has step and transfer of the rank that died, or of each if all died together. */
static void a_death_has_its_own_note(void **state)
{
    (void)state;
    static weft_status_page page;
    told t = {.lines = 0};
    job j = {.page = &page, .ranks = 3, .dead = 1, .tell = tell, .user = &t, .where = "it died"};
    static const char *const notes[] = {"in send of a", "after receive of b", "in barrier of c"};
    for (int r = 0; r < 3; r++) {
        (void)snprintf(page.note[r], sizeof(page.note[r]), "%s", notes[r]);
        atomic_store(&page.step[r], 10 + r);
    }
    weft_job_report_death(&j);
    assert_string_equal(t.text, "weft: it died in step 11, after receive of b\n");
    t = (told){.lines = 0};
    j.dead = 0;
    j.together = true;
    weft_job_report_death(&j);
    for (int r = 0; r < 3; r++) assert_non_null(strstr(t.text, notes[r]));
    t = (told){.lines = 0};
    j.together = false;
    j.dead = 2;
    atomic_store(&page.step[2], 0);
    weft_job_report_death(&j);
    assert_string_equal(t.text, "weft: it died before its first step, in barrier of c\n");
}

/* Each folder of recordings is read by some test; otherwise a recording could never fail. */
static void every_recording_is_heard(void **state)
{
    (void)state;
    int folders = 0;
    DIR *all = opendir(WEFT_TESTS_DIR "/job/launcher_words");
    assert_non_null(all);
    for (struct dirent *e; (e = readdir(all));) {
        bool known = false;
        if (e->d_name[0] == '.' || !strchr(e->d_name, '-')) continue;
        folders++;
        for (size_t m = 0; m < WEFT_COUNT(open_mpis); m++)
            known = known || strcmp(e->d_name, open_mpis[m]) == 0;
        for (size_t m = 0; m < WEFT_COUNT(mpichs); m++)
            known = known || strcmp(e->d_name, mpichs[m]) == 0;
        if (!known) fail_msg("tests/job/launcher_words/%s is read by no test", e->d_name);
    }
    (void)closedir(all);
    assert_int_equal(folders, 4);
}

/* A line of a rank that looks like the launcher's does not count as a death. */
static void ranks_are_no_launchers(void **state)
{
    (void)state;
    told t = {.lines = 0};
    static const weft_job_options options;
    job j = {.options = &options, .mpi = true, .ranks = 3, .dead = -1, .tell = tell, .user = &t};
    static const char words[] = "weft: process rank 2 with PID 1 on node alpha exited on signal 9\n"
                                "process rank 2 with PID 1 on node alpha exited on signal 9";
    weft_job_hear(&j, words, sizeof(words) - 1);
    weft_job_end_output(&j);
    assert_int_equal(j.dead, -1);
    assert_int_equal(t.lines, 2);
}

/* Open MPI 5 writes a zero byte behind some blocks, and the next block begins in the same line. */
static void a_zero_ends_nothing(void **state)
{
#define RULE "--------------------------------------------------------------------------\n"
    static const char words[] =
        RULE "It looks like MPI_INIT failed for some reason\n" RULE "\0" RULE
             "prterun noticed that process rank 1 with PID 36 on node "
             "alpha exited on\nsignal 9 (Killed).\n" RULE "\0";
    static const weft_job_options options;
    (void)state;
    told t = {.lines = 0};
    job j = {.options = &options, .mpi = true, .ranks = 3, .dead = -1, .tell = tell, .user = &t};
    weft_job_hear(&j, words, sizeof(words) - 1);
    weft_job_end_output(&j);
    assert_int_equal(j.dead, 1);
    assert_string_equal(t.text, "It looks like MPI_INIT failed for some reason\n");
}

/* The default number of restarts is 100 for jobs whose coordinator, servers and learners are
 * processes, and 0 for jobs of ranks; an option overrides both. */
static void restarts_are_counted(void **state)
{
    (void)state;
    static const struct {
        bool members;
        int64_t asked, most;
    } rows[] = {{true, 0, 100}, {true, 3, 3}, {false, 0, 0}, {false, 2, 2}};
    for (size_t i = 0; i < WEFT_COUNT(rows); i++)
        assert_int_equal(weft_job_most_restarts(&(weft_job_options){.members = rows[i].members,
                                                                    .max_restarts = rows[i].asked}),
                         rows[i].most);
}

static void sizes_are_of_learners(void **state)
{
    (void)state;
    static const struct {
        const char *exchange, *mesh;
        int64_t ranks;
        const char *says;
    } rows[] = {{NULL, NULL, 1, "1 rank"},
                {NULL, "data=2", 4, "4 ranks"},
                {"gossip", NULL, 3, "3 learners"},
                {"gossip", "data=2", 2, "1 learner"},
                {"server", "data=2", 4, "2 learners"}};
    for (size_t i = 0; i < WEFT_COUNT(rows); i++) {
        char size[48];
        weft_job_options o = {.exchange = rows[i].exchange, .mesh = rows[i].mesh};
        job *j = calloc(1, sizeof(*j));
        assert_non_null(j);
        j->options = &o;
        j->ranks = rows[i].ranks;
        assert_string_equal(weft_job_size(j, size, sizeof(size)), rows[i].says);
        free(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deaths_name_their_rank),
        cmocka_unit_test(lost_hosts_are_named),
        cmocka_unit_test(the_rest_is_passed_on),
        cmocka_unit_test(an_end_that_was_asked_for_is_silent),
        cmocka_unit_test(a_death_has_its_own_note),
        cmocka_unit_test(every_recording_is_heard),
        cmocka_unit_test(ranks_are_no_launchers),
        cmocka_unit_test(a_zero_ends_nothing),
        cmocka_unit_test(restarts_are_counted),
        cmocka_unit_test(sizes_are_of_learners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
