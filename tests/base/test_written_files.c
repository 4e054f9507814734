/* Files that Weft writes: outputs that replace, append or stream, names of the same file, the
 * metrics of a resumed run, and the lock of a checkpoint folder. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "checkpoint/checkpoint.h"
#include "support.h"
#include "train/train.h"

static void assert_holds(const char *path, const char *text)
{
    weft_bytes bytes;
    assert_ok(weft_file_map(path, &bytes));
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, strlen(text));
    weft_file_unmap(&bytes);
}

/* An output that replaces a file and is closed without success leaves the old file as it was. An
 * output that appends or streams writes at once, and its text stays. */
static void test_outputs(void **state)
{
    (void)state;
    char *folder = temporary_folder(), path[4200];
    weft_output *o = NULL;
    write_file(folder, "f", "old", 3, path, sizeof(path));
    assert_ok(weft_output_open(path, WEFT_OUTPUT_REPLACE, &o));
    assert_ok(weft_output_write(o, "new", 3));
    assert_ok(weft_output_flush(o));
    assert_holds(path, "old");
    assert_ok(weft_output_close(&o, false));
    assert_null(o);
    assert_holds(path, "old");
    assert_ok(weft_output_open(path, WEFT_OUTPUT_APPEND, &o));
    assert_ok(weft_output_print(o, "+%d", 7));
    assert_ok(weft_output_flush(o));
    assert_holds(path, "old+7");
    assert_ok(weft_output_print(o, "\nwhole lines\nand more")); /* readers see whole lines */
    assert_holds(path, "old+7\nwhole lines\n");
    assert_ok(weft_output_close(&o, true));
    assert_ok(weft_output_open(path, WEFT_OUTPUT_STREAM, &o));
    assert_ok(weft_output_write(o, "mine\n", 5));
    for (int mode = WEFT_OUTPUT_STREAM; mode <= WEFT_OUTPUT_APPEND; mode++) { /* two writers */
        weft_output *other = NULL;
        assert_refused(weft_output_open(path, (weft_output_mode)mode, &other), WEFT_ERR_ARGUMENT,
                       "another run writes to this file");
        assert_null(other);
        assert_holds(path, "mine\n");
    }
    assert_ok(weft_output_close(&o, true));
    assert_ok(weft_output_open(path, WEFT_OUTPUT_STREAM, &o));
    assert_holds(path, "");
    assert_ok(weft_output_close(&o, true));
    assert_ok(weft_output_open("/dev/full", WEFT_OUTPUT_STREAM, &o));
    assert_ok(weft_output_write(o, "x", 1)); /* only into the buffer */
    assert_refused(weft_output_flush(o), WEFT_ERR_IO, "/dev/full: cannot write");
    assert_refused(weft_output_write(o, "x", 1), WEFT_ERR_IO, "/dev/full: cannot write");
    assert_refused(weft_output_close(&o, true), WEFT_ERR_IO, "/dev/full: cannot write");
    /* If a write fails between others, only the error flag of stdio tells of it, and closing must
     * report it. */
    int ends[2];
    char pipe_path[32];
    assert_int_equal(pipe(ends), 0);
    (void)snprintf(pipe_path, sizeof(pipe_path), "/proc/self/fd/%d", ends[1]);
    (void)signal(SIGPIPE, SIG_IGN);
    assert_ok(weft_output_open(pipe_path, WEFT_OUTPUT_STREAM, &o));
    assert_ok(weft_output_write(o, "one\n", 4));
    close(ends[0]);
    (void)!weft_output_write(o, "two\n", 4);
    assert_refused(weft_output_close(&o, true), WEFT_ERR_IO, "cannot write");
    close(ends[1]);
    (void)signal(SIGPIPE, SIG_DFL);
    assert_null(o);
    (void)snprintf(path, sizeof(path), "%s/loop", folder);
    assert_int_equal(symlink("loop", path), 0);
    assert_refused(weft_output_open(path, WEFT_OUTPUT_REPLACE, &o), WEFT_ERR_IO, "loop: cannot");
    assert_null(o);
    assert_refused(weft_file_replace("/dev/full", WEFT_OUTPUT_REPLACE, "x", 1), WEFT_ERR_IO,
                   "/dev/full: cannot write");
    remove_folder(folder);
}

/* Whether two names stand for the same file, if the file exists or not. */
static void test_places(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"there", "there", true},
        {"there", "./there", true},
        {"there", "other", false},
        {"new", "new", true},
        {"new", "new/", true},
        {"new///", "new/", true},
        {"new", "newer", false},
        {"there/new", "there/../there/new/", true},
        {"there/new", "new", false},
        {"nowhere/new", "nowhere/new", false},
        {"link", "new", true},
        {"link", "other", false},
        {"/dev/null", "/dev/null", false},
        {"-", "-", true},
        {"-", "new", false},
    };
    char *folder = temporary_folder(), link[4200];
    char there[4200];
    (void)snprintf(there, sizeof(there), "%s/there", folder);
    (void)snprintf(link, sizeof(link), "%s/link", folder);
    assert_ok(weft_dir_make(there));
    assert_int_equal(symlink("new", link), 0);
    for (size_t i = 0; i < WEFT_COUNT(cases); i++) {
        char path[2][4200];
        for (int k = 0; k < 2; k++) {
            const char *name = k ? cases[i].b : cases[i].a;
            bool apart = name[0] == '/' || name[0] == '-';
            (void)snprintf(path[k], sizeof(path[k]), "%s%s%s", apart ? "" : folder,
                           apart ? "" : "/", name);
        }
        for (int k = 0; k < 2; k++)
            if (weft_output_same(path[k], path[1 - k]) != cases[i].same)
                fail_msg("%s and %s", path[k], path[1 - k]);
    }
    /* Removing a folder that does not exist succeeds; a path that is no folder is not removed. */
    assert_ok(weft_dir_remove(there));
    assert_ok(weft_dir_remove(there));
    assert_refused(weft_dir_remove("/dev/null"), WEFT_ERR_IO, "/dev/null: cannot open");
    assert_false(weft_file_exists(there));
    remove_folder(folder);
}

/* Things that somebody else may have put where a file of the program belongs. */
enum { LINK, DANGLING, HARD_LINK, PIPE, FOLDER, SOCKET, KINDS };

static void plant(int kind, const char *path, const char *victim, const char *missing)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (kind == LINK) assert_int_equal(symlink(victim, path), 0);
    if (kind == DANGLING) assert_int_equal(symlink(missing, path), 0);
    if (kind == HARD_LINK) assert_int_equal(link(victim, path), 0);
    if (kind == PIPE) assert_int_equal(mkfifo(path, 0666), 0);
    if (kind == FOLDER) assert_int_equal(mkdir(path, 0777), 0);
    if (kind != SOCKET) return;
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    assert_int_equal(bind(s, (const struct sockaddr *)&at, sizeof(at)), 0);
    close(s);
}

/* A file that the program itself names is never written through a link, and nothing that is found
 * in its place makes the program wait. Whatever is read must be a regular file; here links are
 * followed, as users have them. */
static void test_planted_names(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        char *folder = temporary_folder(), victim[4200], missing[4200], path[4200], lock[4200];
        bool linked = kind <= HARD_LINK;
        weft_bytes bytes = {0};
        char *text;
        int held = -1;
        write_file(folder, "victim", "precious", 8, victim, sizeof(victim));
        (void)snprintf(missing, sizeof(missing), "%s/missing", folder);
        (void)snprintf(path, sizeof(path), "%s/f", folder);
        (void)snprintf(lock, sizeof(lock), "%s/.lock", folder);
        plant(kind, path, victim, missing);
        plant(kind, lock, victim, missing);
        bool readable = kind == LINK || kind == HARD_LINK;
        assert_int_equal(weft_file_read(path, &bytes), readable ? WEFT_OK : WEFT_ERR_IO);
        free((void *)(uintptr_t)bytes.data);
        assert_int_equal(weft_secret_read(path, 0, "a secret", &text),
                         readable ? WEFT_OK : WEFT_ERR_IO);
        weft_secret_free(&text);
        assert_refused(weft_folder_lock(folder, NULL, 0, &held), WEFT_ERR_IO, ".lock: ");
        weft_status status = weft_file_replace(path, WEFT_OUTPUT_OWN, "new", 3);
        assert_int_equal(status, linked ? WEFT_OK : WEFT_ERR_IO);
        if (linked) assert_holds(path, "new");
        assert_holds(victim, "precious");
        assert_false(weft_file_exists(missing));
        remove_folder(folder);
    }
}

/* The new contents of a file do not run with the rights of the owner of the old ones. */
static void test_no_rights_are_lent(void **state)
{
    (void)state;
    static const weft_output_mode modes[] = {WEFT_OUTPUT_REPLACE, WEFT_OUTPUT_OWN};
    char *folder = temporary_folder(), path[4200];
    struct stat info;
    write_file(folder, "f", "old", 3, path, sizeof(path));
    for (size_t i = 0; i < WEFT_COUNT(modes); i++) {
        assert_int_equal(chmod(path, 06751), 0);
        assert_ok(weft_file_replace(path, modes[i], "new", 3));
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 07777, 0751);
    }
    remove_folder(folder);
}

static void *unlock_soon(void *user)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    weft_folder_unlock(user);
    return NULL;
}

/* A checkpoint folder has one writer. A process of the same job waits for its lock, other runs fail
 * at once. */
static void test_one_writer_in_a_folder(void **state)
{
    (void)state;
    char *in = temporary_folder();
    int first = -1, second = -1;
    pthread_t thread;
    assert_ok(weft_folder_lock(in, "one", 0, &first));
    assert_refused(weft_folder_lock(in, "one", 0.1, &second), WEFT_ERR_ARGUMENT,
                   "another run (process ");
    assert_int_equal(second, -1);
    assert_int_equal(pthread_create(&thread, NULL, unlock_soon, &first), 0);
    assert_ok(weft_folder_lock(in, "one", 60, &second));
    pthread_join(thread, NULL);
    assert_int_equal(first, -1);
    assert_true(second >= 0);
    static const char *const others[] = {"two", NULL}; /* NULL: a run that belongs to no job */
    for (int i = 0; i < 2; i++) {
        double since = weft_seconds();
        assert_refused(weft_folder_lock(in, others[i], 3600, &first), WEFT_ERR_ARGUMENT, in);
        assert_true(weft_seconds() - since < 600);
    }
    weft_folder_unlock(&second);
    assert_ok(weft_folder_lock(in, NULL, 0, &first)); /* nothing waits for this run either */
    assert_refused(weft_folder_lock(in, NULL, 3600, &second), WEFT_ERR_ARGUMENT, "another run");
    weft_folder_unlock(&first);
    remove_folder(in);
}

static void *name_soon(void *user)
{
    char text[400];
    int size = snprintf(text, sizeof(text), "%d elsewhere two\n", (int)getpid());
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    if (pwrite(*(int *)user, text, (size_t)size, 0) != size) abort();
    return NULL;
}

/* A holder writes its name after it has taken the lock: until then the file names the one before,
 * whose process has ended, or nobody. Neither is the one that holds the lock. */
static void test_a_holder_that_is_not_named_yet(void **state)
{
    (void)state;
    char *in = temporary_folder(), path[4200], former[200], host[100] = "";
    int second = -1;
    pthread_t thread;
    pid_t ended = fork();
    if (ended == 0) _exit(0);
    assert_int_equal(waitpid(ended, NULL, 0), ended);
    (void)snprintf(path, sizeof(path), "%s/.lock", in);
    (void)gethostname(host, sizeof(host) - 1);
    int size = snprintf(former, sizeof(former), "%d %s one\n", (int)ended, host);
    int first = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(flock(first, LOCK_EX | LOCK_NB), 0);
        assert_int_equal(ftruncate(first, 0), 0);
        if (i == 0) assert_int_equal(pwrite(first, former, (size_t)size, 0), size);
        assert_int_equal(pthread_create(&thread, NULL, name_soon, &first), 0);
        assert_refused(weft_folder_lock(in, i ? NULL : "one", 0, &second), WEFT_ERR_ARGUMENT,
                       " on elsewhere)");
        pthread_join(thread, NULL);
        assert_int_equal(flock(first, LOCK_UN), 0);
    }
    close(first);
    remove_folder(in);
}

/* A resumed run continues its metrics after the step from which it resumes, and removes later
 * lines. If the file has other lines, the run is refused and the file stays as it is. */
static void test_metrics_go_on(void **state)
{
    (void)state;
#define STEP(n) "{\"event\":\"step\",\"step\":" #n ",\"loss\":1}\n"
#define EVAL(n) "{\"event\":\"eval\",\"step\":" #n ",\"split\":\"test\",\"loss\":1}\n"
#define OTHER(n) "{\"event\":\"eval\",\"step\":" #n ",\"split\":\"validation\",\"loss\":1}\n"
#define SUMMARY(n) "{\"event\":\"summary\",\"steps\":" #n ",\"seconds\":1}\n"
    static const struct {
        const char *text, *left; /* NULL: the file is refused */
    } cases[] = {
        {"", ""},
        {STEP(1) STEP(2), STEP(1) STEP(2)},
        {STEP(1) STEP(2) EVAL(2) SUMMARY(2), STEP(1) STEP(2) EVAL(2) SUMMARY(2)},
        {STEP(1) STEP(2) EVAL(2) STEP(3) EVAL(3) SUMMARY(3), STEP(1) STEP(2) EVAL(2)},
        {STEP(1) STEP(2) STEP(10) "{\"event\":\"st", STEP(1) STEP(2)},
        {STEP(1) SUMMARY(3), STEP(1)},
        {STEP(2) OTHER(2) EVAL(2) STEP(3) OTHER(3), STEP(2) OTHER(2) EVAL(2)},
        {STEP(x), NULL},
        {STEP(1) "dear diary, it is day 1 2 3 4 5 6 7\n", NULL},
        {STEP(1) "a line that has a number 1\n" STEP(2), NULL},
        {STEP(1) "{\"event\":\"note\",\"step\":1}\n", NULL},
        {STEP(1) "\n", NULL},
    };
    char *folder = temporary_folder(), path[4200];
    for (size_t i = 0; i < WEFT_COUNT(cases); i++) {
        weft_metrics *m = NULL;
        write_file(folder, "m.jsonl", cases[i].text, strlen(cases[i].text), path, sizeof(path));
        if (cases[i].left) {
            assert_ok(weft_metrics_open(path, 2, &m));
            assert_ok(weft_metrics_close(&m));
        } else {
            assert_refused(weft_metrics_open(path, 2, &m), WEFT_ERR_FORMAT,
                           "is not a line of metrics");
        }
        assert_holds(path, cases[i].left ? cases[i].left : cases[i].text);
    }
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_planted_names),
        cmocka_unit_test(test_no_rights_are_lent),
        cmocka_unit_test(test_metrics_go_on),
        cmocka_unit_test(test_one_writer_in_a_folder),
        cmocka_unit_test(test_a_holder_that_is_not_named_yet),
    };
    return cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
