#!/usr/bin/env python3
"""Texts that a server generates: tests/serve/serve_generate.py PATH/TO/weft

Models of attention (with learned and with rotary positions), of recurrent layers and of both continue prompts. Whatever shares their
batches, in whatever order texts begin and end, a text is that of `weft generate` with the same seed: the models compute in float64, where
no draw depends on rounding. Streams, wrong requests, clients that leave, and the end of a server in the midst of a text.
"""
import concurrent.futures
import http.client
import itertools
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import time

from serve_harness import CERTIFICATE, KEY, Client, Server, check, main, run, wait_until, weft, write

FAST = "WEFT_FAST" in os.environ
CONTEXT = 12
MIXED = """layers:
  - {type: embedding, name: tokens, units: 8}
  - {type: attention, name: look, heads: 2, causal: true, rotary: 50}
  - {type: add, from: "tokens, look"}
  - {type: gru, units: 8}
  - {type: linear, units: outputs}
"""
# Its logits are sums over a tensor axis, which no bias adds up: each request has those of its own row.
SUMMED = """layers:
  - {type: embedding, name: tokens, units: 8}
  - {type: linear, units: 8}
  - {type: linear, units: outputs, bias: false}
"""
# Name: model, unit of its text; None: the data are numbers of tokens.
MODELS = {"gpt": ("gpt:layers=2,heads=2,width=8", "char"), "lstm": ("char-lstm:layers=2,units=9", "byte"), "mixed": ("mixed.yaml", "char"),
          "summed": ("summed.yaml", "char"),
          "numbers": ("gpt:layers=1,heads=1,width=6", None)}
TEXT = "der Weber webt, das Schiffchen fliegt; für jeden Faden ein Gewicht.\n" * 12


def train(name):
    model, unit = MODELS[name]
    data = f"text:t.txt,unit={unit},context={CONTEXT},stride=5" if unit else f"tokens:t.bin,values=9,context={CONTEXT}"
    run("train", "-q", "-m", model, "--data", data, "--dtype", "f64", "--steps", "12", "--batch", "8", "--lr", "0.02", "-o", "adam", "-c", name, "-t", "1")


def words_of(q):
    """The options of weft generate for a request."""
    words = ["-n", str(q["max_tokens"])]
    for key, option in (("temperature", "--temperature"), ("top_k", "--top-k"), ("top_p", "--top-p"), ("seed", "--seed"), ("text_input", "-p")):
        if key in q:
            words += [option, str(q[key])]
    return words


def right(name, q):
    """What weft generate writes behind the prompt."""
    out = subprocess.run([weft, "generate", "-c", name, "-t", "1", *words_of(q)], check=True, capture_output=True).stdout
    begin = q.get("text_input", "").encode()
    check(f"{name}: weft generate begins with its prompt", out.startswith(begin), out)
    begin += b" " if MODELS[name][1] is None and begin else b""  # between numbers of tokens
    return out[len(begin):-1].decode("utf-8", "replace")  # without the end of a line that it adds


def generated(reply):
    return reply.get("text_output") if isinstance(reply, dict) else None


def draw_request(rng, name):
    q = {"max_tokens": rng.choice([1, 2, 7, 15, 40]), "seed": rng.randrange(1000)}
    if rng.random() < 0.8:
        size = rng.choice([1, 2, 5, CONTEXT, CONTEXT + 1, 30])
        q["text_input"] = " ".join(str(rng.randrange(9)) for _ in range(size)) if MODELS[name][1] is None else \
            "".join(rng.choice(sorted(set(TEXT) - {"\n"})) for _ in range(size)).strip() or "W"
    for key, values in (("temperature", [0, 0.5, 1, 2]), ("top_k", [0, 1, 3]), ("top_p", [0.5, 0.9, 1])):
        if rng.random() < 0.5:
            q[key] = rng.choice(values)
    return q


def events(port, name, q):
    """The texts of a stream's events, and its content type."""
    with Client(port) as c:
        code, raw, headers = c.ask(f"/v2/models/{name}/generate_stream", json.dumps(q))
    found = [json.loads(block[6:]) for block in raw.decode().split("\n\n") if block] if code == 200 else json.loads(raw)
    return code, found, headers.get("Content-Type")


def compare(port, way, count, names):
    rng = random.Random(way)
    asked = [(name, draw_request(rng, name)) for name in names for _ in range(count)]
    rng.shuffle(asked)

    def one(case):
        name, q = case
        time.sleep(random.random() * 0.05)
        if q["seed"] % 3 == 0:
            code, parts, _ = events(port, name, q)
            return code, "".join(part["text_output"] for part in parts)
        with Client(port) as client:
            code, reply = client.told(f"/v2/models/{name}/generate", json.dumps(q if q["seed"] % 2 else {"parameters": q}))
        return code, generated(reply)
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(one, asked))
    wrong = 0
    for (name, q), (code, text) in zip(asked, answers):
        wanted = right(name, q)
        wrong += not check(f"{name}, {way}: as weft generate, {q}", code == 200 and text == wanted, (code, text, wanted))
    print(f"{way}: {len(asked)} texts of {len(names)} models, {wrong} otherwise than weft generate")


def streams(port):
    code, parts, kind = events(port, "gpt", {"text_input": "der ", "max_tokens": 6000, "seed": 4})
    check("a stream is one of events", code == 200 and kind == "text/event-stream", (code, kind))
    check("it comes in parts", len(parts) > 1 and all(part["model_name"] == "gpt" for part in parts), parts[:2])
    code, parts, _ = events(port, "lstm", {"max_tokens": 300, "temperature": 3, "seed": 5})
    text = "".join(part["text_output"] for part in parts)
    check("bytes that are no characters are replaced", code == 200 and len(text) > 100, (code, text))
    check("of them a stream and a whole text have the same", text == right("lstm", {"max_tokens": 300, "temperature": 3, "seed": 5}), text)
    code, parts, _ = events(port, "gpt", {"text_input": "", "max_tokens": 3})
    check("a refused stream has a code", code == 400 and "empty" in parts["error"], (code, parts))


def refusals(port):
    client = Client(port)
    for body, code, words in (
            ({"text_input": ""}, 400, "the prompt is empty"), ({"text_input": "\u4e00"}, 400, "the prompt"), ({"max_tokens": 0}, 400, "max_tokens"),
            ({"max_tokens": 2000000}, 400, "must be from 1 to"), ({"temperature": -1}, 400, "temperature"), ({"top_p": 0}, 400, "top_p"),
            ({"top_k": 1.5}, 400, "top_k"), ({"text_input": 3}, 400, "text_input"), ({"parameters": {"parameters": {}}}, 400, "do not nest"),
            ({"text_input": "d", "parameters": {"text_input": "d"}}, 400, "text_input is in the body"), ({"text_input": "a\u0000b"}, 400, "u0000"),
            ({"seed": 2 ** 63}, 400, "2^63 - 1 is the most"), ({"id": 5}, 400, "id must be a string"),
            ({"seed": 1, "parameters": {"seed": 2}}, 400, "seed is in the body and in its parameters"), ([1], 400, "object"), ({"temperature": "warm"}, 400, "temperature")):
        got, reply = client.told("/v2/models/gpt/generate", json.dumps(body))
        check(f"{body} is refused", got == code and words in reply["error"], (got, reply))
    got, reply = client.told("/v2/models/gpt/generate", "{")
    check("what is no JSON is refused", got == 400 and "JSON" in reply["error"], (got, reply))
    got, reply = client.told("/v2/models/numbers/generate", json.dumps({"text_input": "3 9"}))
    check("a number that is no token is refused", got == 400 and "'9' is no token" in reply["error"], (got, reply))
    got, reply = client.told("/v2/models/digits/generate", "{}")
    check("a model of pictures does not generate", got == 400 and "next token" in reply["error"], (got, reply))
    check("a generation is posted", client.ask("/v2/models/gpt/generate")[0] == 405)
    members = "text_input max_tokens temperature top_k top_p seed timeout priority id stop end_token stream".split()
    for member in members + ["parameters"]:
        for misspelt in member[:-1], member + "s", member.upper(), member[1:]:
            for body in {misspelt: [1, {"a": 2}]}, {"parameters": {misspelt: None}}:
                if misspelt not in members and misspelt:
                    got, reply = client.told("/v2/models/gpt/generate", json.dumps({"max_tokens": 2, **body}))
                    where = "parameters" if "parameters" in body else "the body"
                    check(f"{body} is refused", got == 400 and f"{where} has '{misspelt}', which is no option of a text" in reply["error"], (got, reply))
    got, reply = client.told("/v2/models/gpt/generate", json.dumps({"max_token": 2}))
    check("a near name is offered", got == 400 and "did you mean 'max_tokens'?" in reply["error"], reply)
    for body in {"stream": False}, {"parameters": {"stream": False}}:
        got, reply = client.told("/v2/models/gpt/generate", json.dumps({"max_tokens": 2, **body}))
        check("a text that is not streamed", got == 200 and generated(reply) is not None, (got, reply))
    got, reply = client.told("/v2/models/gpt/generate", json.dumps({"stream": True}))
    check("a stream at the other path", got == 400 and "ask generate_stream" in reply["error"], (got, reply))
    client.close()


def leavers(server):
    """Clients that leave in the midst of a stream or of a wait; the others get their texts."""
    body = json.dumps({"text_input": "das ", "max_tokens": 200000})
    for path in ("generate_stream", "generate") * 6:
        connection = Client(server.port).connection
        connection.request("POST", f"/v2/models/gpt/{path}", body)
        if path == "generate_stream":
            reply = connection.getresponse()
            check("a long stream begins", reply.status == 200 and reply.read(30), reply.status)
        connection.close()
    q = {"text_input": "das ", "max_tokens": 30, "seed": 9}
    client = Client(server.port)
    code, reply = client.told("/v2/models/gpt/generate", json.dumps(q))
    check("others get their texts", code == 200 and generated(reply) == right("gpt", q), (code, reply))
    running = lambda: server.metric('weft_generating{model="gpt"')
    check("texts of clients that left end", wait_until(lambda: running() == 0), running())
    check("the page counts texts", b"tokens drawn" in client.ask("/")[1])
    client.close()


def ask_and_shut(server, path, body, version, context):
    """What comes back to a client that sends a request, says that no more comes, and reads; and whether that has an end as HTTP has it."""
    with server.plain(timeout=120) as plain:
        c = context.wrap_socket(plain) if context else plain
        c.sendall(f"POST {path} HTTP/{version}\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        with socket.socket(fileno=os.dup(c.fileno())) as line:
            line.shutdown(socket.SHUT_WR)
        got = b""
        try:
            while part := c.recv(1 << 16):
                got += part
        except OSError:
            return got, False
        c.close()
    while got.startswith(b"HTTP/1.1 100"):
        got = got.partition(b"\r\n\r\n")[2]
    return got, bool(got) and (b"chunked" not in got or got.endswith(b"\r\n0\r\n\r\n"))


def times(server):
    """Time to the first token, from token to token, and of whole texts: as many of each as there were, and together the time that passed."""
    client = Client(server.port)

    def histograms():
        text = client.ask("/metrics")[1].decode()
        return {(name, what): float(value) for name, what, value in
                re.findall(r'^weft_generation_(first_token_|next_token_|)seconds_(sum|count)\{model="gpt",version="1"\} (\S+)$', text, re.M)}
    before, began = histograms(), time.monotonic()
    for n in (1, 7, 30):
        check("a text", client.told("/v2/models/gpt/generate", json.dumps({"max_tokens": n}))[0] == 200)
    passed = time.monotonic() - began
    wait_until(lambda: histograms()["", "count"] - before["", "count"] == 3)  # an answer is on its way before it is counted
    now = {key: value - before[key] for key, value in histograms().items()}
    check("times are counted", (now["first_token_", "count"], now["next_token_", "count"], now["", "count"]) == (3, 35, 3), now)
    check("and add up", 0 < now["", "sum"] < passed and abs(now["first_token_", "sum"] + now["next_token_", "sum"] - now["", "sum"]) < 0.2 * now["", "sum"] + 0.01, (now, passed))
    client.close()


def stops(port):
    """A text ends before the first of the strings that stop it, wherever tokens are cut, and before the token that ends it; a stream lets
    nothing of it go."""
    client, rng = Client(port), random.Random(11)
    for name, tokens in (("gpt", 80), ("lstm", 60)):  # characters, and bytes
        question = {"text_input": "der", "max_tokens": tokens, "seed": 4}
        whole = client.told(f"/v2/models/{name}/generate", json.dumps(question))[1]["text_output"]
        for _ in range(12):
            at = rng.randrange(2, len(whole) - 8)
            found = [s for s in (whole[at:at + rng.randrange(1, 6)], whole[at + 2:at + 6], "none of it", whole[at] + "\u00ff") if s and "\ufffd" not in s]
            end = min((whole.find(s) for s in found if s in whole), default=len(whole))
            asked = dict(question, stop=found if len(found) > 1 else found[0])
            code, told = client.told(f"/v2/models/{name}/generate", json.dumps(asked))
            check(f"{name} stops at {found}", code == 200 and told["text_output"] == whole[:end], (code, told, whole))
            words = ["-n", str(tokens), "--seed", "4", "-p", "der", *(word for s in found for word in ("--stop", s))]
            printed = subprocess.run([weft, "generate", name + "/latest", "-t", "1", *words], capture_output=True, check=True).stdout
            check(f"and weft generate {found}", printed.decode("utf-8", "replace") == "der" + whole[:end] + "\n", (printed, whole))
            code, parts, _ = events(port, name, asked)
            check(f"and as a stream {found}", code == 200 and "".join(p["text_output"] for p in parts) == whole[:end], (parts, whole))
    question = {"text_input": "1 2", "max_tokens": 40, "seed": 3}
    numbers = client.told("/v2/models/numbers/generate", json.dumps(question))[1]["text_output"].split()
    for last in sorted(set(numbers)):
        told = client.told("/v2/models/numbers/generate", json.dumps(dict(question, end_token=int(last))))[1]
        check(f"token {last} ends it", told["text_output"].split() == numbers[:numbers.index(last)], (told, numbers))
    for wrong, words in ((dict(stop=""), "empty string"), (dict(stop=3), "stop must be an array"), (dict(stop=["a"] * 17), "more than 16"), (dict(stop=[1]), "a string of stop"),
                         (dict(end_token=9), "end_token is 9, must be from 0 to 8"), (dict(end_token=-1), "end_token"), (dict(stop="a", parameters={"stop": "b"}), "stop is in the body")):
        code, told = client.told("/v2/models/numbers/generate", json.dumps(wrong))
        check(f"{wrong} is refused", code == 400 and words in told["error"], (code, told))
    client.close()


def diverged():
    """Logits that are no numbers fail a text, here and of `weft generate`."""
    for steps in range(1, 25):
        subprocess.run(["rm", "-rf", "lost"], check=True)
        subprocess.run([weft, "train", "-q", "-m", "summed.yaml", "--data", f"text:t.txt,unit=char,context={CONTEXT}", "--batch", "8", "-o", "sgd", "--lr", "1e6",
                        "--steps", str(steps), "-c", "lost", "-t", "1"], capture_output=True)
        told = subprocess.run([weft, "generate", "lost", "-t", "1", "-p", "der", "-n", "3"], capture_output=True, text=True)
        if told.returncode:
            break
    check("weft generate has diverged", told.returncode == 1 and "the model has diverged" in told.stderr, told)
    with serve(["lost"]) as server:
        code, told = server.told("/v2/models/lost/generate", json.dumps({"text_input": "der", "max_tokens": 3}))
        check("and a served model", code == 500 and "the model has diverged" in told["error"], (code, told))
        told = events(server.port, "lost", {"text_input": "der", "max_tokens": 3})
        check("and its stream", "the model has diverged" in str(told), told)


def half_closed():
    """A client that closes its sending side gets the whole text, or no answer: never a text that was cut off and looks whole."""
    write("cert.pem", CERTIFICATE)
    write("key.pem", KEY)
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    body = json.dumps({"text_input": "der", "max_tokens": 30000, "seed": 5})
    for context, words in ((None, []), (trust, ["--certificate", "cert.pem", "--key", "key.pem"])):
        log = f"half{len(words)}.json"
        found = []
        with serve(["gpt"], "--log", log, *words) as server:
            for version, path in itertools.product(("1.0", "1.1"), ("generate", "generate_stream")):
                got, ends = ask_and_shut(server, "/v2/models/gpt/" + path, body, version, context)
                texts = re.findall(rb'"text_output":("(?:[^"\\]|\\.)*")', got)
                text = "".join(json.loads(t) for t in texts)
                found.append((version, path, ends, text, got[:200]))
        with open(log) as f:
            codes = [json.loads(line)["status"] for line in f]
        whole = max((text for *_, text, _ in found), key=len)
        if not context:
            check("HTTP/1.1 gets it whole", found[2][2] and found[2][3] == whole and found[3][2] and found[3][3] == whole and len(whole) > 20000, found[2])
        for version, path, ends, text, got in found:
            check(f"HTTP/{version}, {path}, TLS {bool(context)}: whole or nothing", not ends or text == whole, (len(text), len(whole), got))
        check("and the log says which", codes == [200 if ends else 499 for _, _, ends, _, _ in found], (codes, [f[2] for f in found]))


def endings():
    """A server that is told to end while texts are generated: it cuts them off after the drain, says so, and ends, also where a client
    does not read its stream."""
    server = serve(["gpt"], "--drain", "1", "--log", "log.json")
    body = json.dumps({"max_tokens": 1000000, "id": "all"})
    stalled = socket.socket()
    stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    stalled.connect(("127.0.0.1", server.port))
    stalled.sendall(f"POST /v2/models/gpt/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    code, parts, _ = events(server.port, "gpt", {"max_tokens": 300, "id": "few"})
    check("an id is repeated in each event", code == 200 and all(part["id"] == "few" for part in parts), parts[:1])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        whole = pool.submit(server.told, "/v2/models/gpt/generate", body)
        stream = pool.submit(events, server.port, "gpt", {"max_tokens": 1000000})
        wait_until(lambda: server.metric("weft_generating") == 3)
        server.end(code=1)
        code, reply = whole.result()
        check("a text that is cut off is refused", code == 503 and "ended before the text" in reply["error"], (code, str(reply)[:200]))
        code, parts, _ = stream.result()
        check("a stream that is cut off says so", code == 200 and "ended before the text" in parts[-1].get("error", ""), parts[-1])
    stalled.close()
    server = serve(["gpt"], "--drain", "300")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        whole = pool.submit(server.told, "/v2/models/gpt/generate", body)
        wait_until(lambda: server.metric("weft_generating") == 1)
        server.terminate()
        time.sleep(0.5)
        server.end(signal.SIGINT, code=130)
        check("after a second signal a text has no answer", isinstance(whole.exception(), (http.client.HTTPException, OSError)), whole)
    with open("log.json") as f:
        lines = [json.loads(line) for line in f]
    few = [line for line in lines if line["path"].endswith("generate_stream") and line["status"] == 200]
    check("a stream is logged with its code and bytes", few and all(line["bytes"] > 300 for line in few), lines)


def serve(names, *words):
    return Server("--measure", "0", "--times", "none", *words, models=[f"{name}={name}" for name in names])


def everything():
    write("t.txt", TEXT)
    with open("t.bin", "wb") as f:
        rng = random.Random(3)
        f.write(b"".join(rng.randrange(9).to_bytes(2, "little") for _ in range(800)))
    write("mixed.yaml", MIXED)
    write("summed.yaml", SUMMED)
    for name in MODELS:
        train(name)
    run("train", "-q", "-m", "mlp", "--data", "glyphs:size=9,train=20,test=5", "--steps", "2", "--batch", "10", "-c", "digits", "-t", "1")
    ways = [["--limit", "4"], ["--mesh", "data=2,tensor=2", "--limit", "3"], ["--limit", "9", "--instances", "2"], ["--limit", "1"],
            ["--mesh", "pipeline=2", "--limit", "5"], ["--mesh", "data=3", "--limit", "4"], ["--mesh", "domain=3,data=2", "--limit", "4"],
            ["--mesh", "tensor=2", "--limit", "4"]]
    for way in ways[:2] if FAST else ways:
        names = [name for name in MODELS if name in ("gpt", "numbers") or "domain" not in str(way)]  # no domain axis splits a recurrence
        server = serve([*names, "digits"], *way)
        compare(server.port, " ".join(way), 4 if FAST else 12, names)
        if way == ["--limit", "4"]:
            streams(server.port)
            refusals(server.port)
            leavers(server)
            times(server)
            stops(server.port)
        server.end()
    diverged()
    half_closed()
    endings()


sys.exit(main(everything))
