"""Compares the layout of every public struct with the recorded one of this soname.

    struct_layouts.py INCLUDE CC [--record]

A program that was compiled with an older version of the headers runs with a newer library of the same soname, so no
recorded field may move or change its size. A struct that begins with its struct_size, or that only callbacks get, may
grow at its end; all others keep their size, and new fields take their `room`. --record adds new structs and fields, and
begins anew if WEFT_VERSION_MAJOR, which the soname has, is another one.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "wrong_calls"))
from headers import Headers  # noqa: E402

RECORD = os.path.join(HERE, "struct_layouts.txt")
# Structs that the library passes to callbacks, one at a time, and never reads from a caller.
HANDED = {"weft_event", "weft_prediction", "weft_request_result", "weft_gradient", "weft_reading", "weft_operator_call", "weft_rule_values", "weft_rate_options", "weft_data_form", "weft_sample_key", "weft_sample", "weft_codec_choice", "weft_batching_queue", "weft_batch_setting"}


def present(include, compiler):
    """The soname's number, and for each struct its size and its fields with offset and size."""
    headers = Headers(include)
    lines = ['#include <stddef.h>', '#include <stdio.h>', '#include "weft/weft.h"', '#include "weft/serve.h"', '#include "weft/plugin.h"',
             'int main(void)', '{', '    printf("soname %d\\n", WEFT_VERSION_MAJOR);']
    for name, fields in sorted(headers.structs.items()):
        lines.append(f'    printf("{name} %zu\\n", sizeof({name}));')
        for field in fields:
            if field != "room":
                lines.append(f'    printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/layouts.c", "w") as out:
            out.write("\n".join(lines) + "\n    return 0;\n}\n")
        subprocess.run([compiler, "-std=c11", "-I", include, folder + "/layouts.c", "-o", folder + "/layouts"], check=True)
        text = subprocess.run([folder + "/layouts"], check=True, capture_output=True, text=True).stdout
    return read(text)


def read(text):
    return {line.split()[0]: tuple(map(int, line.split()[1:])) for line in text.splitlines()}


def may_grow(name, layout):
    return name in HANDED or layout.get(name + ".struct_size", (1,))[0] == 0 and name not in ROOMY


# Their struct_size comes first, and others contain them.
ROOMY = {f"weft_{group}_choice" for group in "task length update where parallel job output show".split()} | {"weft_train_options"}


def faults(old, new):
    """What an older program would take for something else."""
    for key, value in old.items():
        if key not in new:
            yield f"{key} is gone"
        elif "." in key and new[key] != value:
            yield f"{key} had offset and size {value}, now {new[key]}"
        elif "." not in key and new[key] != value and not (may_grow(key, old) and new[key] > value):
            yield f"{key} had {value[0]} bytes, now {new[key][0]}"
    for key in new:
        struct = key.partition(".")[0]
        if "." in key and key not in old and struct in old and new[key][0] < end(old, struct):
            yield f"{key} lies within what {struct} had"


def end(layout, struct):
    """Where the fields of a struct ended."""
    return max([sum(value) for key, value in layout.items() if key.startswith(struct + ".")], default=0)


def check_itself(new):
    """A layout that has changed is found."""
    moved = dict(new)
    moved["weft_report.loss"] = (new["weft_report.loss"][0] + 8, 8)
    grown = {**new, "weft_report": (new["weft_report"][0] + 8,)}
    longer = {**new, "weft_event": (new["weft_event"][0] + 8,), "weft_service_options": (new["weft_service_options"][0] + 8,)}
    nested = {**new, "weft_job_choice": (new["weft_job_choice"][0] + 8,)}
    gone = {key: value for key, value in new.items() if key != "weft_event.loss"}
    squeezed = {**new, "weft_event.between": (4, 4)}
    assert list(faults(new, moved)) and list(faults(new, grown)) and list(faults(new, nested))
    assert list(faults(new, gone)) and list(faults(new, squeezed)) and not list(faults(new, longer))


def main():
    new = present(sys.argv[1], sys.argv[2])
    check_itself(new)
    old = {}
    if os.path.exists(RECORD):
        with open(RECORD) as file:
            old = read(file.read())
    found = list(faults(old, new)) if old.get("soname") == new["soname"] else []
    if "--record" in sys.argv and not found:
        with open(RECORD, "w") as out:
            out.writelines(f"{key} {' '.join(map(str, value))}\n" for key, value in new.items())
        return 0
    broken = len(found) > 0
    found = found or [f"{key} is not recorded: {' '.join(sys.argv[:3])} --record" for key in new if new[key] != old.get(key)]
    for line in found[:20]:
        print("FAILED", line)
    if broken:
        print("Programs that were compiled with the recorded headers would break: add fields at the end of structs with a "
              "struct_size or in a struct's room, or raise WEFT_VERSION_MAJOR.")
    print(f"{len([key for key in new if '.' not in key]) - 1} structs, {len(found)} failures")
    return len(found) > 0


sys.exit(main())
