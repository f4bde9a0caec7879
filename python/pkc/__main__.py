"""`pkc ..` and `python -m pkc ..`: the compiler's command line."""
import os
import sys

from pkc._tool import PROGRAM


def main():
    os.execv(PROGRAM, ["pkc", *sys.argv[1:]])


if __name__ == "__main__":
    main()
