"""A vendor to practise on: an OpenAI-compatible API on this machine that answers from gold labels.

It makes mistakes and faults at the shares it is told to, the same ones for the same seed, and writes a
journal of every call. It shares no code with the rest of assay: what talks to it talks HTTP.

    settings.py   what it can be told
    gold.py       reads the texts and their right answers from a file
    lookup.py     finds the known text in a message
    chance.py     every draw, from seed and text alone
    answers.py    what it says: right or wrong, with a confidence
    schema.py     the answer in the shape that the request asked for
    faults.py     what goes wrong with a reply
    wire.py       the OpenAI chat wire: requests in, replies and errors out
    journal.py    one line per call; counts
    practice.py   one call from arrival to reply
    server.py     sockets, start, stop
    options.py    the command line
"""
