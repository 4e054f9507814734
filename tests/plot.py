#!/usr/bin/env python3
"""Whether the SVG of a comparison can be read: tests/plot.py FILE CURVES

All curves lie within the two frames and have one width, which is the legend's; no two curves have the same colour and the same
dashes; labels lie within the picture and do not overlap those beside them.
"""
import re
import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"
CHARACTER = 0.6  # of the size of the font, about
root = tree.parse(sys.argv[1]).getroot()
width, height = map(float, root.get("viewBox").split()[2:])
frames = [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in root.iter(f"{SVG}rect") if r.get("x")]
curves, dots = list(root.iter(f"{SVG}polyline")), list(root.iter(f"{SVG}circle"))
legend = [line for line in root.iter(f"{SVG}line") if line.get("stroke-width")]
assert len(frames) == 2 and len(curves) + len(dots) == 2 * int(sys.argv[2]), (frames, len(curves), len(dots))
assert len(legend) == int(sys.argv[2]), len(legend)
assert {c.get("stroke-width") for c in curves + legend} == {"2"}
looks = [(line.get("stroke"), line.get("stroke-dasharray")) for line in legend]
assert len(set(looks)) == len(looks), looks
assert {(c.get("stroke"), c.get("stroke-dasharray")) for c in curves} <= set(looks)
for c in curves:
    places = [tuple(map(float, p.split(","))) for p in c.get("points").split()]
    assert any(all(x - 0.1 <= a <= x + w + 0.1 and y - 0.1 <= b <= y + h + 0.1 for a, b in places) for x, y, w, h in frames), places[:4]
rows = {}
for text in root.iter(f"{SVG}text"):
    if text.get("transform"):
        continue
    size = float(text.get("font-size") or root.get("font-size"))
    x, long = float(text.get("x")), CHARACTER * size * len("".join(text.itertext()))
    begin = x - {"end": long, "middle": long / 2}.get(text.get("text-anchor"), 0)
    assert 0 <= begin and begin + long <= width and 0 < float(text.get("y")) < height, (text.text, begin, long)
    for other in rows.setdefault(text.get("y"), []):
        assert begin >= other[1] or begin + long <= other[0], (text.text, begin, other)
    rows[text.get("y")].append((begin, begin + long))
assert re.search(r"\w on \w", "".join(root.find(f"{SVG}text").itertext())), "no title"
