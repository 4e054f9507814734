/* "weft_shaped_network CLUSTER COMMAND..." runs a command among machines whose network is as a
 * cluster file says: m0, m1, ... are network namespaces with one device each, and this process
 * carries packets between them with the bandwidth and latency of their lines. The command runs on
 * m0; "weft_shaped_network --on HOST COMMAND..." runs one on another, and is the remote shell of
 * Open MPI's mpirun there. A machine has as many cores as the file says, in turn of those that
 * there are, of each the share that its speed below 1 gives, and pauses as awake and period say.
 * Namespaces, mounts and processes end with this process, however it ends; groups of control, which
 * only machines with a share or pauses have, are removed by the next one if it is killed. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cost/cluster.h"
#include "shaped_network.h"

/* Here are the namespaces of the machines' networks, as ip netns has them, and beside that of m1
 * .m1.name, that of its name, and .m1.cores, its cores. */
#define NAMES "/run/netns"

enum { FAILED = 1, WRONG = 2, NOT_HERE = 77, QUEUE_PACKETS = 10000 };

typedef struct machine {
    line line;
    share share;
    int network, name; /* namespaces */
    cpu_set_t cores;
} machine;

static machine machines[MOST_MACHINES];
static int machine_count;

__attribute__((noreturn, format(printf, 2, 3))) static void fail(int code, const char *format, ...)
{
    va_list words;
    fprintf(stderr, "shaped network: ");
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fprintf(stderr, "\n");
    exit(code);
}

static void need(bool done, const char *what)
{
    int code = errno == EPERM || errno == EACCES || errno == ENOENT ? NOT_HERE : FAILED;
    if (!done) fail(code, "%s: %s", what, strerror(errno));
}

/* --- what the file says --- */

/* The next core of those that this process may use, in turn; returns where to go on. */
static int give_core(machine *m, int from)
{
    cpu_set_t all;
    need(sched_getaffinity(0, sizeof(all), &all) == 0, "the cores of this process");
    while (!CPU_ISSET(from % CPU_SETSIZE, &all)) from++;
    CPU_SET(from % CPU_SETSIZE, &m->cores);
    return (from + 1) % CPU_SETSIZE;
}

static void read_cluster(const char *path)
{
    weft_cluster c;
    int64_t count = 1;
    if (weft_cluster_open(path, &count, &c) != WEFT_OK) fail(WRONG, "%s", weft_last_message());
    if (count > MOST_MACHINES) fail(WRONG, "%s: more than %d machines", path, MOST_MACHINES);
    int core = 0;
    for (int g = 0; g < c.group_count; g++) {
        const weft_sim_link *l = &c.groups[g].link;
        if (l->jitter > 0 || l->lost > 0 || l->twice > 0 || l->reordered > 0)
            fail(WRONG,
                 "%s: lines have a bandwidth and a latency alone; leave latency-jitter, lost, "
                 "twice and "
                 "reordered out",
                 path);
        for (int64_t i = 0; i < c.groups[g].count; i++) {
            machine *m = &machines[machine_count++];
            const weft_machine_group *its = &c.groups[g];
            bool part = its->speed < 1 || its->awake < 1;
            m->line = (line){.bandwidth = l->bandwidth, .latency = l->latency};
            m->share = (share){.cores = part ? fmin(its->speed, 1) * (double)its->cores : 0,
                               .awake = its->awake,
                               .period = its->period};
            for (int64_t k = 0; k < c.groups[g].cores; k++) core = give_core(m, core);
        }
    }
    weft_cluster_free(&c);
}

/* --- machines --- */

static void ask_device(int file, unsigned long what, struct ifreq *request, const char *name)
{
    need(ioctl(file, what, request) == 0, name);
}

static void set_address(int socket, unsigned long what, uint32_t address)
{
    struct ifreq request = {.ifr_name = "eth0"};
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&request.ifr_addr;
    *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    ask_device(socket, what, &request, "the address of a machine");
}

static void start_device(int socket, const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    (void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    ask_device(socket, SIOCSIFFLAGS, &request, name);
}

/* The device of this network, which sends to the relay; a process reads the file without waiting.
 */
static int make_device(int number)
{
    int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    need(file >= 0, "/dev/net/tun");
    struct ifreq request = {.ifr_name = "eth0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    ask_device(file, TUNSETIFF, &request, "a TUN device");
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    need(s >= 0, "a socket");
    request = (struct ifreq){.ifr_name = "eth0", .ifr_mtu = MTU};
    ask_device(s, SIOCSIFMTU, &request, "packets of 9000 bytes");
    request = (struct ifreq){.ifr_name = "eth0", .ifr_qlen = QUEUE_PACKETS};
    ask_device(s, SIOCSIFTXQLEN, &request, "a queue of packets");
    set_address(s, SIOCSIFADDR, 0x0a4d0001U + (uint32_t)number);
    set_address(s, SIOCSIFNETMASK, 0xffffff00U);
    start_device(s, "lo");
    start_device(s, "eth0");
    close(s);
    return file;
}

static int open_file(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    need(file >= 0, path);
    return file;
}

static void make_machine(int i)
{
    char name[16];
    (void)snprintf(name, sizeof(name), "m%d", i);
    need(unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0, "a network of its own");
    need(sethostname(name, strlen(name)) == 0, "the name of a machine");
    machines[i].line.device = make_device(i);
    machines[i].network = open_file("/proc/self/ns/net");
    machines[i].name = open_file("/proc/self/ns/uts");
}

/* --- the folder of their names --- */

static void put_file(const char *path, const void *bytes, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    need(file >= 0 && write(file, bytes, size) == (ssize_t)size && close(file) == 0, path);
}

static void put_namespace(int space, const char *path)
{
    char from[64];
    put_file(path, "", 0);
    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", space);
    need(mount(from, path, NULL, MS_BIND, NULL) == 0, path);
}

static void put_names(void)
{
    char path[64], hosts[MOST_MACHINES * 24 + 32];
    int size = snprintf(hosts, sizeof(hosts), "127.0.0.1 localhost\n");
    need(mkdir(NAMES, 0755) == 0 || errno == EEXIST, NAMES);
    need(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mounts of its own");
    need(mount("proc", "/proc", "proc", 0, NULL) == 0, "/proc of its processes");
    need(mount("tmpfs", NAMES, "tmpfs", 0, NULL) == 0, NAMES);
    for (int i = 0; i < machine_count; i++) {
        (void)snprintf(path, sizeof(path), NAMES "/m%d", i);
        put_namespace(machines[i].network, path);
        (void)snprintf(path, sizeof(path), NAMES "/.m%d.name", i);
        put_namespace(machines[i].name, path);
        (void)snprintf(path, sizeof(path), NAMES "/.m%d.cores", i);
        put_file(path, &machines[i].cores, sizeof(machines[i].cores));
        (void)snprintf(path, sizeof(path), NAMES "/.m%d.group", i);
        if (machines[i].share.group[0])
            need(mkdir(path, 0755) == 0 &&
                     mount(machines[i].share.group, path, NULL, MS_BIND, NULL) == 0,
                 path);
        size += snprintf(hosts + size, sizeof(hosts) - (size_t)size, "10.77.0.%d m%d\n", i + 1, i);
    }
    put_file(NAMES "/.hosts", hosts, (size_t)size);
    need(mount(NAMES "/.hosts", "/etc/hosts", NULL, MS_BIND, NULL) == 0, "/etc/hosts");
}

/* This process goes to a machine. */
static void enter(const char *host)
{
    char path[128];
    cpu_set_t cores;
    (void)snprintf(path, sizeof(path), NAMES "/.%s.cores", host);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) fail(255, "there is no machine %s", host);
    need(read(file, &cores, sizeof(cores)) == sizeof(cores), path);
    need(sched_setaffinity(0, sizeof(cores), &cores) == 0, "the cores of a machine");
    close(file);
    (void)snprintf(path, sizeof(path), NAMES "/.%s.group/cgroup.procs", host);
    file = open(path, O_WRONLY | O_CLOEXEC);
    if (file >= 0) need(write(file, "0", 1) == 1 && close(file) == 0, path);
    (void)snprintf(path, sizeof(path), NAMES "/.%s.name", host);
    need(setns(open_file(path), CLONE_NEWUTS) == 0, path);
    (void)snprintf(path, sizeof(path), NAMES "/%s", host);
    need(setns(open_file(path), CLONE_NEWNET) == 0, path);
}

/* --- processes --- */

/* As ssh does: options, a host, and words for a shell there. */
static int run_on(char **words)
{
    char text[1 << 17];
    size_t size = 0;
    while (*words && **words == '-') words += strcmp(*words, "-o") == 0 && words[1] ? 2 : 1;
    if (!words[0] || !words[1]) fail(WRONG, "usage: weft_shaped_network --on HOST COMMAND...");
    enter(words[0]);
    for (int i = 1; words[i] && size < sizeof(text); i++)
        size +=
            (size_t)snprintf(text + size, sizeof(text) - size, "%s%s", i > 1 ? " " : "", words[i]);
    if (size >= sizeof(text)) fail(WRONG, "a command of more than %zu bytes", sizeof(text));
    execl("/bin/sh", "sh", "-c", text, (char *)NULL);
    fail(FAILED, "/bin/sh: %s", strerror(errno));
}

static int exit_code(int how)
{
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

/* The first process of its space of processes: when it ends, all others there do. */
__attribute__((noreturn)) static void keep_processes(char **command)
{
    int how = 0;
    char self[4096], agent[4200];
    ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    need(size > 0, "/proc/self/exe");
    self[size] = '\0';
    (void)snprintf(agent, sizeof(agent), "%s --on", self);
    put_names();
    pid_t child = fork();
    need(child >= 0, "a process");
    if (child == 0) {
        setenv("OMPI_MCA_plm_rsh_agent", agent, 1);
        enter("m0");
        execvp(command[0], command);
        fail(127, "%s: %s", command[0], strerror(errno));
    }
    for (pid_t ended; (ended = wait(&how)) != child;)
        if (ended < 0 && errno != EINTR) need(false, "a process");
    exit(exit_code(how));
}

static void make_shares(share *shares)
{
    for (int i = 0; i < machine_count; i++) {
        bool made = share_make(&machines[i].share, i);
        int why = errno;
        for (int k = 0; !made && k <= i; k++) share_remove(&machines[k].share);
        errno = why;
        need(made, "a share of a core (groups of control)");
        shares[i] = machines[i].share;
    }
    share_pauses(shares, machine_count);
}

static int run(char **command)
{
    line lines[MOST_MACHINES];
    static share shares[MOST_MACHINES];
    int how;
    make_shares(shares);
    for (int i = 0; i < machine_count; i++) make_machine(i);
    for (int i = 0; i < machine_count; i++) lines[i] = machines[i].line;
    need(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0, "a space of processes");
    pid_t child = fork();
    need(child >= 0, "a process");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        keep_processes(command);
    }
    int end = (int)syscall(SYS_pidfd_open, child, 0);
    need(end >= 0, "pidfd_open");
    /* Times of packets are exact on a busy machine, too, if this process goes first. */
    prctl(PR_SET_TIMERSLACK, 1000);
    if (sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 10}) != 0)
        perror("shaped network: it takes turns with others");
    relay_packets(lines, machine_count, end);
    need(waitpid(child, &how, 0) == child, "a process");
    for (int i = 0; i < machine_count; i++) share_remove(&shares[i]);
    return exit_code(how);
}

int main(int count, char **words)
{
    bool on = count > 1 && strcmp(words[1], "--on") == 0;
    if (on) return run_on(words + 2);
    if (count < 3) fail(WRONG, "usage: weft_shaped_network CLUSTER COMMAND...");
    read_cluster(words[1]);
    return run(words + 2);
}
