#!/usr/bin/env bash
# Parallel runs of the command, on threads and on MPI: tests/train/parallel.sh PATH/TO/weft MPI(ON|OFF)
set -u
weft=$1 mpi=${2:-OFF} source=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../support/check.sh"
small="--data glyphs:size=16,train=60,test=20 --batch 20 --steps 3"
# agrees NAME OPTIONS... - MORE...: with the options MORE, training prints no warning and ends with the loss without them.
agrees() {
    local name=$1 options=() want have
    shift
    while [ "$1" != - ]; do options+=("$1") && shift; done
    shift
    # shellcheck disable=SC2086
    set -- train $small --dtype f64 --device reference --metrics a.jsonl "${options[@]}" "$@"
    final() { sed -n 's/.*"loss":\([0-9.]\{9\}\).*"accuracy".*/\1/p' a.jsonl | tail -n 1; }
    # shellcheck disable=SC2086
    "$weft" train -q $small --dtype f64 --device reference --metrics a.jsonl "${options[@]}" >out 2>err
    want=$(final)
    rm -f a.jsonl
    "$weft" "$@" -q >out 2>err && [ ! -s err ] && have=$(final) && [ -n "$want" ] && [ "$want" = "$have" ] && pass ||
        flunk "$name: a loss of ${have:-nothing} instead of $want"
}

# An axis that is named is there, however short: what goes on after a death may have one rank left.
agrees "a split over an axis of one rank" - --mesh data=1 --shard fc1/weight:out=data
# Stages are measured on a device of the ranks, also where those differ.
# shellcheck disable=SC2086
for devices in cpu,reference reference,cpu reference; do
    accepts "measured stages on $devices" "$weft" train -q $small --model mlp -n 2 --mesh pipeline=2 --microbatches 2 --profile --device $devices
    accepts "planned stages on $devices" "$weft" plan -q $small --model mlp -n 2 --mesh pipeline=2 --microbatches 2 --profile --device $devices
done
# What goes into a weight has a name also where channels are in groups.
printf 'layers:\n  - {type: conv, name: first, filters: 4, kernel: 3}\n  - {type: conv, name: apart, filters: 4, kernel: 3, groups: 2}\n  - {type: dense, units: classes}\n' >groups.yaml
agrees "in of a grouped convolution" --model groups.yaml - -n 2 --mesh tensor=2 --shard apart/weight:in=tensor

# A virtual worker has all of the model, so weights are not spread over the ranks that share the workers out.
printf 'layers:\n  - {type: dense, units: 4}\n  - {type: dense, name: last, units: classes, bias: false}\n' >last.yaml
# shellcheck disable=SC2086
refuses 2 "shard: 'last/weight' is to be split over the data axis, whose ranks have virtual workers" \
    "$weft" train -q $small --batch 10 --model last.yaml -n 2 --virtual-workers 10 --shard last/weight:0=data
agrees "a weight split over data" --batch 10 --model last.yaml - -n 2 --shard last/weight:0=data
agrees "virtual workers and a weight split over tensor" --batch 10 --model last.yaml --virtual-workers 10 - -n 4 \
    --mesh data=2,tensor=2 --shard last/weight:0=tensor

# A stage without parameters of its own has nothing to average.
cat >last.yaml <<'YAML'
layers:
  - {type: dense, units: classes, bias: false}
YAML
# shellcheck disable=SC2086
accepts "a stage without parameters" "$weft" train -q $small --model last.yaml -n 4 --mesh pipeline=2 \
    --exchange average:every=2,outer=nesterov --checkpoint last

# weights NAME ARGUMENTS...: trains and exports to NAME.st.
weights() {
    local name=$1
    shift
    rm -rf "$name"
    timeout 300 "$weft" train -q --data glyphs:size=16,train=310,test=50 --batch 100 --epochs 2 -t 1 \
        --checkpoint "$name" "$@" >out 2>err && "$weft" export "$name/latest" -o "$name.st" -q 2>>err ||
        flunk "$*"
}
same() { cmp -s "$1.st" "$2.st" && pass || flunk "$1 and $2 have other weights"; }
cat >norm.yaml <<'YAML'
layers:
  - {type: conv, filters: 8, kernel: 3}
  - {type: batch_norm}
  - {type: relu}
  - {type: maxpool}
  - {type: dropout, rate: 0.3}
  - {type: dense, units: classes}
YAML
engines=threads
[ "$mpi" = ON ] && engines="threads mpi"
for model in lenet norm.yaml; do
    in_full || [ $model = norm.yaml ] || continue
    weights one --model $model --virtual-workers 12 --clip-norm 1
    for engine in $engines; do
        for ranks in 2 3 4; do
            in_full || [ $ranks = 3 ] || continue
            weights many --model $model --virtual-workers 12 --clip-norm 1 -n $ranks --engine $engine
            same one many
        done
    done
done
weights one --virtual-workers 8
weights many --virtual-workers 8 -n 8
same one many

# Numbers to predict: the same bits from virtual workers, on threads and processes, whatever share a rank has.
python3 - <<'PY'
import random
chance = random.Random(4)
with open("numbers.csv", "w") as f:
    print("a,b,c,y", file=f)
    for _ in range(131):
        a, b, c = (chance.gauss(0, 1) for _ in range(3))
        print(f"{a:.6f},{b:.6f},{c:.6f},{1e5 + 700 * a * b - 4000 * c:.3f}", file=f)
PY
# The first of all ranks, in the order of the graph, made a number that is not finite.
for n in 1 2 3; do
    timeout 300 "$weft" train --model mlp -q --data glyphs:size=16,train=60,test=20 --batch 20 --epochs 2 -t 1 --optimizer sgd --lr 1e4 \
        --seed 3 -n $n --mesh pipeline=$n --microbatches 2 >out 2>err
    grep -q "'dense+bias fc3', was the first to make a number that is not finite" err && pass || flunk "the first of a pipeline of $n"
done
printf 'loss: mse\nlayers:\n  - {type: dense, units: 17}\n  - {type: batch_norm}\n  - {type: tanh}\n  - {type: dense, units: outputs}\n' >fit.yaml
fit() {
    local name=$1
    shift
    rm -rf "$name"
    timeout 300 "$weft" train -q --model fit.yaml --data csv:numbers.csv,target=y --batch 32 --epochs 3 -t 1 --checkpoint "$name" \
        --virtual-workers 12 "$@" >out 2>err && "$weft" export "$name/latest" -o "$name.st" -q 2>>err || flunk "$*"
}
fit one
for engine in $engines; do
    for way in "-n 2" "-n 3 --zero 1" "-n 4 --zero 3"; do
        in_full || [ "$way" = "-n 4 --zero 3" ] || continue
        # shellcheck disable=SC2086
        fit many $way --engine $engine
        same one many
    done
done

# The network that the README shows, on every axis: the same losses as one rank.
sed -n 's/^    //; /^# net.yaml/,/outputs}/p' "$source/README.md" >net.yaml
alike() { # FILE ARGUMENTS...
    # shellcheck disable=SC2086
    timeout 300 "$weft" train -q --model net.yaml --dtype f64 --device reference \
        --data glyphs:size=16,train=100,test=20 --batch 20 --steps 8 -t 1 --metrics a.jsonl ${*:2} >out 2>err ||
        flunk "README's network ${*:2}"
    sed -n 's/.*"loss":\([0-9.]\{9\}\).*"accuracy":\([0-9.]*\).*/\1 \2/p' a.jsonl | tail -n 1 >"$1"
}
alike straight
for mesh in "-n 2" "-n 3 --zero 1" "-n 2 --zero 3" "-n 2 --mesh domain=2" "-n 2 --mesh tensor=2" \
    "-n 4 --mesh data=2,domain=2" "-n 4 --mesh data=2,tensor=2 --zero 2" "-n 3 --mesh pipeline=3"; do
    case $mesh in *domain=2* | *pipeline*) ;; *) in_full || continue ;; esac
    alike turned "$mesh"
    [ -s straight ] && cmp -s straight turned && pass || flunk "losses differ with $mesh: $(cat straight) and $(cat turned)"
done

# A checkpoint of any mesh goes on with any other. Each reads the same samples, so the losses agree.
go_on() { # FROM TO: half with one, half with the other
    rm -rf half
    # shellcheck disable=SC2086
    timeout 300 "$weft" train -q --dtype f64 --device reference --data glyphs:size=16,train=120,test=20 --batch 20 \
        --steps 6 -t 1 --checkpoint half $1 --metrics a.jsonl 2>err &&
        timeout 300 "$weft" train -q --dtype f64 --device reference --data glyphs:size=16,train=120,test=20 \
            --batch 20 --steps 9 -t 1 --checkpoint half --resume $2 --metrics a.jsonl 2>err || flunk "$1 then $2"
    sed -n 's/.*"loss":\([0-9.]\{9\}\).*"accuracy":\([0-9.]*\).*/\1 \2/p' a.jsonl | tail -n 1 >"$3"
}
go_on "" "" straight
for pair in "-n 2|-n 3 --mesh tensor=3" "-n 4 --mesh data=2,tensor=2|-n 2 --mesh domain=2" \
    "-n 2 --zero 3|" "-n 2 --mesh pipeline=2 --microbatches 2|-n 3 --zero 1" "|-n 4 --mesh domain=2,pipeline=2"; do
    case $pair in "-n 2|"* | *domain=2,pipeline=2) ;; *) in_full || continue ;; esac
    go_on "${pair%|*}" "${pair#*|}" turned
    cmp -s straight turned && pass || flunk "losses differ after $pair: $(cat straight) and $(cat turned)"
done

# Learners go on from between two meetings as if nothing had been: each with its own state, the outer
# optimizer with its own.
learners() { # CHECKPOINT ARGUMENTS...
    timeout 300 "$weft" train -q --data glyphs:size=16,train=200,test=20 --batch 20 -t 1 --exchange average:every=5,outer=nesterov \
        --steps 12 --keep 10 --checkpoint "$@" >out 2>err || flunk "learners: $*"
}
for mesh in "-n 2" "-n 4 --mesh data=2 --zero 3"; do
    rm -rf once again
    # shellcheck disable=SC2086
    learners once --checkpoint-every 7 $mesh && cp -r once again && rm -rf again/step-12 again/latest && ln -s step-7 again/latest
    # shellcheck disable=SC2086
    learners again --resume $mesh
    for part in parameters state learners exchange; do
        cmp -s once/step-12/$part.safetensors again/step-12/$part.safetensors && pass || flunk "$part of resumed learners, $mesh"
    done
done

# Deep models are built in a time that grows with their layers: seconds, where their square would take hours.
awk 'BEGIN { print "layers:"; for (i = 0; i < 1500; i++) print "  - {type: dense, units: 8}\n  - {type: tanh}"
             print "  - {type: dense, units: classes}" }' >deep.yaml
for mesh in data=2 data=2,tensor=2 pipeline=2 "data=2 --zero 3"; do
    in_full || [ "$mesh" = pipeline=2 ] || continue
    n=2 && [ "$mesh" = data=2,tensor=2 ] && n=4
    timeout 300 "$weft" plan $small --model deep.yaml -n $n --mesh $mesh --microbatches 2 >out 2>err &&
        [ "$(grep -c '^ *[0-9] *\(data\|pipeline\) [01]' out)" = $n ] && grep -q '^Transfers of rank 0' out && pass || flunk "a plan of 3,000 layers: $mesh: $(cat err)"
done
timeout 300 "$weft" train $small --model deep.yaml -q --steps 1 --checkpoint deep >out 2>err &&
    timeout 300 "$weft" eval -q --checkpoint deep >out 2>err && pass || flunk "3,000 layers: $(cat err)"

# What is promised is what happens: bytes of weft plan against those of the run.
planned=$("$weft" plan -n 4 --mesh data=2,tensor=2 --device reference $small | sed -n 's/.*(\([0-9]*\) bytes).*/\1/p')
"$weft" train -q -n 4 --mesh data=2,tensor=2 --device reference $small --metrics m.jsonl --trace t.json >out 2>err
sent=$(sed -n 's/.*"step":2.*"comm_bytes":\([0-9]*\).*/\1/p' m.jsonl)
# Gradients go as one range, with a few bytes between them so that each begins on a cache line.
[ -n "$planned" ] && [ "$sent" -ge "$planned" ] && [ "$sent" -le $((planned + planned / 1000)) ] && pass ||
    flunk "planned $planned bytes, sent $sent"
# So is the memory: the columns of weft plan, which are rounded, against the run's rank_bytes. They hold the samples of
# the micro-batches under way on rank 0, 1,024 numbers each: rows|options.
printf 'layers:\n  - {type: dense, units: 8}\n  - {type: dense, units: classes}\n' >flat.yaml
while IFS='|' read -r rows how; do
    case $how in *mpi*) [ "$mpi" = ON ] && command -v mpirun >/dev/null || continue ;; esac
    how="$how --batch 400 --model flat.yaml --data glyphs:size=32,train=400,test=20"
    # shellcheck disable=SC2086
    timeout 300 "$weft" plan $how >out 2>err && timeout 300 "$weft" train -q $how --steps 1 --metrics memory.jsonl 2>err ||
        flunk "memory of $how"
    ROWS=$rows python3 - <<'PY' >python 2>err && pass || flunk "planned memory of $how"
import json, os, re
units = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
lines = [re.findall(r"(\d+) (B|kB|MB|GB)\b", line) for line in open("out") if re.match(r" *\d+  (all|data|tensor|pipeline)\b", line)]
planned = [(sum(int(n) * units[u] for n, u in sizes[:6]), sum(units[u] for n, u in sizes[:6]) / 2) for sizes in lines]
taken = json.loads(open("memory.jsonl").readlines()[-1])["rank_bytes"]
assert len(planned) == len(taken) > 0, (planned, taken)
for (bytes, rounding), real in zip(planned, taken):
    assert abs(bytes - real) <= rounding, (planned, taken)
assert taken[0] > int(os.environ["ROWS"]) * 4096, taken
PY
done <<'HOW'
400|-n 1
200|-n 2 --mesh data=2
200|-n 2 --mesh data=2 --zero 3
200|-n 2 --engine mpi --mesh data=2
200|-n 2 --engine mpi --mesh data=2 --zero 3
200|-n 4 --mesh data=2,tensor=2
200|-n 2 --mesh pipeline=2 --microbatches 4
400|-n 2 --mesh pipeline=2 --microbatches 4 --schedule gpipe
HOW
# A plan is made for as many threads as a rank has in the run: the kernels of inception need more memory with more.
inception="-n 2 --mesh data=2 --batch 40 --model inception --data glyphs:size=32,train=400,test=20"
# shellcheck disable=SC2086
"$weft" plan --dump $inception 2>err | grep -A1 '^# device' >planned && "$weft" inspect --program $inception 2>err | grep -A1 '^# device' >taken &&
    grep -q '^# bytes' taken && cmp planned taken >out && pass || flunk "a plan with the threads of the run: $(cat planned taken)"
TESTS=$source/tests/support python3 - <<'PY' >out 2>err && pass || flunk "the trace"
import json, os, sys
events = json.load(open("t.json"))["traceEvents"]
sys.path.insert(0, os.environ["TESTS"])
import check_trace
check_trace.check(events, 4)
assert any(e["ph"] == "X" and e["cat"] == "wait" for e in events)
PY
# A pipeline's messages, the micro-batches that are under way, and its bubble, from the trace.
for schedule in 1f1b gpipe; do
    "$weft" train -q -n 3 --mesh pipeline=3 --microbatches 5 --batch 20 --data glyphs:size=16,train=60,test=20 --steps 2 \
        --schedule $schedule --trace t.json >out 2>err || flunk "a pipeline"
    TESTS=$source/tests/support SCHEDULE=$schedule python3 - <<'PY' >out 2>err && pass || flunk "the pipeline's trace under $schedule"
import json, os, sys
sys.path.insert(0, os.environ["TESTS"])
import check_trace
K, M, STEPS = 3, 5, 2
ahead = [M if os.environ["SCHEDULE"] == "gpipe" else min(K - stage, M) for stage in range(K)]
events = json.load(open("t.json"))["traceEvents"]
check_trace.check(events, K)
assert any(e["ph"] == "s" for e in events)
orders = []
for stage in range(K):
    mine = sorted((e for e in events if e["ph"] == "X" and e["pid"] == stage + 1 and e["cat"] not in ("wait", "step") and e["name"] != "poll transfers"), key=lambda e: e["ts"])
    assert len({e["args"]["slot"] for e in mine if e["args"]["phase"] != "update"}) == ahead[stage]
    passes, last = [], None
    for e in mine:
        now = (e["args"]["phase"], e["args"]["slot"])
        if now != last and now[0] != "update":
            passes.append(now[0])
        last = now
    assert len(passes) == STEPS * 2 * M, (stage, len(passes))
    under_way = most = 0
    for p in passes:
        under_way += 1 if p == "forward" else -1
        most = max(most, under_way)
    assert most == ahead[stage], (stage, most)
    orders.append(passes[:2 * M])
# The passes of each stage in this order, each taking as long: stages wait (K-1)/(M+K-1) of the time.
ended, at, clock = {}, [0] * K, [0] * K
while any(at[s] < 2 * M for s in range(K)):
    for s in range(K):
        if at[s] == 2 * M:
            continue
        p = orders[s][at[s]]
        m = orders[s][:at[s]].count(p)
        before = ("forward", s - 1, m) if p == "forward" else ("backward", s + 1, m)
        if 0 <= before[1] < K and before not in ended:
            continue
        clock[s] = ended[p, s, m] = max(clock[s], ended.get(before, 0)) + 1
        at[s] += 1
bubble = 1 - 2 * M / max(clock)
assert abs(bubble - (K - 1) / (M + K - 1)) < 1e-9, bubble
PY
done
# Stages balanced by what the layers were measured to take.
"$weft" train -q -n 2 --mesh pipeline=2 --microbatches 2 --profile $small >out 2>err && [ ! -s err ] && pass || flunk "a profile"
"$weft" plan -n 2 --mesh pipeline=2 --microbatches 2 --profile $small >out 2>err && grep -q "stages wait" out && pass ||
    flunk "a plan by a profile"

# Ranks keep to cores of their own, unless they are told not to.
core_sets() {
    rm -rf bound
    background out err "$weft" train -q -n 2 -t 1 $small --steps 100000 --epochs 100000 --checkpoint bound --checkpoint-every 1 "$@"
    job=$!
    appears bound/latest
    grep -h Cpus_allowed_list /proc/$job/task/*/status | sort -u | wc -l
    kill -KILL $job
    wait $job 2>/dev/null
}
if [ "$(nproc)" -gt 1 ]; then
    [ "$(core_sets)" -gt 1 ] && [ "$(core_sets --no-bind)" = 1 ] && pass || flunk "cores of their own"
fi

# What is computed again is split as it was the first time, though a cheaper way may have come up since.
printf 'layers:\n  - {type: conv, filters: 3, kernel: 2, padding: 1}\n  - {type: conv, filters: 1, kernel: 1}\n  - {type: conv, filters: 4, kernel: 3, padding: 2}\n  - {type: dense, units: classes}\n' >narrow.yaml
for mesh in data=2 domain=2 tensor=2 pipeline=2; do
    in_full || [ $mesh = domain=2 ] || continue
    for again in '' --recompute; do
        # shellcheck disable=SC2086
        "$weft" train -q $small --model narrow.yaml -n 2 --mesh $mesh --device reference $again --checkpoint "narrow$again" >out 2>err &&
            "$weft" export "narrow$again/latest" -o "narrow$again.st" -q || flunk "$mesh $again"
        rm -rf "narrow$again"
    done
    same narrow narrow--recompute
done
# Where the first computation has two readers the second has one; the same kernels run it all the same.
printf 'layers:\n  - {type: conv, name: c, filters: 9, kernel: 3, padding: 2, bias: false}\n  - {type: sigmoid, name: s}\n  - {type: add, from: "c, s"}\n  - {type: dense, units: classes, bias: false}\n' >readers.yaml
accepts "kernels of what is computed again" "$weft" plan $small --batch 5 --model readers.yaml -t 1 --recompute --dump
kernels_of() { sed -nE "s/^ *[0-9]+ $1 ([a-z_+]+) ([cs]) .*/\1 \2/p" out; }
[ -n "$(kernels_of forward)" ] && [ "$(kernels_of forward)" = "$(kernels_of backward)" ] && pass ||
    flunk "computed again by other kernels: $(kernels_of forward) and $(kernels_of backward)"
if [ "$mpi" = ON ]; then
    # shellcheck disable=SC2086
    refuses 2 "the sizes must multiply to" "$weft" train $small -n 3 --mesh data=2 --engine mpi
    refuses 2 "threads of one process; give --engine threads" "$weft" train $small -n 2 --exchange hogwild --engine mpi
    timeout 300 "$weft" train $small -n 2 --engine mpi >out 2>err
    [ $? = 0 ] && [ "$(grep -c 'test loss' out)" = 1 ] && [ ! -s err ] && pass || flunk "two processes"
    # Check mode waits for all ranks at the start of a collective; at the end of a run peers wait for each other's messages.
    for exchange in gossip gossip:mode=average easgd server server:policy=async average; do
        rm -rf checked
        accepts "check mode, $exchange" timeout 300 "$weft" train -q $small -m mlp -t 1 -n 4 --mesh tensor=2 --exchange $exchange --check-collectives \
            --checkpoint checked --engine mpi --timeout 30
    done
    # Learners of one machine send each other messages over sockets in a folder of TMPDIR, or over TCP where there can be none; what they learn is the same.
    printf '#!/bin/sh\nTMPDIR=$AT exec "%s" train -q %s -m mlp -t 1 --engine mpi --exchange server --checkpoint "$SAVED" "$@"\n' "$weft" "$small" >beside && chmod 755 beside
    learners() { OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 300 mpirun -n 2 --oversubscribe --bind-to none ./beside "$@"; }
    mkdir -p sockets
    for at in sockets none; do
        SAVED=by-$at AT=$PWD/$at learners >out 2>err && "$weft" export by-$at/latest -o by-$at.st -q || flunk "messages of TMPDIR=$at: $(head -2 err)"
    done
    same by-sockets by-none
    background out err env SAVED=long-run AT="$PWD/sockets" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 --oversubscribe \
        --bind-to none ./beside --epochs 100000000
    job=$!
    within '[ "$(find sockets -type s | wc -l)" -ge 2 ] || ! lives $job'
    [ "$(find sockets -type s | wc -l)" -ge 2 ] && pass || flunk "learners of one machine have no sockets: $(find sockets)"
    kill -INT $job
    wait $job
    [ -z "$(ls sockets)" ] && pass || flunk "sockets stay: $(find sockets)"
    PATH=/nowhere "$weft" train $small -n 2 --engine mpi >out 2>err
    [ $? = 1 ] && grep -q "apt-get install openmpi-bin" err && pass || flunk "no mpirun"
    # An mpirun whose version is long, as MPICH's.
    mkdir -p long && printf '#!/bin/sh\n[ "$1" = --version ] || exit 3\necho HYDRA build details:\nseq 20000\n' >long/mpirun && chmod 755 long/mpirun
    # shellcheck disable=SC2086
    PATH=$PWD/long:$PATH "$weft" train $small -n 2 --engine mpi >out 2>err
    grep -q "ended with code 3" err && pass || flunk "a long version of mpirun"
    # At a limit of open files mpirun cannot run, which is something else.
    for files in 7 8 9 10; do
        # shellcheck disable=SC2086
        (ulimit -n $files && exec "$weft" train $small -n 2 --engine mpi) >out 2>err
        [ $? = 1 ] && grep -qE "^weft: mpirun .*(--version' fails|cannot be started)" err && pass || flunk "mpirun at $files open files"
    done
    timeout 300 "$weft" train $small -n 2 --engine mpi --hosts nowhere.invalid:2 >out 2>err
    [ $? != 0 ] && [ "$(grep -c '^weft: the job cannot be started on nowhere.invalid of --hosts nowhere.invalid:2' err)" = 1 ] && pass ||
        flunk "a host that does not answer"
    # Ranks that do not have the same data find out before they begin.
    cat >each <<EOF
#!/bin/sh
exec "$weft" train -q --engine mpi --data glyphs:size=16,train=\$((60 + OMPI_COMM_WORLD_RANK)),test=20 --batch 20 --steps 3
EOF
    chmod +x each
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 300 mpirun -n 2 --oversubscribe --bind-to none ./each >out 2>err
    [ $? != 0 ] && [ "$(grep -c 'rank 1 has another program, model or data than rank 0' err)" = 1 ] && pass || flunk "other data"
    sed -i 's/,train=.*,test/,train=60,test/; /exec/s/$/ --dtype "$(echo f32 bf16 | cut -d " " -f $((OMPI_COMM_WORLD_RANK + 1)))"/' each
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 300 mpirun -n 2 --oversubscribe --bind-to none ./each >out 2>err
    [ $? != 0 ] && [ "$(grep -c 'rank 1 has the number type bf16, and rank 0 has f32; give all ranks the same --dtype' err)" = 1 ] && pass || flunk "other types: $(cat err)"
    # Nor do they resume from different checkpoints, or one of them from none, as on disks that machines do not share.
    from="--data glyphs:size=16,train=60,test=20 --batch 20 --epochs 9"
    for steps in 3 6; do
        # shellcheck disable=SC2086
        accepts "a checkpoint of step $steps" "$weft" train -q $from --steps $steps --checkpoint at$steps
    done
    cat >each <<EOF
#!/bin/sh
cd disk\$OMPI_COMM_WORLD_RANK && exec "$weft" train -q --engine mpi $from --steps 9 --checkpoint ck --resume \$MORE
EOF
    chmod +x each
    while read -r first second more; do
        rm -rf disk0 disk1 && mkdir disk0 disk1
        [ $first = none ] || cp -a at$first disk0/ck
        [ $second = none ] || cp -a at$second disk1/ck
        cp -a disk1 before
        MORE=$more OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 300 mpirun -n 2 --oversubscribe --bind-to none ./each >out 2>err </dev/null
        code=$?
        if [ $first = $second ]; then
            [ $code = 0 ] && [ "$(readlink disk0/ck/latest)" = step-9 ] && pass || flunk "ranks with checkpoint '$first', exit $code"
        else
            words="^weft: ck: rank 0 on [^ ]* has .*checkpoint.*, but rank 1 on [^ ]* has .*checkpoint.*; all ranks must see the same folder"
            [ $code = 2 ] && [ "$(grep -c "$words" err)" = 1 ] && [ "$(grep -c "^weft:" err)" = 1 ] && [ ! -e disk0/ck/step-9 ] && pass ||
                flunk "ranks with checkpoints $first and $second, exit $code"
            for has in $first $second; do
                grep -q "has $([ $has = none ] && echo 'no checkpoint' || echo "the checkpoint of step $has (")" err && pass || flunk "checkpoint $has is not named"
            done
        fi
        diff -r --no-dereference disk1 before >out && pass || flunk "the disk of rank 1"
        rm -rf before
    done <<'RANKS'
3 none
none 3
3 6
6 3
3 6 --exchange average
3 3
none none
RANKS
    # A process of the same job that has lost its connection may write one more checkpoint: none of the ranks looks before.
    rm -rf disk0 && cp -a at3 disk0 && cp -a at6/step-6 disk0
    cat >each <<EOF
#!/bin/sh
exec "$weft" train -q --engine mpi $from --steps 9 --checkpoint disk0 --resume
EOF
    exec 9<>disk0/.lock
    flock 9 && echo "$$ $(hostname) $PWD/job" >disk0/.lock
    WEFT_STATUS_PAGE=$PWD/job OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 background out err timeout 300 mpirun -n 2 --oversubscribe --bind-to none ./each 9>&-
    job=$!
    locking() { for p in $(below $job); do readlink "/proc/$p/fd/"*; done 2>/dev/null | grep -qF "$PWD/disk0/.lock"; }
    within locking || flunk "rank 0 does not wait for the folder"
    sleep 2 # in which a rank that does not wait would look
    ln -sfn step-6 disk0/latest
    exec 9>&-
    wait $job && [ "$(readlink disk0/latest)" = step-9 ] && [ ! -s err ] && pass || flunk "ranks that resume while a former one writes"
    # Processors of different kinds lay weights differently; sums are of the same elements all the same.
    cat >each <<EOF
#!/bin/sh
[ "\$OMPI_COMM_WORLD_RANK" = 1 ] && [ -n "\$OTHER" ] && export DNNL_MAX_CPU_ISA=AVX2
exec "$weft" train -q --engine mpi -t 1 --data glyphs:size=16,train=310,test=50 --batch 100 --steps 6 --metrics m\$OTHER.jsonl \$MORE
EOF
    for more in "" "--zero 2"; do
        in_full || [ -z "$more" ] || continue
        rm -f m.jsonl m1.jsonl
        for other in "" 1; do
            OTHER=$other MORE=$more OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
                timeout 300 mpirun -n 2 --oversubscribe --bind-to none ./each >out 2>err || flunk "processors of different kinds"
        done
        python3 - <<'PY' >out 2>err && pass || flunk "losses on processors of different kinds"
import json
losses = [[e["loss"] for e in map(json.loads, open(f)) if e["event"] == "step"] for f in ("m.jsonl", "m1.jsonl")]
assert len(losses[0]) == 6 and all(abs(a - b) < 1e-3 for a, b in zip(*losses)), losses
PY
    done
    # A rank is killed; the job goes on with fewer ranks, to the same bits.
    long="--data glyphs:size=16,train=2000,test=50 --batch 40 --epochs 100000 -t 1 --virtual-workers 4"
    background out err "$weft" train -q $long -n 4 --engine mpi --max-restarts 3 --checkpoint storm --checkpoint-every 5
    job=$!
    appears storm/latest
    kill -KILL "$(ranks $job | sed -n 2p)"
    within 'grep -q "starting again" err'
    moves_on storm "$(readlink storm/latest)" || flunk "it does not go on"
    kill -TERM $job
    wait $job
    [ $? = 143 ] && "$weft" export storm/latest -o storm.st -q || flunk "a killed rank"
    # shellcheck disable=SC2046
    "$weft" train -q $long --steps $(readlink storm/latest | tr -dc 0-9) --checkpoint calm >calm.out 2>&1 && "$weft" export calm/latest -o calm.st -q || flunk "undisturbed"
    grep -q "rank [0-9] on .* died of signal 9 .* in step [0-9]*, \(in\|after\) [a-z-]* of" err && pass || flunk "who died"
    grep -q "starting again from the newest checkpoint with 2 ranks" err && pass || flunk "fewer ranks"
    same calm storm
fi
if [ "$mpi" = ON ] && in_full; then
    # A rank that stands still is named.
    background out err "$weft" train -q $long -n 3 --virtual-workers 3 --engine mpi --timeout 2 --checkpoint still --checkpoint-every 5
    job=$!
    appears still/latest
    all=$(below $job)
    kill -STOP "$(ranks $job | sed -n 3p)"
    gone $job || kill -KILL $job
    wait $job
    [ $? != 0 ] && grep -q "missing: 2" err && pass || flunk "a rank that stands still"
    # shellcheck disable=SC2086
    gone $all && pass || flunk "processes are left"
fi
# Learners whose devices lay tensors in memory in different ways meet all the same.
averaging="--data glyphs:size=16,train=200,test=60 --batch 20 --steps 6 --model lenet -t 1"
losses=""
for devices in cpu cpu,reference; do
    # shellcheck disable=SC2086
    timeout 300 "$weft" train $averaging -n 2 --device $devices --exchange average:every=2,outer=nesterov,state=average >out 2>err &&
        pass || { flunk "averaging on $devices"; cat err; }
    losses="$losses $(sed -n 's/.*test loss \([0-9.]*\).*/\1/p' out | tail -n 1)"
done
# shellcheck disable=SC2086
python3 -c "import sys; a, b = map(float, sys.argv[1:]); assert abs(a - b) < 0.01, (a, b)" $losses && pass ||
    flunk "averaging on different devices gives other losses:$losses"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
