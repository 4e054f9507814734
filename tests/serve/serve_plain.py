#!/usr/bin/env python3
"""What people see of the server: tests/serve/serve_plain.py PATH/TO/weft

Pictures and tables as bodies with plain answers, and the status page.
"""
import base64
import json
import math
import os
import random
import re
import struct
import sys
import threading
import time
import xml.etree.ElementTree

from serve_harness import INFER, SIDE, SIZE, Client, Page, Server, check, main, one, run, wait_until, write_npy
from png import png

# 16 x 16 pixels of grey 128.
JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMUFRUVDA8XGBYUGBIUFRT/wAALCAAQAB"
    "ABAREA/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkK"
    "FhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1N"
    "XW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/9oACAEBAAA/ACiiiv/Z")


def best(s, row, model="m"):
    data = s.told(f"/v2/models/{model}/infer", json.dumps(one(row, [1, len(row)])))[1]["outputs"][0]["data"]
    return [(str(c), p) for c, p in sorted(enumerate(data), key=lambda at: -at[1])]


def pictures(s, row):
    path = "/v2/models/m/predict"
    picture = png(SIDE, SIDE, row)
    right = best(s, row)
    for headers in ({"Content-Type": "image/png"}, {}, {"Content-Type": "application/x-www-form-urlencoded", "Accept": "*/*"}, {"Content-Type": "application/octet-stream"}):
        code, told = s.told(path, picture, headers=headers)
        first = told["predictions"][0] if code == 200 else {}
        check(f"a picture, {headers}", (first.get("class"), first.get("probability")) == right[0] and first["others"][0]["class"] == right[1][0], told)
    check("with a version", s.told("/v2/models/m/versions/1/predict", picture)[0] == 200)
    code, text, headers = s.ask(path, picture, headers={"Accept": "text/plain"})
    check("as text", text.decode() == f"{right[0][0]}\t{right[0][1]}\n" and headers.get("Content-Type").startswith("text/plain"), text)
    code, text, headers = s.ask(path, picture, headers={"Accept": "text/csv, application/json"})
    check("as a table", text.decode() == f"class,probability\n{right[0][0]},{right[0][1]}\n" and headers.get("Content-Type").startswith("text/csv"), text)
    # Three times as large on each side, and in colour: what comes is what comes of the grey one.
    flat = best(s, [128] * SIZE)[0]
    for body in (JPEG, png(33, 33, [128] * 33 * 33), png(5, 40, [128] * 600, 2), png(1000, 1000, [128] * 1000000)):
        code, told = s.told(path, body)
        first = told["predictions"][0] if code == 200 else {}
        check("another size", (first.get("class"), first.get("probability")) == flat, told)
    bomb = png(60000, 60000, [0] * 100 * 60000)
    for body, headers, words in ((b"", {}, "empty"), (bomb, {}, "60000 x 60000 pixels, and 16777216 are the most"), (picture[:-20], {}, "broken"), (JPEG[:-30], {}, "broken"),
                                 (b"GIF89a\x01\x02", {}, "PNG, JPEG or WebP"), (b"GIF89a", {"Content-Type": "image/gif"}, "neither PNG nor JPEG"), (b"{}", {"Content-Type": "application/json"}, "infer"),
                                 (b' {"inputs":[]}', {}, "infer"), (picture, {"Content-Type": "multipart/form-data; boundary=x"}, "-F"), (b"x", {"Content-Type": "video/mp4"}, "video/mp4"),
                                 (b"\0\1\2", {}, "PNG, JPEG or WebP"), (b"1,2,3\n", {}, "columns"), (",".join(["1"] * SIZE).encode() + b"\na" + b",1" * (SIZE - 1), {}, "the body:2"),
                                 (("1," * (SIZE - 1) + "1\n").encode() * 4097, {"Content-Type": "text/csv"}, "more than 4096 rows")):
        code, told = s.told(path, body, headers=headers)
        check(f"refuses {body[:20]} {headers} with '{words}'", code == 400 and words in told["error"], (code, told))
    check("only POST", s.told(path)[0] == 405)
    code, told = s.told(path, (",".join(map(str, row)) + "\n").encode() * 2)
    check("pictures as rows", [p["class"] for p in told["predictions"]] == [right[0][0]] * 2, told)


def write_folder():
    """A folder of pictures that are longer than high, and higher than long."""
    for c, name in enumerate(("a", "b")):
        os.makedirs(f"pictures/{name}")
        for i in range(12):
            width, height = ((40, 12), (9, 21))[i % 2]
            with open(f"pictures/{name}/{i:02d}.png", "wb") as f:
                f.write(png(width, height, [(x * (3 + c) + y * (5 - 2 * c) + 9 * i) % 256 for y in range(height) for x in range(width)]))


def folder_pictures(s):
    """A picture is cut as those of the training were, so that answers are those of weft predict."""
    told = run("predict", "i", "--data", "images:pictures/b", "--json").stdout
    for line in told.splitlines():
        want = json.loads(line)
        with open("pictures/b/" + want["id"], "rb") as f:
            code, got = s.told("/v2/models/i/predict", f.read())
        first = got["predictions"][0] if code == 200 else {}
        check(f"a picture of a folder, {want['id']}", first.get("class") == want["predicted"] and
              abs(first["probability"] - want["probabilities"][want["predicted"]]) < 1e-5, (want, got))


def crowd(s):
    """Large pictures all at once: a few are read at a time, the others wait, and what is small goes on."""
    body, codes = png(1000, 1000, bytes(1000000)), []

    def send():
        with Client(s.port, timeout=300) as c:
            codes.append(c.code("/v2/models/m/predict", body))
    threads = [threading.Thread(target=send) for _ in range(16)]
    for t in threads:
        t.start()
    for _ in range(20):
        check("small ones meanwhile", s.ask("/v2/health/live")[0] == 200)
    for t in threads:
        t.join()
    check("large ones are answered", codes == [200] * 16, codes)


def leavers(s):
    """Large pictures whose clients leave are given up, unless they are being read by then."""
    def counts():
        text = s.ask("/metrics")[1].decode()
        return [int(re.search(name + r"} (\d+)", text).group(1)) for name in ('request_success{model="m",version="1"', 'model="m",version="1",reason="CANCELED"')]
    body, before = png(3000, 2000, bytes(6000000)), counts()
    gone = [Client(s.port) for _ in range(16)]
    for c in gone:
        c.connection.request("POST", "/v2/models/m/predict", body)
    for c in gone:
        c.close()
    wait_until(lambda: sum(counts()) - sum(before) == 16, 300)
    found = [a - b for a, b in zip(counts(), before)]
    check("who leaves is given up", sum(found) == 16 and found[1] > 0, found)


def not_utf8(s):
    """What a refusal repeats of a request is UTF-8, whatever the request has."""
    for body, kind in ((b"1,2", b"\xff\xfe"), (b"1,\xff", b"text/csv"), (b"1," + "\u20ac".encode() * 40, b"text/csv"), (b"a\xc3,b\n1,2", b"text/csv"), (b"x", b"image/\xe4")):
        code, text, _ = s.ask("/v2/models/t/predict", body, headers={"Content-Type": kind})
        try:
            check("a refusal in UTF-8", code == 400 and len(json.loads(text.decode("utf-8"))["error"]) > 10, text)
        except ValueError as e:
            check("a refusal in UTF-8", False, (e, text))
    for coding, right in (("br", 415), ("identity", 200)):
        code, told = s.told("/v2/models/t/predict", b"1,2", headers={"Content-Encoding": coding})
        check(f"Content-Encoding: {coding}", code == right and (right == 200 or "Content-Encoding" in told["error"]), told)


def fractions(s):
    """Training saw numbers from 0 to 1, so that is what a picture becomes."""
    pixels = [(37 * i) % 256 for i in range(64)]
    right = s.told("/v2/models/f/infer", json.dumps(one([v / 255 for v in pixels], [1, 64])))[1]["outputs"][0]["data"]
    code, told = s.told("/v2/models/f/predict", png(8, 8, pixels))
    check("a picture of fractions", code == 200 and abs(told["predictions"][0]["probability"] - max(right)) < 1e-6, (told, right))


def whole_pixels(s, row):
    """Training saw pixels from 0 to 255, as bytes or as floats, and did not normalise them."""
    for model, numbers in (("n", row), ("g", row[:64])):
        side = int(len(numbers) ** 0.5)
        right = s.told(f"/v2/models/{model}/infer", json.dumps(one(numbers, [1, len(numbers)])))[1]["outputs"][0]["data"]
        code, told = s.told(f"/v2/models/{model}/predict", png(side, side, numbers))
        check(f"a picture of whole pixels, {model}", code == 200 and abs(told["predictions"][0]["probability"] - max(right)) < 1e-6, (told, right))


def not_finite(s):
    """A number that is not finite is refused; a row whose prediction is not finite makes its request an error that names the row; others
    are answered."""
    path = "/v2/models/e/infer"
    before = s.told("/v2/models/e/stats")[1]["model_stats"][0]["inference_stats"]
    for rows, bad, right in (([math.nan], 1, 400), ([1700000003, math.inf, 1700000500], 2, 400), ([9e40], 1, 500), ([1700000003, 9e40], 2, 500)):
        data = struct.pack(f"<{len(rows)}d", *rows)
        for parameters in {}, {"binary_data_output": True}:
            head = json.dumps({"parameters": parameters, "inputs": [{"name": "x", "shape": [len(rows), 1], "datatype": "FP64", "parameters": {"binary_data_size": len(data)}}]}).encode()
            code, told = s.told(path, head + data, headers={"Inference-Header-Content-Length": str(len(head))})
            said = f"output 'prediction' of row {bad} is not finite" if right == 500 else f"number 1 of row {bad} is {rows[bad - 1]}, and not a finite"
            check(f"{rows[bad - 1]} in row {bad}", code == right and said in told["error"], (code, told))
            check("a request behind it", s.told(path, json.dumps(one([1700000003], [1, 1], "FP64")))[0] == 200)

    def counted():
        inference = s.told("/v2/models/e/stats")[1]["model_stats"][0]["inference_stats"]
        return tuple(inference[k]["count"] - before[k]["count"] for k in ("success", "fail"))
    wait_until(lambda: sum(counted()) == 12)  # the statistics count a request just behind its answer
    check("it is counted as a failure, what is refused is not", counted() == (8, 4), counted())


def precise_tables(s):
    """Columns far from zero lose no digits before they are normalised: answers are those of weft predict."""
    path, numbers = "/v2/models/e", [1700000000 + k for k in (3, 500, 777)]
    check("the datatype that holds them", s.told(path)[1]["inputs"][0]["datatype"] == "FP64" and s.told(path + "/config")[1]["input"][0]["data_type"] == "TYPE_FP64")
    for t in numbers:
        with open("e1.csv", "w") as f:
            f.write(f"t\n{t}\n")
        said = json.loads(run("predict", "--checkpoint", "e", "--data", "csv:e1.csv", "--json").stdout)["predicted"][0]
        forms = {datatype: json.dumps(one([t], [1, 1], datatype)).encode() for datatype in ("FP64", "INT64", "INT32", "UINT32", "UINT64")}
        for datatype, form in (("FP64", "<d"), ("INT64", "<q"), ("UINT64", "<Q"), ("INT32", "<i"), ("UINT32", "<I")):
            data = struct.pack(form, t)
            forms[f"{datatype}, binary"] = json.dumps({"inputs": [{"name": "x", "shape": [1, 1], "datatype": datatype, "parameters": {"binary_data_size": len(data)}}]}).encode(), data
        for form, body in forms.items():
            headers = {}
            if isinstance(body, tuple):
                headers, body = {"Inference-Header-Content-Length": str(len(body[0]))}, body[0] + body[1]
            code, told = s.told(path + "/infer", body, headers=headers)
            check(f"{t} as {form}", code == 200 and told["outputs"][0]["data"] == [said], (told, said))
        code, told = s.told(path + "/predict", f"{t}\n".encode(), headers={"Content-Type": "text/csv"})
        check(f"{t} as CSV", code == 200 and told["predictions"][0]["value"] == said, (told, said))


def tables(s, samples):
    path = "/v2/models/t/predict"

    def infer(a, b):
        return s.told("/v2/models/t/infer", json.dumps(one([a, b], [1, 2])))[1]["outputs"][0]["data"]
    rows = samples[:4]
    right = [infer(a, b) for a, b, _ in rows]
    names = ["no", "yes, sir"]
    bare = "".join(f"{a},{b}\n" for a, b, _ in rows)
    forms = {"bare": bare, "named": "a,b\n" + bare, "the other way round": "b,a\n" + "".join(f"{b},{a}\n" for a, b, _ in rows), "quoted": "".join(f'"{a}" , {b}\r\n' for a, b, _ in rows).replace(' ,', ','),
             "with labels": "a,b,y\n" + "".join(f'{a},{b},"{y}"\n' for a, b, y in rows), "with labels but no names": "".join(f'{a},{b},"{y}"\n' for a, b, y in rows)}
    for how, text in forms.items():
        code, told = s.told(path, text.encode(), headers={"Content-Type": "text/csv"})
        got = [(p["class"], p["probability"]) for p in told["predictions"]] if code == 200 else None
        # Rows are computed in one batch here and alone there, for which kernels of some processors add in another order.
        check(f"a table, {how}", got and all(name == names[p.index(max(p))] and abs(value - max(p)) < 1e-6
                                             for (name, value), p in zip(got, right, strict=True)), (told, right))
    code, text, _ = s.ask(path, bare.encode(), headers={"Accept": "text/csv"})
    check("names with commas are quoted", ("\"yes, sir\"," in text.decode() or all(p[0] > p[1] for p in right)) and text.decode().count("\n") == 5, text)
    code, told = s.told(path, b"a,b1,22,3", headers={"Content-Type": "application/x-www-form-urlencoded"})
    check("what curl -d does is told", code == 400 and "--data-binary" in told["error"], told)
    code, told = s.told("/v2/models/r/predict", b"1.5,2\n-3,4\n")
    numbers = [s.told("/v2/models/r/infer", json.dumps(one(v, [1, 2])))[1]["outputs"][0] for v in ([1.5, 2], [-3, 4])]
    check("numbers", code == 200 and all(abs(p["value"] - n["data"][0]) < 1e-5 * abs(p["value"]) for p, n in zip(told["predictions"], numbers, strict=True)) and numbers[0]["datatype"] == "FP64", told)
    body = json.dumps(one([1.5, 2], [1, 2], parameters={"binary_data_output": True}))
    _, text, headers = s.ask("/v2/models/r/infer", body)
    check("and are those that are sent as bytes", struct.pack("<d", numbers[0]["data"][0]) == text[int(headers.get("Inference-Header-Content-Length")):], numbers)
    check("their header", s.ask("/v2/models/r/predict", b"1,2", headers={"Accept": "text/csv"})[1].decode().startswith("y\n"))
    check("no picture goes in", "no pictures" in s.told("/v2/models/r/predict", png(2, 2, [0] * 4))[1]["error"])


def endless_tables(s):
    """Tables that would take minutes to read are refused at once, and others are answered meanwhile."""
    path, headers = "/v2/models/t/predict", {"Content-Type": "text/csv"}
    labels = "".join(f"1,2,class {k}\n" for k in range(9999))  # what is looked for among so many others takes long
    names = ",".join(f"name {k}" for k in range(200000))
    bodies = {"rows": (labels * (60000000 // len(labels)), "more than 4096 rows"), "columns": (names * 20, "columns"), "a name": (names + "\n1\n", "columns"),
              "commas": ("," * 50000000, "columns"), "a label": ("1,2," + "x" * 50000000, None), "empty lines": ("\n" * 50000000 + "1,2\n", None)}
    for what, (text, words) in bodies.items():
        c = Client(s.port, timeout=120)
        try:
            c.connection.request("POST", path, text, headers)
            check(f"health beside endless {what}", s.ask("/v2/health/live")[0] == 200)
            reply = c.connection.getresponse()
            told = reply.read().decode()
            check(f"endless {what}", (reply.status, words in told) == (400, True) if words else reply.status == 200, told[:300])
        except OSError as e:
            check(f"endless {what}", False, repr(e))
        c.close()
    for label in ("", "\x80", "x" * 300):
        code, told = s.told(path, f"a,b,y\n1,2,{label}\n".encode("latin-1"), headers=headers)
        check(f"the label {label[:5]!r} is ignored", code == 200, told)
    check("and what is no number as target", s.told("/v2/models/r/predict", b"a,b,y\n1,2,unknown\n", headers=headers)[0] == 200)


def large_questions(s, row):
    """Large bodies of the protocol wait for their turn as well; the answers are those of small ones."""
    right = s.told("/v2/models/m/infer", json.dumps(one(row)))[1]["outputs"][0]["data"]
    body, found = json.dumps(one(row, own=[1] * 1000000)), []

    def send():
        with Client(s.port) as c:
            found.append(c.told(INFER, body)[1].get("outputs", [{}])[0].get("data"))
    threads = [threading.Thread(target=send) for _ in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check("large questions", len(found) == 12 and all(f and all(abs(x - y) < 2e-6 for x, y in zip(f, right, strict=True)) for f in found), found)
    code, told = s.told("/v2/models/m/infer", body[:-1])
    check("a large body that is wrong", code == 400 and "ends after" in told["error"], told)
    code, told = s.told("/v2/repository/index", " " * 100000)
    check("the repository takes no large body", code == 413 and "65536" in told["error"], told)
    s.close()


def deadlines(s):
    """A deadline and a priority of a picture; reading a large one takes longer than a microsecond."""
    path, large = "/v2/models/m/predict", png(700, 700, [7] * 490000)
    for query, wanted, words in (("timeout=1", 503, "its deadline"), ("timeout=1000000000&priority=1", 200, ""), ("timeout=0", 200, ""),
                                 ("timeout=soon", 400, "timeout=soon must be"), ("timeout=-1", 400, "of microseconds"), ("priority=1.5", 400, "priority=1.5"),
                                 ("timeout=", 400, "timeout= must"), ("other=x", 200, "")):
        code, text, _ = s.ask(f"{path}?{query}", large)
        check(f"predict?{query}", code == wanted and words in text.decode(), (code, text))


def page(s, row):
    for _ in range(20):
        s.ask("/v2/models/m/infer", json.dumps(one(row)))
    time.sleep(1)
    text = s.ask("/")[1].decode()
    check("figures of the time before the page was opened", "</b> requests a second" in text and "<b>0</b> requests a second" not in text, Page(text).words[-900:])
    for k in range(3):
        for _ in range(20):
            s.ask("/v2/models/m/infer", json.dumps(one(row)))
        code, text, headers = s.ask("/" if k else "/status")
        time.sleep(1.5)
    p = Page(text.decode())
    check("the page", code == 200 and headers.get("Content-Type") == "text/html; charset=utf-8" and p.good, text[:300])
    check("its models", all(f">{name}</h2>" in text.decode() for name in "mtrfgnei") and "8 of 8 models ready" in p.words, p.words[-900:])
    drawings = re.findall(r"<svg.*?</svg>", text.decode())
    check("three drawings of each model", len(drawings) == 24, len(drawings))
    for d in drawings:
        points = [e for e in xml.etree.ElementTree.fromstring(d).iter()]
        numbers = [float(v) for e in points for k, v in e.attrib.items() if k in ("x", "y", "x1", "x2", "y1", "y2", "width", "height")]
        numbers += [float(v) for e in points for v in re.findall(r"-?[0-9.]+", e.attrib.get("d", ""))]
        check("a drawing within its frame", numbers and all(0 <= v <= 360 for v in numbers), d)
    check("what is drawn", "class=\"p50\" d=\"M" in drawings[0] + drawings[1] and "class=\"area\"" in drawings[0] and "rect class=\"bar\"" in drawings[2], drawings[:3])
    own = [a for _, attrs in p.tags for k, a in attrs.items() if k in ("src", "href", "action")]
    check("nothing comes from elsewhere", all(a.startswith(("/", "data:")) for a in own) and "//" not in text.decode().replace("http-equiv", ""), own)
    code, text, _ = s.ask("/", method="HEAD")
    check("HEAD of it", code == 200 and text == b"")


def write_tables():
    rng = random.Random(3)
    samples = [(rng.randrange(-50, 50) / 10, rng.randrange(-50, 50) / 10) for _ in range(300)]
    samples = [(a, b, "yes, sir" if a + b > 0 else "no") for a, b in samples]
    with open("t.csv", "w") as f:
        f.write("a,b,y\n" + "".join(f'{a},{b},"{y}"\n' for a, b, y in samples))
    with open("r.csv", "w") as f:
        f.write("a,b,y\n" + "".join(f"{a},{b},{3 * a - 2 * b}\n" for a, b, _ in samples))
    with open("e.csv", "w") as f:
        f.write("t,y\n" + "".join(f"{1700000000 + k},{k}\n" for k in range(1000)))
    return samples


def write_fractions():
    rng = random.Random(5)
    for name, draw in (("f.npy", rng.random), ("g.npy", lambda: rng.randrange(256))):
        write_npy(name, "f4", (200, 1, 8, 8), [draw() for _ in range(12800)])
    write_npy("l.npy", "u1", (200,), [i % 3 for i in range(200)])


def everything():
    samples = write_tables()
    rng = random.Random(1)
    row = [rng.randrange(256) for _ in range(SIZE)]
    run("train", "-m", "mlp", "--data", f"glyphs:size={SIDE},train=200,test=40", "-e", "1", "-c", "m", "-q", "-t", "1")
    run("train", "-m", "mlp", "--data", "csv:t.csv,label=y", "-e", "3", "-c", "t", "-q", "-t", "1")
    run("train", "-m", "mlp", "--data", "csv:r.csv,target=y", "-e", "3", "-c", "r", "-q", "-t", "1")
    write_fractions()
    run("train", "-m", "mlp", "--data", "npy:f.npy,l.npy,test=0.2", "-e", "1", "-c", "f", "-q", "-t", "1", "--batch", "20")
    run("train", "-m", "mlp", "--data", "npy:g.npy,l.npy,test=0.2", "-e", "1", "-c", "g", "-q", "-t", "1", "--batch", "20")
    run("train", "-m", "mlp", "--data", f"glyphs:size={SIDE},train=200,test=40", "--normalize", "none", "--lr", "1e-5", "-e", "1", "-c", "n", "-q", "-t", "1")
    write_folder()
    run("train", "-m", "mlp", "--data", "images:pictures,size=10x8,test=0.2", "-e", "2", "--batch", "6", "-c", "i", "-q", "-t", "1")
    run("train", "-m", "mlp", "--data", "csv:e.csv,target=y", "-e", "2", "-c", "e", "-q", "-t", "1")
    with Server(models=[f"{name}={name}" for name in "mtrfgnei"]) as server, server.client() as s:
        pictures(s, row)
        folder_pictures(s)
        crowd(s)
        leavers(s)
        not_utf8(s)
        tables(s, samples)
        endless_tables(s)
        large_questions(s, row)
        fractions(s)
        whole_pixels(s, row)
        precise_tables(s)
        not_finite(s)
        deadlines(s)
        page(s, row)


sys.exit(main(everything))
