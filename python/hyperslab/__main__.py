"""``python -m hyperslab`` is ``hyperslab``."""

from hyperslab._cli import main

if __name__ == "__main__":
    main()
