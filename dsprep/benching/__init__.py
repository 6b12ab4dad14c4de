"""How fast a training loop is fed: which combinations there are, running them, their figures.

Entry: `cells.cells_of`, `loops.run_loop` and `figures.figures_of`, which `bench` calls in
  turn.
Always: each run is a fresh process, and a loop imports no dsprep.
Tests: tests/benching.
"""
