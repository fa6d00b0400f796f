"""Valid and invalid device selectors for Kubernetes 1.36, used to test both our check and the API server."""

from __future__ import annotations

VALID = [
    # fields of `device`
    "device.driver == 'gpu.nvidia.com'",
    "has(device.driver) && device.?driver.orValue('x') == 'x'",
    "has(device.attributes) && has(device.attributes['gpu.nvidia.com'].uuid)",
    "device.attributes['gpu.nvidia.com'].type == 'gpu' && !(device.driver != \"gpu.nvidia.com\")",
    'device.attributes["gpu.nvidia.com"]["productName"] == "NVIDIA H200"',
    "device.attributes['gpu.nvidia.com'].productName",
    "device.attributes['gpu.nvidia.com'].productName == 1",
    "device.attributes.exists(domain, domain == 'gpu.nvidia.com')",
    "device.allowMultipleAllocations",
    "cel.bind(one, device, one.driver == 'gpu.nvidia.com' && one.attributes['gpu.nvidia.com'].ok)",
    "cel.bind(gpu, device.attributes['gpu.nvidia.com'], gpu.type == 'gpu' && gpu.uuid.startsWith('GPU-'))",
    # names that are not in the catalogue
    "device.attributes['gpu.nvidia.com'].product == 'x'",
    "device.attributes['example.com'].anything == {'a': 1 + 2 * -3, 'b': 2}['a']",
    "device.attributes['resource.kubernetes.io'].pcieRoot == 'pci0000:00'",
    "1 == 1",
    # quantities and versions
    "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
    "device.capacity['gpu.nvidia.com'].memory == quantity('80Gi').sub(quantity('40Gi'))",
    "'memory' in device.capacity['gpu.nvidia.com'] ? true : false",
    "device.capacity['a.b'].exists(name, device.capacity['a.b'][name].isGreaterThan(quantity('1Gi')))",
    "quantity('1Gi').add(1).isInteger() && sign(quantity('1')) == 1 && isQuantity('1Gi')",
    "device.attributes['gpu.nvidia.com'].driverVersion.isGreaterThan(semver('580.0.0'))",
    "device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('v580.0', true)) >= 0",
    "device.attributes['gpu.nvidia.com'].driverVersion.major() >= 580 && isSemver('1.0.0')",
    # optional values
    "device.capacity['gpu.nvidia.com'].?memory.hasValue()",
    "device.attributes[?'gpu.nvidia.com'].hasValue()",
    "device.attributes['gpu.nvidia.com'].?productName.orValue('x') == 'x'",
    "device.attributes[?'gpu.nvidia.com'].?productName.orValue('x') == 'NVIDIA H200'",
    "device.attributes[?'gpu.nvidia.com'].optMap(gpu, gpu.type == 'gpu').orValue(false)",
    "optional.of(1).hasValue() && optional.none().orValue(true) && [1].first().hasValue()",
    # macros
    "['Hopper', 'Blackwell'].exists(a, a == device.attributes['gpu.nvidia.com'].architecture)",
    "['Hopper'].all(a, a != device.attributes['gpu.nvidia.com'].architecture) || ['x'].exists_one(a, a == 'x')",
    "device.attributes['gpu.nvidia.com'].architecture in ['Hopper', 'Blackwell',]",
    "['Hopper', 'Ada'].filter(a, a.startsWith('H')).map(a, a.size()).sum() > 1",
    "[1, 2].exists(i, v, i == v) && [1].transformList(i, v, v) == [1] && {1: 2}.transformMap(k, v, v) == {1: 2}",
    "device.attributes['gpu.nvidia.com'].all(name, value, value == 'x')",
    # functions
    "device.attributes['gpu.nvidia.com'].productName.lowerAscii().matches('^.*h200.*$')",
    "'a,b'.split(',') == ['a', 'b'] && 'a'.charAt(0) == 'a' && 'ab'.substring(1) == 'b'",
    "'abc'.find('b') == 'b' && 'abc'.findAll('[a-z]', 2) == ['a'] && 'ab'.indexOf('b') == 1",
    "[1, 2].isSorted() && [1, 2].max() == 2 && [1.0].min() == 1.0 && [1, 2].indexOf(1) == 0",
    "[3, 1].sort() == [1, 3] && [[1], [2]].flatten() == [1, 2] && lists.range(3).slice(0, 1) == [0]",
    "[3, 1].sortBy(x, -x) == [3, 1] && [1, 1].distinct().reverse() == [1]",
    "sets.contains([1, 2], [1]) && sets.contains(['a'], device.attributes['gpu.nvidia.com'].brand)",
    "url('https://a/b').getHost() == 'a' && isURL('x') && cidr('10.0.0.0/8').containsIP('10.0.0.1')",
    "string(ip('1.2.3.4')) == '1.2.3.4' && ip('::1').family() == 6 && ip.isCanonical('::1') && isIP('x')",
    "format.dns1123Label().validate('a').hasValue() || format.named('uuid').hasValue()",
    "duration('90s') < duration('1h30m') && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
    "int(device.attributes['gpu.nvidia.com'].cudaDriverVersion) > 1 && size('x') == 1 && string(1) == '1'",
    # literals, comments and line breaks
    r"device.attributes['gpu.nvidia.com'].brand != 'it\'s' || device.driver == r'\d'",
    "b'abc' == b'abc' && '''x''' == \"x\" && 0x1F == 31 && 1u == 1u && -1.5e3 < 0.0",
    "device.driver // a comment\n  == 'é€'",
    " && ".join(["device.driver == 'gpu.nvidia.com'"] * 50),
    "device.driver == '" + "x" * 10221 + "'",
]

INVALID = {
    # syntax errors: for each expression, the problem and the fix that the check reports
    "": ("unexpected end, expecting a value at line 1, column 1", ""),
    "device.driver = 'x'": ("an invalid CEL token: = at line 1, column 15", "write =="),
    "device.driver == 'x' & true": ("an invalid CEL token: & at line 1, column 22", "write &&"),
    "device.driver == 'x' and true": ("mismatched input 'and' expecting the end at line 1, column 22", "write &&"),
    "not device.driver == 'x'": ("mismatched input 'device' expecting the end at line 1, column 5", "write !"),
    "device.driver == 'x": ("an invalid CEL token: 'x at line 1, column 18", "close the quote"),
    "(device.driver == 'x'": ("missing ')' at line 1, column 22", ""),
    "device.driver == 'x')": ("extraneous input ')' expecting the end at line 1, column 21", ""),
    "device.driver == 'x' ? true": ("unexpected end, expecting ':' at line 1, column 28", ""),
    "true\n  && device.driver = 'x'": ("an invalid CEL token: = at line 2, column 20", "write =="),
    "device.capacity['gpu.nvidia.com'].memory > 40Gi": ("extraneous input 'Gi'", "compareTo(quantity('40Gi'))"),
    "has(device)": ("has() argument must be a field selection", ""),
    # names
    ".foo()": ("undeclared reference to '.foo' at line 1, column 5", "see kubernetes.io"),
    "device.driver.foo()": ("undeclared reference to 'foo' at line 1, column 18", "see kubernetes.io"),
    "device.attributes['x'].y.foo()": ("undeclared reference to 'foo'", "see kubernetes.io"),
    "device.driver == quantiy('1')": ("undeclared reference to 'quantiy'", "did you mean 'quantity'?"),
    "devices.driver == 'x'": ("undeclared reference to 'devices.driver'", "did you mean 'device'?"),
    "device.attribute['a'].type == 'gpu'": ("undefined field 'attribute' of device", "did you mean 'attributes'?"),
    "has(device.foo)": ("undefined field 'foo' of device", "device has allowMultipleAllocations, attributes"),
    "cel.bind(d, device, d.foo == 'x')": ("undefined field 'foo' of device", "device has"),
    "recursion() == 1": ("undeclared reference to 'recursion'", ""),
    "math.greatest(1, 2) == 2": ("undeclared reference to 'math'", ""),
    "device.attributes['x'].y.includes('x')": ("undeclared reference to 'includes'", ""),
    "authorizer.path('/').check('get').allowed()": ("undeclared reference to 'authorizer'", ""),
    # types
    "device.capacity['gpu.nvidia.com'].memory > '40Gi'": (
        "no matching overload for '>' applied to '(kubernetes.Quantity, string)' at line 1, column 42",
        "compareTo(quantity('40Gi'))",
    ),
    "device.capacity['gpu.nvidia.com'].memory >= quantity('40Gi')": (
        "no matching overload for '>='",
        "compareTo(",
    ),
    "device.capacity['a'].memory.compareTo('40Gi') >= 0": (
        "'(kubernetes.Quantity, string)'",
        "compareTo(quantity(",
    ),
    "device.capacity['a'].memory.value == 1": ("undefined field 'value' of kubernetes.Quantity", "compareTo("),
    "semver('1.0.0').isGreaterThan(quantity('1'))": ("'(kubernetes.Semver, kubernetes.Quantity)'", ""),
    "device.driver == 1": ("no matching overload for '==' applied to '(string, int)'", ""),
    "device.driver == 'x' ? true : 'no'": ("'(bool, bool, string)'", ""),
    "device.attributes['a'].b.contains(1)": ("'(any, int)'", ""),
    "device.attributes['a'].b.exists(x, x == 1)": ("expression of type 'any'", ""),
    "device.allowMultipleAllocations == 1": ("'(bool, int)'", ""),
    "[1].exists(x, x)": ("'(bool, int)'", ""),
    # results
    "device.driver": ("an expression of type string", "compare it with a value"),
    "device": ("an expression of type kubernetes.DRADevice", "compare it with a value"),
    "device.attributes": ("an expression of type map<string, map<string, any>>", "compare it with a value"),
    "device.capacity['gpu.nvidia.com'].memory": ("an expression of type kubernetes.Quantity", ""),
    "device.capacity['a'].b.compareTo(quantity('40Gi'))": ("an expression of type int", "compare it with a value"),
    "device.attributes['a'].b.c": ("an expression of type dyn", "compare it with a value"),
    # constants
    "device.driver.matches('(')": ("'(' in matches() (invalid regular expression: missing ): ()", ""),
    "matches(device.driver, '[')": ("'[' in matches()", ""),
    "device.driver.find('(') == ''": ("'(' in find()", ""),
    "duration('1d') > duration('1s')": ("'1d' in duration()", ""),
    "timestamp('x') > timestamp('2020-01-01T00:00:00Z')": ("'x' in timestamp()", ""),
    "device.driver in ['a', 1]": ("a list or map with constants of several types: string, int", "as one type"),
    "{'a': 1, 'b': 'c'} == {'a': 1}": ("a list or map with constants of several types: int, string", ""),
    # limits
    "device.driver == '" + "x" * 10222 + "'": ("10241 bytes", "shorten it"),
    "device.driver == '" + "é" * 5111 + "'": ("10241 bytes", "shorten it"),
    "(" * 300 + "true" + ")" * 300: ("an expression that is nested too deeply", "use fewer brackets"),
}

# Expressions that our check accepts and the API server refuses.
# `cel_environment` documents the reasons.
PASSED_BUT_REFUSED = [
    "type(device.driver) == string",
    "[device.driver, 1] == []",
    "cel.bind(one, device, one.capacity['a'].b > '40Gi')",
]
# Expressions that our check refuses and the API server accepts.
REFUSED_BUT_TAKEN = ["(" * 60 + "true" + ")" * 60]
