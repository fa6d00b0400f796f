"""A GPU platform on Kubernetes from a stack file: stack file models, catalogue, planning, engines and command
line.

Importing this package extends sys.path. The packages next to it (`components`, `policies`), which a wheel contains
in a folder below it, can then be imported, and so can the modules of a project, such as company rules.
"""

import sys

from gpu_platform.base.paths import CODE_ROOT, PROJECT_ROOT

if str(CODE_ROOT) not in sys.path:
    sys.path.insert(0, str(CODE_ROOT))
if str(PROJECT_ROOT) not in sys.path:
    sys.path.append(str(PROJECT_ROOT))
