"""`pkc ..` and `python -m pkc ..`: the compiler's command line."""
import os
import sys

from pkc._compiler import environment
from pkc._tool import PROGRAM


def main():
    os.execve(PROGRAM, ["pkc", *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
