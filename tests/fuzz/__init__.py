"""Files of strangers: valid specimens are mutated in hundreds of ways, and what the readers then do is judged.

mutate.py lists the changes of each kind of file (raw, texts, tables, archives, media), readers.py who reads what,
plain.py which changes no reader could find; run.py isolates and judges, __main__.py prints the table.
"""
