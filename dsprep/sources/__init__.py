"""Sources: what a catalog can be made from.

Each kind of source (`kind.SourceKind`) claims the places that are its own, and makes the catalog of
what they hold, with findings about what it noticed on the way. `kinds.KINDS` names all kinds.

Entry: `reading.read_source`; `reading.claims` ranks the kinds that claim a place;
  `passed_over.require_nothing_left` stops a command that would pass over annotations.
Always: files that are missing or were passed over are findings; names are enough for most sources,
  so that payloads are not read.
Tests: tests/sources, tests/matrix, tests/attack.
"""
