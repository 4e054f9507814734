#!/usr/bin/env bash
# Under every limit of threads a command does its work or says in a sentence what it lacks: tests/job/thread_limits.sh
# PATH/TO/weft. The limit (ulimit -u) does not hold for root, so root becomes another user, and others skip this test.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"
chmod 755 "$work"
user=$((23456 + $$ % 10000)) # nobody else's, whose processes would count
limited() { setpriv --reuid $user --regid $user --clear-groups bash -c "ulimit -c 0; ulimit -u $1; cd / && exec \"\$@\"" "$@"; }
if [ "$(id -u)" != 0 ] || ! limited 64 "$weft" --version >out 2>err; then
    echo "SKIPPED: root alone can take on a limit of threads of its own"
    exit 77
fi
small="--data glyphs:size=9,train=60,test=10 --model mlp --batch 10"
"$weft" train -q $small --steps 2 -t 1 --checkpoint run >out 2>err && pass || flunk "a run without a limit"
chmod -R a+rX run
# under LIMIT COMMAND...: exit code 0, or 1 and one sentence; no word of a library, no signal.
under() {
    local code limit=$1
    shift
    limited "$limit" "$@" >out 2>err
    code=$?
    if [ $code = 0 ] && [ ! -s err ]; then pass && complete=1
    elif [ $code = 1 ] && ! grep -qv '^weft: ' err && grep -qE 'thread|cannot be started' err; then pass
    else flunk "exit $code with at most $limit threads: $*"; fi
}
for options in "train -q $small --steps 2 -t 3" "train -q $small --steps 2 -n 2 -t 2" "train -q $small --steps 2 -n 2 -t 2 --exchange server" \
    "train -q $small --steps 2 -n 2 -t 2 --exchange hogwild" "train -q $small --steps 2 -n 2 -t 2 --exchange gossip" \
    "simulate -q -n 3 -t 2 $small --steps 2 --exchange server" "eval $work/run -t 3" "predict $work/run -t 2"; do
    complete=
    for limit in 1 2 3 4 5 6 7 8 10 12 16 24; do
        in_full || [ $((limit % 2)) = 0 ] || [ $limit -le 3 ] || continue
        # shellcheck disable=SC2086
        under $limit "$weft" $options
        [ -n "$complete" ] && break
    done
    [ -n "$complete" ] && pass || flunk "no limit is enough: $options"
done
refuses 1 "messages need 2 more threads" limited 1 "$weft" status tcp://127.0.0.1:9
refuses 1 "computations need 4 more threads, and the system gives 1" limited 2 "$weft" train -q $small --steps 2 -t 3
echo "$passed passed, $failed failed"
[ $failed = 0 ]
