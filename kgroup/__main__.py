"""`python -m kgroup`, for machines where the script directory is not on PATH."""

from kgroup.cli import main

if __name__ == "__main__":
    main()
