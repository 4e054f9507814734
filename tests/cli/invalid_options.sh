#!/usr/bin/env bash
# Ways to train that do not fit each other, the data or the model, and options that would change nothing, are refused
# in a sentence that says what would be right: tests/cli/invalid_options.sh PATH/TO/weft
set -u
weft=$1 command=train
. "$(dirname "$0")/../support/check.sh"
# refuses CODE WORDS ARGUMENTS...: this exit code, and exactly one message, with these words, from $command.
refuses() {
    local code=$1 words=$2
    shift 2
    timeout 300 "$weft" $command $small "$@" >out 2>err
    local got=$?
    if [ $got = "$code" ] && grep -qF -- "$words" err && [ "$(grep -c '^weft:' err)" = 1 ]; then pass
    else flunk "exit $got, wanted $code and '$words': $*"; fi
}
small="--data glyphs:size=16,train=60,test=20 --batch 20 --steps 3"
refuses 2 "the sizes must multiply to" -n 3 --mesh data=2
refuses 2 "did you mean 'data'" -n 2 --mesh dta=2
refuses 2 "no mesh axis is named 'batch'; known are data, domain, tensor, pipeline" -n 2 --mesh batch=2
[ "$(grep -o pipeline err | wc -l)" = 1 ] && pass || flunk "the axes are listed twice"
refuses 2 "must be from 1 to 1024" -n 2 --mesh data=0
refuses 2 "--quiet takes no value, but 'true' follows it" --quiet true
refuses 2 "--recompute takes no value, but '3' follows it" --recompute 3 -n 1
command=plan refuses 2 "--dump and --cluster add to the plan, and --passes prints graphs in its place" --passes --dump=0
refuses 2 "given twice" -n 4 --mesh data=2,data=2
refuses 2 "such as the height of images, has 16 rows to share out; give domain=16 or less" -n 17 --mesh domain=17
refuses 2 "batch is 20, which cannot be shared out to 21 ranks; give --batch 21 or more, or at most 20 ranks" -n 21
refuses 2 "batch is 20, which cannot be shared out to 42 ranks of the data axis; give --batch 42 or more, or at most 20 ranks of the data axis" -n 84 --mesh data=42,tensor=2
refuses 2 "batch 20 in 10 micro-batches is 2 samples each, which cannot be shared out to 3 ranks; give --batch 30, --microbatches 5, or at most 2 ranks" -n 3 --microbatches 10
refuses 2 "a pipeline of 40 stages" -n 40 --mesh pipeline=40
refuses 2 "batch 20 cannot be cut into 3 equal micro-batches; the nearest that can are 18 and 21" -n 2 --mesh pipeline=2 --microbatches 3
refuses 2 "the nearest that can is 58" --batch 59 --microbatches 29
refuses 2 "the nearest that can is 40" --microbatches 40
refuses 2 "equal micro-batches, nor can any batch of the 60 training samples; give --microbatches 20 or a divisor of it" --microbatches 61
refuses 2 "profile measures the layers to balance the stages of a pipeline" -n 2 --profile
refuses 2 "profile measures the layers to balance the stages of a pipeline" -n 2 --profile --place 'conv*=cpu:0,*=cpu:1'
refuses 2 "schedule is the order of the micro-batches of a pipeline" --schedule gpipe
refuses 2 "schedule is the order of the micro-batches of a pipeline" -n 2 --exchange server --schedule gpipe
refuses 2 "ranks is 0" -n 0
refuses 2 "ranks is 0" -n 0 --engine mpi
refuses 2 "ranks is 0" -n 0 --max-restarts 1 --checkpoint none
refuses 2 "cannot be cut into 3 equal micro-batches" -n 2 --mesh pipeline=2 --microbatches 3
refuses 2 "no operator's name matches 'nothing*'" -n 2 --place 'nothing*=cpu:1'
refuses 2 "has no effect: 'conv*' comes before it and matches every operator that it matches; put it first" -n 2 --place 'conv*=cpu:0,conv1*=cpu:1,*=cpu:1'
refuses 2 "nothing runs on rank 2 of 3" -n 3 --place 'conv*=cpu:0,*=cpu:1'
refuses 2 "there is no device cpu:2" -n 2 --place 'conv*=cpu:2'
refuses 2 "no device is named 'gpu'" -n 2 --place 'conv*=gpu:0'
refuses 2 "names ranks and devices" --place 'conv*=distant,*=rank:1'
refuses 2 "no rank has that device" --device cpu,reference -n 2 --place 'conv*=distant,*=cpu'
refuses 2 "place and mesh contradict each other" -n 2 --place 'conv*=cpu:0' --mesh data=2
refuses 2 "it must divide them" -n 2 --virtual-workers 3
refuses 2 "contradict each other" -n 2 --virtual-workers 2 --microbatches 2
refuses 2 "give at most 20 virtual workers" --virtual-workers 21
refuses 2 "splits over the data axis" -n 2 --mesh tensor=2 --zero 1
refuses 2 "must be a whole number from 0 to 3" -n 2 --zero 4
refuses 2 "named 'fc9/weight'" -n 2 --mesh tensor=2 --shard fc9/weight:out=tensor
refuses 2 "has no dimension 'up'" -n 2 --mesh tensor=2 --shard fc1/weight:up=tensor
refuses 2 "the pipeline axis, which cuts the model into stages and splits no tensor" -n 2 --mesh pipeline=2 --shard fc1/weight:out=pipeline
refuses 2 "64 ranks to place operators on, at most 63 are possible" -n 64 --place '*=cpu:0'
refuses 2 "64 pipeline stages, at most 63 are possible" -n 64 --mesh pipeline=64 --microbatches 2
refuses 2 "LEAF:DIMENSION=AXIS" -n 2 --mesh tensor=2 --shard fc1=tensor
refuses 2 "did you mean 'average'" -n 2 --exchange avrage
refuses 2 "did you mean 'every'" -n 2 --exchange average:evry=2
refuses 2 "outer is 'adam', must be one of none,nesterov" -n 2 --exchange average:outer=adam
refuses 2 "lr is an option of the outer optimizer" -n 2 --exchange average:every=2,lr=17,momentum=0.9
refuses 2 "momentum is an option of the outer optimizer" -n 2 --exchange average:outer=none,momentum=0.9
refuses 2 "the tensor axis, which this mesh does not have; give --mesh tensor=N" -n 2 --shard fc1/weight:out=tensor
refuses 2 "the data axis, which this mesh does not have" -n 2 --exchange oneshot --shard fc1/weight:out=data
refuses 2 "the data axis, which this mesh does not have" --shard fc1/weight:out=data
refuses 2 "state is 'lose', must be one of keep,average,reset" -n 2 --exchange average:state=lose
# A single learner has nobody to exchange with, of one rank or of several, and every exchange is told so.
for exchange in $("$weft" inspect --list | sed -n '/^exchanges /,/^$/s/^  \([a-z]*\).*/\1/p'); do
    [ "$exchange" = hogwild ] && meshes=data=1 || meshes="data=1 data=2 tensor=2"
    for mesh in $meshes; do
        # shellcheck disable=SC2086
        timeout 300 "$weft" train $small --model mlp -t 1 -n "${mesh#*=}" --mesh "$mesh" --exchange "$exchange" >out 2>err &&
            grep -q "there is only one learner, so --exchange $exchange has no effect" err && pass || { flunk "one learner of $mesh, $exchange"; cat err; }
    done
done
refuses 2 "alpha is beta over the number of learners; give one of them" -n 2 --exchange easgd:alpha=0.1,beta=0.5
refuses 2 "every is '0', must be a whole number from 1" -n 2 --exchange easgd:every=0
refuses 2 "push needs a policy in which no learner waits for others, as policy=async" -n 2 --exchange server:push=2
refuses 2 "fetch is '0', must be a whole number from 1" -n 2 --exchange server:policy=async,fetch=0
refuses 2 "a replica is kept by another server, so --replicas 1 needs --servers 2 or more" -n 2 --exchange server --replicas 1
refuses 2 "'replicas' is '2', must be a whole number from 0 to 1" -n 2 --exchange server --servers 2 --replicas 2
refuses 2 "exchange hogwild has no use for it; give --exchange server or easgd" -n 2 --exchange hogwild --replicas 1
refuses 2 "sample is '0', must be a whole number from 1" -n 2 --exchange hogwild:sample=0
refuses 2 "did you mean 'sample'" -n 2 --exchange hogwild:smaple=2
refuses 2 "exchange hogwild has no use for it; give --exchange server, easgd or gossip" -n 2 --exchange hogwild --compress threshold
refuses 2 "exchange gossip has no use for it; give --exchange server" -n 2 --exchange gossip --compress-downlink topk
refuses 2 "there is no exchange; give --exchange server" --compress-downlink topk
refuses 2 "did you mean 'topk'" -n 2 --exchange server --compress-downlink tokp
refuses 2 "exchange hogwild has no use for it; give --exchange server or easgd" -n 2 --exchange hogwild --servers 2
refuses 2 "no server policy is named 'foo'; known are bsp, async, softsync, ssp" -n 2 --exchange server:policy=foo
refuses 2 "policy=bsp has no c; softsync has one" -n 2 --exchange server:policy=bsp,c=2
refuses 2 "policy=async has no bound; ssp has one" -n 2 --exchange server:policy=async,bound=2
refuses 2 "policy=softsync needs c=, the number of updates that make a version" -n 2 --exchange server:policy=softsync
refuses 2 "policy=ssp needs bound=, the number of steps that a learner may be ahead of the slowest" -n 2 --exchange server:policy=ssp
refuses 2 "a version of c=3 updates, but there are 2 learners; give c=2 or less" -n 2 --exchange server:policy=softsync,c=3
for value in 0 -1 1.5 1e12 nan; do
    refuses 2 "c is '$value', must be a whole number from 1" -n 2 --exchange server:policy=softsync,c=$value
done
for value in -1 1.5 nan; do
    refuses 2 "bound is '$value', must be a whole number from 0" -n 2 --exchange server:policy=ssp,bound=$value
done
for value in -1 nan inf 101; do
    refuses 2 "beta is '$value', must be from 0 to 100" -n 2 --exchange server:policy=async,scale=exp,beta=$value
done
refuses 2 "beta is an option of scale=exp, not of scale=inverse" -n 2 --exchange server:policy=async,scale=inverse,beta=1
refuses 2 "exchange server: policy is given twice" -n 2 --exchange server:policy=bsp,policy=async
refuses 2 "exchange server: no key is named 'foo'" -n 2 --exchange server:foo=2
refuses 2 "servers is '3', but there is no exchange; give --exchange server" -n 2 --servers 3
refuses 2 "servers is '3', but exchange gossip has no use for it" -n 2 --exchange gossip --servers 3
refuses 2 "must be a whole number from 0 to 1024" -n 2 --exchange server --servers 1025
refuses 2 "replicas is '1', but there is no exchange" -n 2 --replicas 1
refuses 2 "but exchange server makes the update itself; give --zero 0" -n 4 --mesh data=2 --exchange server --zero 1
refuses 2 "there is no topology=star; known are all, ring, torus, random" -n 2 --exchange gossip:topology=star
refuses 2 "mode is 'meet', must be one of updates,average" -n 2 --exchange gossip:mode=meet
refuses 2 "has nothing to compress; give mode=updates, or leave it out" -n 2 --exchange gossip:mode=average --compress bf16
refuses 2 "compress is 'bf16', but there is no exchange" -n 2 --compress bf16
refuses 2 "compress is 'bf16', but exchange average has no use for it" -n 2 --exchange average --compress bf16
refuses 2 "no codec is named 'zip'; known are none, bf16" -n 2 --exchange server --compress zip
refuses 2 "codec topk: ratio is 'nan', must be from 1e-06 to 1" -n 2 --exchange server --compress topk:ratio=nan
refuses 2 "codec threshold: tau is '-1', must be from 0" -n 2 --exchange gossip --compress threshold:tau=-1
refuses 2 "codec bf16 takes no options, not 'tau=1'" -n 2 --exchange gossip --compress bf16:tau=1
# What no run of so many learners, servers or parameters can have is refused with one learner, too, who has no use for it.
refuses 2 "a version of c=2 updates, but there is 1 learner; give c=1, or more learners" --exchange server:policy=softsync,c=2
for n in 1 2; do
    for exchange in server easgd; do
        refuses 2 "exchange $exchange: a replica is kept by another server" -n $n --exchange $exchange --replicas 1
        refuses 2 "exchange $exchange: 129 servers would be threads of this job, and each receives every view, so that more than 128 take minutes to start; give --servers 128 or fewer" -n $n --exchange $exchange --servers 129
        refuses 2 "'servers' is '1025', must be a whole number from 0 to 1024" -n $n --exchange $exchange --servers 1025
    done
    refuses 2 "has nothing to compress" -n $n --exchange gossip:mode=average --compress none
done
printf 'layers:\n  - {type: flatten}\n  - {type: dense, units: outputs}\n' >few.yaml
printf 'a,b,y\n%s' "$(seq 40 | awk '{ print $1 "," $1 * 2 "," $1 * 3 }')" >few.csv
printf 'layers:\n  - {type: dense, units: outputs, bias: false}\n' >one.yaml
cut -d, -f2,3 few.csv >one.csv
refuses 2 "servers is 2, and the model has only 1 parameter to share out; give --servers 1, and leave --replicas out" -n 2 --data csv:one.csv,target=y --batch 5 --model one.yaml --exchange server --servers 2 --replicas 1
for command in train simulate; do
    refuses 2 "servers is 4, and the model has only 3 parameters to share out; give --servers 3 or fewer" -n 2 --data csv:few.csv,target=y --batch 5 --model few.yaml --exchange server --servers 4
done
for exchange in average oneshot; do
    refuses 2 "give --cluster a file of weft measure" -n 2 --exchange $exchange
done
refuses 2 "exchange hogwild cannot be simulated, since it is not made of actors; give --exchange server" -n 2 --exchange hogwild
refuses 2 "--replicas has no effect here, since no server of a simulation is lost" -n 2 --exchange server --servers 2 --replicas 1
refuses 2 "a version of c=3 updates, but there are 2 learners" -n 2 --exchange server:policy=softsync,c=3
refuses 2 "has nothing to compress" -n 2 --exchange gossip:mode=average --compress bf16
command=train
refuses 2 "cannot be divided into learners" -n 3 --exchange oneshot --mesh data=2
refuses 2 "did you mean 'average'" --exchange avrage
refuses 2 "several machines need --engine mpi" -n 2 --hosts a:1,b:1
refuses 2 "must be one of" -n 2 --engine treads
refuses 2 "must be one of" -n 2 --schedule fifo

# What would be taken and change nothing. A default is as if it were not given.
for bad in "keep is '5', but keep needs --checkpoint DIR; give that too, or leave --keep out|--keep 5" \
    "checkpoint-every needs --checkpoint DIR|--checkpoint-every 2" "max-restarts needs --checkpoint DIR|--max-restarts 1" \
    "momentum is '0.9', but optimizer adam has no use for it; give --optimizer sgd, or leave --momentum out|--momentum 0.9" \
    "optimizer adamw has no use for it|--optimizer adamw --nesterov" \
    "beta1 is '0.5', but optimizer sgd has no use for it; give --optimizer adam or adamw|--optimizer sgd --beta1 0.5" \
    "--optimizer adam or adamw|--optimizer sgd --beta2 0.5" "--optimizer adam or adamw|--optimizer sgd --epsilon 0.1" \
    "lr-schedule constant has no use for it; give --lr-schedule step|--gamma 0.5" "give --lr-schedule step|--lr-schedule cosine --decay-every 5" \
    "give --lr-schedule cosine, linear, plateau or range-test, or leave --lr-floor out|--lr-schedule step --lr-floor 1e-5"; do
    for command in train plan; do
        # shellcheck disable=SC2086
        refuses 2 "${bad%|*}" --model mlp ${bad#*|}
    done
done
# shellcheck disable=SC2086
accepts "defaults that are given" "$weft" train -q $small --model mlp --steps 1 --keep 3 --checkpoint-every 0 --momentum 0 --gamma 0.1 \
    --optimizer sgd --beta1 0.9 --beta2 0.999 --epsilon 1e-8

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
