"""Entry point of the Pulumi plugin, which serves the public components to programs in any language."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the checkout that contains this folder
    from components.public.provider import serve

    serve()
