"""``python -m hyperslab`` is ``hyperslab``."""

from hyperslab._cli.main import main

if __name__ == "__main__":
    main()
