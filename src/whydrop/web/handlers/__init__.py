"""Answers to the requests of pages and scripts: one module for each subject, with its arguments and answers."""
