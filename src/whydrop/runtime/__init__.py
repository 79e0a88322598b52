"""The base of every room: signals, child processes, files that replace others, files that users write."""
