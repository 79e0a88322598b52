"""What differs between recordings, and how sure that is."""
