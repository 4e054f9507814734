#!/usr/bin/env python3
"""What one command of weft learns of a table, beside scikit-learn with the same rows, columns, layers, batches and epochs.

usage: tables.py WEFT [NAME...]

passengers, incomes and houses are drawn by tests/data/make_table.py, with texts, gaps and dates; the others are those of the package
scikit-learn. Each is divided SEEDS times into parts to train on and to be judged by; a row has the mean over these of the accuracy,
or of R2 (houses, diabetes), in points, of `weft train --model mlp`, of scikit-learn's MLP, and of HistGradientBoosting. The columns of
scikit-learn are imputed by the median with indicators, one-hot and standardised; gradient boosting gets gaps as they are. Exit code
1: weft is more than POINTS below the MLP. NAME: these tables alone. SEEDS: 5; POINTS: 1.
"""
import csv
import datetime
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and scikit-learn read it
import numpy
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

WEFT = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
SEEDS, POINTS = int(os.environ.get("SEEDS", "5")), float(os.environ.get("POINTS", "1"))
HIDDEN, BATCH = (256, 128), 32
GAPS = ("", "?", "NA")

# name: (what is predicted, whether it is numbers, columns of texts, of dates and those left out, keys of weft, epochs)
DRAWN = {"passengers": ("saved", False, ["sex", "port"], [], ["id", "name", "cabin"], "id=id,drop=name+cabin,missing=median+flag", 20),
         "incomes": ("income", False, ["workclass", "education", "occupation", "relationship", "country"], [], [], "missing=median+flag", 5),
         "houses": ("price", True, ["district", "heating", "garden"], ["sold"], [], "dates=sold,missing=median+flag", 30)}
PACKAGED = {"iris": (datasets.load_iris, 40), "wine": (datasets.load_wine, 20), "breast_cancer": (datasets.load_breast_cancer, 20),
            "digits": (datasets.load_digits, 20), "diabetes": (datasets.load_diabetes, 10)}


def drawn(name):
    text = subprocess.run([sys.executable, f"{HERE}/../tests/data/make_table.py", name], capture_output=True, text=True, check=True).stdout
    return list(csv.reader(io.StringIO(text), delimiter=";" if ";" in text.split("\n")[0] else ","))


def packaged(load):
    table = load()
    columns = [f"x{j}" for j in range(table.data.shape[1])]
    return [columns + ["y"]] + [[repr(float(x)) for x in row] + [str(y)] for row, y in zip(table.data, table.target)]


def number(text):
    return float("nan") if text in GAPS else float(text.replace(",", "."))


def features(rows, header, texts, dates, gone):
    """Columns of numbers, then those of texts, for scikit-learn."""
    at = {name: j for j, name in enumerate(header)}
    plain = [name for name in header if name not in texts + dates + gone]
    numbers = [[number(row[at[name]]) for name in plain] + [datetime.date.fromisoformat(row[at[name]]).toordinal() for name in dates] for row in rows]
    words = [["missing" if row[at[name]] in GAPS else row[at[name]] for name in texts] for row in rows]
    return numpy.array([a + b for a, b in zip(numbers, words)], dtype=object), len(plain) + len(dates)


def of_weft(parts, answer, measured, keys, epochs, seed):
    for name, rows in parts.items():
        with open(f"{name}.csv", "w", newline="") as file:
            csv.writer(file, delimiter=";").writerows(rows)
    spec = f"csv:train.csv,test=test.csv,{'target' if measured else 'label'}={answer}{',' if keys else ''}{keys}"
    command = [WEFT, "train", "--model", f"mlp:hidden={'x'.join(map(str, HIDDEN))}", "--data", spec, "--batch", str(BATCH), "--epochs", str(epochs),
               "--seed", str(seed), "-t", "1", "-q", "--checkpoint", "run"]
    subprocess.run(["rm", "-rf", "run"], check=True)
    subprocess.run(command, check=True)
    told = json.loads(subprocess.run([WEFT, "eval", "run", "-t", "1", "--json"], capture_output=True, text=True, check=True).stdout)
    return told["r2" if measured else "accuracy"]


def of_scikit(parts, answer, measured, texts, dates, gone, epochs, seed):
    header = parts["train"][0]
    y = {name: [number(row[header.index(answer)]) if measured else row[header.index(answer)] for row in rows[1:]] for name, rows in parts.items()}
    x = {}
    for name, rows in parts.items():
        x[name], count = features(rows[1:], header, texts, dates, gone + [answer])
    some, words = slice(0, count), slice(count, None)
    of_words = lambda encoder: [(encoder, words)] if texts else []
    seen = make_column_transformer((make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), some),
                                   *of_words(OneHotEncoder(handle_unknown="ignore", sparse_output=False)))
    net = (MLPRegressor if measured else MLPClassifier)(hidden_layer_sizes=HIDDEN, batch_size=BATCH, max_iter=epochs, alpha=0, random_state=seed)
    trees = (HistGradientBoostingRegressor if measured else HistGradientBoostingClassifier)(random_state=seed)
    as_it_is = make_column_transformer(("passthrough", some), *of_words(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)))
    mean, deviation = (numpy.mean(y["train"]), numpy.std(y["train"])) if measured else (0, 1)
    scaled = {name: [(value - mean) / deviation for value in values] if measured else values for name, values in y.items()}
    return [make_pipeline(columns, model).fit(x["train"], scaled["train"]).score(x["test"], scaled["test"])
            for columns, model in ((seen, net), (as_it_is, trees))]


def compare(name):
    if name in DRAWN:
        header, *rows = drawn(name)
        answer, measured, texts, dates, gone, keys, epochs = DRAWN[name]
    else:
        load, epochs = PACKAGED[name]
        header, *rows = packaged(load)
        answer, measured, texts, dates, gone, keys = "y", name == "diabetes", [], [], [], ""
    figures = []
    for seed in range(1, SEEDS + 1):
        random.Random(seed).shuffle(rows)
        held = len(rows) // 4
        parts = {"train": [header] + rows[held:], "test": [header] + rows[:held]}
        figures.append([of_weft(parts, answer, measured, keys, epochs, seed), *of_scikit(parts, answer, measured, texts, dates, gone, epochs, seed)])
    means = [100 * statistics.mean(column) for column in zip(*figures)]
    print(f"| `{name}`, {'R2' if measured else 'accuracy'}, {epochs} epochs | {len(rows):,} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |", flush=True)
    return means[0] >= means[1] - POINTS


def main():
    warnings.filterwarnings("ignore")
    print("| table | rows | Weft `mlp` | scikit-learn MLP | `HistGradientBoosting` |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        below = [name for name in sys.argv[2:] or [*DRAWN, *PACKAGED] if not compare(name)]
        os.chdir("/")
    print(f"more than {POINTS:g} below scikit-learn's MLP: {', '.join(below)}" if below else f"none is more than {POINTS:g} below scikit-learn's MLP")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
