"""What the commands of ``dsprep lst`` do."""
