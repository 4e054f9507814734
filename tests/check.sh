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
