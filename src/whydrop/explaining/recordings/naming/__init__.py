"""From numbers to causes: each module makes the findings of one subject."""
