#!/usr/bin/env python3
"""Fails where a kernel compiled for a strong instruction set could leak into code that runs on every machine.

usage: check_isa_objects.py BUILD_DIR

The linker keeps one copy of every weak symbol: an inline function of a standard header that was compiled with AVX-512
in one object may become the copy that everybody calls, and crash a processor without it. So an object of a strong tier
may define strong or local symbols only, and the strong ones must lie in the tier's own namespace. Read-only data that
the compiler shares by content (strings, constants) is harmless: it holds no instructions.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ELF_AARCH64 = 183
STRONG_TIERS = ("avx2", "avx512", "amx", "neon")
# nm's letters of definitions that the linker may merge: weak functions and objects, unique globals, commons.
SHARED_KINDS = set("WwVvuC")
# nm's letters of definitions visible to other objects.
GLOBAL_KINDS = set("TDBR")
# Defined by the compiler in every object of a sanitizer build.
SANITIZER_SYMBOL = re.compile(r"^(__asan_|__ubsan_|__tsan_|__odr_asan|_GLOBAL__|DW\.ref\.__gxx_personality)")


def tier_objects(build_dir):
    """Yields (tier, object): CMake names an object library's folder <target>.dir, and a tier's target ends in _<tier>."""
    for path in sorted(build_dir.rglob("*.o")):
        folders = [part[: -len(".dir")] for part in path.parts if part.endswith(".dir")]
        for tier in STRONG_TIERS:
            if any(re.fullmatch(r"hf_\w+_" + tier, folder) for folder in folders):
                yield tier, path


def nm_for(path):
    """The tool that reads this object: the native nm may not know another machine's."""
    machine = int.from_bytes(path.read_bytes()[18:20], "little")  # e_machine of the ELF header
    cross = "aarch64-linux-gnu-nm"
    return cross if machine == ELF_AARCH64 and shutil.which(cross) else "nm"


def definitions(path):
    """Yields (kind, demangled name) of every symbol that the object defines."""
    output = subprocess.run(
        [nm_for(path), "--demangle", "--defined-only", "--format=posix", str(path)], check=True, capture_output=True, text=True
    ).stdout
    for line in output.splitlines():
        match = re.match(r"(.*) ([A-Za-z]) [0-9a-f]* ?[0-9a-f]*$", line)
        if match:
            yield match.group(2), match.group(1)


def problems(tier, path):
    for kind, name in definitions(path):
        if SANITIZER_SYMBOL.match(name):
            continue
        if kind in SHARED_KINDS:
            yield f"{path}: shared definition ({kind}) of {name}"
        elif kind in GLOBAL_KINDS and f"holdfast::{tier}::" not in name:
            yield f"{path}: {name} is defined outside holdfast::{tier}"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build_dir = pathlib.Path(sys.argv[1])
    objects = list(tier_objects(build_dir))
    if not objects:
        sys.exit(f"check_isa_objects: {build_dir}: no kernel object of {', '.join(STRONG_TIERS)}; build first")
    found = [problem for tier, path in objects for problem in problems(tier, path)]
    for problem in found:
        print(problem, file=sys.stderr)
    if found:
        sys.exit(f"check_isa_objects: {len(found)} symbols of strong tiers could reach other machines")
    print(f"check_isa_objects: {len(objects)} objects define nothing that the linker could share")


if __name__ == "__main__":
    main()
