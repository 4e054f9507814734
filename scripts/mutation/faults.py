"""One-line faults: a comparison, an operator, a constant by one, a dropped statement or check, swapped arguments, a
wrong index."""
import os
import re


COMPARISONS = {" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > ", " == ": " != ", " != ": " == "}
OPERATORS = {" + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", " % ": " / ", " && ": " || ", " || ": " && ",
             " += ": " -= ", " -= ": " += ", "++": "--", "--": "++", " | ": " & ", " & ": " | "}
SKIPPED = re.compile(r"^\s*(#|\*|/\*|//|static_assert|extern|typedef)")
STATEMENT = re.compile(r"^(\s*)((?:\(void\))?[A-Za-z_][\w\->.\[\] ]*(?:\(.*\)|\s[-+*/|&]?=\s.*|\+\+|--));\s*$")
DECLARATION = re.compile(r"^\s*(return|goto|break|continue|case|default|else|do|const|static|struct|enum|unsigned|int|"
                         r"char|bool|float|double|real|void|size_t|FILE|u?int\d+_t|weft_\w+|[a-z_]+_\w*)\s+\**\w")
# In whose calls the order of the first two operands says nothing, or nothing where the result is held against 0.
SYMMETRIC = re.compile(r"(WEFT_MIN|WEFT_MAX|fmin|fmax|json_equal)\(|(str|strn|mem|strcase|strncase)cmp\([^()]*\) [!=]= 0")
# Memory that is not given back is seen by sanitizers alone, and the tests run without them.
FREES = re.compile(r"(^\s*|\) )(weft_|gnutls_)?free\(.*\);\s*$")
CALL = re.compile(r"\b[A-Za-z_]\w*\(([\w\->.\[\]]+), ([\w\->.\[\]]+)(?=[,)])")


def code_of(line):
    """The line with strings and comments blanked, so that positions stay."""
    blank = lambda m: " " * len(m.group())
    line = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'', blank, line)
    return re.sub(r"/\*.*?(\*/|$)|//.*", blank, line)


def swaps(table, code):
    for token, other in table.items():
        at = code.find(token)
        while at >= 0:
            yield at, token, other
            at = code.find(token, at + 1)


def faults_of(line):
    """(kind, the line with the fault)."""
    code = code_of(line)
    if SKIPPED.match(line) or not code.strip():
        return
    for kind, table in (("comparison", COMPARISONS), ("operator", OPERATORS)):
        for at, token, other in swaps(table, code):
            yield kind, line[:at] + other + line[at + len(token):]
    declares = DECLARATION.match(code)
    for m in re.finditer(r"(?<![\w.\"])(\d+)(?![\w.])", code):
        if declares and "=" not in code[:m.start()] and code[:m.start()].rstrip().endswith("["):
            continue  # the size of an array: room that is there or not, which only sanitizers see
        for other in (int(m.group()) + 1, int(m.group()) - 1):
            if other >= 0:
                yield "constant", line[:m.start()] + str(other) + line[m.end():]
    for m in re.finditer(r"\[([^\[\]]+)\]", code):
        if not (declares and "=" not in code[:m.start()]):  # there it is a size
            for other in (" + 1", " - 1"):
                yield "index", line[:m.start()] + "[" + line[m.start() + 1:m.end() - 1] + other + "]" + line[m.end():]
    for m in CALL.finditer(code):
        if SYMMETRIC.match(code, m.start()):
            continue
        first, second = m.span(1), m.span(2)
        yield "arguments", (line[:first[0]] + line[second[0]:second[1]] + line[first[1]:second[0]] +
                            line[first[0]:first[1]] + line[second[1]:])
    m = STATEMENT.match(code)
    if m and not declares and not FREES.search(code):
        indent = m.group(1)
        yield "statement", indent + "(void)0;\n"
    m = re.match(r"^(\s*(?:\} else )?if \()(.*)(\)(?: \{| return.*;| continue;| break;| goto .*;| \w.*;)?)$", code.rstrip())
    if m and m.group(2).count("(") == m.group(2).count(")") and not FREES.search(code):
        yield "check", line[:m.start(2)] + "0 && (" + line[m.start(2):m.end(2)] + ")" + line[m.end(2):]


def all_faults(tree, only):
    """{kind: [(path, number, kind, the line, the line with the fault)]}"""
    sites = {}
    for folder, _, names in sorted(os.walk(os.path.join(tree, "src"))):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), tree)
            if not name.endswith(".c") or (only and not any((path + "/").startswith(o.rstrip("/") + "/") for o in only)):
                continue
            with open(os.path.join(tree, path)) as f:
                for number, line in enumerate(f, 1):
                    for kind, other in faults_of(line):
                        if other != line:
                            sites.setdefault(kind, []).append((path, number, kind, line, other))
    return sites
