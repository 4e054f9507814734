/* Handles signals that would kill the command silently: reading a mapped file that was truncated
 * (SIGBUS), and a file that exceeds the size limit (SIGXFSZ), which becomes a failed write. Signals
 * that ask it to end leave no temporary files. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "weft/output.h"

/* The message of the SIGBUS handler, which may call only async-signal-safe functions. The handler
 * collects the message here and writes it with one call, so that the messages of several ranks do
 * not mix. Only the first thread of a process that gets the signal prints. */
static char said[12288];
static size_t said_size;

static void write_text(const char *text)
{
    while (*text && said_size < sizeof(said)) said[said_size++] = *text++;
}

static void send_said(void)
{
    ssize_t ignored = write(STDERR_FILENO, said, said_size);
    (void)ignored;
}

static uintptr_t hexadecimal(const char **text)
{
    uintptr_t value = 0;
    for (;; (*text)++) {
        char c = **text;
        if (c >= '0' && c <= '9')
            value = value * 16 + (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (uintptr_t)(c - 'a') + 10;
        else
            return value;
    }
}

/* The path in a line of /proc/self/maps ("begin-end rwxp offset device inode path") if the line's
 * range contains the address; else NULL. */
static char *path_in(char *line, uintptr_t address)
{
    const char *next = line;
    uintptr_t begin = hexadecimal(&next);
    if (*next++ != '-') return NULL;
    uintptr_t end = hexadecimal(&next);
    return address >= begin && address < end ? strchr(line, '/') : NULL;
}

/* Appends a path; bytes that control a terminal become question marks. */
static void write_path(char *path)
{
    for (char *c = path; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F || (unsigned char)*c >= 0x80) *c = '?';
    write_text(path);
}

/* Appends the path of the file that is mapped at an address. */
static void write_file_name(uintptr_t address)
{
    static char buffer[8192]; /* the stack may be small */
    size_t size = 0;
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (ssize_t got; (got = read(maps, buffer + size, sizeof(buffer) - 1 - size)) > 0;) {
        size += (size_t)got;
        buffer[size] = '\0';
        char *line = buffer;
        for (char *end; (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            char *path = path_in(line, address);
            if (path) {
                write_path(path);
                close(maps);
                return;
            }
        }
        size = strlen(line);
        memmove(buffer, line, size);
    }
    if (maps >= 0) close(maps);
    write_text("a mapped file");
}

/* The beginning of the message, in the form of weft_job_status_line, from which a supervisor learns
 * that this rank failed by itself. */
static char words_before[256] = "\n";

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    (void)number;
    (void)context;
    /* If another thread is here already, this one waits: the other prints and ends the process. */
    while (atomic_flag_test_and_set(&told)) (void)pause();
    write_text(words_before);
    write_file_name((uintptr_t)info->si_addr);
    write_text(
        ": was cut off while it was read, or its disk has failed; files must not change during a "
        "run\n");
    send_said();
    _exit(1);
}

/* The disposition of SIGHUP that this process was given, read before the constructors of shared
 * libraries run: that of UCX (libucs, a part of Open MPI 5) installs a handler for its own
 * debugging, after which nothing shows that nohup had the signal ignored. */
static struct sigaction hangup_at_start;

static void save_hangup(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    (void)environment;
    sigaction(SIGHUP, NULL, &hangup_at_start);
}

__attribute__((section(".preinit_array"),
               used)) static void (*const save_hangup_first)(int, char **, char **) = save_hangup;

/* A child between fork and exec has the list of files, which are not its own. */
static pid_t self;

void end_at_once(int number)
{
    if (getpid() == self) weft_output_abandon_all();
    signal(number, SIG_DFL);
    (void)raise(number); /* when this handler has returned */
}

static void catch_ends(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before;
    self = getpid();
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            signal(ends[i], end_at_once);
}

void catch_faults(void)
{
    sigaction(SIGHUP, &hangup_at_start, NULL);
    struct sigaction bus;
    weft_job_status_line(weft_status_name(WEFT_ERR_IO), "", words_before + 1,
                         sizeof(words_before) - 1);
    memset(&bus, 0, sizeof(bus));
    bus.sa_sigaction = on_bus_error;
    bus.sa_flags = SA_SIGINFO;
    sigemptyset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
    signal(SIGXFSZ, SIG_IGN);
    catch_ends();
}
