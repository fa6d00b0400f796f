"""Creates a GPU platform on Kubernetes from a stack file. Contains the stack file models, catalogue, planning,
engines and command line.

Importing this package extends sys.path, so that the packages next to it (`components`, `policies`) and a project's
own modules, such as company rules, can be imported. A wheel contains these packages in a folder below this one.
"""

import sys

from gpu_platform.base.paths import CODE_ROOT, PROJECT_ROOT

if str(CODE_ROOT) not in sys.path:
    sys.path.insert(0, str(CODE_ROOT))
if str(PROJECT_ROOT) not in sys.path:
    sys.path.append(str(PROJECT_ROOT))
