"""Timings that the book's claims about speed rest on; `make bench` runs them."""
