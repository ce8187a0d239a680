"""Makes ``python -m hyperslab`` the same as ``hyperslab``."""

from hyperslab._cli.main import main

if __name__ == "__main__":
    main()
