"""S3: the client, the store, transfers in parts.

Entry: `store.store_at`; `upload.upload` and `download.download` move one file each.
Always: an object appears when all of its bytes have arrived and their checksum was compared.
Tests: tests/storage, tests/syncing; against Ceph and LocalStack.
"""
