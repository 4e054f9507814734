# For tests in the shell: a folder to work in, what passed and what did not.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0 passed=0

pass() { passed=$((passed + 1)); }
flunk() {
    echo "FAILED: $1"
    sed 's/^/    /' out err 2>/dev/null | head -n 12
    failed=$((failed + 1))
}
# accepts NAME COMMAND...: exit 0 and nothing on stderr.
accepts() {
    local name=$1
    shift
    if "$@" >out 2>err && [ ! -s err ]; then pass; else flunk "$name (exit $?)"; fi
}
# refuses CODE WORDS COMMAND...: this exit code, one message with these words, nothing on stdout.
refuses() {
    local code=$1 words=$2
    shift 2
    "$@" >out 2>err
    local got=$?
    if [ "$got" = "$code" ] && grep -qF -- "$words" err && [ "$(grep -c '^weft:' err)" = 1 ]; then pass; else
        flunk "exit $got, wanted $code and '$words': $*"
    fi
}
# holds FILE PATTERN
holds() { if grep -qE -- "$2" "$1"; then pass; else flunk "$1 lacks '$2'"; cat "$1" | head -5; fi; }
