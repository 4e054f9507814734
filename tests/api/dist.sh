#!/usr/bin/env bash
# The archive of `make dist` in a root that has nothing but glibc: tests/api/dist.sh WEFT
# The root is a folder. Mounts and processes live in namespaces of their own, which end before the folder is removed: it is removed
# from outside, where nothing is mounted in it, and nothing of this machine's /dev but single devices is mounted at all.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
mounts=$(readlink /proc/self/ns/mnt)
if [ "${2:-$mounts}" = "$mounts" ]; then
    for how in "unshare" "unshare --map-root-user"; do
        how="$how --mount --pid --fork --kill-child --mount-proc"
        # shellcheck disable=SC2086
        $how chroot / true 2>/dev/null || continue
        room=$(mktemp -d)
        trap 'rm -rf --one-file-system "$room"' EXIT
        # shellcheck disable=SC2086
        TMPDIR=$room $how "$0" "$weft" "$mounts"
        exit
    done
    echo "SKIPPED dist: this machine allows no namespaces (unshare), so there is no empty root"
    exit 77
fi
tree=$here/../..
build=$(dirname "$weft")
. "$here/../support/check.sh"
trap - EXIT
# Without /sys.
expected='^\[hwloc\/linux\] failed to find sysfs cpu topology'
chroot=$(command -v chroot)
export OMP_WAIT_POLICY=passive

# The same bytes, whoever makes it. On a release with a newer glibc the archive is for that one, and has larger libraries.
glibc=$(getconf GNU_LIBC_VERSION)
limits=
[ "$glibc" = "glibc 2.36" ] || limits="--glibc ${glibc#glibc } --most 80"
# shellcheck disable=SC2086
accepts "scripts/dist" "$tree/scripts/dist" "$build" --into a $limits
(
    umask 077
    # shellcheck disable=SC2086
    TZ=Asia/Tokyo LC_ALL=C.UTF-8 "$tree/scripts/dist" "$build" --into b $limits >out 2>err
)
archive=$(cd a && ls)
cmp -s "a/$archive" "b/$archive" && pass || flunk "two archives of one build differ"
"$tree/scripts/dist" "$build" --into c --most 5 >out 2>err && flunk "makes an archive that is too large"
holds err "the files have [0-9.]+ MB, and may have 5; --most MB"
"$tree/scripts/dist" "$build" --into c --glibc 2.5 --most 80 >out 2>err && flunk "makes an archive for a glibc that its files are too new for"
holds err "needs glibc 2\.[0-9]+, and the archive must run with 2\.5; make it where"

# The root: glibc, /proc, /dev, /tmp, and the archive, which lies in a folder of its own.
mkdir -p root/{proc,dev,tmp,etc} root/usr/{lib/x86_64-linux-gnu,lib64}
ln -s usr/lib usr/lib64 root/
folder=$(dirname "$(ldd "$weft" | sed -n 's/.*libc\.so\.6 => \([^ ]*\).*/\1/p')")
for name in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libresolv.so.2 libnss_files.so.2 libnss_dns.so.2; do
    [ ! -e "$folder/$name" ] || cp -L "$folder/$name" root/usr/lib/x86_64-linux-gnu/
done
ln -s ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 root/usr/lib64/
tar -xzf "a/$archive" -C root
top=/${archive%.tar.gz}
mount -t proc proc root/proc || { flunk "mounts in the root"; exit 1; }
for name in null zero full random urandom; do
    touch root/dev/$name
    mount --bind /dev/$name root/dev/$name || { flunk "mounts in the root"; exit 1; }
done
mkdir -m 1777 root/dev/shm
# alone COMMAND...: in the root, with nothing of this environment.
alone() { env -i HOME=/tmp OMP_WAIT_POLICY=passive "$chroot" root "$top/bin/weft" "$@"; }
# same NAME: whether a file of the root's /tmp is that of the build that is installed.
same() { cmp -s "root/tmp/$1" "here/$1" && pass || flunk "$1 differs from that of the installed build"; }
# both WORDS...: the command of the archive in the root, and that of the build here; @ is where each has its files.
both() {
    accepts "in the root: weft $*" alone "${@//@//tmp}"
    accepts "here: weft $*" "$weft" "${@//@/$work/here}"
}
mkdir here

accepts "weft --version" alone --version
holds out "$("$weft" --version)"
accepts "weft help" alone help
accepts "weft selftest" alone selftest
both train -q --model lenet --data glyphs:size=16,train=400,test=100 --batch 20 --steps 20 -n 2 --checkpoint @/threads
both train -q --model lenet --data glyphs:size=16,train=400,test=100 --batch 20 --steps 20 -n 2 --exchange server --servers 2 \
    --engine processes --checkpoint @/processes
for run in threads processes; do
    both export @/$run/latest -q -o @/$run.safetensors
    same $run.safetensors
done
both predict @/threads/latest -o @/predictions.csv
same predictions.csv
alone eval /tmp/threads/latest >in_root 2>err
"$weft" eval here/threads/latest >here/eval 2>>err
holds in_root "accuracy 0\.[0-9]"
diff <(grep accuracy in_root) <(grep accuracy here/eval) >out && pass || flunk "eval prints other figures"

# A request over HTTP, answered alike by both.
answer() {
    local server
    background listens err "$@" --port 0 --metrics-port -1 --measure 0
    server=$!
    within 'grep -q "listening on" listens' || flunk "the server listens: $*"
    port=$(sed -n 's/.*listening on [a-z]*:\/\/[^ \/]*:\([0-9]*\).*/\1/p' listens | head -n 1)
    python3 -c 'import json, sys, urllib.request
values = [i % 7 / 7 for i in range(256)]
body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 256], "data": values}]}).encode()
print(urllib.request.urlopen("http://127.0.0.1:" + sys.argv[1] + "/v2/models/digits/infer", body, 60).read().decode())' "$port" 2>>err
    # shellcheck disable=SC2046
    kill -TERM $server $(below $server) 2>/dev/null
    wait $server
}
answer alone serve digits=/tmp/threads/latest >in_root
answer "$weft" serve digits="$work/here/threads/latest" >out
holds in_root '"prediction"'
cmp -s in_root out && pass || flunk "another answer over HTTP than that of the installed build"

# Without MPI a sentence says so, before mpirun is looked for; under mpirun, too.
refuses 1 "this weft was built without MPI; use --engine threads" alone train -n 2 --engine mpi
refuses 1 "this weft was built without MPI" env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "root$top/bin/weft" train --steps 1

# Nothing else is needed, and nothing is in it for nothing: without any one library the command does not start, and says which.
for name in $(cd "root$top/lib" && find . -maxdepth 1 -name '*.so*' ! -name 'libweft-*.so' -printf '%f ') libweft-sys.so libweft-serve.so.0; do
    case $name in libweft.so | libweft*.so.*.*) continue ;; esac
    mv "root$top/lib/$name" root/tmp/hidden
    alone --version >out 2>err && flunk "starts without $name"
    grep -qF "$name: cannot open shared object file" err && pass || flunk "does not say that $name is missing"
    mv root/tmp/hidden "root$top/lib/$name"
done
# The compiler's libraries are the system's where it has them, and OpenCL's is the system's or none.
loads() { "$chroot" root /lib64/ld-linux-x86-64.so.2 --list "$top/bin/weft"; }
loads >out
holds out "libstdc\+\+\.so\.6 => $top/"
holds out "libgcc_s\.so\.1 => $top/"
cp "root$top/lib/libstdc++.so.6" "root$top/lib/libgcc_s.so.1" root/usr/lib/x86_64-linux-gnu/
loads >out
holds out 'libstdc\+\+\.so\.6 => /usr/lib/x86_64-linux-gnu/'
holds out 'libgcc_s\.so\.1 => /usr/lib/x86_64-linux-gnu/'
! grep -q OpenCL out && [ -z "$(find "root$top" -name '*OpenCL*')" ] && pass || flunk "a library of OpenCL is in the archive, or is loaded"

# Programs that are built against it, here.
# built NAME SOURCE WORDS...: compiles and runs it.
built() {
    local name=$1
    shift
    # shellcheck disable=SC2046
    cc -std=gnu11 "$@" $(PKG_CONFIG_PATH="root$top/lib/pkgconfig" pkg-config --cflags --libs weft-serve) \
        -Wl,-rpath,"$work/root$top/lib" -o program 2>err && ./program >out 2>>err && pass || flunk "a program of the archive's libraries: $name"
}
built "a server" "$here/install/server.c"
# A driver that such a program loads finds its own OpenCL, whose functions have versions or have none, although oneDNN asks for one.
echo 'int clGetPlatformIDs(void) { return 42; }' >opencl.c
echo 'int clGetPlatformIDs(void); int ask(void) { return clGetPlatformIDs(); }' >driver.c
echo '#include <dlfcn.h>
#include <weft/weft.h>
int main(void)
{
    void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    int (*ask)(void) = driver ? (int (*)(void))dlsym(driver, "ask") : 0;
    return !weft_version() || dlsym(RTLD_DEFAULT, "clGetPlatformIDs") || !ask || ask() != 42;
}' >asks.c
for map in 'OPENCL_1.0 { global: *; };' '{ global: *; };'; do
    echo "$map" >map
    cc -shared -fPIC opencl.c -Wl,--version-script=map -Wl,-soname,libOpenCL.so.1 -o libOpenCL.so.1
    cc -shared -fPIC driver.c -L. -l:libOpenCL.so.1 -Wl,-rpath,"$work" -o driver.so
    built "a driver that finds OpenCL with $map" -D_GNU_SOURCE -DDRIVER="\"$work/driver.so\"" asks.c
done
# Its check of devices finds the command beside it, and knows its commit.
accepts "weft-gpu-check" "root$top/bin/weft-gpu-check" --short --device cpu
holds out "^weft [0-9.]+, commit $(sed -n '1s/.*(\(.*\))$/\1/p' "root$top/README"),"
# Devices of plug-ins, where this machine has what they need.
for plugin in $(find "root$top/lib" -name 'libweft-*.so' ! -name libweft-serve.so ! -name libweft-sys.so -printf '%f '); do
    device=${plugin#libweft-} device=${device%.so}
    run="train -q --model mlp --data glyphs:size=8,train=60,test=20 --batch 20 --device $device"
    # shellcheck disable=SC2086
    if "$weft" $run --checkpoint "here/$device" >out 2>err; then
        accepts "--device $device" "root$top/bin/weft" $run --checkpoint "there/$device"
        for where in here there; do "$weft" export "$where/$device/latest" -q -o "$where-$device.safetensors"; done
        cmp -s "here-$device.safetensors" "there-$device.safetensors" && pass || flunk "--device $device differs from the installed build's"
    else
        echo "SKIPPED: --device $device, which does not run here: $(grep '^weft:' err)"
    fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
