from collections.abc import MutableMapping
from typing import Any

def get_backend(name: str) -> MutableMapping[str, Any]: ...
