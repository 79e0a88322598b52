"""Running tests against a responder, through the command line."""
