"""What both kinds of session are made of."""
