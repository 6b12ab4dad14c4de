"""S3: the client, the store, transfers in parts."""
