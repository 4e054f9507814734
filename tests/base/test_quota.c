/* Tests how CPU quotas of cgroups are read, with made-up files of /proc/self and /sys/fs/cgroup. */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "support.h"

static char root[64];

static void put_file(const char *path, const char *text)
{
    char full[512];
    (void)snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        (void)mkdir(full, 0700);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int begin(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof(root), "/tmp/weft-quota-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int end(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command); /* NOLINT(bugprone-command-processor): the path is this test's own */
}

static void expect(double cores)
{
    double have = weft_cpu_quota(root);
    if (fabs(have - cores) > 1e-12) fail_msg("the quota is %g cores, should be %g", have, cores);
}

static const char *const mounted2 =
    "25 1 0:23 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw,nsdelegate\n";
static const char *const mounted1 =
    "20 1 0:20 / / rw - ext4 /dev/vda rw\n"
    "30 20 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "31 20 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

static void test_nothing(void **state)
{
    (void)state;
    expect(0);
    put_file("/proc/self/cgroup", "0::/\n");
    expect(0);
    put_file("/proc/self/mountinfo", mounted2);
    expect(0);
    put_file("/sys/fs/cgroup/cpu.max", "max 100000\n");
    expect(0);
    assert_int_equal(weft_cpu_quota_share(root, 2), 0);
    put_file("/sys/fs/cgroup/cpu.max", "no number\n");
    expect(0);
}

static void test_version2(void **state)
{
    (void)state;
    put_file("/proc/self/mountinfo", mounted2);
    put_file("/proc/self/cgroup", "0::/user/job\n");
    put_file("/sys/fs/cgroup/user/job/cpu.max", "200000 100000\n");
    expect(2);
    put_file("/sys/fs/cgroup/user/cpu.max", "75000 50000\n"); /* the parent's smaller quota holds */
    expect(1.5);
    assert_int_equal(weft_cpu_quota_share(root, 1), 1);
    put_file("/sys/fs/cgroup/user/cpu.max", "700000 100000\n");
    put_file("/sys/fs/cgroup/user/job/cpu.max", "500000 100000\n");
    const int shares[] = {5, 2, 1, 1, 1, 1}; /* of 5 cores */
    for (int processes = 1; processes <= 6; processes++)
        assert_int_equal(weft_cpu_quota_share(root, processes), shares[processes - 1]);
    put_file("/sys/fs/cgroup/user/cpu.max", "max 100000\n");
    put_file("/sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
    expect(0);
    put_file("/sys/fs/cgroup/userother/cpu.max", "1000 100000\n"); /* not an ancestor */
    expect(0);
    put_file("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    expect(0.5);
}

/* In a container without a cgroup namespace, the path of the process's group begins with the root
 * of the mount, which must be cut off. */
static void test_top_of_the_mount(void **state)
{
    (void)state;
    put_file("/proc/self/mountinfo",
             "25 1 0:23 /docker/a1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    put_file("/sys/fs/cgroup/cpu.max", "300000 100000\n");
    put_file("/proc/self/cgroup", "0::/docker/a1\n");
    expect(3);
    put_file("/proc/self/cgroup", "0::/docker/a1/inner\n");
    put_file("/sys/fs/cgroup/inner/cpu.max", "100000 100000\n");
    expect(1);
    put_file("/proc/self/cgroup", "0::/../outside\n");
    expect(3);
}

static void test_version1(void **state)
{
    (void)state;
    put_file("/proc/self/mountinfo", mounted1);
    put_file("/proc/self/cgroup", "5:cpuset:/other\n4:cpu,cpuacct:/pod/box\n0::/\n");
    put_file("/sys/fs/cgroup/cpu,cpuacct/pod/box/cpu.cfs_quota_us", "-1\n");
    put_file("/sys/fs/cgroup/cpu,cpuacct/pod/box/cpu.cfs_period_us", "100000\n");
    expect(0);
    put_file("/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us", "250000\n");
    put_file("/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us", "100000\n");
    expect(2.5);
    put_file("/sys/fs/cgroup/cpu,cpuacct/pod/box/cpu.cfs_quota_us", "200000\n");
    expect(2);
}

/* Memory: the smaller one of what the machine has and what a group allows. */
static void test_memory(void **state)
{
    (void)state;
    const size_t all = weft_memory_limit(root); /* nothing is mounted there */
    assert_true(all > 1 << 20);
    put_file("/proc/self/mountinfo", mounted2);
    put_file("/proc/self/cgroup", "0::/user/job\n");
    put_file("/sys/fs/cgroup/user/job/memory.max", "max\n");
    assert_int_equal(weft_memory_limit(root), all);
    put_file("/sys/fs/cgroup/user/job/memory.max", "1048576\n");
    assert_int_equal(weft_memory_limit(root), 1 << 20);
    put_file("/sys/fs/cgroup/user/memory.max", "524288\n");
    assert_int_equal(weft_memory_limit(root), 1 << 19);
    put_file("/proc/self/mountinfo",
             "31 20 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put_file("/proc/self/cgroup", "5:cpu:/other\n4:memory:/pod/box\n");
    put_file("/sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(weft_memory_limit(root), all);
    put_file("/sys/fs/cgroup/memory/pod/box/memory.limit_in_bytes", "262144\n");
    assert_int_equal(weft_memory_limit(root), 1 << 18);
    expect(0);
}

static void test_cores(void **state)
{
    (void)state;
    double quota = weft_cpu_quota("");
    assert_true(weft_cores() >= 1);
    assert_true(weft_cores() <= sysconf(_SC_NPROCESSORS_ONLN));
    if (quota > 0) assert_true(weft_cores() <= ceil(quota));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing, begin, end),
        cmocka_unit_test_setup_teardown(test_version2, begin, end),
        cmocka_unit_test_setup_teardown(test_memory, begin, end),
        cmocka_unit_test_setup_teardown(test_top_of_the_mount, begin, end),
        cmocka_unit_test_setup_teardown(test_version1, begin, end),
        cmocka_unit_test(test_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
