#!/usr/bin/env python3
"""scripts/check-names finds what it is for: one name of each registry is planted into a file that does not own it, in each way in
which code can compare, and into its own file, where it may stand."""
import importlib.machinery
import importlib.util
import pathlib
import sys

path = pathlib.Path(__file__).resolve()
while not (path / "scripts" / "check-names").is_file():
    path = path.parent
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("check_names", str(path / "scripts" / "check-names"))
lint = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_names", loader))
loader.exec_module(lint)

texts = lint.read(path)
names, objects, constants = lint.names_of(path, texts), lint.objects_of(texts), lint.constants_of(texts)
PLANTED = "src/train/planted.c"
wrong = []


def found(code, where=PLANTED):
    return [name for _, name, _, _ in lint.comparisons(where, lint.without_comments(code), names, objects, constants)]


def expect(code, name, where=PLANTED, count=1):
    if found(code, where) != [name] * count:
        wrong.append(f"{where}: {code!r} gives {found(code, where)}, must give {name} {count} times")


for kind in lint.KINDS:
    mine = [name for name, kinds in names.items() if kind in kinds]
    if not mine:
        wrong.append(f"no {kind.name} was found in {kind.files}")
    for name in mine:
        expect(f'x = strcmp(a->name, "{name}") == 0;', f'"{name}"')
        expect(f'x = strncmp(f(a, ")"), "{name}:", 3) == 0;', f'"{name}:"')
        for own in names[name][kind]:
            expect(f'x = strcmp(a->name, "{name}") == 0;', f'"{name}"', own, 0)
    name = mine[0]
    helper = 'static bool is_it(const char *word, const char *other)\n{\n    return strcmp(word, other) == 0;\n}\n'
    expect(helper + f'x = is_it(a, "{name}");', f'"{name}"')
    expect(f'static const char word[] = "{name}";\nx = strcmp(a, word) == 0;', f'"{name}"')
    expect(f'#define WORD "{name}"\nx = strcmp(a, WORD) == 0;', f'"{name}"')
    expect(f'/* strcmp(a, "{name}") */ x = emit(g, "{name}"); // strcmp(a, "{name}")', "", count=0)
for constant in constants:
    expect(f"x = a == {constant};", constant)
    expect(f"x = {constant} != a;", constant)
    expect(f"case {constant}: return;", constant)
    expect(f"a.form = {constant}; f({constant});", constant, count=0)
if not constants or not objects:
    wrong.append(f"{len(constants)} constants and {len(objects)} functions and rows were found")
for name in ("weft_shape_same", "weft_exchange_server"):
    expect(f"x = op->shape == {name};", name)
    expect(f"x = &{name} != ops;", name)
    expect(f"op->shape = {name};", name, count=0)
print("\n".join(wrong) if wrong else f"names of {len(lint.KINDS)} registries and {len(constants)} constants are found where they are planted")
sys.exit(bool(wrong))
