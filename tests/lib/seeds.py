"""The seed of generated cases."""

import os
import secrets

# Tests that draw with NumPy take it from the fixture `seed`.
SEED = int(os.environ.get("HYPERSLAB_SEED") or secrets.randbits(32))
