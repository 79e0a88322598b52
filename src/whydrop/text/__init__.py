"""Making text for people: quantities with their units, and phrases from templates."""
