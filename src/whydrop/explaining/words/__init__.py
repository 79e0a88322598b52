"""Tables of words by code: a headline, a phrase of evidence, advice by cause; one file a subject.

They are data, in the language of :mod:`whydrop.text.phrases`. A function stands where the choice needs arithmetic.
"""
