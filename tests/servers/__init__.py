"""S3 servers on loopback, started once a run and shared by the processes of pytest."""
