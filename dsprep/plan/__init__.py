"""From what a user asked for to a plan of the shards to write: nothing here writes."""
