#!/usr/bin/env bash
# Texts, tokens and pairs of passages as data, and models that share weights: tests/data/sequence_data.sh PATH/TO/weft
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"
python3 - <<'PYTHON'
import random
random.seed(3)
words = "a an the weft warp thread loom é gives takes holds and then not".split()
text = " ".join(random.choice(words) + random.choice(["", ".", "\n"]) for _ in range(3000))
open("text.txt", "w", encoding="utf-8").write(text)
PYTHON
printf 'layers:
  - {type: embedding, name: tokens, units: 12}
  - {type: linear, name: hidden, units: 20}
  - {type: gelu}
  - {type: layer_norm}
  - {type: linear, name: narrow, units: 12}
  - {type: linear, name: head, units: outputs, share: tokens}\n' >tied.yaml
printf 'layers:
  - {type: dense, name: first, from: a, units: 9}
  - {type: relu, name: one}
  - {type: dense, name: second, from: b, units: 9, share: first}
  - {type: relu, name: two}
  - {type: concat, from: "one, two"}
  - {type: dense, units: outputs}\n' >twins.yaml
cp "$(dirname "$0")/../models/gated.yaml" .
printf 'layers:
  - {type: lstm, name: left, from: a, units: 6, last: true}
  - {type: lstm, name: right, from: b, units: 6, last: true, share: left}
  - {type: concat, name: both, from: "left, right"}
  - {type: dense, units: outputs}\n' >recurrent.yaml
same="--device reference --dtype f64 -t 1 --steps 6 --lr 0.01 --batch 12"
tied="--model tied.yaml --data text:text.txt,unit=char,context=14,stride=33 $same"
twins="--model twins.yaml --data pairs:text.txt,length=7,train=60,test=20 $same"
# The same losses on every mesh, to rounding, also where layers that share weights are on different ranks.
# shellcheck disable=SC2086
alike() { # MODEL NAME OPTIONS...
    local name=$1 options=$2
    shift 2
    "$weft" train $options "$@" >out 2>err && grep 'test loss' out >"$name" && cmp -s one-$name0 "$name" && pass || flunk "$name $*: $(cat "$name" err)"
}
texts="--data text:text.txt,unit=char,context=14,stride=33 $same"
for name in tied gated gpt char-lstm twins recurrent twin-lstm; do
    name0=$name
    case $name in
    tied) options=$tied ;;
    gated) options="--model gated.yaml $texts" ;;
    gpt) options="--model gpt:layers=2,heads=2,width=12,tied $texts" ;;
    char-lstm) options="--model char-lstm:units=12 $texts" ;;
    twin-lstm) options="${twins/twins.yaml/twin-lstm:units=6}" ;;
    *) options="${twins/twins/$name}" ;;
    esac
    # shellcheck disable=SC2086
    "$weft" train $options >out 2>err && grep 'test loss' out >one-$name && pass || flunk "one rank: $(cat err)"
    alike $name "$options" -n 2 --mesh data=2
    alike $name "$options" -n 2 --mesh tensor=2
    alike $name "$options" -n 2 --mesh pipeline=2 --microbatches 2
    alike $name "$options" -n 3 --mesh data=3 --zero 3
    alike $name "$options" -n 2 --mesh data=2 --virtual-workers 4
    alike $name "$options" -n 4 --mesh tensor=2,pipeline=2 --microbatches 2
    case $name in tied | gated | gpt)
        alike $name "$options" -n 2 --mesh domain=2
        alike $name "$options" -n 6 --mesh data=3,domain=2
        alike $name "$options" -n 4 --mesh tensor=2,domain=2
        ;;
    esac
done
name0=tied
alike tied "$tied" -n 2 --place 'tokens=cpu:0,head*=cpu:0,*=cpu:1'
name0=recurrent
alike recurrent "${twins/twins/recurrent}" -n 2 --place 'left*=cpu:0,right*=cpu:1,*=cpu:0'
name0=twin-lstm
alike twin-lstm "${twins/twins.yaml/twin-lstm:units=6}" -n 2 --place 'a/*=cpu:0,b/*=cpu:1,*=cpu:0'
name0=twins
alike twins "$twins" -n 2 --place 'first*=cpu:0,one=cpu:0,second*=cpu:1,two=cpu:1,*=cpu:0'
# A checkpoint knows the characters; evaluation, prediction and a resumed run read other texts by them.
# shellcheck disable=SC2086
accepts "train" "$weft" train $tied -q --checkpoint run
accepts "evaluate" "$weft" eval run --json --device reference
grep -o '"loss":[0-9.]*' out >loss
"$weft" eval run --json --device reference --data text:text.txt >out 2>err && pass || flunk "evaluate another file"
grep -o '"loss":[0-9.]*' out | cmp -s - loss && pass || flunk "the same text: $(cat loss out)"
accepts "predict" "$weft" predict run
[ "$(head -1 out)" = sample,position,label,predicted,probability ] && grep -q '^0,13,' out && pass || flunk "positions: $(head -3 out)"
# shellcheck disable=SC2086
accepts "go on" "$weft" train $tied -q --checkpoint run --resume --steps 9
# A text goes on, the same for the same seed; what is drawn comes behind the prompt.
generated() { "$weft" generate run --device reference -t 1 --prompt 'a weft' "$@" >out 2>err; }
generated --tokens 40 && [ ! -s err ] && grep -q '^a weft' out && cp out said && [ "$(tr -d '\n' <out | wc -m)" -ge 40 ] && pass || flunk "generate"
generated --tokens 40 && cmp -s out said && pass || flunk "the same seed gives another text"
generated --tokens 40 --seed 2 && ! cmp -s out said && pass || flunk "another seed gives the same text"
generated --tokens 9 --temperature 0 --seed 1 && cp out said && generated --tokens 9 --top-k 1 --seed 7 && cmp -s out said && pass || flunk "the most likely tokens"
generated --tokens 0 && [ "$(cat out)" = 'a weft' ] && pass || flunk "no tokens"
refuses 1 "the prompt: byte 2: the character 'X' is not among the 22" "$weft" generate run --prompt 'a X'
refuses 2 "option 'prompt' is empty" "$weft" generate run --prompt ''
printf 'a weft\nholds' >prompt
"$weft" generate run --device reference -t 1 --prompt-file prompt --tokens 3 >out 2>err && [ "$(head -1 out)" = 'a weft' ] && pass || flunk "a prompt of two lines"
accepts "no prompt" "$weft" generate run --tokens 5
refuses 2 "prompt and prompt-file are both given" "$weft" generate run --prompt a --prompt-file prompt
refuses 1 "nowhere: cannot open" "$weft" generate run --prompt-file nowhere
refuses 2 "option 'top-p' is '0', must be a finite number from 1e-09 to 1" "$weft" generate run --top-p 0
refuses 2 "no checkpoint is given" "$weft" generate
python3 -c 'import struct; open("tokens.bin", "wb").write(struct.pack("<400H", *((i * i) % 7 for i in range(400))))'
accepts "train on a large vocabulary" "$weft" train -q --model gpt:layers=1,heads=1,width=2 --data tokens:tokens.bin,values=100000,context=2 -t 1 --steps 1 --batch 2 --checkpoint large
accepts "evaluate with a large vocabulary" "$weft" eval large --data tokens:tokens.bin,test=1
accepts "train on tokens" "$weft" train -q --model char-lstm:units=8 --data tokens:tokens.bin,values=7,context=10,stride=10 -t 1 --steps 3 --batch 4 --checkpoint numbers
accepts "numbers of tokens" "$weft" generate numbers --prompt '3 1 ' --tokens 5
grep -qE '^3 1 ([0-6] ){5}$' out && pass || flunk "numbers of tokens: $(cat out)"
refuses 1 "the prompt: '7' is no token; the model was trained on numbers of tokens from 0 to 6" "$weft" generate numbers --prompt '3 7'
printf 'a weft of silk, not of weft' >silk.txt
refuses 1 "silk.txt: byte 14: the character ',' is not among the 22" "$weft" eval run --data text:silk.txt,test=1
refuses 2 "the training data had 'char'" "$weft" eval run --data text:text.txt,unit=byte
refuses 2 "samples of shape [9]" "$weft" eval run --data text:text.txt,context=9
refuses 2 "has no tokenizer" sh -c "\"$weft\" train --model mlp --data glyphs:size=16,train=60,test=20 --batch 20 --steps 1 -q --checkpoint g && \"$weft\" eval g --data text:text.txt"
refuses 1 "does not predict the next token" "$weft" generate g
# Models and data that do not fit.
# shellcheck disable=SC2086
{
    refuses 2 "reads numbers, and not the tokens" "$weft" train $same --model mlp --data text:text.txt
    refuses 2 "reads tokens, an input such as that of data text:FILE" "$weft" train $same --model tied.yaml --data glyphs
    refuses 2 "no layer of the model reads the input 'b'" "$weft" train $same --model mlp --data pairs:text.txt,train=60,test=20
    sed 's/from: b/from: c/' twins.yaml >names.yaml
    refuses 2 "no layer before this one is named 'c'" "$weft" train $twins --model names.yaml
    sed 's/units: 9, share: first/units: 8, share: first/' twins.yaml >wide.yaml
    refuses 2 "layer 'second' shares the weight of 'first', which is [1792, 9] there; here it would be [1792, 8]" "$weft" train $twins --model wide.yaml
    sed 's/share: first/share: third/' twins.yaml >third.yaml
    refuses 2 "no layer before this one is named 'third'" "$weft" train $twins --model third.yaml
    sed 's/name: one/name: a/' twins.yaml >input.yaml
    refuses 2 "this one is an input of the data" "$weft" train $twins --model input.yaml
    refuses 2 "the sequences have 14 positions, and the model has context=9" "$weft" train $texts --model gpt:layers=1,heads=2,width=8,context=9
    refuses 2 "has 3 heads and reads a width of 8" "$weft" train $texts --model gpt:layers=1,heads=3,width=8
    refuses 2 "there is no size 'gpt3'" "$weft" train $texts --model gpt:size=gpt3
    refuses 2 "model gpt needs tokens with a label for each position" "$weft" train $same --model gpt --data glyphs
    refuses 2 "model char-lstm needs tokens with a label for each position" "$weft" train $same --model char-lstm --data glyphs
    refuses 2 "twin-lstm needs two inputs a and b [positions, features]" "$weft" train $same --model twin-lstm --data glyphs
    refuses 2 "model 'mlp': no key is named 'layers'; known are hidden, dropout" "$weft" train $same --model mlp:layers=3
    for model in char-lstm twin-lstm; do
        data=text:text.txt,context=15
        [ $model = twin-lstm ] && data=pairs:text.txt,length=15
        refuses 2 "mesh domain=2 would split the 15 positions of a recurrence" "$weft" train $same --model $model --data $data -n 2 --mesh domain=2
    done
    refuses 2 "15 positions to share out" "$weft" train $same --model tied.yaml --data text:text.txt,context=15 -n 16 --mesh domain=16
}
# Tokens of a tokenizer.json: the checkpoint has it, and another one is refused.
bpe=$(dirname "$0")/../golden
cp "$bpe/bpe_gpt2.json" "$bpe/bpe_split.json" .
pieces="--model char-lstm:units=8 --data text:text.txt,unit=bpe_gpt2.json,context=10 -t 1 --batch 8"
# shellcheck disable=SC2086
accepts "train on a tokenizer.json" "$weft" train -q $pieces --steps 5 --checkpoint pieces
mv bpe_gpt2.json elsewhere.json
"$weft" eval pieces --json >out 2>err && grep -q 'there is no bpe_gpt2.json; the text is read with the tokenizer of the checkpoint' err && pass || flunk "the checkpoint has the tokenizer"
cp out first
"$weft" eval pieces --json --data text:text.txt,unit=elsewhere.json >out 2>err && pass || flunk "the same tokenizer"
grep -o '"loss":[0-9.]*' first | cmp -s - <(grep -o '"loss":[0-9.]*' out) && pass || flunk "the same tokenizer: $(cat out)"
"$weft" generate pieces --prompt 'the weft é' --tokens 12 --seed 3 >out 2>err && pass || flunk "generate pieces"
grep -aq '^the weft é' out && pass || flunk "pieces: $(cat out)"
refuses 2 "unit is 'bpe_split.json', and the training data had another tokenizer of unit 'bpe'" "$weft" eval pieces --data text:text.txt,unit=bpe_split.json
refuses 2 "unit is 'char', and the training data had another tokenizer of unit 'bpe'" "$weft" eval pieces --data text:text.txt,unit=char
refuses 2 "unit is 'bpe_split.json', and the training data had 'char'" "$weft" eval run --data text:text.txt,unit=bpe_split.json
# A text with zero bytes, which a space is put before: the same tokens each time.
printf 'abc\0def abc\0def ghi jkl mno pqr stu' >zeros.txt
for i in 1 2 3; do "$weft" predict pieces --data text:zeros.txt,test=1 >"zeros$i" 2>err || flunk "zero bytes: $(cat err)"; done
cmp -s zeros1 zeros2 && cmp -s zeros1 zeros3 && [ "$(wc -l <zeros1)" -gt 5 ] && pass || flunk "zero bytes"
# Layers that read several positions cannot generate, and say so.
mixing() { # LAYERS MESSAGE
    printf 'layers:\n  - {type: embedding, units: 8}\n%s  - {type: linear, units: outputs}\n' "$1" >mixing.yaml
    rm -rf mixing
    accepts "train $1" "$weft" train -q --model mixing.yaml --data text:text.txt,unit=char,context=12 -t 1 --steps 2 --batch 8 --checkpoint mixing
    refuses 1 "$2" "$weft" generate mixing --tokens 3
}
mixing '  - {type: batch_norm}
' "node 'batch_norm2' (batch_norm_infer) reads several positions of a sequence, so the model cannot generate"
mixing '  - {type: conv, filters: 12, kernel: 3, padding: 1}
' "node 'conv2' (conv) reads several positions of a sequence, so the model cannot generate"
# A prompt of many tokens: a model with a limited number of positions reads those that matter.
"$weft" train -q --model gpt:layers=1,heads=2,width=8 --data text:text.txt,unit=char,context=12 -t 1 --steps 3 --batch 8 --checkpoint limited
for size in 11 12 13 17 18 19 5000; do
    python3 -c "print(open('text.txt', encoding='utf-8').read()[:$size].replace('\n', 'a').ljust($size, 'a'), end='')" >prompt
    "$weft" generate limited --prompt-file prompt --tokens 30 --temperature 0 -t 1 >out 2>err || flunk "a prompt of $size: $(cat err)"
    python3 - "$size" <<'PYTHON' && pass || flunk "a prompt of $size"
import sys
text, size = open("out", encoding="utf-8").read(), int(sys.argv[1])
sys.exit(len(text.rstrip("\n")) < size)
PYTHON
done
changed() { # JSON-EXPRESSION MESSAGE [STATUS]
    python3 -c "import json; d = json.load(open('bpe_split.json')); $1; json.dump(d, open('changed.json', 'w'))"
    refuses "${3:-1}" "$2" "$weft" train -q --model char-lstm:units=8 --data text:text.txt,unit=changed.json,context=10 -t 1 --steps 1 --batch 8
}
changed 'd["model"]["type"] = "WordPiece"' "changed.json: the model 'WordPiece' is not supported"
changed 'd["model"]["dropout"] = 0.1' "the option of the model 'dropout' is not supported"
changed 'd["normalizer"] = {"type": "NFC"}' "the normalizer 'NFC' is not supported"
changed 'd["pre_tokenizer"] = {"type": "Whitespace"}' "the pre-tokenizer 'Whitespace' is not supported"
changed 'd["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Kept"' "the behavior of a pre-tokenizer 'Kept' is not supported"
changed 'd["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": "(["}' "the pattern '([' is not a regular expression"
changed 'd["model"]["merges"][3] = "x yy"' "changed.json: merge 3 is not two tokens whose concatenation is a token"
changed 'd["model"]["vocab"]["q"] = 5' "two tokens have the number 5"
changed 'd["model"]["vocab"]["q"] = -1' "the number of a token is missing"
changed 'd["model"]["vocab"]["w"] = 9999999' "the largest number of a token is not from 1 to 1048575"
changed 'd["added_tokens"][0]["lstrip"] = True' "lstrip, rstrip or single_word of the added token"
changed 'd["model"]["vocab"].pop("w"); d["model"]["merges"] = []' "the tokenizer has no token for the byte 0x77"
head -c 3000 bpe_split.json >cut.json
refuses 1 "cut.json:1: no JSON" "$weft" train -q --model char-lstm --data text:text.txt,unit=cut.json --steps 1
refuses 1 "nowhere.json: cannot open" "$weft" train -q --model char-lstm --data text:text.txt,unit=nowhere.json --steps 1
refuses 2 "give the file of the tokenizer as the unit, as in unit=tokenizer.json" "$weft" train -q --model char-lstm --data text:text.txt,unit=bpe --steps 1
refuses 2 "'word' is not a unit of text; known are byte, char, tokenizer.json" "$weft" train -q --model char-lstm --data text:text.txt,unit=word --steps 1
printf 'a \xff b %.0s' $(seq 50) >broken.txt
refuses 1 "broken.txt: byte 2 is not valid UTF-8" "$weft" train -q --model char-lstm --data text:broken.txt,unit=bpe_split.json,context=5 --steps 1
echo "$passed passed, $failed failed"
[ $failed = 0 ]
