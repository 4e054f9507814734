#!/usr/bin/env bash
# Every public header compiles alone, in C and in C++, with gcc and clang: tests/api/headers.sh INCLUDE
set -eu
include=$1
for header in "$include"/weft/*.h; do
    name=weft/$(basename "$header")
    for compiler in "gcc -std=c11 -x c" "g++ -std=c++11 -x c++" "clang -std=c11 -x c" "clang++ -std=c++11 -x c++"; do
        command -v "${compiler%% *}" >/dev/null || continue
        echo "#include <$name>" | $compiler -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" - ||
            { echo "$name does not stand alone with $compiler"; exit 1; }
    done
done
echo "every header stands alone"
