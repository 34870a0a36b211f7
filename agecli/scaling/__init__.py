"""Work past one machine: a plan of shards, parts that are files, engines that make them, and their state."""
