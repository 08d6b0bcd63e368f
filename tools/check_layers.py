#!/usr/bin/env python3
"""Checks that a module includes only itself and lower layers, and that programs see the public API alone."""
import pathlib
import re
import sys

# Lowest first. Modules on one line do not include each other.
LAYERS = [
    ["base"],
    ["tensor", "simd", "paging", "tiers", "tokenizer"],
    ["ops", "codec"],
    ["span"],
    ["attention", "cache"],
    ["kv"],
    ["pool", "models"],
    ["engine"],
    ["server", "cli"],
]
# Only the public headers: what is built on the library the way another project would be.
PUBLIC_ONLY = ["cli", "server"]
LEVEL = {module: i for i, layer in enumerate(LAYERS) for module in layer}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def faults(root: pathlib.Path):
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        module = path.relative_to(root / "src").parts[0]
        if module not in LEVEL:
            yield f"{path.relative_to(root)}: module '{module}' is in no layer of tools/check_layers.py"
            continue
        for target in INCLUDE.findall(path.read_text()):
            other = target.split("/")[0]
            if other == "holdfast" or other == module:
                continue
            if module in PUBLIC_ONLY:
                yield f"{path.relative_to(root)}: includes {target}; {module} may include only holdfast/ and itself"
            elif other not in LEVEL:
                yield f"{path.relative_to(root)}: includes {target}; write it as module/file.h"
            elif LEVEL[other] >= LEVEL[module]:
                yield f"{path.relative_to(root)}: includes {target}; {other} is not below {module}"
    for folder in ("include", "examples"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                for target in INCLUDE.findall(path.read_text()):
                    if not target.startswith("holdfast/"):
                        yield f"{path.relative_to(root)}: includes {target}; only holdfast/ is public"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = list(faults(root))
    for fault in found:
        print(fault, file=sys.stderr)
    if not found:
        print("layers: every include looks down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
