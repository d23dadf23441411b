"""A vendor to practise on: three model APIs on this machine that answer from gold labels.

It makes mistakes and faults at the shares it is told to, the same ones for the same seed, and writes a
journal of every call. It shares no code with the rest of assay: what talks to it talks HTTP.

    settings.py   what it can be told; shares.py, price.py, latency.py parts of it
    changes.py    settings by name, changed while it runs; timeline.py reads when; control.py does it
    gold.py       reads the texts and their right answers from a file
    lookup.py     finds the known text in a message
    chance.py     every draw, from seed and text alone
    answers.py    what it says: right or wrong, with a confidence
    schema.py     the answer in the shape that the request asked for
    faults.py     what goes wrong with a reply; errors.py the error replies
    work.py       all of this for one request, without sockets
    wire.py       what the APIs have in common; wire_chat.py, wire_responses.py, wire_messages.py their words
    limits.py     accounts and their limits; windows.py the most in any minute
    idempotency.py  first replies by key
    journal.py    one line per call and change; entries.py its fields; stats.py counts
    call.py       one call from arrival to reply; delivery.py how the reply leaves
    practice.py   the routes
    door.py       the listening socket
    server.py     start, stop
    options.py    the command line
"""
