"""For those who read assay's events into a PostgreSQL of their own: each effect once, in the right order.

    event = parse(message.value(), message.headers())
    with connection.transaction():
        if inbox.accept(connection, event):
            ...                                    # the effect, in the same transaction

Events come at least once, and late ones may come after newer ones. `accept` says True exactly once per event,
and only when nothing newer was applied. It needs psycopg and one table pair beside yours; no assay database.
"""

from assay.consumer.event import ConsumedEvent, MalformedEvent, parse
from assay.consumer.inbox import AsyncInbox, Inbox
from assay.consumer.signature import BadSignature, secrets_of, sign, verify

__all__ = [
    "AsyncInbox",
    "BadSignature",
    "ConsumedEvent",
    "Inbox",
    "MalformedEvent",
    "parse",
    "secrets_of",
    "sign",
    "verify",
]
