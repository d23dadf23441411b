"""Receives signed events and keeps their labels in a table: each event once, whatever is repeated or late.

PORT=8080 ASSAY_WEBHOOK_SECRET=... DATABASE_URL=postgresql:///ours python labels_from_webhook.py
"""

from __future__ import annotations

import os
import signal
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg

from assay.consumer import BadSignature, Inbox, MalformedEvent, parse, secrets_of, verify

TABLE = """
CREATE TABLE IF NOT EXISTS labels (
    pipeline text, record_id text, input_version int, state text, label jsonb,
    PRIMARY KEY (pipeline, record_id)
)
"""
MOST_BYTES = 4 << 20
RESULTS = {"completed", "quarantined", "rejected"}
inbox = Inbox("webhook")
# Two while they are exchanged: the new one and the one it replaces, with a comma.
secrets = secrets_of(os.environ["ASSAY_WEBHOOK_SECRET"])


def keep(body: bytes) -> None:
    """The effect of one event, in one transaction with the note that it has been seen."""
    event = parse(body)
    with psycopg.connect(os.environ["DATABASE_URL"], connect_timeout=3) as db:
        if event.is_known and inbox.accept(db, event) and event.kind in RESULTS:
            told = event.data
            # Taken out of the body's own text, the label's numbers keep their digits.
            db.execute(
                "INSERT INTO labels VALUES (%s, %s, %s, %s, nullif(%s::jsonb #> '{data,label}', 'null')) "
                "ON CONFLICT (pipeline, record_id) DO UPDATE SET "
                "input_version = excluded.input_version, state = excluded.state, label = excluded.label",
                (told["pipeline"], told["record_id"], told["input_version"], told["state"], event.body),
            )


class Receiver(BaseHTTPRequestHandler):
    """Answers 204 once the transaction is committed, and never before."""

    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self.close_connection = True  # the body stays unread
            return self._answer(413)
        body = self.rfile.read(int(length))
        try:
            # Over the bytes as they came, before anything is parsed.
            verify(body, dict(self.headers.items()), secrets, time.time())
            keep(body)
        except BadSignature:
            self._answer(401)  # nobody's event, or a wrong secret: the publisher waits and loses nothing
        except MalformedEvent:
            self._answer(422)  # will never fit: it waits for a person, and no other record does
        except psycopg.OperationalError:
            self._answer(503)  # our database is away: all wait, and come again
        else:
            self._answer(204)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silent; a line for each request helps nobody."""


def main() -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db:
        db.execute(TABLE)
        Inbox.create_table(db)
    server = ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Receiver)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"listening on port {server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
