"""Verdicts in words. The analysis finds codes and numbers; this package writes them for people.

:mod:`~whydrop.explaining.words` has the tables of headlines, evidence and advice, :mod:`~whydrop.explaining.wording`
fills them, and :mod:`~whydrop.explaining.completing` puts the words into the document of the JSON contract.

The package is not called ``explain``, since :func:`whydrop.explain` is the public function.
"""
