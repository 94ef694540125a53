"""Fuzzer of file readers: it mutates valid specimens in hundreds of ways and checks how each reader responds.

mutate.py lists the mutations of each kind of file (from raw, texts, tables, archives and media), readers.py the
readers under test, plain.py the changes that no reader could detect, drawing.py how what was read is drawn; run.py
isolates and judges the cases, and __main__.py prints the table.
"""
