"""`python -m otflam` is the command line."""

from otflam.cli import main

main()
