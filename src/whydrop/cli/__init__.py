"""The command line: one module for each verb, loaded when it is called."""
