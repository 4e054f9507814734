#!/usr/bin/env python3
"""nginx in front of two servers, with the configuration of docs/guide/serving.md: tests/serve/serve_nginx.py PATH/TO/weft

One of them is killed, or told to end, while many ask: no request fails. With both gone there is an error, and no silence.
"""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

from serve_harness import BODY, INFER, Client, Crowd, Server, check, main, train, wait_until

guide = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/serving.md"
AROUND = """daemon off;
{user}
pid nginx.pid;
error_log error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
{said}
}}
"""


def configuration(own, servers):
    """What the guide says, with other ports, inside of what every nginx has."""
    said = re.search(r"^    upstream weft.*\n(    .*\n)*", guide.read_text(), re.MULTILINE).group()
    for port, other in zip(("8000", "8010", "8080"), (*servers, own)):
        assert said.count(f":{port}") == 1, f"the guide has no port {port} any more"
        said = said.replace(f":{port}", f":{other}")
    return AROUND.format(user="user root;" if os.getuid() == 0 else "", said=said)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Nginx:
    def __init__(self, program, servers):
        for _ in range(5):  # somebody else may take the port first
            self.port = free_port()
            pathlib.Path("nginx.conf").write_text(configuration(self.port, servers))
            self.process = subprocess.Popen([program, "-p", os.getcwd(), "-c", os.path.abspath("nginx.conf"), "-e", "error.log"], stderr=subprocess.PIPE, text=True)
            if self.is_up():
                return
        check("nginx begins", False, self.process.stderr.read())

    def is_up(self):
        def answers():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", self.port)) == 0
        return wait_until(lambda: self.process.poll() is not None or answers(), 30) and self.process.poll() is None


def asked(server):
    return server.told("/v2/models/m/stats")[1]["model_stats"][0]["inference_count"]


def takes_part(server):
    """Whether requests come to it (again)."""
    before = asked(server)
    return wait_until(lambda: asked(server) >= before + 20)


def start(port=0):
    return Server(ports=(port, -1))


def everything():
    rows, right = train()
    servers = [start(), start()]
    ports = [s.port for s in servers]
    nginx = Nginx(program, ports)
    crowd = Crowd(nginx.port, rows, right)
    for i, number in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL)):
        gone, left = servers[i % 2], servers[1 - i % 2]
        check("requests come to both", takes_part(gone) and takes_part(left))
        gone.process.send_signal(number)
        gone.process.wait(60)
        check("the other one goes on", takes_part(left))
        servers[i % 2] = start(ports[i % 2])
    check("and both do again", takes_part(servers[0]) and takes_part(servers[1]))
    counts = crowd.end()
    check("no request has failed", set(counts) == {200} and counts[200] > 500, counts)
    for s in servers:
        s.process.kill()
        s.process.wait()
    with Client(nginx.port, timeout=30) as c:
        code = c.code(INFER, BODY)
    check("with both gone there is an error", code in (502, 504), code)
    nginx.process.terminate()
    nginx.process.wait(30)
    print("through nginx:", dict(counts))


program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
if not program:
    print("skipped: there is no nginx (apt-get install nginx-light)")
sys.exit(main(everything) if program else 77)
