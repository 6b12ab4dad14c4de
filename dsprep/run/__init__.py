"""Carrying a plan out: writing, going on after a kill, and what makes a data set complete.

Entry: `write.pack` and the other commands that write make a job, and call `write.write`. It calls
  `state.RunState`, `begin.begin`, `run.Run.carry_out` and `complete.commit`, in this order.
Always: a file that has its final name is complete, and the manifest comes last.
Tests: tests/run, tests/golden, tests/attack/test_same_bytes.py.
"""
