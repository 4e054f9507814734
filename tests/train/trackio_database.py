#!/usr/bin/env python3
"""Metrics in a database of Trackio: tests/train/trackio_database.py PATH/TO/weft

The rows equal the lines of the same run; a run that resumes, also after SIGKILL, has each step once; runs of one name stay
apart; two processes write at a time. Trackio's own command agrees where it is installed (make torch, or TRACKIO=PATH).
"""
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import checks  # noqa: E402

weft, check = checks.weft, checks.check
checks.scratch()
RUN = "--model mlp --data glyphs:size=8,train=60,test=20 --batch 20 -q -t 1".split()


def run(*options, command="train", env=None):
    return subprocess.run([weft, command, *RUN, *options], stderr=subprocess.PIPE, text=True, timeout=240, check=False, env=env)


def rows(name, folder="logs"):
    """The numbers of a run's steps, by run_id."""
    out = {}
    with sqlite3.connect(f"file:{folder}/weft.db?mode=ro", uri=True) as db:
        for run_id, step, text in db.execute("SELECT run_id, step, metrics FROM metrics WHERE run_name = ? ORDER BY id", (name,)):
            out.setdefault(run_id, []).append((step, json.loads(text)))
    return out


def numbers(listed, key):
    return [(step, row[key]) for step, row in listed if key in row]


for i, options in enumerate((["-n", "1"], ["-n", "2", "--exchange", "server"], ["-n", "2", "--engine", "processes", "--exchange", "gossip"])):
    done = run("--epochs", "2", *options, "--metrics", f"{i}.jsonl,trackio:logs/way{i}", "--checkpoint", f"run{i}")
    check(f"train {options}", done.returncode == 0, done.stderr)
    lines = [json.loads(line) for line in open(f"{i}.jsonl")]
    (listed,) = rows(f"way{i}").values()
    for event, key, name in (("step", "loss", "train/loss"), ("step", "lr", "train/lr"), ("eval", "accuracy", "test/accuracy")):
        want = [(line["step"], line[key]) for line in lines if line["event"] == event]
        have = numbers(listed, name)
        check(f"{options}: {name}", want and [s for s, _ in want] == [s for s, _ in have]
              and all(abs(a - b) <= 1e-8 * abs(b) for (_, a), (_, b) in zip(have, want)), (have, want))

# The options of a run are beside it.
with sqlite3.connect("logs/weft.db") as db:
    config = json.loads(db.execute("SELECT config FROM configs WHERE run_name = 'way1'").fetchone()[0])
check("options", config["exchange"] == "server" and config["batch"] == "20" and "_Created" in config, config)

# A run in two parts has the losses of one that was not cut off, and each step once.
whole = run("--steps", "9", "--metrics", "trackio:logs/whole", "--checkpoint", "whole.run")
run("--steps", "5", "--metrics", "trackio:logs/part", "--checkpoint", "part.run", "--checkpoint-every", "2")
subprocess.run("rm -r part.run/step-5 part.run/latest && ln -s step-4 part.run/latest", shell=True, check=True)
done = run("--steps", "9", "--metrics", "trackio:logs/part", "--checkpoint", "part.run", "--resume")
(a,), (b,) = rows("whole").values(), rows("part").values()
check("a run in two parts", whole.returncode == done.returncode == 0
      and numbers(a, "train/loss") == numbers(b, "train/loss") and len(numbers(a, "train/loss")) == 9, done.stderr)
before = rows("part")
run("--steps", "9", "--metrics", "trackio:logs/part", "--checkpoint", "part.run", "--resume")
check("a run that had ended", rows("part") == before)
# Another run of the same name is beside it.
run("--steps", "12", "--metrics", "trackio:logs/part")
check("runs of one name", sorted(len(numbers(listed, "train/loss")) for listed in rows("part").values()) == [9, 12])
# None of them is known to be the one that resumes: it is written beside them.
done = run("--steps", "10", "--metrics", "trackio:logs/part", "--checkpoint", "part.run", "--resume")
check("a run that resumes among others", sorted(len(numbers(listed, "train/loss")) for listed in rows("part").values()) == [1, 9, 12], done.stderr)

# A process that is killed leaves a database that can be read, from which the run goes on.
with subprocess.Popen([weft, "train", *RUN, "--epochs", "100000", "--checkpoint-every", "50", "--checkpoint", "killed.run", "--metrics",
                       "trackio:logs/killed"]) as process:
    end = time.monotonic() + 240
    while not pathlib.Path("killed.run/latest").exists() and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
killed = rows("killed")
with sqlite3.connect("logs/weft.db") as db:
    check("a killed run", killed and db.execute("PRAGMA integrity_check").fetchone() == ("ok",))
last = int(os.readlink("killed.run/latest").split("-")[1])
done = run("--steps", str(last + 7), "--without", "epochs", "--checkpoint", "killed.run", "--metrics", "trackio:logs/killed", "--resume")
(listed,) = rows("killed").values()
check("steps after a kill", done.returncode == 0 and [s for s, _ in numbers(listed, "train/loss")] == list(range(1, last + 8)), done.stderr)

# Two processes at a time.
pair = [subprocess.Popen([weft, "train", *RUN, "--epochs", "60", "--metrics", f"trackio:logs/{name}"]) for name in ("one", "other")]
check("two writers", [process.wait(240) for process in pair] == [0, 0] and all(
    len(numbers(listed, "train/loss")) == 180 for name in ("one", "other") for listed in rows(name).values()))
# A simulation writes one as well.
done = run("-n", "2", "--exchange", "server:policy=async", "--metrics", "trackio:logs/sim", command="simulate")
check("simulate", done.returncode == 0 and rows("sim"), done.stderr)

pathlib.Path("bad").mkdir()
pathlib.Path("bad/weft.db").write_text("no database\n")
for spec, words in (("trackio:logs/", "the name of the run is missing"), ("trackio:", "a path is empty"), ("tracio:x", "trackio:FOLDER/RUN"),
                    ("trackio:bad/run", "bad/weft.db: SQLite: file is not a database"), ("trackio:/proc/x/run", "make the folder"),
                    ("trackio:0.jsonl/run", "is a file, a folder is needed here")):
    done = run("--metrics", spec)
    check(spec, done.returncode in (1, 2) and words in done.stderr, done.stderr)
check("a file that is no database stays", pathlib.Path("bad/weft.db").read_text() == "no database\n")

# A library that cannot be opened is as one that is not there.
pathlib.Path("none").mkdir()
pathlib.Path("none/libsqlite3.so.0").touch()
done = run("--metrics", "trackio:none/run", env={**os.environ, "LD_LIBRARY_PATH": "none"})
check("no SQLite", done.returncode == 1 and "Debian: libsqlite3-0" in done.stderr, done.stderr)

installed = pathlib.Path(__file__).resolve().parent.parent.parent / "build" / "torch" / "bin" / "trackio"
trackio = os.environ.get("TRACKIO") or (str(installed) if installed.exists() else shutil.which("trackio"))
if trackio:
    def ask(*words):
        done = subprocess.run([trackio, *words, "--project", "weft", "--json"], capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, "TRACKIO_DIR": str(pathlib.Path("logs").resolve())})
        check(f"trackio {words}", done.returncode == 0, done.stderr)
        return json.loads(done.stdout or "{}")

    told = ask("list", "runs")
    check("runs", {"way0", "way1", "way2", "whole", "killed"} <= set(told["runs"]), told)
    told = ask("get", "metric", "--run", "whole", "--metric", "train/loss")
    check("values", [(v["step"], v["value"]) for v in told["values"]] == numbers(a, "train/loss"), told)
    told = ask("get", "run", "--run", "way1")
    check("options that Trackio shows", told["config"]["exchange"] == "server", told)
else:
    print("skipped: Trackio is not installed (TRACKIO=PATH, or beside PyTorch: make torch)")
sys.exit(checks.end())
