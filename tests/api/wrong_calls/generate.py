"""Writes a C program that calls every function of the public headers with wrong arguments.

    generate.py INCLUDE OUT

For each function the program has one call for each wrong value of each argument, the others being right: NULL, an index
or a value that does not exist, an enumerator past the last, a count below 0, an empty text, options that are zeroed,
short, or have one wrong field. Right options also come as older programs have them, shorter by their last fields. fixture.c makes the right arguments, rows.py says what a right argument is where the type
does not, and which values are not wrong, with the reason. A function of a new type without a right argument is an error.
"""
import re
import sys

from headers import Headers
from rows import ALLOWED, FIELDS, MADE, NEUTRAL, NULLABLE, RIGHT, SKIPPED, UNTOUCHED

NUMBERS = {"int": ["-1", "INT_MIN", "INT_MAX"], "int64_t": ["-1", "INT64_MIN", "INT64_MAX"],
           "int32_t": ["-1", "INT32_MIN", "INT32_MAX"], "double": ["NAN"],
           "weft_value": ["WEFT_NO_VALUE", "-2", "INT32_MAX"]}
FIELD_NUMBERS = {"int": ["INT_MIN"], "int64_t": ["INT64_MIN"], "double": ["NAN"]}
# Functions that end or free an object take NULL, and a pointer to NULL.
ENDS = re.compile(r"_(destroy|close|free|stop|remove|release|close_comms)$")


def is_pointer(headers, type_):
    return "*" in type_ or type_ in headers.callbacks


def right(headers, function, parameter, type_):
    """The C expression of a right argument."""
    for key in ((function, parameter), parameter + " " + type_, type_):
        if key in RIGHT:
            return RIGHT[key]
    if type_ in headers.enums:
        return f"({type_})0"
    plain = type_.removeprefix("const ").rstrip("* ")
    if type_.endswith("**"):
        return f"({type_})(void *)hole"
    if type_.startswith("const ") and type_.endswith("*") and plain in headers.structs and "struct_size" in headers.structs[plain]:
        return f"&right_{plain}"
    if type_.endswith("*"):
        return f"({type_})(void *)sink"
    raise SystemExit(f"rows.py: no right argument for '{type_} {parameter}' of {function}")


def allowed(function, parameter, value):
    return any(key in ALLOWED for key in ((function, parameter, value), (function, parameter), (parameter, value), parameter))


def wrong(headers, function, parameter, type_):
    """Pairs of a label and the C expression of a wrong argument."""
    values = []
    if type_ in NUMBERS:
        values = [(v, v) for v in NUMBERS[type_]]
    elif type_ in headers.enums:
        values = [("-1", f"({type_})-1"), ("99", f"({type_})99")]
    elif is_pointer(headers, type_) and parameter != "user" and parameter not in NULLABLE.get(function, ()):
        values = [("NULL", "NULL")]
        if type_ == "const char *":
            values.append(('""', '""'))
    return [(label, value) for label, value in values if not allowed(function, parameter, label)]


def fields(headers, struct, prefix=""):
    """Pairs of a field, also of a struct within, and its type."""
    for name, type_ in headers.structs[struct].items():
        if type_ in headers.structs and type_ not in ("weft_shape", "weft_input", "weft_numbers"):
            yield from fields(headers, type_, prefix + name + ".")
        else:
            yield prefix + name, type_


def wrong_fields(headers, struct):
    for field, type_ in fields(headers, struct):
        values = [("0", "0"), ("8", "8"), ("1 << 20", "(size_t)1 << 20")] if type_ == "size_t" and field.endswith("struct_size") else []
        values += [(v, v) for v in FIELD_NUMBERS.get(type_, ())]
        if field.split(".")[-1] == "room":
            yield field + "[0]", "1", "1"
        if type_ in headers.enums:
            values = [("-1", f"({type_})-1"), ("99", f"({type_})99")]
        if type_ in ("const char *", "char *"):
            values = [('""', "empty")]
        for label, value in values:
            if not allowed(struct, field, label):
                yield field, label, value


def outcome(headers, function, result, call):
    if result == "weft_status":
        return f"refused({call});"
    if result == "void":
        return call + ";"
    if function in NEUTRAL:
        return f"{{ {result}{'' if result.endswith('*') else ' '}r = {call}; neutral({NEUTRAL[function]}); }}"
    if result in headers.structs:
        return f"{{ {result} r = {call}; neutral(is_zero(&r)); }}"
    if result == "weft_value":
        return f"neutral({call} == WEFT_NO_VALUE);"
    if result in ("int", "int64_t", "int32_t"):
        return f"neutral(is_none({call}));"
    return f"neutral(!{call});"


def calls(headers, result, function, parameters):
    """The calls of one function: pairs of a label and C statements."""
    rights = [right(headers, function, n, t) for t, n in parameters]

    def one(index, value):
        return f"{function}({', '.join(value if i == index else r for i, r in enumerate(rights))})"

    graph = any(t == "weft_graph *" for t, _ in parameters)
    for index, (type_, name) in enumerate(parameters):
        if index == 0 and ENDS.search(function) and type_.endswith("**"):
            yield f"{name} NULL", one(0, "NULL") + ";" if result == "void" else f"(void)!{one(0, 'NULL')};"
            yield f"*{name} NULL", (f"{one(0, f'({type_})(void *)hole')};" if result == "void" else f"(void)!{one(0, f'({type_})(void *)hole')};")
            continue
        for label, value in wrong(headers, function, name, type_):
            code = outcome(headers, function, result, one(index, value))
            if graph and type_ != "weft_graph *" and result in ("void", "weft_value") and function not in UNTOUCHED:
                code += " graph_failed();"
            yield f"{name} {label}", code
        struct = type_.removeprefix("const ").rstrip("* ")
        if struct in headers.structs and function in FIELDS.get(struct, ()):
            for field, label, value in wrong_fields(headers, struct):
                yield (f"{name}->{field} {label}",
                       f"{{ static {struct} c; c = right_{struct}; c.{field} = {value}; {outcome(headers, function, result, one(index, '&c'))} }}")
            for label, code in older(headers, function, struct, one(index, "c")):
                yield f"{name} {label}", code


def older(headers, function, struct, call):
    """C statements that call a function with a struct as each older version may have had it, from its first field on."""
    if next(iter(headers.structs[struct])) != "struct_size" or "room" in headers.structs[struct]:
        return
    ends = ", ".join(f"(offsetof({struct}, {f}) + sizeof(right_{struct}.{f}) + 7) / 8 * 8" for f in headers.structs[struct])
    yield ("of older programs", f"static const size_t ends[] = {{{ends}, sizeof({struct})}}; "
           "for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) "
           f"{{ {struct} *c = older(&right_{struct}, ends[i]); aged(i, ends[i] == sizeof({struct}), {call}); {MADE.get(function, '')} }}")


def main():
    headers = Headers(sys.argv[1])
    with open(sys.argv[2], "w") as out:
        out.write('#include "fixture.h"\n\n')
        names, count = [], 0
        for result, function, parameters in headers.functions:
            if function in SKIPPED:
                continue
            names.append(function)
            out.write(f"static void call_{function}(void)\n{{\n")
            for label, code in calls(headers, result, function, parameters):
                count += 1
                label = label.replace('"', '\\"')
                out.write(f'    CALL("{function}: {label}") {{ {code} }}\n')
            out.write("}\n\n")
        out.write("void all_calls(void)\n{\n" + "".join(f"    call_{n}();\n" for n in names) + "}\n\n")
        # After a failure of a graph every function that takes it gets values that it has and has not.
        out.write("void calls_on_failed_graph(weft_value v)\n{\n")
        for result, function, parameters in headers.functions:
            if function in SKIPPED or not parameters or not parameters[0][0].endswith("weft_graph *"):
                continue
            arguments = ["failed_graph" if i == 0 else "v" if t == "weft_value" else "(int)v" if n == "node" else right(headers, function, n, t)
                         for i, (t, n) in enumerate(parameters)]
            call = f"{function}({', '.join(arguments)})"
            code = {"weft_status": f"refused({call});", "weft_value": f"neutral({call} == WEFT_NO_VALUE);", "void": call + ";"}
            if function in UNTOUCHED or result not in code:
                body = call + ";" if result == "void" else f"(void)!{call};" if result == "weft_status" else f"(void){call};"
                body += " weft_free(hole[0]);" if any(t == "char **" for t, _ in parameters) else ""
            else:
                body = code[result]
            out.write(f'    CALL("{function} of a failed graph") {{ {body} }}\n')
        out.write("}\n")
    print(f"{count} wrong calls of {len(names)} functions")


main()
