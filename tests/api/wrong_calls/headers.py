"""Reads the public headers: functions, enums, structs and types of callbacks."""
import glob
import re


def split(text):
    """The parts between commas that are in no parentheses."""
    parts, depth, part = [], 0, ""
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    return [" ".join(p.split()) for p in [*parts, part]]


def declared(text):
    """The type and the name of a parameter or field."""
    callback = re.fullmatch(r"(.*)\(\*(\w+)\)(\(.*\))", text)
    if callback:
        return f"{callback[1].strip()} (*){callback[3]}", callback[2]
    array = re.fullmatch(r"(.*?[ *])(\w+)((?:\[[^\]]*\])*)", text)
    return (array[1].strip() + (" []" if array[3] else ""), array[2]) if array else (text, "")


class Headers:
    def __init__(self, folder):
        self.functions, self.structs = [], {}
        text = ""
        for path in sorted(glob.glob(folder + "/weft/*.h")):
            with open(path) as file:
                text += file.read()
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        self.renamed = dict((m[2], m[1]) for m in re.finditer(r"^#define (weft_\w+)\(\w+\)\s*\\?\s*(weft_\w+)\(", text, re.M))
        text = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
        self.enums = set(re.findall(r"typedef enum (\w+) \{", text))
        self.callbacks = set(re.findall(r"typedef \w+ \(\*(\w+)\)", text)) | set(re.findall(r"typedef void (weft_\w+)\(", text))
        for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\n\} \w+;", text, re.S):
            self.structs[name] = dict(self.fields(body))
        for match in re.finditer(r"WEFT_API\s+([^;]*?);", text):
            line = re.sub(r"__attribute__.*", "", " ".join(match[1].split()).replace("WEFT_NODISCARD ", ""))
            parts = re.fullmatch(r"(.*?[ *])(weft_\w+)\((.*)\)\s*", line)
            parameters = [] if parts[3] == "void" else [declared(p) for p in split(parts[3]) if p != "..."]
            self.functions.append((parts[1].strip(), parts[2], parameters))

    def fields(self, body):
        for statement in body.split(";"):
            statement = " ".join(statement.split())
            if not statement:
                continue
            first, *more = split(statement)
            type_, name = declared(first)
            if not name:
                continue
            yield name, self.normal(type_)
            base = type_.rstrip("* ").removesuffix(" []")
            for other in more:
                stars = other.count("*")
                name = re.sub(r"\[.*", "", other.lstrip("* "))
                yield name, self.normal(base + (" " + "*" * stars if stars else "") + (" []" if "[" in other else ""))

    @staticmethod
    def normal(type_):
        return re.sub(r" ?(\*+)$", r" \1", type_)
