#!/usr/bin/env python3
"""A row of bench/links: links_row.py METRICS BYTES sync|async OPTIONS TABLE, where TABLE is what it keeps of those before."""
import json
import os
import sys

metrics, count, kind, options, table = sys.argv[1:]
rows = [json.loads(line) for line in open(metrics)]
accuracy = [row["accuracy"] for row in rows if row["event"] == "eval"][-1]
rate = rows[-1]["samples_per_second"]
samples = rate * rows[-1]["seconds"]
before = [json.loads(line) for line in open(table)] if os.path.exists(table) else []
new = not before
mine = {"kind": kind, "rate": rate, "bytes": int(count) / samples}
with open(table, "a") as kept:
    print(json.dumps(mine), file=kept)
sync = [row for row in before + [mine] if row["kind"] == "sync"]
best = max(sync, key=lambda row: row["rate"]) if sync else None
if new:
    print(f"{'samples/s':>9} {'of sync':>8} {'on the line':>12} {'a sample':>10} {'fewer':>8} {'accuracy':>8}  options")
of_sync = f"{rate / best['rate']:7.1f}x" if best else ""
fewer = f"{best['bytes'] / mine['bytes']:7.1f}x" if best else ""
print(f"{rate:9.0f} {of_sync:>8} {int(count) / 1e6:9.1f} MB {mine['bytes']:8.0f} B {fewer:>8} {accuracy:8.4f}  {options}",
      flush=True)
