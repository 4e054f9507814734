#!/usr/bin/env bash
# In a bash that has read the completion script, each command completes its options and their legal values as the help lists them,
# and man(1) finds no fault in the manual pages: tests/cli/completion.sh PATH/TO/weft
set -u
weft=$1
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/check.sh"

"$weft" help --bash >script && pass || flunk "weft help --bash fails"
. ./script
complete -p weft | grep -q -- '-o default -F _weft weft' && pass || flunk "bash completes weft by: $(complete -p weft)"

# offered WORD...: the completions of the last word.
offered() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _weft
    printf '%s\n' "${COMPREPLY[@]}" | sort
}
# same WORDS EXPECTED-LINES COMPLETED...
same() {
    local expected=$1
    shift
    local found
    found=$(offered "$@")
    [ "$found" = "$(sort <<<"$expected")" ] && pass || flunk "'${*}' is completed to: $(tr '\n' ' ' <<<"$found")"
}
commands=$("$weft" help | sed -n 's/^  \([a-z-]\+\)  .*/\1/p' | grep -vx weft)
same "$commands" weft ""
same "$(grep ^s <<<"$commands")" weft s
topics=$("$weft" help --man | sed -n 's/^\.BR weft\\-\([a-z\\-]*\) (7)$/\1/p' | tr -d '\\')
same "$commands
$topics" weft help ""
same "" weft no-such-command --
for command in $commands; do
    "$weft" help "$command" | sed -n '/^  \(-., \)\?--[a-z]/,/^$/p' | python3 -c '
import re, sys
for part in re.split(r"\n(?=  (?:-., )?--[a-z])", "\n" + sys.stdin.read())[1:]:
    letter, name = re.match(r"  (?:-(.), )?--([a-z0-9-]+)", part).groups()
    names = re.search(r"\(one of ([^)]*)\)", re.sub(r"\s+", " ", part))
    print(name, letter or "", names.group(1) if names else "", sep="|")
    for topic in re.findall(r"\(weft help ([a-z-]+)\)", re.sub(r"\s+", " ", part)):
        print(f"{topic} --{name} of {sys.argv[1]}", file=sys.stderr)' "$command" >options 2>>named
    same "$(cut -d'|' -f1 options | sed 's/^/--/'; printf '%s\n' --help --plugin)" weft "$command" -
    # The line of usage names no other option.
    "$weft" help "$command" | sed -n '1,/^$/p' | grep -o -- '--[a-z][a-z-]*' | sort -u >used
    cut -d'|' -f1 options | sed 's/^/--/' | sort | comm -23 used - >unknown
    [ -s unknown ] && flunk "the usage of $command names $(cat unknown)" || pass
    while IFS='|' read -r name letter values; do
        [ -n "$values" ] || continue
        same "$(tr , '\n' <<<"$values")" weft "$command" "--$name" ""
        same "$(tr , '\n' <<<"$values")" weft "$command" "--$name" =
        same "$(tr , '\n' <<<"$values" | grep "^${values:0:1}")" weft "$command" x "--$name" = "${values:0:1}"
        [ -z "$letter" ] || same "$(tr , '\n' <<<"$values")" weft "$command" "-$letter" ""
    done <options
done
# Names of files stand where no list of values does; specifications begin with the names that the registry has.
same "" weft train --checkpoint ""
same "" weft train --quiet r
same "lenet" weft train --model le

# The topics are the kinds of the registry, and each page has the entries of its kind.
"$weft" inspect --list >list
for topic in $topics; do
    "$weft" help "$topic" >page
    title=$(head -n 1 page)
    # It is said which options take such a name; options that refer to the page are among them.
    sed -n "s/^$topic //p" named | while read -r words; do grep -qE -- "$words(,|\.$)" page || echo "$words"; done >lacking
    [ -s lacking ] && flunk "weft help $topic does not name $(cat lacking)" || pass
    # Below each name, or behind it, there is a sentence.
    python3 - page <<'PY' 2>empty || flunk "weft help $topic: $(cat empty)"
import re, sys
text = open(sys.argv[1]).read()
entries = re.split(r"(?m)^  (?=[a-z0-9]\S*)", text)[1:]
bare = [entry.split("\n")[0] for entry in entries if len(re.sub(r"\S+", "w", entry, flags=re.S).split()) < 2]
sys.exit(f"no sentence about {bare}" if bare or not entries else 0)
PY
    sed -n "/^$title:$/,/^$/p" list | sed -n 's/^  \([a-z0-9]\S*\).*/\1/p' >expected
    sed -n 's/^  \([a-z0-9]\S*\).*/\1/p' page | diff expected - >differs && [ -s expected ] && pass || flunk "weft help $topic: $(head -n 5 differs)"
done
[ "$(wc -w <<<"$topics")" = "$(grep -c ':$' list)" ] && pass || flunk "there are other topics than kinds: $topics"

"$here/../../scripts/man" "$weft" pages
[ "$(ls pages/*/* | wc -l)" = $(($(wc -w <<<"$commands $topics") + 1)) ] && pass || flunk "there are other manual pages than commands and topics: $(ls pages/*)"
for page in pages/*/*; do
    # A system without documents has a man that shows nothing.
    if MANWIDTH=80 man --warnings=all -l "$page" >shown 2>faults && grep -q NAME shown; then
        [ -s faults ] && flunk "man finds in $page: $(head -n 3 faults)" || pass
        [ "$(awk 'length > 80' shown | wc -l)" -le 10 ] || flunk "$page is shown in lines of more than 80 columns"
    fi
    if command -v mandoc >/dev/null; then
        mandoc -Tlint -W warning "$page" 2>&1 | grep -v 'missing date' >faults
        [ -s faults ] && flunk "mandoc finds in $page: $(head -n 3 faults)" || pass
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
