"""A small S3: path-style GET and list over a real socket, with faults that a test switches on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class ObjectStoreServer(ThreadingHTTPServer):
    """`objects` by `bucket/key`. `answer`, when set, is the status of every reply."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.buckets: set[str] = set()
        self.answer: int | None = None
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, bucket: str, key: str, content: bytes) -> None:
        """Stores an object."""
        self.buckets.add(bucket)
        self.objects[f"{bucket}/{key}"] = content


class _Handler(BaseHTTPRequestHandler):
    server: ObjectStoreServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        path = unquote(parts.path).strip("/")
        self.server.asked.append(path)
        if self.server.answer is not None:
            self._reply(self.server.answer, b"")
        elif "/" not in path:
            known = path in self.server.buckets
            self._reply(
                200 if known else 404, _EMPTY_LIST if known else b"<Error><Code>NoSuchBucket</Code></Error>"
            )
        elif path in self.server.objects:
            self._reply(200, self.server.objects[path])
        else:
            self._reply(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def _reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


_EMPTY_LIST = (
    b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>b</Name><KeyCount>0</KeyCount>'
    b"<MaxKeys>1</MaxKeys><IsTruncated>false</IsTruncated></ListBucketResult>"
)


@contextmanager
def serving() -> Iterator[ObjectStoreServer]:
    """The server, for as long as the context lasts."""
    server = ObjectStoreServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
