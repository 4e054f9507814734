#!/usr/bin/env bash
# Each plug-in of examples/plugins/ in runs of the command: tests/api/plugin_examples.sh WEFT PLUGINS [MPI]
set -u
weft=$1 plugins=$2 mpi=${3:-OFF}
. "$(dirname "$0")/../support/check.sh"
data="--data glyphs:size=12,train=90,test=30 --batch 18"

# weights NAME PLUGIN OPTIONS...: trains and exports with the plug-in.
weights() {
    local name=$1 plugin=$plugins/lib$2.so
    shift 2
    accepts "train $name: $*" "$weft" train $data -q --plugin "$plugin" --checkpoint "$name" "$@"
    accepts "export $name" "$weft" export "$name/latest" --plugin "$plugin" -q --output "$name.safetensors"
}
# alike A B: the same exported bytes.
alike() { cmp -s "$1.safetensors" "$2.safetensors" && pass || flunk "$1 and $2 have other weights"; }
# alone NAME WORDS OPTIONS...: its checkpoint is no use without the plug-in, and the message names what is missing.
alone() {
    local name=$1 words=$2
    shift 2
    refuses 2 "$words" "$weft" eval "$name/latest"
    holds err "plug-in $plugins/lib[a-z0-9_]*.so had it"
    refuses 2 "$words" "$weft" train $data -q --checkpoint "$name" --resume "$@"
}
# weights_alone NAME WORDS OPTIONS...: all that needs its weights works without the plug-in; training on needs it.
weights_alone() {
    local name=$1 words=$2
    shift 2
    rm -rf alone.folder
    accepts "eval $name alone" "$weft" eval "$name/latest"
    accepts "predict $name alone" "$weft" predict "$name/latest"
    accepts "inspect $name alone" "$weft" inspect "$name/latest"
    holds out "plugins .*=$plugins/lib[a-z0-9]*.so"
    accepts "export $name alone" "$weft" export "$name/latest" --folder alone.folder -q
    accepts "eval the export of $name" "$weft" eval alone.folder --data glyphs:size=12,train=90,test=30
    refuses 2 "$words" "$weft" train $data -q --checkpoint "$name" --resume "$@"
    holds err "if it is a plug-in's, load that|plug-in $plugins/lib[a-z0-9_]*.so had it"
}

# An operator and a layer.
cat >softplus.yaml <<END
layers:
  - {type: dense, units: 20}
  - {type: softplus}
  - {type: dense, units: outputs}
END
weights softplus softplus --model softplus.yaml --virtual-workers 4
weights softplus-2 softplus --model softplus.yaml --virtual-workers 4 -n 2
weights softplus-half softplus --model softplus.yaml --virtual-workers 4 --steps 3
weights softplus-half softplus --model softplus.yaml --virtual-workers 4 --steps 5 --resume
[ "$mpi" = OFF ] || weights softplus-mpi softplus --model softplus.yaml --virtual-workers 4 -n 2 --engine mpi
for run in softplus-*.safetensors; do alike softplus "${run%.safetensors}"; done
accepts "eval softplus" "$weft" eval softplus/latest --plugin "$plugins/libsoftplus.so"
cp out cpu
accepts "eval softplus on reference" "$weft" eval softplus/latest --plugin="$plugins/libsoftplus.so" --device reference
cmp -s cpu out && pass || flunk "devices disagree about softplus"
alone softplus "no layer type is named 'softplus'" --model softplus.yaml --virtual-workers 4
accepts "list" "$weft" inspect --list --plugin "$plugins/libsoftplus.so"
holds out '^  softplus  *log'
sed 's/{type: softplus}/{type: softplus, from: dense1, rate: 0.5}/' softplus.yaml >wrong.yaml
refuses 2 "a softplus layer has no key 'rate'" "$weft" train $data --plugin "$plugins/libsoftplus.so" --model wrong.yaml
sed 's/{type: softplus}/{type: softplus, from: "dense1, dense1"}/' softplus.yaml >wrong.yaml
refuses 2 "a softplus layer reads at most 1 layers, not 2" "$weft" train $data --plugin "$plugins/libsoftplus.so" --model wrong.yaml

# An optimizer, which here is lion with one decay rate, and a schedule.
run="--model mlp --steps 7 --lr 0.01"
for way in "" "-n 2 --zero 3" "-n 2 --exchange server" "-n 2 --exchange server --engine processes"; do
    rm -rf signum lion signum.safetensors lion.safetensors
    weights signum signum $run -o signum:beta=0.8 --weight-decay 0.1 $way
    weights lion signum $run -o lion:beta1=0.8,beta2=0.8 --weight-decay 0.1 $way
    alike signum lion
done
weights_alone signum "option 'optimizer' is 'signum', must be one of" $run -o signum:beta=0.8
own=$plugins/libsignum.so
# A learner that joins a run without the plug-in hears which one it needs.
at=ipc://$PWD/join.socket
background co ce timeout 300 "$weft" coordinator --listen "$at" $data --model mlp -n 1 --exchange gossip --plugin "$own" -o signum
coordinator=$!
refuses 2 "; plug-in $own had it" timeout 300 "$weft" join "$at" --timeout 30
kill $coordinator
wait $coordinator
# A server that lacks the codec of a run is refused before it joins.
background co ce timeout 300 "$weft" coordinator --listen "$at" $data --model mlp -n 1 --exchange server:policy=bsp --plugin "$plugins/libint8.so" --compress int8
coordinator=$!
refuses 2 "no codec is named 'int8'" timeout 300 "$weft" server "$at" --timeout 30
kill $coordinator
wait $coordinator
# A path in place of the name is also that of the processes of a job; the checkpoint has the name.
for way in "" "-n 2 --exchange server --engine processes"; do
    rm -rf signum path
    weights signum signum $run -o signum:beta=0.8 $way
    accepts "path $way" "$weft" train $data -q --checkpoint path $run -o "$own:beta=0.8" $way
    accepts "export path" "$weft" export path/latest -q --output path.safetensors
    alike signum path
    grep -q '"optimizer": "signum:beta=0.8"' path/latest/index.json && pass || flunk "the name of the optimizer"
done
accepts "resume by the path" "$weft" train $data -q --checkpoint path $run --steps 9 -o "$own:beta=0.8" $way --resume
refuses 2 "momentum is '0.9', but optimizer signum has no use for it" "$weft" train $data $run --plugin "$own" -o signum --momentum 0.9
refuses 2 "optimizer signum: no key is named 'gamma'" "$weft" train $data $run --plugin "$own" -o signum:gamma=1
refuses 2 "optimizer signum: beta is '1', must be from 0 to" "$weft" train $data $run --plugin "$own" -o signum:beta=1
weights teeth signum $run --lr-schedule sawtooth --decay-every 4 --warmup 1 --metrics teeth.jsonl
rates=$(grep -o '"lr":[^,]*' teeth.jsonl | cut -d : -f 2 | xargs printf '%.4f ')
[ "$rates" = "0.0100 0.0100 0.0075 0.0050 0.0025 0.0100 0.0075 " ] && pass || flunk "sawtooth: $rates"
weights_alone teeth "option 'lr-schedule' is 'sawtooth', must be one of" $run --lr-schedule sawtooth --decay-every 4 --warmup 1
refuses 2 "lr-floor is '3', but lr-schedule sawtooth has no use for it" "$weft" train $data $run --plugin "$own" --lr-schedule sawtooth --lr-floor 3

# A model.
run="--model towers:count=3,width=9 --virtual-workers 2 --steps 7"
weights towers towers $run
weights towers-2 towers $run -n 2
alike towers towers-2
accepts "outputs of towers" "$weft" predict towers/latest --plugin "$plugins/libtowers.so"
holds out '^sample,.*,joined_26$'
alone towers "no model is named 'towers'" $run
refuses 2 "model towers: count is '9', must be a whole number from 1 to 8" "$weft" train $data --plugin "$plugins/libtowers.so" --model towers:count=9

# A loss: half of mse where no error is above 1, so the run with twice the rate predicts the same; with outliers better.
for outlier in 0 9; do
    awk -v outlier=$outlier 'BEGIN { srand(1); print "a,b,c"; for (i = 0; i < 100; i++) { a = rand(); b = rand(); print a "," b "," (2 * a - b) / 4 + (i % 20 ? 0 : outlier) } }' >$outlier.csv
done
for loss in smooth_l1 mse; do
    printf 'loss: %s\nlayers:\n  - {type: dense, units: 8}\n  - {type: tanh}\n  - {type: dense, units: outputs}\n' $loss >$loss.yaml
done
data="--batch 20 --steps 60 -o sgd --normalize none --virtual-workers 2"
from="--data csv:0.csv,target=c,test=0.2"
weights smooth_l1 smooth_l1 $from --model smooth_l1.yaml --lr 0.02
weights smooth_l1-2 smooth_l1 $from --model smooth_l1.yaml --lr 0.02 -n 2
alike smooth_l1 smooth_l1-2
weights mse smooth_l1 $from --model mse.yaml --lr 0.01
"$weft" eval smooth_l1/latest --plugin "$plugins/libsmooth_l1.so" | grep -o 'R2.*' >smooth_l1.out
"$weft" eval mse/latest | grep -o 'R2.*' >out
[ -s out ] && cmp -s out smooth_l1.out && pass || flunk "smooth_l1 without outliers is half of mse: $(cat smooth_l1.out)"
alone smooth_l1 "no loss is named 'smooth_l1'" $from --model smooth_l1.yaml --lr 0.02
refuses 2 "loss 'smooth_l1' needs a target of numbers" "$weft" train --data glyphs:size=12,train=90,test=30 --batch 18 --plugin "$plugins/libsmooth_l1.so" --model smooth_l1.yaml

# A data source, whose samples do not depend on threads and ranks.
data="--batch 20 --epochs 3 --lr 0.003 --model mlp --virtual-workers 2"
few="size=12,train=200,test=50"
weights crosses crosses --data crosses:$few
weights crosses-threads crosses --data crosses:$few,threads=4 --threads 4
weights crosses-ranks crosses --data crosses:$few,threads=2 -n 2
weights crosses-half crosses --data crosses:$few --steps 13
weights crosses-half crosses --data crosses:$few --resume
[ "$mpi" = OFF ] || weights crosses-mpi crosses --data crosses:$few -n 2 --engine mpi
for run in crosses-*.safetensors; do alike crosses "${run%.safetensors}"; done
accepts "predict" "$weft" predict crosses/latest --plugin "$plugins/libcrosses.so"
holds out '^0,(square|cross),(square|cross),0\.'
alone crosses "no kind is named 'crosses'" --data crosses:$few

# A data source that fails ends the run with a sentence, on every engine, and a checkpoint from which it goes on.
own=$plugins/libfaults.so data=
if [ -f "$own" ]; then
    run="--batch 20 --epochs 3 --lr 0.003 --model mlp --plugin $own"
    FAULTS_MENDED=1 weights whole faults --data faulty:epoch=1,sample=7 $run
    for way in "" "--virtual-workers 2 -n 2" "-n 2 --exchange server"; do
        rm -rf broken broken.safetensors
        refuses 1 "data source faulty, sample 7 of the training part: the lamp is out" timeout 300 "$weft" train -q $run --data faulty:epoch=1,sample=7 --checkpoint broken $way
        accepts "what it had" "$weft" eval broken/latest --data faulty:how=10 --plugin "$own"
    done
    rm -rf broken broken.safetensors
    refuses 1 "the lamp is out" "$weft" train -q $run --data faulty:epoch=1,sample=7 --checkpoint broken
    FAULTS_MENDED=1 weights broken faults --data faulty:epoch=1,sample=7 $run --resume
    alike whole broken
    how=1
    for words in "its function 'read' failed (io) and did not say why" "it has written 3 bytes of the input 'x', which has 16" \
        "it has written -16 bytes" "not a finite number" "and the 2 classes are from 0 to 1" "its training part has -1 samples, must have at least 1" \
        "its input 'x' has shape [-4]" "it has no target, which training needs" "its input 0 has no name"; do
        "$weft" train -q $run --data faulty:how=$how,sample=3 >out 2>err
        case $? in 1 | 2) pass ;; *) flunk "faulty:how=$how" ;; esac
        grep -qF -- "$words" err && pass || flunk "faulty:how=$how lacks '$words'"
        how=$((how + 1))
    done
fi

# An exchange: without momentum it is the exchange average. With it, the mean of learners that have the same samples is
# that of one; a run goes on from a checkpoint with its state.
data="--data glyphs:size=12,train=90,test=30 --batch 18 --steps 7"
for way in "-n 2" "-n 3" "-n 4" "-n 4 --mesh data=2" "-n 4 --engine mpi" "-n 2 --device cpu,reference"; do
    [ "$mpi" = OFF ] && [ "$way" = "-n 4 --engine mpi" ] && continue
    rm -rf slowmo average slowmo.safetensors average.safetensors
    weights average slowmo $data --model mlp --exchange average:every=3 $way
    weights slowmo slowmo $data --model mlp --exchange slowmo:every=3 $way
    alike slowmo average
done
way="$data --model mlp -n 2 --exchange slowmo:every=2,beta=0.7"
weights slowmo-whole slowmo $way
weights slowmo-half slowmo $way --steps 4
weights slowmo-half slowmo $way --resume
alike slowmo-whole slowmo-half
cmp -s slowmo-whole.safetensors average.safetensors && flunk "slowmo has no momentum" || pass
weights_alone slowmo-whole "no exchange is named 'slowmo'" --model mlp -n 2 --exchange slowmo:every=2,beta=0.7
own=$plugins/libslowmo.so
refuses 2 "no exchange is named 'slowmo'" "$weft" train -q $way
refuses 2 "exchange slowmo: beta is '1', must be" "$weft" train -q $data -n 2 --plugin "$own" --exchange slowmo:beta=1
refuses 2 "exchange slowmo needs all learners in one job of threads or MPI" "$weft" train -q $way --plugin "$own" --engine processes
refuses 2 "exchange slowmo cannot be simulated" "$weft" simulate $data --plugin "$own" --exchange slowmo
own=$plugins/libfaults.so
if [ -f "$own" ]; then
    how=0
    for words in "the lamp is out" "the lamp is out" "exchange faulty: its function 'after' failed (io) and did not say why" \
        "the lamp is out" "exchange faulty: its state 'few' has 3 bytes"; do
        for engine in threads mpi; do
            [ $engine = mpi ] && { [ "$mpi" = OFF ] || [ $how -gt 1 ]; } && continue
            refuses 1 "$words" timeout 300 "$weft" train -q $data --model mlp -n 3 --engine $engine --plugin "$own" --exchange faulty:how=$how
            [ "$(grep -c . err)" = 1 ] && pass || flunk "faulty:how=$how, $engine: $(cat err)"
        done
        how=$((how + 1))
    done
fi

# A codec: with all numbers in each message it is none at all.
data="--data glyphs:size=12,train=90,test=30 --batch 18 --model mlp --steps 6 -n 2 --exchange server"
weights none cycle --compress none
weights all cycle --compress cycle:parts=1
alike none all
weights cycle cycle --compress cycle:parts=3
weights cycle-half cycle --compress cycle:parts=3 --steps 3
weights cycle-half cycle --compress cycle:parts=3 --resume
alike cycle cycle-half
refuses 2 "no codec is named 'cycle'" "$weft" train $data -q --compress cycle:parts=3 --checkpoint cycle --resume
accepts "warmup" "$weft" train $data -q --compress cycle:warmup=2,parts=3 --plugin "$plugins/libcycle.so"
refuses 2 "codec cycle: parts is '0', must be" "$weft" train $data --plugin "$plugins/libcycle.so" --compress cycle:parts=0
if [ -f "$own" ]; then
    how=0
    for words in "the lamp is out" "codec faulty has chosen -1 of" "must be from 0 to all" "codec faulty has chosen number 1 of"; do
        timeout 300 "$weft" train -q $data --plugin "$own" --compress faulty:how=$how >out 2>err
        [ $? = 1 ] && grep -qF -- "$words" err && pass || flunk "codec faulty:how=$how"
        how=$((how + 1))
    done
fi

# A codec with a form of messages of its own: from servers and to them, between peers, of elastic averaging; a run goes on.
for way in "server --compress int8" "server --compress int8 --compress-downlink int8" "gossip --compress int8" "easgd --compress int8" \
    "server --compress int8 --engine processes --servers 2" "server --compress int8 --servers 2 --replicas 1"; do
    rm -rf int8
    accepts "int8: $way" timeout 300 "$weft" train ${data% --exchange server} -q --plugin "$plugins/libint8.so" --metrics int8.jsonl --exchange $way
done
weights int8 int8 --compress int8 --compress-downlink int8
weights int8-half int8 --compress int8 --compress-downlink int8 --steps 3
weights int8-half int8 --compress int8 --compress-downlink int8 --resume
alike int8 int8-half
for codec in none int8; do
    accepts "bytes of $codec" "$weft" train $data -q --plugin "$plugins/libint8.so" --compress $codec --metrics $codec.jsonl
    grep -o '"exchange_bytes":[0-9]*' $codec.jsonl | tail -n 1 | cut -d : -f 2 >$codec.bytes
done
[ $((3 * $(cat int8.bytes))) -lt $((2 * $(cat none.bytes))) ] && pass || flunk "int8 sends $(cat int8.bytes) bytes of $(cat none.bytes)"
refuses 2 "no codec is named 'int8'" "$weft" train $data -q --compress int8
if [ -f "$own" ]; then
    how=0
    for words in "the lamp is out" "codec faulty-form has written" "codec faulty-form refuses its own message: an update of 25 bytes is damaged" \
        "server 0 rejects an update of this learner, since the square of a number in it is not finite"; do
        timeout 300 "$weft" train -q $data --plugin "$own" --compress faulty-form:how=$how >out 2>err
        [ $? = 1 ] && grep -qF -- "$words" err && pass || flunk "codec faulty-form:how=$how: $(cat err)"
        how=$((how + 1))
    done
fi

# A batching policy, in virtual time: batches of half of the limit, with as many requests as there are.
accepts "serve with half" "$weft" serve --simulate --rate 800 --service 1=1.2,8=2.5,64=12 --plugin "$plugins/libhalf.so" --policy half:wait=5000
holds out half
refuses 2 "no batching policy is named 'half'" "$weft" serve --simulate --rate 800 --service 1=1.2,8=2.5,64=12 --policy half
refuses 2 "policy half: no key is named 'most'" "$weft" serve --simulate --rate 800 --service 1=1.2 --plugin "$plugins/libhalf.so" --policy half:most=2

# A policy of servers: in threads, with processes as servers, and simulated, where learner 1 is slow.
data="--data glyphs:size=12,train=90,test=30 --batch 18 --model mlp --steps 12 -n 3"
for policy in backup backup-drop; do
    for way in "" "--servers 2 --replicas 1" "--engine processes --servers 2"; do
        accepts "$policy $way" timeout 300 "$weft" train $data -q --plugin "$plugins/libbackup.so" --exchange "server:policy=$policy" $way
    done
done
printf 'step: 0.1\nmachines:\n  - count: 2\n  - {speed: 0.2}\n' >cluster.yaml
for policy in bsp backup backup-drop; do
    accepts "simulate $policy" "$weft" simulate ${data% -n 3} --plugin "$plugins/libbackup.so" --exchange "server:policy=$policy" --cluster cluster.yaml --metrics $policy.jsonl
    grep -o '"samples_per_second":[0-9]*' $policy.jsonl | tail -n 1 | cut -d : -f 2 >$policy.rate
    grep -o '"loss":.*"accuracy"' $policy.jsonl | tail -n 1 >$policy.loss
done
[ "$(cat backup.rate)" -gt $((2 * $(cat bsp.rate))) ] && pass || flunk "backup waits for the slowest learner"
cmp -s backup.loss backup-drop.loss && flunk "backup drops late updates" || pass
refuses 2 "no server policy is named 'backup'; known are bsp, async, softsync, ssp; if it is a plug-in's, load that" "$weft" train $data --exchange server:policy=backup
refuses 2 "policy=backup has no c" "$weft" train $data --plugin "$plugins/libbackup.so" --exchange server:policy=backup,c=2
if [ -f "$own" ]; then
    for count in 1 9; do
        words="the server policy's 'complete' has returned -1"
        [ $count = 1 ] || words="the server policy's 'complete' has returned 2147483647"
        refuses 2 "$words" timeout 300 "$weft" train -q $data -n 9 --plugin "$own" --exchange server:policy=faulty,c=$count
    done
    refuses 2 "the server policy's 'late' has returned 7" timeout 300 "$weft" train -q $data --plugin "$own" --exchange server:policy=faulty-late
fi

# An engine: the bits of threads, also with a mesh and with exchanges.
data="--data glyphs:size=12,train=90,test=30 --batch 18 --model mlp --steps 6"
for way in "-n 3" "-n 4 --mesh data=2,tensor=2 --virtual-workers 4" "-n 4 --zero 3" "-n 3 --exchange average" "-n 3 --exchange server" ""; do
    rm -rf sockets threads sockets.safetensors threads.safetensors
    weights threads sockets $data --engine threads $way
    weights sockets sockets $data --engine sockets $way
    alike threads sockets
done
weights_alone sockets "option 'engine' is 'sockets', must be one of" --engine sockets --model mlp
refuses 2 "option 'engine' is 'sockets', must be one of" "$weft" train $data -n 3 --engine sockets
if [ -f "$own" ]; then
    refuses 1 "bytes were moved, of at most" timeout 300 "$weft" train -q $data -n 2 --plugin "$own" --engine faulty
    refuses 1 "the lamp is out" timeout 300 "$weft" train -q $data -n 3 --plugin "$own" --engine faulty
    refuses 1 "that this has not sent" timeout 300 "$weft" train -q $data -n 4 --plugin "$own" --engine faulty
fi

# The option itself.
refuses 1 "missing.so: cannot open" "$weft" train --plugin missing.so
refuses 2 "must be the path of a shared object" "$weft" train --plugin
refuses 2 "must be the path of a shared object" "$weft" train --plugin a:b
echo "$passed passed, $failed failed"
[ $failed = 0 ]
