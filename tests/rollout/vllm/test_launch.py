"""Servers that a run starts: a stand-in for the command serves /health alone."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from easyvideor1.errors import RunError, UsageError
from easyvideor1.rollout.vllm import launch

SERVER = """#!{python}
import http.server, json, os, pathlib, sys

words = sys.argv[1:]
assert words[:2] == ["-m", "easyvideor1.rollout.vllm.server"], words
port_file = pathlib.Path(words[words.index("--port-file") + 1])
if "broken" in words[words.index("--model") + 1]:
    sys.exit("no such model")


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(dict(os.environ)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.HTTPServer(("127.0.0.1", int(words[words.index("--port") + 1])), Handler)
port_file.write_text(str(server.server_port))
server.serve_forever()
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for logs; what is started is the stand-in."""
    file = tmp_path / "python"
    file.write_text(SERVER.format(python=sys.executable))
    file.chmod(0o755)
    monkeypatch.setattr(launch.sys, "executable", str(file))
    return tmp_path / "logs"


def test_servers_take_free_ports_by_themselves_and_are_no_ranks(command: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in launch.OF_RANKS:
        monkeypatch.setenv(name, "1")
    with launch.started_servers(2, recipe=Path("recipe.yaml"), model=Path("model"), logs=command) as addresses:
        assert len(set(addresses)) == 2
        for address in addresses:
            with urllib.request.urlopen(f"{address}/health", timeout=10) as answer:
                environment = json.loads(answer.read())
            assert "PATH" in environment
            assert not set(launch.OF_RANKS) & set(environment)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{addresses[0]}/health", timeout=10)


def test_a_server_that_does_not_start_is_an_error_with_its_last_words(command: Path) -> None:
    starting = launch.started_servers(1, recipe=Path("recipe.yaml"), model=Path("broken"), logs=command)
    with pytest.raises(RunError, match=r"a vLLM server ended with 1; the end of .*\nno such model"), starting:
        raise AssertionError


def test_several_ranks_leave_gpus_for_their_servers_or_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    assert launch._environment(0)["CUDA_VISIBLE_DEVICES"] == "7"
    with pytest.raises(UsageError, match="no GPU is left for server 2: this machine has 4, and 3 ranks have one each"):
        launch._environment(1)
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert launch._environment(0)["CUDA_VISIBLE_DEVICES"] == "5"
    assert launch._environment(9)["CUDA_VISIBLE_DEVICES"] == "7"  # one process may share its last GPU
