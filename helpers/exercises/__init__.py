"""What the chapters' exercises expect, one module a chapter; kept out of the reader's sight."""
