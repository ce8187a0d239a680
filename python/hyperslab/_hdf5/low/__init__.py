"""h5py's low-level modules, as far as programs use them: ``h5a``, ``h5d``, ``h5ds``, ``h5f``, ``h5g``,
``h5i``, ``h5o``, ``h5p``, ``h5r``, ``h5s``, ``h5t``, ``h5z``.

Objects of these modules are those behind ``node.id``.
"""
