"""Golden tokens from an independent implementation: the package tokenizers of Hugging Face.

    python tests/golden/bpe.py tests/golden TEXT

trains small byte-pair tokenizers on a text, bpe_gpt2.json (cut by GPT-2's pattern, a space before each text),
bpe_split.json (cut by two patterns, pieces that are tokens are not merged) and bpe_marks.json (cut at marks of no
characters and by words that regular expressions do not agree on), and writes tokens.txt: for each of some texts
the tokenizer, the text in hexadecimal and its tokens.
"""
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

folder, path = sys.argv[1:3]
with open(path, encoding="utf-8") as file:
    text = file.read()[:100000]
WORDS = r"(?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CUTS = {
    "gpt2": (pre_tokenizers.ByteLevel(add_prefix_space=True), False),
    "split": (pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"), pre_tokenizers.Split(Regex(WORDS), "isolated"),
                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), True),
    "marks": (pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"$|\h+|\b"), "isolated"), pre_tokenizers.Split(Regex(r"e*"), "isolated"),
                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), False),
}
draw = random.Random(3)
PARTS = [lambda: draw.choice(text.split(" ")), lambda: " " * draw.randint(1, 4), lambda: draw.choice("\n\r\t\v\f  ​᠎ "),
         lambda: str(draw.randint(0, 99999)), lambda: draw.choice(["'s", "'RE", "’s", "'x"]),
         lambda: draw.choice(["<|endoftext|>", "<|end|>", "<|endof", "é", "日本語", "😀", "á", "ſ", "½", "\0", "<|endoftext|>!", "beef"]), lambda: "aaaaaaaaaaaaaaaaaaaaa"]
with open(f"{folder}/tokens.txt", "w") as out:
    for name, (cut, whole) in CUTS.items():
        tokenizer = Tokenizer(models.BPE(ignore_merges=whole))
        tokenizer.pre_tokenizer, tokenizer.decoder = cut, decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>", "<|end|>", "<|end"], show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        tokenizer.train_from_iterator([text], trainer)
        tokenizer.add_tokens([AddedToken("<|endoftext|>!", normalized=True), AddedToken("<|", normalized=True)])
        tokenizer.save(f"{folder}/bpe_{name}.json", pretty=False)
        for size in [0] + [1 + i for i in range(40)]:
            sample = "".join(draw.choice(PARTS)() for _ in range(size))
            ids = tokenizer.encode(sample, add_special_tokens=False).ids
            print(name, sample.encode().hex() or "-", *ids, file=out)
