"""Predictions: what a change of the path or of the senders would bring, from an explained capture."""
