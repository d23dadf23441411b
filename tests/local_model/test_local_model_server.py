"""The local model as a process: answers, limits, start and stop."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from local_runs import PATIENCE_SECONDS, SERVER, ask, server

pytestmark = pytest.mark.local_model

SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "sure": {"type": "boolean"}},
    "required": ["colour", "sure"],
    "additionalProperties": False,
}
CONSTRAINED = {"type": "json_schema", "json_schema": {"name": "Colour", "strict": True, "schema": SCHEMA}}


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(tmp_path_factory.mktemp("local") / "ready", "--parallel", "2") as (_, url):
        yield url


def test_it_answers_in_its_own_name(base_url: str) -> None:
    status, body = ask(base_url, "Say hello.")
    assert status == 200
    assert body["model"] == "smollm2-135m-instruct"
    assert body["usage"]["completion_tokens"] > 0
    assert body["choices"][0]["message"]["content"].strip()


def test_a_schema_holds_it(base_url: str) -> None:
    status, body = ask(base_url, "Grass has which colour?", response_format=CONSTRAINED)
    assert status == 200
    answer = json.loads(body["choices"][0]["message"]["content"])
    assert set(answer) == {"colour", "sure"}
    assert answer["colour"] in ("red", "green")
    assert isinstance(answer["sure"], bool)


def test_the_same_request_gets_the_same_answer(base_url: str) -> None:
    first, second = (ask(base_url, "Name three fruits.")[1]["choices"] for _ in range(2))
    assert first[0]["message"] == second[0]["message"]


def test_a_long_text_is_refused_by_a_field(base_url: str) -> None:
    status, body = ask(base_url, "word " * 4000)
    assert status == 400
    assert body["error"]["type"] == "exceed_context_size_error"


def test_a_cut_answer_says_so(base_url: str) -> None:
    assert ask(base_url, "Count to fifty.", max_tokens=3)[1]["choices"][0]["finish_reason"] == "length"


def test_it_shows_no_page_of_requests(base_url: str) -> None:
    with pytest.raises(OSError, match="501"), urlopen(base_url.replace("/v1", "/slots")):
        pass


def test_it_ends_when_standard_input_closes_and_has_logged_nothing(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with server(ready, "--parallel", "1") as (process, url):
        ask(url, "The secret word is xylograph.")
        shown, told = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert shown == f"local model listening on {url}\n"
    assert told == ""
    assert not ready.exists()


def test_a_signal_ends_it_in_the_middle_of_an_answer(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with server(ready, "--parallel", "1") as (process, url):
        host, port = url.removeprefix("http://").removesuffix("/v1").split(":")
        with socket.create_connection((host, int(port))) as client:
            body = json.dumps({"prompt": "Once", "n_predict": 1500, "stream": True}).encode()
            head = f"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert client.recv(16)  # it writes
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=PATIENCE_SECONDS) == 0
    assert not ready.exists()


def test_a_taken_port_is_told(base_url: str) -> None:
    port = base_url.removesuffix("/v1").rpartition(":")[2]
    refused = subprocess.run(
        [*SERVER, "--port", port], text=True, capture_output=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert refused.returncode == 2
    assert refused.stderr == f"local model: port {port} cannot be used; choose another --port, or 0\n"


def test_weights_that_only_look_right_are_told(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and then nothing that fits")
    refused = subprocess.run(
        [*SERVER, "--weights", str(tmp_path / "broken.gguf")],
        text=True,
        capture_output=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert refused.returncode == 2
    assert refused.stderr.startswith("local model: the engine could not load broken.gguf")
    assert refused.stderr.count("\n") == 1


def test_answers_are_written_at_once(base_url: str) -> None:
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(base_url, "Describe the sea.")[0])) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 5
