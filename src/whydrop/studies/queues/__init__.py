"""The study of queues: which queueing discipline for which line, from recordings of one experiment."""
