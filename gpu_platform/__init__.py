"""GPU platform on Kubernetes from a stack file: spec, catalogue, planning, engines and command line.

The import makes the packages beside it importable (`components`, `policies`), which a wheel has in a folder below
it, and modules of the project, such as own rules.
"""

import sys

from gpu_platform.base.paths import CODE_ROOT, PROJECT_ROOT

if str(CODE_ROOT) not in sys.path:
    sys.path.insert(0, str(CODE_ROOT))
if str(PROJECT_ROOT) not in sys.path:
    sys.path.append(str(PROJECT_ROOT))
