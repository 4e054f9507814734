#!/usr/bin/env bash
# Help lists exactly the options that a command accepts: tests/cli/help_options.sh PATH/TO/weft
# With WEFT_FAST every seventh pair of a command and an option is tested.
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"

# listed COMMAND: its options, each with values other than its default, of which one is legal for most; a flag has none.
listed() {
    "$weft" help "$1" | sed -n '/^  \(-., \)\?--[a-z]/,/^$/p' | python3 -c '
import re, sys
for part in re.split(r"\n(?=  (?:-., )?--[a-z])", "\n" + sys.stdin.read())[1:]:
    name, argument = re.match(r"  (?:-., )?--([a-z0-9-]+)(?: (\S+))?", part).groups()
    text = re.sub(r"\s+", " ", part).strip()
    usual, names = re.search(r"\[([^]]*)\]$", text), re.search(r"\(one of ([^)]*)\)", text)
    values = names.group(1).split(",") if names else ["1", "2", "0.5", "x"]
    print(name, *[v for v in values if not usual or v != usual.group(1)] if argument else [""])'
}
commands=$("$weft" help | sed -n 's/^  \([a-z-]\+\)  .*/\1/p' | grep -vx weft)
[ "$(wc -w <<<"$commands")" -ge 15 ] && pass || flunk "these are all commands: $commands"
for command in $commands; do
    listed "$command" >"$command.listed"
    "$weft" help "$command" | head -n 1 | grep -q 'options of weft train' && [ "$command" != coordinator ] && listed train >>"$command.listed"
done
[ "$(wc -l <train.listed)" -ge 50 ] && pass || flunk "weft help train lists $(wc -l <train.listed) options"
sort -u -k 1,1 ./*.listed >all

# ask WORDS...: what a command says; no other process is begun, since there are hundreds of pairs.
ask() { said=$("$weft" "$@" 2>&1 </dev/null); }
# unknown PATTERN: whether it says so.
unknown() { [[ $said =~ no\ option\ is\ named\ \'($1)\' ]]; }
# legal COMMAND OPTION VALUES...: the first value that the command can read is in $value, so that only its use is in question.
legal() {
    local command=$1 option=$2
    shift 2
    for value in "${@:-}"; do
        ask "$command" "--$option${value:+=$value}" --no-such-option
        unknown "no-such-option|$option" && return
    done
}
pair=0
for command in $commands; do
    lists=" $(cut -d ' ' -f 1 "$command.listed" | tr '\n' ' ')"
    while read -r option values; do
        pair=$((pair + 1))
        in_full || [ $((pair % 7)) = 0 ] || continue
        # No data and no address: nothing is begun, or measured.
        more=
        [ "$command" = measure ] && more="--output=/nowhere/measured --engine=threads"
        [[ $lists = *" data "* ]] && [ "$option" != data ] && more="--data csv:nowhere.csv,label=k"
        if [[ $lists = *" $option "* ]]; then
            # shellcheck disable=SC2086
            legal "$command" "$option" $values
            # shellcheck disable=SC2086
            ask "$command" "--$option${value:+=$value}" $more
            unknown "$option" || [[ $said = *"--$option has no effect here"* ]] &&
                flunk "weft help $command lists --$option, which weft $command --$option${value:+=$value} refuses" || pass
        else
            value=${values%% *}
            # shellcheck disable=SC2086
            ask "$command" "--$option${value:+=$value}" $more
            unknown "$option" || [[ $said =~ --$option\ has\ no\ effect\ here|no\ command\ is\ named\ \'--$option|takes\ no\ |needs\  ]] && pass ||
                flunk "weft help $command does not list --$option, which weft $command --$option${value:+=$value} takes"
        fi
    done <all
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
