"""The machinery that turns notebooks into a website: stage, execute, check, build, swap in.

The command line (:mod:`helpers.book.cli`) is the way in. Nothing in the science imports this
package, and it reads the science only as text, to know when a chapter must run again.
"""
