"""The drill's cast and its books: what `assay drill` starts beside the product, and how it counts.

legacy.py      a labelling script of the old kind; shares no code with the product
downstream.py  a consumer of the published events, with a database of its own
moments.py     what happens when
evidence.py    what was found in journals, files and tables
ledgers.py     both ledgers, from evidence alone
verdict.py     what does not hold on the product's side, from evidence alone
statements.py  the questions to the databases, in sql/
"""
