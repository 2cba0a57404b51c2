"""A release build: the wheel carries the whole library of kernels, compiled for several levels of processors.

    HATCH_BUILD_HOOK_ENABLE_CUSTOM=true python -m build

Without the variable (``pip install .``, ``pip install -e .``) nothing is compiled here, and users' machines
compile kernels when they first need them. docs/kernels.md says more.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Kernels(BuildHookInterface):
    """Adds the archives of kernels to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile all kernels for all levels that LLVM here knows; an editable installation gets none."""
        self._directory = Path(tempfile.mkdtemp(prefix="numbatape-kernels-"))
        if version == "editable":
            return
        sys.path.insert(0, self.root)  # the source that is being packed
        from numbatape.engine import library
        from numbatape.jit import machine, processor_levels, release

        names, texts = zip(*library.texts(), strict=True)
        # Forks of a build that has threads, such as those of JAX in a run of all tests, could stop for ever.
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(mp_context=spawned, initializer=os.nice, initargs=(10,)) as pool:
            for level in processor_levels.LEVELS:
                try:
                    machine.emitter(level)
                except machine.CannotEmit as error:
                    self.app.display_warning(f"no kernels for {level.name}: {error}")
                    continue
                self.app.display_info(f"compiling {len(texts)} kernels for {level.name}")
                made = pool.map(release.compiled, [level] * len(texts), texts, chunksize=16)
                kernels = [(name, *rest) for name, rest in zip(names, made, strict=True)]
                kernels += release.builtins(level)
                for path in release.write(self._directory, level, kernels):
                    build_data["force_include"][str(path)] = f"numbatape/kernels/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the archives: the wheel has them."""
        shutil.rmtree(self._directory)
