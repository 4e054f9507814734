"""Pieces of texts from an independent implementation: the package tokenizers of Hugging Face.

    python tests/golden/pieces.py OUT [SEED [COUNT]]

writes a line of JSON for each of some pre-tokenizers and texts to OUT: the pre-tokenizer as in a tokenizer.json, the
text, and its pieces in hexadecimal, or null where the package refuses the pre-tokenizer. Pre-tokenizers are those of
published models, and COUNT (default 150) drawn from the syntax of Oniguruma.
"""
import json
import random
import sys

from tokenizers import Tokenizer

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CL100K_POSSESSIVE = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
         r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


PUBLISHED = [byte_level(regex=True), byte_level(True, True), sequence(split(CL100K), byte_level()),
             sequence(split(CL100K, "Removed", True), byte_level()), sequence(split(CL100K_POSSESSIVE), byte_level()),
             sequence(split(O200K), byte_level()), sequence(split(BLOOM), byte_level()),
             sequence(split(r"\p{N}{1,3}"), split(r"[一-龥぀-ゟ゠-ヿ]+"), split(GPT2), byte_level()),
             sequence({"type": "Digits", "individual_digits": True}, byte_level(regex=True)),
             sequence({"type": "Punctuation", "behavior": "Contiguous"}, byte_level(regex=True),
                      {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]")),
             sequence(sequence(), sequence(split(r"\p{N}")), sequence(byte_level(True, True)))]

TEXTS = ["", " ", "a", "Hello, world's 12345 tests!\n\n  Isn't it?", "naïve café ½ ²³ 日本語のテスト。 ，、", "a\r\nb\tc\v\f\x85d\u2028e",
         "  two  spaces   three\n", "don't DON'T ’s 'S 'll", "٠١٢ Ⅷ ①", "🙂👍🏽 x\u200dy e\u0301a", "_snake_case camelCase a-b a_1",
         "x\0y", "ſſ K Å ß ẞ", "]]>b][ {2} (c) ~`^$+=<>|", "абв ΑΒΓ αβγ अआ।۔،", "\ufeffbom \u00a0nbsp\u3000wide \u180e\u200b"]
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
ATOMS = [r"\w", r"\W", r"\s", r"\S", r"\d", r"\D", r"\h", r"\H", ".", r"\p{L}", r"\p{N}", r"\p{Lu}", r"\P{L}", r"\p{^N}", r"\p{Han}", r"\p{M}",
         "a", "b", "e", " ", "'", r"\n", r"\r", r"\t", r"\v", r"\f", "[a-c]", "[^a-c]", "[a[b]]", "[a-c[0-9]]", "[a-z&&[^c]]", "[[:alnum:]]",
         "[[:word:]]", "[[:punct:]]", "[[:space:]]", "[^[:alpha:]]", r"[\w&&\D]", r"[\s\S]", r"[\]a]", "(?m:.)", "(?i:AB)", "(?i:ß)", "(?i:k)", r"\x{e9}", r"\X",
         "[一-龥]", r"[^\r\n\p{L}\p{N}]", r"[\d\-x]", r"\O", r"\N"]
ANCHORS = [r"\b", r"\B", "^", "$", r"\A", r"\z", r"\Z", r"\G", "(?=a)", "(?!a)", "(?<=a)", "(?<! )"]  # a repeated one is refused
REPEATS = ["", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,3}", "{,3}", "{2,}", "{1,2}+", "{2}+", "{1,3}?", "{,2}+"]


def pattern(draw, depth=2):
    parts = []
    for _ in range(draw.randint(1, 3)):
        if draw.random() < 0.1:
            parts.append(draw.choice(ANCHORS))
            continue
        atom = draw.choice(ATOMS)
        if depth and draw.random() < 0.2:
            atom = draw.choice(["(?:", "(", "(?>", "(?i:", "(?m:", "(?x:", "(?=", "(?<n>"]) + pattern(draw, depth - 1) + ")"
        parts.append(atom + draw.choice(REPEATS))
    text = "".join(parts)
    return text + "|" + pattern(draw, depth - 1) if depth and draw.random() < 0.3 else text


def drawn(draw):
    cuts = [split(pattern(draw), draw.choice(BEHAVIORS), draw.random() < 0.3) for _ in range(draw.choice([1, 1, 1, 2]))]
    if draw.random() < 0.15:
        cuts.append(draw.choice([{"type": "Digits", "individual_digits": draw.random() < 0.5}, {"type": "Punctuation", "behavior": draw.choice(BEHAVIORS)},
                                 split(draw.choice(["a", ".", "e'", "[", " "]), draw.choice(BEHAVIORS), draw.random() < 0.3, "String")]))
    cuts.insert(draw.randint(0, len(cuts)) if draw.random() < 0.3 else len(cuts), byte_level(draw.random() < 0.2, draw.random() < 0.3))
    return sequence(*cuts)


def text(draw):
    if draw.random() < 0.4:
        return draw.choice(TEXTS)
    return "".join(draw.choice(draw.choice(TEXTS) or "a") for _ in range(draw.randint(1, 30)))


CHARACTERS = [*range(33, 127), *range(161, 173), *range(174, 256)]
BYTE_OF = {chr(b): b for b in CHARACTERS}
BYTE_OF.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in CHARACTERS)})


def pieces(pre_tokenizer, sample):
    """None: refused, or the pattern needs too many steps for the text."""
    whole = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": None,
             "model": {"type": "BPE", "vocab": {}, "merges": []}}
    try:
        found = Tokenizer.from_str(json.dumps(whole)).pre_tokenizer.pre_tokenize_str(sample)
    except BaseException as error:  # the limit of steps is a panic
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return None
    return [bytes(BYTE_OF[c] for c in piece).hex() for piece, _ in found]


def main():
    draw = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 150
    with open(sys.argv[1], "w") as out:
        for pre_tokenizer, sample in [(p, t) for p in PUBLISHED for t in TEXTS] + [(drawn(draw), text(draw)) for _ in range(count)]:
            line = {"pre_tokenizer": pre_tokenizer, "text": sample, "pieces": pieces(pre_tokenizer, sample)}
            print(json.dumps(line, separators=(",", ":")), file=out)


main()
