"""How fast the product is on this machine, beside a bare database loop and beside other queues.

`python -m bench` measures, checks what it measured, and writes Markdown and JSON. Ratios are taken within one
run of interleaved measurements; absolute figures drift with the machine.
"""
