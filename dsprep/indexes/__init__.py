"""Files that let readers find the samples of shards without reading the shards: what is in them."""
