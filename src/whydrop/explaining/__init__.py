"""Verdicts in words: what the analysis finds in codes and numbers, written for people. All prose is made here.

:mod:`~whydrop.explaining.phrases` has a phrase for each code of a fact, :mod:`~whydrop.explaining.sentences` a sentence
for each headline, :mod:`~whydrop.explaining.advice` what to do about a cause, and
:mod:`~whydrop.explaining.completing` puts all of it into the document of the JSON contract.

The package is not called ``explain``, since :func:`whydrop.explain` is the public function.
"""
