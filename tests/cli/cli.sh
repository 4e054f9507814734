#!/usr/bin/env bash
# The contract of the command, and what it says to bad input: tests/cli/cli.sh PATH/TO/weft
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
data=${WEFT_DATA:-$here/../../../shared/data}/mnist15k
. "$here/../support/check.sh"
small="--data glyphs:size=16,train=60,test=20 --batch 20"

accepts version "$weft" --version
holds out '^weft [0-9]+\.[0-9]+\.[0-9]+$'
accepts help "$weft" help
cp out help
for way in --help -h ""; do
    # shellcheck disable=SC2086
    accepts "weft $way" "$weft" $way
    cmp out help && pass || flunk "weft $way is another help"
done
for command in train simulate compare find-lr selftest eval predict inspect export coordinator server join leave status fetch keygen help; do
    accepts "help $command" "$weft" help "$command"
    holds out '^usage: weft '
    cp out help
    for way in --help -h; do
        accepts "$command $way" "$weft" $command $way
        cmp out help && pass || flunk "weft $command $way is another help"
    done
    accepts "man $command" "$weft" help --man "$command"
    holds out '^\.TH WEFT'
done
"$weft" help simulate | grep -q -- '--checkpoint DIR  *write DIR/step-N when the simulation is over$' && pass || flunk "when a simulation is saved"
refuses 2 "'compare' is a second one" "$weft" help train compare
refuses 2 "'compare' is a second one" "$weft" help --man train compare
accepts "list" "$weft" inspect --list
holds out 'softmax_xent'
grep -qE '^ +self ' out && flunk "an engine that --engine refuses" || pass
for more in "--batch 3" --graph run.yaml; do
    # shellcheck disable=SC2086
    refuses 2 "--list names what any run may have, so it stands alone" "$weft" inspect --list $more
done

# A run: lines, metrics, checkpoint, export, evaluation, prediction.
accepts train "$weft" train --model lenet $small --epochs 2 --optimizer adam --lr 0.001 --seed 1 --threads 2 \
    --checkpoint run --metrics m.jsonl --dtype f32 --device cpu --trace trace.json
holds out 'test loss .* accuracy .* macro F1'
holds m.jsonl '^\{"event":"step","step":1,"epoch":1,"loss":[0-9.]+,"lr":0.00[0-9]+,"samples_per_second":[0-9.]+,"comm_bytes":0,'
holds m.jsonl '"event":"eval","step":6,.*"split":"test","loss":[0-9.]+,"accuracy":[0-9.]+,"f1_macro":[0-9.]+'
holds m.jsonl '"event":"summary","steps":6,"seconds":[0-9.]+,"samples_per_second":[0-9.]+,.*"since_step":0,"peak_rss_bytes":[0-9]+'
TESTS=$here/../support python3 - <<'PY' && pass || flunk "metrics and trace are JSON"
import json, os, sys
for line in open("m.jsonl"):
    json.loads(line)
events = json.load(open("trace.json"))["traceEvents"]
sys.path.insert(0, os.environ["TESTS"])
import check_trace
check_trace.check(events, 1)
assert sum(e["name"].startswith("step ") for e in events) == 6
assert any(e["ph"] == "X" and e["name"].startswith("conv+bias") for e in events)
PY
# Linux keeps the peak of the process that called exec as ru_maxrss of the new program.
python3 - "$weft" <<'PY' && pass || flunk "the peak memory of a run that a large process starts"
import json, subprocess, sys
large = bytearray(b"x") * 400_000_000
subprocess.run([sys.argv[1], *"train -q --model mlp --data glyphs:size=9,train=60,test=10 --batch 10 --steps 2 -t 1 --metrics large.jsonl".split()], check=True, close_fds=False)
peak = json.loads(open("large.jsonl").readlines()[-1])["peak_rss_bytes"]
assert 1_000_000 < peak < 300_000_000, peak
PY
[ "$(readlink run/latest)" = step-6 ] && pass || flunk "latest does not point at step-6"
accepts quiet "$weft" train $small --model mlp --quiet
[ -s out ] && flunk "--quiet printed" || pass
accepts export "$weft" export run/latest -o w.safetensors
for name in w.onnx ./w.pt w.PTH x.y/w.h5 w.npz w.gguf w.pb w.tflite .onnx; do
    refuses 2 "output '$name' ends with .${name##*.}, and a safetensors file is written; name it '${name%.*}.safetensors'" "$weft" export run/latest -o "$name"
    [ -e "$name" ] && flunk "$name was written" || pass
done
refuses 2 "folder 'w.keras' ends with .keras, and a folder with weights.safetensors and model.json is written; name it 'w'" "$weft" export run/latest -f w.keras
for name in w w.st w.bin pt ./a.onnx/pt; do
    mkdir -p "$(dirname "$name")"
    accepts "export as $name" "$weft" export run/latest -o "$name"
    cmp "$name" w.safetensors && pass || flunk "$name has other weights"
done
rm -rf w w.st w.bin pt a.onnx
refuses 2 "plot 'p.png' ends with .png, and an SVG picture is written; name it 'p.svg'" "$weft" compare $small -n 2 --strategies 'exchange=gossip; exchange=average' --plot p.png
python3 - <<'PY' && pass || flunk "exported tensors"
import json, struct
data = open("w.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + size])
assert header["conv1/weight"]["shape"] == [32, 1, 5, 5] and header["conv1/weight"]["dtype"] == "F32"
assert header["fc2/bias"]["shape"] == [10]
assert sorted(k for k in header if k != "__metadata__") == sorted(
    f"{l}/{p}" for l in ("conv1", "conv2", "fc1", "fc2") for p in ("weight", "bias"))
PY
accepts eval "$weft" eval --checkpoint run/latest --json
python3 -c 'import json; r = json.load(open("out")); assert r["samples"] == 20 and len(r["confusion"]) == 10' && pass || flunk "eval JSON"
accepts "eval other data" "$weft" eval --checkpoint run --data glyphs:size=16,test=33,seed=2 --confusion
accepts predict "$weft" predict --checkpoint run/latest --output p.csv
[ "$(wc -l <p.csv)" = 21 ] && pass || flunk "predictions"
accepts inspect "$weft" inspect run/latest
accepts "inspect program" "$weft" inspect --program $small
holds out 'reorder'
accepts "inspect graph" "$weft" inspect --graph $small
accepts "inspect dot" "$weft" inspect --dot $small
# A graph and a program are shown without values: these would need 360 GB.
printf 'layers:\n  - {type: dense, units: 300000}\n  - {type: dense, units: 300000}\n  - {type: dense, units: outputs}\n' >huge.yaml
for flag in "" --graph --program; do
    # shellcheck disable=SC2086
    accepts "inspect what no memory holds $flag" "$weft" inspect $flag $small --model huge.yaml
done

# A comparison reads its data once.
awk 'BEGIN { print "a,b,kind"; for (i = 0; i < 60; i++) print i % 7 "," i % 5 "," substr("xyz", i % 3 + 1, 1) }' >once.csv
"$weft" compare --model mlp --data csv:once.csv --batch 4 --steps 3 -t 1 -n 2 --strategies "exchange=average; exchange=gossip" 2>err | {
    read -r _
    rm once.csv
    cat
} >out
[ "${PIPESTATUS[0]}" = 0 ] && grep -q '^2 of 2: ' out && pass || flunk "a comparison whose data have gone: $(cat err)"

# A run file, and the command line over it.
printf 'model: mlp\ndata: glyphs:size=16,train=60,test=20\nbatch: 20\nlr: 0.5\n' >run.yaml
accepts "run file" "$weft" train run.yaml --lr 0.001 --metrics n.jsonl
# planned FILE: a plan without the memory of processes, which is measured.
planned() { sed '/^Memory of the host/,$d' "$1"; }
for command in inspect plan; do
    accepts "$command of a run file" "$weft" $command run.yaml --batch 30
    planned out >with-file
    "$weft" $command --model mlp --data glyphs:size=16,train=60,test=20 --batch 30 >options-alone 2>err
    planned options-alone >without
    cmp with-file without && pass || flunk "$command of a run file is another one"
done
holds n.jsonl '"lr":0.00[0-9]+'
# A look at a run takes its run file, also options about its processes and checkpoints, and is the same look. (By default a rank
# that shares its machine with another one has fewer threads.)
cp run.yaml kept.yaml
mpi=$("$weft" inspect --list | grep -E '^ +mpi ')
printf 'checkpoint: nowhere/run\ncheckpoint-every: 10\nkeep: 2\nresume: true\ndrop-state: true\nmax-restarts: 2\n' >>kept.yaml
for command in inspect plan; do
    accepts "$command" "$weft" $command run.yaml
    planned out >plain
    accepts "$command of a run with checkpoints" "$weft" $command kept.yaml
    cmp <(planned out) plain && pass || flunk "$command of a run with checkpoints is another one"
    accepts "$command of servers" "$weft" $command run.yaml -t 1 -n 2 --exchange server --servers 2
    planned out >plain
    for engine in "--engine processes" "--engine processes --max-restarts 2" ${mpi:+"--engine mpi" "--engine mpi --hosts a:1,b:1"}; do
        # shellcheck disable=SC2086
        accepts "$command, $engine" "$weft" $command run.yaml -t 1 -n 2 --exchange server --servers 2 $engine
        cmp <(planned out) plain && pass || flunk "$command, $engine, is another one"
    done
    refuses 2 "checkpoint-every needs --checkpoint DIR" "$weft" $command run.yaml --checkpoint-every 10
    refuses 2 "max-restarts needs --checkpoint DIR" "$weft" $command run.yaml --max-restarts 1
    refuses 2 "several machines need --engine mpi" "$weft" $command run.yaml --hosts a:1
done
[ ! -e nowhere ] && pass || flunk "a look made a folder of checkpoints"
printf 'compress-back: none\nexchange: server:policy=async\n' >former.yaml
"$weft" train former.yaml --model mlp --data glyphs:size=8,train=20,test=10 --batch 10 -n 2 -q >out 2>err && grep -q "now called 'compress-downlink'" err && pass ||
    flunk "the former name of a key in a run file: $(cat err)"
# An unknown key of no near name is told all that there are: the options but --plugin, and no former name.
for command in train find-lr plan compare; do
    printf 'qqqqqqqqqqqq: 1\n' >none.yaml
    refuses 2 "none.yaml:1: no key is named 'qqqqqqqqqqqq'; known are model, data," "$weft" $command none.yaml
    grep -q "compress-downlink" err && grep -q "progress" err && ! grep -qE "compress-back|silence" err && pass || flunk "keys of $command: $(cat err)"
done
refuses 2 "run2.yaml:2: no key is named 'bach'; did you mean 'batch'" sh -c "printf 'model: mlp\nbach: 3\n' >run2.yaml; exec $weft train run2.yaml"

# What is no number is null, where a reader expects JSON.
printf '1e30,0\n1e30,1\n1e30,0\n1e30,1\n' >far.csv
printf 'layers:\n  - {type: dense, units: classes}\n' >far.yaml
"$weft" train -q --model far.yaml --data csv:far.csv,test=0.5 --normalize none --batch 2 --optimizer sgd --lr 1e6 --checkpoint far --metrics far.jsonl
refuses 1 "the predictions for 2 of 2 samples are not finite" "$weft" predict --checkpoint far --json
grep -q null out && ! grep -qiE '[^a-z](nan|inf)' out far.jsonl && pass || flunk "not JSON: $(head -n 1 out)"
refuses 1 "the predictions for 2 of 2 samples are not finite" "$weft" eval --checkpoint far --json
[ ! -s out ] && pass || flunk "figures of what is not finite: $(head -n 1 out)"

# Ranks that are processes are announced before they have begun; the summary says of which steps, and of whose memory, its figures are.
"$weft" train $small --model mlp -t 1 -n 2 --steps 3 --batch 2 --exchange gossip --engine processes --checkpoint announced >out 2>err &&
    [ "$(head -n 1 out)" = "starting 2 learners as processes…" ] && grep -q "^3 steps in .*, peak memory [0-9]* MB of this learner alone$" out && pass || flunk "the first and the last line of processes"
"$weft" train $small --model mlp -t 1 -n 2 --steps 5 --batch 2 --exchange gossip --engine threads --checkpoint announced --resume >out 2>err &&
    grep -q "^2 steps since step 3 in .*, peak memory [0-9]* MB$" out && pass || flunk "the summary of a run that went on: $(tail -n 1 out)"

"$weft" train $small --model mlp -t 1 -n 1 --steps 3 --batch 2 --exchange server:policy=async --engine processes >out 2>err &&
    [ "$(head -n 1 out)" = "starting 1 learner as a process…" ] && pass || flunk "one learner is announced as '$(head -n 1 out)'"

# Learners and servers that would need more open files than a process may have are refused before any begins.
few() { (ulimit -n 256 && exec "$@"); }
refuses 2 "20 learners of one process would need 464 open files, and it may have 256; give fewer learners" few "$weft" train $small --model mlp -n 20 --exchange gossip
refuses 2 "60 learners of one process would need 308 open files" few "$weft" train $small --model mlp -n 60 --exchange server --servers 3
"$weft" train --data glyphs:size=16,train=3,test=2 --model mlp -t 1 -n 5 --steps 2 --batch 1 --exchange gossip >out 2>err &&
    grep -q "^weft: 2 of the 5 learners get no sample, since there are 3 to train on" err && pass || flunk "learners without samples: $(cat err)"
"$weft" train --data glyphs:size=16,train=1,test=2 --model mlp -t 1 -n 2 --steps 2 --batch 1 --exchange gossip >out 2>err &&
    grep -q "^weft: 1 of the 2 learners gets no sample, since there is 1 to train on" err && pass || flunk "one learner without samples: $(cat err)"
accepts "a ring of as many" few "$weft" train -q $small --model mlp -t 1 -n 20 --steps 2 --batch 2 --exchange gossip:topology=ring

# Ctrl-C ends after the step, saves, and the run goes on to the same bits.
"$weft" train $small --model mlp --epochs 100000000 -t 1 --checkpoint long --checkpoint-every 5 -q &
pid=$!
appears long/latest # the signal is ignored until the run has begun
kill -INT $pid
wait $pid
[ $? = 130 ] && [ -f long/latest/index.json ] && pass || flunk "interrupt"
last=$(($(readlink long/latest | tr -dc 0-9) + 25))
accepts "resume" "$weft" train $small --model mlp --epochs 100000000 --steps $last -t 1 --checkpoint long -q --resume
accepts "uninterrupted" "$weft" train $small --model mlp --epochs 100000000 --steps $last -t 1 --checkpoint whole -q
"$weft" export long/latest -o a.safetensors -q && "$weft" export whole/latest -o b.safetensors -q
cmp -s a.safetensors b.safetensors && pass || flunk "a resumed run differs"

# A comparison that is stopped in its second run has the row and the picture of the first, and leaves nothing half written.
printf 'latency: 0.001\n' >cluster.yaml
for where in "" "--cluster cluster.yaml"; do
    for signal in INT:130 HUP:129; do
        rm -rf stopped out && mkdir stopped
        # shellcheck disable=SC2086
        background out err "$weft" compare $where $small --model mlp -t 1 -n 2 --epochs 2 --plot stopped/plot.svg \
            --strategies "exchange=gossip; exchange=gossip epochs=1000000; exchange=gossip:mode=average"
        pid=$!
        within 'grep -qs "^2 of 3" out'
        kill -${signal%:*} $pid
        wait $pid
        got=$?
        [ $got = ${signal#*:} ] && grep -q "^gossip  *[0-9]" out && grep -q "stopped in run 2 of 3" err && [ "$(ls -A stopped)" = plot.svg ] && pass ||
            flunk "a comparison that SIG${signal%:*} stops: $got, $(ls -A stopped), $where"
    done
done

# One that is stopped in its first run has nothing to show.
background out err "$weft" compare $small --model mlp -t 1 -n 2 --epochs 1000000 --strategies "exchange=gossip; exchange=gossip:mode=average"
pid=$!
within 'grep -q "^1 of 2" out'
kill -INT $pid
wait $pid
[ $? = 130 ] && [ "$(cat err)" = "weft: stopped in run 1 of 2, so there is nothing to compare" ] && pass || flunk "a comparison that is stopped at once"

# Mistakes on the command line.
refuses 2 "did you mean 'train'" "$weft" trian
refuses 2 "no option is named 'epoch'; did you mean 'epochs'" "$weft" train --epoch 3
refuses 2 "'lr' is '-1'" "$weft" train --lr -1
refuses 2 "'lr' is 'nan'" "$weft" train --lr nan
refuses 1 "NaN or infinite with every strategy" "$weft" compare --model mlp --data glyphs:size=16,train=100,test=20 -t 1 --batch 20 -n 2 \
    --strategies 'exchange=server; exchange=gossip' --lr 1e6 --momentum 0.99 --optimizer sgd --steps 40
echo precious >file
refuses 1 "the file exists and is not a socket" "$weft" coordinator --listen ipc://file --model mlp --data glyphs:size=16,train=100,test=20 -t 1 -n 1 --exchange server
[ "$(cat file)" = precious ] && pass || flunk "a file gave way to a socket"
# No retry helps where the address of a coordinator is no socket, or not this user's.
soon="timeout 30"
refuses 1 "ipc://file: the file there is not a socket" $soon "$weft" status ipc://file
refuses 1 "ipc:///nowhere/socket: the folder of the socket does not exist" $soon "$weft" join ipc:///nowhere/socket --data glyphs
refuses 1 "ipc://file/socket: Not a directory" $soon "$weft" server ipc://file/socket
if [ "$(id -u)" = 0 ]; then
    other() { setpriv --reuid 23456 --regid 23456 --clear-groups $soon "$@"; }
    python3 -c 'import os, socket; socket.socket(socket.AF_UNIX).bind("own"); os.chmod("own", 0o600)'
    refuses 1 "this user may not enter the folder of the socket" other "$weft" status "ipc://$PWD/own"
    chmod 755 .
    refuses 1 "the socket admits only the user whose process listens there" other "$weft" leave "ipc://$PWD/own" 1
    chmod 700 .
    # Where a folder may not be entered, nobody knows that it lacks something.
    mkdir -p closed/run
    for command in "eval $PWD/closed/run" "train --data idx:$PWD/closed/run" "inspect $PWD/closed/run"; do
        # shellcheck disable=SC2086
        refuses 1 "Permission denied" other "$weft" $command
    done
fi
for how in policy=bsp policy=async policy=async,push=3,fetch=3; do
    refuses 1 'A smaller --lr' "$weft" train --model mlp --data glyphs:size=16,train=100,test=20 -t 1 --batch 20 -n 2 \
        --exchange server:$how --lr 1e6 --momentum 0.99 --optimizer sgd --steps 40
done
refuses 2 "'lr' is '0'" "$weft" train --lr 0
refuses 2 "'epochs' is '0'" "$weft" train --epochs 0
refuses 2 "'batch' is '-5'" "$weft" train --batch -5
refuses 2 "no device is named 'gpu'; did you mean 'cuda'" "$weft" train --device gpu --model mlp --data glyphs
refuses 2 "needs a value" "$weft" train --seed
refuses 2 "unexpected argument 'b.yaml'" "$weft" train run.yaml b.yaml
refuses 2 "did you mean 'lenet'" "$weft" train --model lenett
refuses 2 "did you mean 'glyphs'" "$weft" train --data glyhps
refuses 2 "batch is 5000, the training part has only 60" "$weft" train --data glyphs:size=16,train=60,test=20 --batch 5000
refuses 2 "resume needs --checkpoint DIR" "$weft" train --resume
refuses 2 "(301 samples to train on, 13 in it, shared out to virtual workers); give another --batch, such as 17" "$weft" train -q \
    --model resnet:depth=18,width=2 --data glyphs:size=32,train=301,test=20 --virtual-workers 4 --batch 16 --epochs 1
accepts "a sweep" "$weft" compare -q -t 1 --model mlp --data glyphs:size=9,train=300,test=60 --batch 16 --epochs 8 --sweep lr=0.003..3:log:2
holds out '^lowest test loss: [0-9.]+, of lr=0\.003$'
refuses 2 "already holds" "$weft" train $small --checkpoint run
refuses 2 "Nesterov's method needs a momentum" "$weft" train $small --optimizer sgd --nesterov

# Files that are missing, empty, cut off, damaged or of another kind.
refuses 1 "nowhere: has no file train-images-idx3-ubyte" "$weft" train --data idx:nowhere
refuses 1 "nowhere.csv: cannot open" "$weft" train --data csv:nowhere.csv
refuses 1 "nowhere.yaml: cannot open" "$weft" train --model nowhere.yaml $small
: >empty.csv
refuses 1 "empty.csv: is empty" "$weft" train --data csv:empty.csv
printf 'a,b,y\n1,2,0\n3,four,1\n' >text.csv
refuses 1 "text.csv:3: column 1 (b) holds 'four'" "$weft" train --data csv:text.csv
printf '1,2,0\n3,NaN,1\n' >nan.csv
refuses 1 "nan.csv:2: column 1 holds 'NaN'" "$weft" train --data csv:nan.csv
printf '1,2,0\n' | gzip >t.csv.gz
head -c 20 t.csv.gz >cut.csv.gz
refuses 1 "cut.csv.gz: damaged gzip data" "$weft" train --data csv:cut.csv.gz
: >empty.yaml
refuses 1 "empty.yaml: is empty" "$weft" train --model empty.yaml $small
head -c 100 /dev/urandom >noise.npy
refuses 1 "noise.npy: is not an NPY file" "$weft" train --data npy:noise.npy,noise.npy
refuses 1 "run/latest/nothing: holds no checkpoint" "$weft" eval --checkpoint run/latest/nothing
refuses 2 "no checkpoint is given" "$weft" eval
# Words that would count for nothing.
refuses 2 "unexpected argument 'run'" "$weft" eval run --checkpoint run
refuses 2 "unexpected argument 'run'" "$weft" predict --checkpoint run run
refuses 2 "the checkpoint run is shown as it is" "$weft" inspect run --program
refuses 2 "the checkpoint run is shown as it is" "$weft" inspect --batch 3 run
for rank in x -1 1.5 ""; do refuses 2 "'dump' is '$rank', must be a whole number" "$weft" plan --dump=$rank; done
refuses 2 "'passes' is '-1', must be a whole number" "$weft" plan --passes=-1
for show in dump passes; do refuses 2 "there is no rank 1" "$weft" plan $small --$show=1; done
# Servers that cannot be are refused by a plan as by the run.
printf 'layers: [{type: dense, units: classes}]\n' >few.yaml
awk 'BEGIN { print "a,k"; for (i = 0; i < 20; i++) print i "," i % 2 }' >few.csv
for command in plan train; do
    refuses 2 "500 servers would be threads of this job" "$weft" $command $small -n 2 --exchange server --servers 500
    refuses 2 "the model has only 4 parameters to share out; give --servers 4" "$weft" $command --model few.yaml --data csv:few.csv,label=k --batch 4 -n 2 --exchange server --servers 20
done
accepts "a plan of server processes" "$weft" plan $small -n 2 --exchange server --servers 500 --engine processes
refuses 2 "have samples of shape [1, 20, 20], the training data had [1, 16, 16]" "$weft" eval --checkpoint run --data glyphs:size=20
refuses 2 "was made with --model lenet, this run has mlp" "$weft" train --model mlp $small --epochs 3 --checkpoint run --resume
refuses 1 "/nowhere/m.jsonl: cannot open: No such file or directory" "$weft" train $small --model mlp --metrics /nowhere/m.jsonl
refuses 1 "/proc/run: cannot make the folder" "$weft" train $small --model mlp --checkpoint /proc/run
refuses 1 "/nowhere/w.safetensors: cannot create: No such file or directory" "$weft" export run/latest -o /nowhere/w.safetensors
refuses 1 "loss is" "$weft" train $small --model mlp --epochs 30 --optimizer sgd --lr 100000
holds err 'step [0-9]+: the loss is .*(instruction|parameter)'

# A table with names as labels, from a header, and new data judged by the old statistics.
python3 - <<'PY'
import random
random.seed(1)
with open("flowers.csv", "w") as f:
    print("length,width,species", file=f)
    for i in range(300):
        k = i % 3
        print(f"{random.gauss(k * 2, .5):.3f},{random.gauss(5 - k, .5):.3f},{['iris', 'rose', 'tulip'][k]}", file=f)
with open("new.csv", "w") as f:
    print("length,width,species\n4.1,3.0,tulip\n0.1,5.0,iris", file=f)
PY
accepts "train on a table" "$weft" train --model mlp --data csv:flowers.csv,label=species --epochs 20 --batch 30 --checkpoint flowers
accepts "predict names" "$weft" predict --checkpoint flowers --data csv:new.csv,test=1
holds out '^[01],(tulip,tulip|iris,iris),'
gzip -k flowers.csv
accepts "a gzip table" "$weft" train --model mlp --data csv:flowers.csv.gz,label=2,test=0.1 --batch 30 -q
refuses 2 "no column is named 'specie'; did you mean 'species'" "$weft" train --data csv:flowers.csv,label=specie --model mlp
refuses 2 "model lenet needs images" "$weft" train --data csv:flowers.csv

# Specifications "name:key=value,...": one parser, which refuses what is empty, given twice, or no whole number.
# Numbers that are to be predicted.
python3 - <<'PY'
import random
chance = random.Random(3)
rows = [(r := chance.randint(1, 8), a := chance.uniform(20, 200), 9000 * r + 2500.25 * a + chance.gauss(0, 15000)) for _ in range(120)]
with open("houses.csv", "w") as f:
    f.write("rooms,area,price\n" + "".join(f"{r},{a:.2f},{p:.2f}\n" for r, a, p in rows))
with open("homes.csv", "w") as f:
    f.write("area,rooms\n" + "".join(f"{a:.2f},{r}\n" for r, a, _ in rows[:7]))
PY
accepts "train on a target" "$weft" train --model mlp --data csv:houses.csv,target=price --epochs 30 --batch 20 \
    --lr 0.01 --checkpoint houses --metrics houses.jsonl
holds out 'test loss [0-9.]+  R2 0\.9[0-9]+  MAE [0-9.]+  RMSE [0-9.]+'
holds houses.jsonl '"split":"test","loss":[0-9.e-]+,"r2":0\.9[0-9]+,"mae":[0-9.]+,"rmse":[0-9.]+,"train_loss":[0-9.e-]+,"seconds":[0-9.]+\}'
accepts "measure numbers" "$weft" eval houses
holds out '^test: 24 samples, loss [0-9.]+, R2 0\.9[0-9]+, MAE [0-9.]+, RMSE [0-9.]+$'
accepts "measure numbers as JSON" "$weft" eval houses --data csv:houses.csv,test=1 --json
holds out '^\{"split":"test","samples":120,"loss":[0-9.e-]+,"r2":0\.[0-9]+,"mae":[0-9.]+,"rmse":[0-9.]+,"targets":\[\{"r2":'
accepts "predict numbers" "$weft" predict houses -o prices.csv
python3 - <<'PY' && pass || flunk "predicted numbers"
import csv, json
rows = list(csv.DictReader(open("prices.csv")))
true = {line.rsplit(",", 1)[1].strip() for line in open("houses.csv")}
event = [json.loads(line) for line in open("houses.jsonl") if '"eval"' in line][-1]
assert len(rows) == 24 and list(rows[0]) == ["sample", "target", "predicted"]
assert all(f'{float(r["target"]):.2f}' in true for r in rows), "a target is not as it stands in the file"
off = sum(abs(float(r["target"]) - float(r["predicted"])) for r in rows) / 24
assert abs(off - event["mae"]) < 1e-4 * off, (off, event)
PY
accepts "predict what has no target" "$weft" predict houses --data csv:homes.csv --json
[ "$(grep -cE '^\{"sample":[0-6],"target":null,"predicted":\[[0-9.]+\]\}$' out)" = 7 ] && pass || flunk "without a target"
accepts "inspect what predicts numbers" "$weft" inspect houses
holds out '^predicts 1 number, price: in training of mean [0-9.]+ and deviation [0-9.]+$'
refuses 2 "that looks measured, and no class; give target=price to learn the numbers" "$weft" train --data csv:houses.csv
refuses 2 "confusion counts classes" "$weft" eval houses --confusion
refuses 2 "asks for classes, the training data had numbers; give target=price" "$weft" eval houses --data csv:houses.csv,label=price
refuses 2 "asks for numbers, the training data had classes" "$weft" eval flowers --data csv:flowers.csv,target=species
refuses 2 "no column is named 'prise'; did you mean 'price'" "$weft" train --data csv:houses.csv,target=prise --model mlp
tail -n +2 houses.csv >bare.csv
refuses 2 "has no header, so no column is named 'price'; give its number, counted from 0, as in target=0" "$weft" train \
    --model mlp --data csv:bare.csv,target=price
refuses 2 "device 'cpu,reference' names 2 devices for 1 rank" "$weft" train -q --model mlp --data csv:bare.csv,target=2 --batch 20 --device cpu,reference
accepts "ranks on two devices" "$weft" train -q --model mlp --data csv:bare.csv,target=2 --batch 20 -n 2 --device cpu,reference --steps 1 --checkpoint two
accepts "what is left of them" "$weft" train -q --model mlp --data csv:bare.csv,target=2 --batch 20 -n 1 --device cpu,reference --checkpoint two --resume
cat > two.yaml <<'END'
layers:
  - {type: dense, units: 2, bias: false}
  - {type: dense, name: a, units: 2, bias: false}
  - {type: add, from: "a, a"}
  - {type: dense, units: 2, bias: false}
  - {type: dense, name: b, units: 1, bias: false}
  - {type: concat, from: "b, a"}
  - {type: dense, units: classes, bias: false}
END
accepts "that evaluate otherwise than they train" "$weft" train -q --model two.yaml --data glyphs:size=8,train=8,test=4 --batch 1 --steps 1 -n 2 --mesh tensor=2 --device reference,distant
accepts "a target by its number" "$weft" train -q --model mlp --data csv:bare.csv,target=2 --batch 20
refuses 2 "has no column 'price', which was the target in training; if it has another name now, give target=NAME" \
    "$weft" eval houses --data csv:homes.csv
tail -n +2 homes.csv >unnamed.csv
for none in homes.csv,target=7 homes.csv,target=0 unnamed.csv,target=prise unnamed.csv,target=1; do
    refuses 2 "has the 2 columns of the features alone, so none is the target" "$weft" predict houses --data csv:$none
done
refuses 2 "column 'area' is given as the target, but was a feature in training" "$weft" predict houses --data csv:homes.csv,target=area
accepts "the target of training, which is not there" "$weft" predict houses --data csv:homes.csv,target=price
python3 - <<'PY'
from npy import write_npy
write_npy("square_x.npy", "f4", (30, 3), range(90))
write_npy("square_y.npy", "f4", (30, 2, 2), range(120))
PY
refuses 1 "targets have 3 dimensions, must be [samples] or [samples, numbers]" "$weft" train --model mlp --data npy:square_x.npy,target=square_y.npy
cp houses.csv y.npy
refuses 2 "is a file of the data" "$weft" train --data npy:x.npy,target=y.npy --metrics y.npy
cmp -s houses.csv y.npy && pass || flunk "a file of targets was written over"

for bad in "has an empty piece|csv:two.csv," "has an empty piece|csv:two.csv,,test=0.2" "given twice|csv:two.csv,test=0.2,test=0.3" \
    "label has no value; give label=VALUE|csv:two.csv,label=" "test has no value; give test=VALUE|csv:two.csv,test" \
    "has an empty piece|glyphs:size=16,,train=60" "given twice|glyphs:size=16,size=16" "must be a whole number|glyphs:size=16.5" \
    "has an empty piece|npy:a.npy,b.npy,"; do
    for file in a b; do printf "\x93NUMPY\x01\x00\x3a\x00{'descr': '<i4', 'fortran_order': False, 'shape': (1,1),}  \n\x01\x00\x00\x00" >$file.npy; done
    printf '1,2,a\n2,1,b\n' >two.csv
    refuses 2 "${bad%|*}" "$weft" train --model mlp --batch 1 --data "${bad#*|}"
done
for bad in "has an empty piece|--exchange average:every=2," "given twice|--exchange average:every=2,every=3" \
    "must be a whole number|--exchange average:every=1.5" "has an empty piece|--mesh data=2," "has an empty piece|--mesh ,data=2" \
    "has an empty piece|--mesh tensor=2 --shard fc1/weight:out=tensor,," "has an empty piece|--place fc*=cpu:1," \
    "each learner has one place|--exchange average --place fc1*=cpu:0" "has an empty piece|--engine mpi --hosts a:1,,b:1" \
    "has an empty piece|--engine mpi --hosts a:1," "'a' is given twice|--engine mpi --hosts a:1,a:1"; do
    case "$bad" in *mpi*) command -v mpirun >/dev/null || continue ;; esac
    # shellcheck disable=SC2086
    set -f && refuses 2 "${bad%|*}" "$weft" train $small --model mlp -n 2 ${bad#*|} && set +f
done

# One file for two outputs, or for an output and the model: refused before anything is written.
mkdir -p sub
ln -sf ../same sub/link
printf 'layers:\n  - {type: dense, units: classes}\n' >own.yaml
for pair in "--metrics same --trace same" "--metrics same --trace ./same" "--metrics same --trace sub/../same" \
    "--metrics same --trace sub/link" "--metrics - --trace -" "--metrics same --checkpoint same" "--trace sub/link --checkpoint same/"; do
    # shellcheck disable=SC2086
    refuses 2 "are the same file" "$weft" train $small --model mlp --steps 1 $pair
done
for output in "--metrics own.yaml" "--trace ./own.yaml"; do
    # shellcheck disable=SC2086
    refuses 2 "is the model file" "$weft" train $small --model own.yaml --steps 1 $output
done
# The same for the files that a user writes by hand: the run file and the cluster.
echo 'steps: 1' >hand.yaml && echo 'rate: 1e9' >cluster.yaml
for option in metrics trace; do
    refuses 2 "is the run file" "$weft" train ./hand.yaml $small --model mlp --$option hand.yaml
done
refuses 2 "is the run file" "$weft" compare hand.yaml $small --strategies "n=2 exchange=average" --plot ./hand.yaml
refuses 2 "is the run file" "$weft" simulate hand.yaml $small -n 2 --exchange server --metrics hand.yaml
refuses 2 "is the file of --cluster" "$weft" simulate $small --model mlp -n 2 --exchange server --steps 1 --cluster cluster.yaml --metrics ./cluster.yaml
[ "$(cat hand.yaml cluster.yaml)" = "$(printf 'steps: 1\nrate: 1e9')" ] && pass || flunk "a file written by hand was written over"
[ ! -e same ] && grep -q dense own.yaml && pass || flunk "an output that is refused was written"
accepts "the same name elsewhere" "$weft" train $small --model mlp --steps 1 -q --metrics same --trace sub/same
accepts "nothing twice" "$weft" train $small --model mlp --steps 1 -q --metrics /dev/null --trace /dev/null

cp new.csv mine.csv
refuses 2 "is a file of the data" "$weft" predict --checkpoint flowers --data csv:mine.csv,test=1 --output ./mine.csv
for option in metrics trace; do
    refuses 2 "is a file of the data" "$weft" train --model mlp --batch 1 --data csv:mine.csv,test=0 --$option ./mine.csv
done
cmp -s new.csv mine.csv && pass || flunk "data were written over"

# One of something, and nothing to do.
accepts one "$weft" train --data glyphs:size=16,train=20,test=1 --batch 20 --model mlp --steps 1 --checkpoint one
holds out ', 20 training samples, 1 step of 20 samples$'
holds out '^1 step in '
accepts "one sample" "$weft" eval --checkpoint one
holds out '^test: 1 sample, '
accepts "nothing to do" "$weft" train --data glyphs:size=16,train=20,test=1 --batch 20 --model mlp --steps 1 --checkpoint one --resume
holds out '^nothing to do: step 1 is done, and the run ends after step 1; '
accepts "two learners" "$weft" train --data glyphs:size=16,train=20,test=1 --batch 10 --model mlp --steps 2 -n 2 --exchange average:every=1 --checkpoint pair -q
ls pair/step-2 >before
accepts "nothing to do for one of them" "$weft" train --data glyphs:size=16,train=20,test=1 --batch 10 --model mlp --steps 2 --checkpoint pair --resume --keep 1
ls pair/step-2 | cmp -s before - && pass || flunk "nothing to do, and a checkpoint was written over"
accepts "what is left" "$weft" train --data glyphs:size=16,train=20,test=1 --batch 20 --model mlp --steps 3 --checkpoint one --resume
holds out '^2 steps since step 1 in '
accepts "options as they were written" "$weft" inspect one
holds out '^  gamma  *0\.1$'

# Metrics of a run that goes on: what came after the checkpoint is written again, not twice.
accepts "metrics in full" "$weft" train $small --model mlp --epochs 4 -q --metrics full.jsonl
accepts "metrics of a part" "$weft" train $small --model mlp --epochs 2 -q --metrics part.jsonl --checkpoint part
{ grep '"step":[0-4],' part.jsonl; sed -n '/"step":6,/p' part.jsonl; printf '{"event":"step","step":7,"epoch":2,"loss":9}\n{"event":"st'; } >late.jsonl
for metrics in part late; do
    rm -rf again
    cp -r part again
    accepts "metrics go on" "$weft" train $small --model mlp --epochs 4 -q --metrics $metrics.jsonl --checkpoint again --resume
    python3 - $metrics.jsonl <<'PY' && pass || flunk "metrics of a run that went on, $metrics"
import json, sys
def steps(name):
    events = [json.loads(line) for line in open(name)]
    return [(e["event"], e["step"], e["loss"]) for e in events if e["event"] != "summary" and e["step"] > 5]
want, told = steps("full.jsonl"), steps(sys.argv[1])
assert len(want) == 10 and told == want, (told, want)
PY
done
rm -rf again
cp -r part again
printf 'dear diary\n' >diary.txt
refuses 1 "diary.txt:1: is not a line of metrics" "$weft" train $small --model mlp --epochs 4 -q --metrics diary.txt --checkpoint again --resume
[ "$(cat diary.txt)" = "dear diary" ] && pass || flunk "a file that is not ours"

# A pipe is no file, and nobody waits for its writer.
mkfifo pipe
refuses 1 "pipe: is not a regular file" timeout 300 "$weft" train --model mlp --data csv:pipe
refuses 1 "pipe: is not a regular file" timeout 300 "$weft" train --model mlp --data npy:pipe,pipe

# What comes from outside does not reach the terminal raw.
esc=$(printf '\033[31m')
printf 'a,b,kind\n1,2,x%s\n2,1,y\n' "$esc" >esc.csv
refuses 1 "the label 'x\x1b[31m' must be without control characters" "$weft" train --model mlp --data csv:esc.csv
printf 'a,b%s,kind\n1,2,x\n2,1,y\n' "$esc" >esc.csv
refuses 1 "the name of column 1, 'b\x1b[31m'" "$weft" train --model mlp --data csv:esc.csv
printf 'a,b,kind\n1,2,M\374ller\n2,1,y\n' >latin.csv
refuses 1 "the label 'M\xfcller' is not in UTF-8, but perhaps in Windows-1252" "$weft" train --model mlp --data csv:latin.csv
refuses 2 "option 'data' is 'csv:\x1b[31m'" "$weft" train --data "csv:$esc"
refuses 2 "no command is named '\x1b[31m'" "$weft" "$esc"
refuses 1 "nowhere\x1b[31m" "$weft" inspect "nowhere$esc"
printf 'layers:\n  - {type: "a\\e[31m"}\n' >esc.yaml
refuses 2 "'a\x1b[31m'" "$weft" train $small --model esc.yaml

# A folder that cannot be written, and a disk that is full: the old checkpoint stays whole.
if [ "$(id -u)" = 0 ] && mkdir disk && mount -t tmpfs -o size=3m none disk 2>/dev/null; then
    accepts "room for one" "$weft" train $small --model mlp --steps 2 --checkpoint disk/run -q
    head -c 2m /dev/zero >disk/fill 2>/dev/null
    "$weft" train $small --model mlp --epochs 5 --checkpoint disk/run --resume -q >out 2>err
    [ $? = 1 ] && grep -q 'No space left' err && pass || flunk "full disk"
    accepts "old checkpoint is whole" "$weft" eval --checkpoint disk/run
    ls -A disk/run | grep -q tmp && flunk "something half written is left" || pass
    umount disk
else
    echo "SKIPPED: no small disk can be mounted here"
fi
if [ -d "$data" ]; then
    accepts "real data" "$weft" train --data "idx:$data" --steps 5 --quiet
    mkdir cut
    cp "$data"/* cut/
    head -c 100000 "$data/train-images-idx3-ubyte.gz" >cut/train-images-idx3-ubyte.gz
    refuses 1 "cut/train-images-idx3-ubyte.gz: damaged gzip data" "$weft" train --data idx:cut
    cp "$data/train-labels-idx1-ubyte.gz" cut/train-images-idx3-ubyte.gz
    refuses 1 "images need 2 to 4 dimensions" "$weft" train --data idx:cut
    cp "$data/train-images-idx3-ubyte.gz" cut/
    cp "$data/t10k-labels-idx1-ubyte.gz" cut/train-labels-idx1-ubyte.gz
    refuses 1 "10000 images and 5000 labels" "$weft" train --data idx:cut
else
    echo "SKIPPED: $data is not here"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
