#!/usr/bin/env bash
# What weft keygen writes, and what it does not touch: tests/actor/keygen.sh PATH/TO/weft.
set -u
weft=$1
. "$(dirname "$0")/../support/check.sh"

accepts "a pair" "$weft" keygen a.key
holds a.key '^weft-secret-key [0-9a-f]{64}$'
holds a.key.pub '^[0-9a-f]{64} a.key$'
[ "$(stat -c %a a.key)" = 600 ] && pass || flunk "others may read the secret key"
[ "$(stat -c %a a.key.pub)" = 644 ] && pass || flunk "mode of the public key"
holds out "$(cut -d ' ' -f 1 a.key.pub)"
! grep -q "$(sed -n 's/^weft-secret-key //p' a.key)" out a.key.pub && pass || flunk "the secret key is shown"
(umask 000 && "$weft" keygen open.key >out 2>err)
[ "$(stat -c %a open.key)" = 600 ] && pass || flunk "a mask opens the secret key"
"$weft" keygen b.key >out 2>err
cmp -s a.key b.key && flunk "two keys are the same" || pass

# A public key is no secret one, whatever the modes of the files.
refuses 1 "a.key.pub: holds a public key; key needs the secret one" "$weft" status tcp://127.0.0.1:9 --key a.key.pub --timeout 1

# What is there is never replaced, and no half of a pair is left.
cp a.key before
refuses 2 "a.key: is there already" "$weft" keygen a.key
cmp -s a.key before && pass || flunk "a key was replaced"
echo mine >c.key.pub
refuses 2 "c.key.pub: is there already" "$weft" keygen c.key
[ ! -e c.key ] && [ "$(cat c.key.pub)" = mine ] && pass || flunk "half a pair is left"
ln -s nowhere link.key
refuses 2 "link.key: is there already" "$weft" keygen link.key
[ ! -e nowhere ] && pass || flunk "a link was followed"
refuses 1 "weft: no/d.key: cannot create" "$weft" keygen no/d.key
refuses 2 "an argument is empty" "$weft" keygen ""
mkdir folder
refuses 2 "names no file" "$weft" keygen folder/
refuses 2 "folder: is there already" "$weft" keygen folder
refuses 2 "can be printed" "$weft" keygen "$(printf 'a\nb')"
refuses 2 "needs the name of the file" "$weft" keygen
refuses 2 "no option is named 'bits'; there are none" "$weft" keygen --bits=4096 e.key
if [ -w /dev/full ]; then
    (ulimit -f 0 && trap '' XFSZ && "$weft" keygen full.key >out 2>err) && flunk "no room" || pass
    [ ! -e full.key ] && [ ! -e full.key.pub ] && pass || flunk "half a file is left"
fi
[ -z "$(find . -name '*weft-new*')" ] && pass || flunk "something is left: $(find . -name '*weft-new*')"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
