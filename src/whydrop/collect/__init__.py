"""What is sampled for long, into a store."""
