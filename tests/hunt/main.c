/* The hunter's main program, a random differential tester: draws cases from a seed, runs each in a
 * child process with limits, shrinks and prints the failing ones. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hunt.h"

enum { MEMORY_OF_A_CASE = 4 }; /* gigabytes */

typedef struct hunt {
    int64_t seed, only, cases, failures;
    /* `seconds` limits the whole hunt, `shrinking` the shrinking of each failing case. */
    int64_t seconds, shrinking;
    int64_t far; /* percent of the ways on other devices */
    bool verbose;
    const char *keep;  /* folder for failing cases; NULL: they are not kept */
    char folder[TEXT]; /* working folder of the running case */
} hunt;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- folders --- */

static void empty_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char name[4096];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        (void)snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
        if (unlink(name) == 0) continue;
        empty_folder(name);
        (void)rmdir(name);
    }
    if (dir) closedir(dir);
}

/* --- a case in a child --- */

static void become_child(const hunt_case *c, const char *folder, verdict *v)
{
    struct rlimit memory = {(rlim_t)MEMORY_OF_A_CASE << 30, (rlim_t)MEMORY_OF_A_CASE << 30};
    struct rlimit core = {0, 0};
    if (!SANITIZED) (void)setrlimit(RLIMIT_AS, &memory);
    (void)setrlimit(RLIMIT_CORE, &core);
    if (chdir(folder) != 0 || !freopen("log", "w", stderr)) _exit(3);
    write_case(c);
    judge(c, v);
    exit(0); /* _exit would skip the leak check of the sanitizer */
}

static double cpu_seconds(pid_t child)
{
    clockid_t clock;
    struct timespec t = {0};
    if (clock_getcpuclockid(child, &clock) == 0) (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The seconds for which the threads of a process and of those that it has started, such as the
 * ranks of MPI, have run, or were ready to run while the machine ran others. */
static double wanted_seconds(pid_t process)
{
    char path[320];
    double all = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task", (int)process);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        unsigned long long ran = 0, waited = 0;
        int other;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)process, e->d_name);
        FILE *f = fopen(path, "r");
        if (f && fscanf(f, "%llu %llu", &ran, &waited) == 2) all += (double)(ran + waited) * 1e-9;
        if (f) (void)fclose(f);
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)process, e->d_name);
        f = fopen(path, "r");
        while (f && fscanf(f, "%d", &other) == 1) all += wanted_seconds(other);
        if (f) (void)fclose(f);
    }
    if (dir) closedir(dir);
    return all;
}

typedef enum ending { ENDED, WAITS, COMPUTES } ending;

/* A case hangs if its threads wait (they use and want no more than SECONDS_OF_WAITING of CPU time
 * in SECONDS_IDLE, in which no run ends) or compute for ever (SECONDS_OF_CPU in all). A busy
 * machine changes neither. Idle seconds are the waits that pass here, not the clock's, so a machine
 * that is suspended adds at most one. patience: factor of all limits. */
static ending wait_for(pid_t child, const verdict *v, int patience, int *how)
{
    sigset_t set;
    struct timespec second = {.tv_sec = 1};
    double used = 0, wanted = 0, last = 0;
    int idle = 0, runs = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    while (used < patience * SECONDS_OF_CPU) {
        if (waitpid(child, how, WNOHANG) == child) return ENDED;
        if (sigtimedwait(&set, NULL, &second) < 0 && errno == EAGAIN) idle++;
        used = cpu_seconds(child);
        double all = wanted_seconds(child);
        wanted += all > last ? all - last : 0; /* a thread that ends takes its count with it */
        last = all;
        if (idle < patience * SECONDS_IDLE) continue;
        if (wanted < SECONDS_OF_WAITING && runs == v->runs) break;
        idle = 0;
        wanted = 0;
        runs = v->runs;
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, how, 0);
    return used < patience * SECONDS_OF_CPU ? WAITS : COMPUTES;
}

/* Appends the beginning of the child's log (its stderr), for a sanitizer's report, to the
 * verdict. */
static void add_log(verdict *v, const char *folder)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/log", folder);
    FILE *f = fopen(path, "r");
    size_t used = strlen(v->text);
    if (!f) return;
    size_t n = fread(v->text + used, 1, sizeof(v->text) - used - 1, f);
    v->text[used + n] = '\0';
    (void)fclose(f);
}

static verdict try_once(const hunt_case *c, const char *folder, int patience)
{
    int how = 0;
    verdict *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    verdict v = {0};
    if (shared == MAP_FAILED) exit(3);
    empty_folder(folder);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) exit(3);
    if (child == 0) become_child(c, folder, shared);
    ending end = wait_for(child, shared, patience, &how);
    v = *shared;
    (void)munmap(shared, sizeof(*shared));
    if (end != ENDED) {
        v.fault = HANG;
        (void)snprintf(v.text, sizeof(v.text),
                       end == WAITS ? "it neither used nor wanted CPU time, and no run ended, for "
                                      "%d s, the limit of its %s run"
                                    : "it used %d s of CPU time, the limit of its %s run",
                       patience * (end == WAITS ? SECONDS_IDLE : SECONDS_OF_CPU),
                       patience > 1 ? "second" : "first");
    } else if (WIFSIGNALED(how)) {
        v.fault = CRASH;
        (void)snprintf(v.text, sizeof(v.text), "signal %d (%s)\n", WTERMSIG(how),
                       strsignal(WTERMSIG(how)));
        add_log(&v, folder);
    } else if (WEXITSTATUS(how) != 0) {
        v.fault = SANITIZER;
        (void)snprintf(v.text, sizeof(v.text), "exit code %d\n", WEXITSTATUS(how));
        add_log(&v, folder);
    }
    return v;
}

/* A case without an end counts if it has none with larger limits either. */
verdict try_case(const hunt_case *c, const char *folder)
{
    verdict v = try_once(c, folder, 1);
    if (v.fault != HANG) return v;
    printf("hunt: %s; the case is run again\n", v.text);
    fflush(stdout);
    return try_once(c, folder, 2);
}

/* --- reports --- */

static void report(const hunt *h, int64_t number, const hunt_case *c, const verdict *v)
{
    printf("\n%s, in case %lld (--seed %lld --case %lld): %s\n%s\n", fault_names[v->fault],
           (long long)number, (long long)h->seed, (long long)number, v->stage, v->text);
    printf("net.yaml, for samples of %d", c->samples.shape.channels);
    for (int i = 0; i < c->samples.shape.dims; i++) printf("x%d", c->samples.shape.side[i]);
    printf(", %d to train on:\n", c->samples.train);
    print_model(stdout, c);
    printf("%s\n", v->command);
    fflush(stdout);
}

/* Writes a failing case into the folder KEEP/SEED-NUMBER: its data, its model, and a file `case`
 * for tests/hunt/found_cases.py. If a developer moves that folder to tests/hunt/found/, the case is
 * listed as a known failure; once its status is changed to `mended`, every check runs it. */
static void keep(const hunt *h, int64_t number, const hunt_case *c, const verdict *v)
{
    char folder[TEXT];
    (void)snprintf(folder, sizeof(folder), "%s/%lld-%lld", h->keep, (long long)h->seed,
                   (long long)number);
    (void)mkdir(h->keep, 0777);
    (void)mkdir(folder, 0777);
    pid_t child = fork();
    if (child == 0) {
        if (chdir(folder) != 0) _exit(3);
        write_case(c);
        FILE *f = fopen("case", "w");
        if (f) fprintf(f, "wrong: %s: %s: ", fault_names[v->fault], v->stage);
        for (const char *at = v->text; f && *at; at++) (void)fputc(*at == '\n' ? ' ' : *at, f);
        if (f) fprintf(f, "\nstatus: known\nrun: %s\n", v->command);
        _exit(!f || fclose(f) != 0 ? 3 : 0);
    }
    int how = 0;
    while (child > 0 && waitpid(child, &how, 0) < 0 && errno == EINTR) continue;
    if (child > 0 && how == 0) printf("its files are in %s\n", folder);
    fflush(stdout);
}

/* --- main --- */

static int64_t number_of(const char *word, const char *text)
{
    char *end;
    long long n = strtoll(text, &end, 10);
    if (!*end && *text && n >= 0) return n;
    fprintf(stderr, "hunt: %s '%s' is no whole number\n", word, text);
    exit(2);
}

static void read_words(hunt *h, int argc, char **argv)
{
    const struct {
        const char *name;
        int64_t *number;
        const char **text;
    } options[] = {{"--seed", &h->seed, NULL},         {"--case", &h->only, NULL},
                   {"--cases", &h->cases, NULL},       {"--seconds", &h->seconds, NULL},
                   {"--failures", &h->failures, NULL}, {"--shrink", &h->shrinking, NULL},
                   {"--far", &h->far, NULL},           {"--keep", NULL, &h->keep}};
    int count = (int)(sizeof(options) / sizeof(options[0]));
    for (int i = 1; i < argc; i++) {
        int o = 0;
        while (o < count && strcmp(options[o].name, argv[i]) != 0) o++;
        if (strcmp(argv[i], "-v") == 0) {
            h->verbose = true;
        } else if (o == count || i + 1 == argc) {
            fprintf(stderr, "hunt: '%s'? The options are", argv[i]);
            for (o = 0; o < count; o++) fprintf(stderr, " %s X", options[o].name);
            fprintf(stderr, " -v\n");
            exit(2);
        } else if (options[o].number) {
            *options[o].number = number_of(argv[i], argv[i + 1]);
            i++;
        } else {
            *options[o].text = argv[++i];
        }
    }
}

static void make_folder(hunt *h)
{
    const char *root = getenv("TMPDIR");
    if (!root) root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(h->folder, sizeof(h->folder), "%s/weft-hunt-XXXXXX", root);
    if (mkdtemp(h->folder)) return;
    fprintf(stderr, "hunt: %s: %s\n", h->folder, strerror(errno));
    exit(3);
}

/* Runs one case; true if it failed. */
static bool hunt_one(const hunt *h, int64_t number, int64_t *counts, int64_t *runs)
{
    dice d = {(uint64_t)h->seed * 1000003U + (uint64_t)number};
    hunt_case c;
    draw_case(&d, &c);
    verdict v = try_case(&c, h->folder);
    counts[v.fault]++;
    *runs += v.runs;
    if (v.fault > REFUSED && h->shrinking > 0) shrink(&c, &v, h->folder, (double)h->shrinking);
    if (h->verbose || v.fault > REFUSED) report(h, number, &c, &v);
    if (v.fault > REFUSED && h->keep) keep(h, number, &c, &v);
    return v.fault > REFUSED;
}

int main(int argc, char **argv)
{
    hunt h = {.seed = (int64_t)time(NULL),
              .only = -1,
              .cases = INT64_MAX,
              .seconds = getenv("WEFT_FAST") ? 15 : 60,
              .failures = 3,
              .shrinking = 30,
              .far = (int64_t)(100 * far_share)};
    int64_t counts[FAULTS] = {0}, runs = 0, failures = 0, number = 0;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    read_words(&h, argc, argv);
    far_share = (double)h.far / 100;
    if (undrawn_layer()) {
        fprintf(stderr, "hunt: layers of type '%s' are never drawn\n", undrawn_layer());
        return 1;
    }
    make_folder(&h);
    printf("hunt: seed %lld\n", (long long)h.seed);
    fflush(stdout);
    if (h.only >= 0) {
        number = h.only;
        h.cases = number + 1;
    }
    for (double began = now(); number < h.cases && now() - began < (double)h.seconds; number++) {
        failures += hunt_one(&h, number, counts, &runs);
        if (failures == h.failures) break;
    }
    empty_folder(h.folder);
    (void)rmdir(h.folder);
    printf("hunt: seed %lld, %lld runs:", (long long)h.seed, (long long)runs);
    for (int i = 0; i < FAULTS; i++)
        if (counts[i]) printf(" %lld %s;", (long long)counts[i], fault_names[i]);
    printf("\n");
    return failures > 0;
}
