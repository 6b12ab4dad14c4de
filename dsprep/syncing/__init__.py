"""``sync``: what to send, in which order, and what to delete.

Entry: `sync.sync`; the steps are methods of `run.Sync`.
Always: manifests are published after the files that they name, and `--delete` comes last.
Tests: tests/syncing.
"""
