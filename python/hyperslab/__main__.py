"""Makes ``python -m hyperslab`` the same as ``hyperslab``."""

from hyperslab._cli import main

if __name__ == "__main__":
    main()
