"""A program for each driver of the end-to-end benchmark; each runs where its driver is."""
