"""Contests on S3: dsprep's ``sync`` beside other clients, against the same server."""
