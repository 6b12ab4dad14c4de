"""Readers: how a worker gets at the samples of a source, given some rows of its catalog.

A source makes the catalog, once, in the process that plans; the reader that it names there is plain
data, which travels to the workers and reads what the rows tell it to. Nothing heavy is imported.
"""
