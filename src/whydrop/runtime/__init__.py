"""What every room builds on: signals, child processes, files that replace others, files that users write."""
