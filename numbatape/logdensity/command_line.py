"""The arguments of the console script ``numbatape``: one function for each command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numbatape

EPILOG = "exit codes: 0 done, 1 the model failed, 2 usage or a file that cannot be read or written"
Commands = Callable[[str, str, str], argparse.ArgumentParser]
METHODS = ("both", "lbfgs", "trust")
SEVERAL: dict[str, Any] = {"metavar": "FILE", "nargs": "+", "action": "extend"}


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed arguments; argparse prints what is wrong, and exits."""
    parser = argparse.ArgumentParser(
        prog="numbatape", description="Log-densities in plain NumPy, with their gradients.", epilog=EPILOG
    )
    parser.add_argument("--version", action="version", version=f"numbatape {numbatape.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, module: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, epilog=EPILOG)
        sub.set_defaults(module=module)
        sub.add_argument("--json", action="store_true", help="print a machine-readable summary")
        return sub

    for add in (_logp, _sample, _optimize, _plot, _check, _info, _warmup):
        add(command)
    if not (sys.argv[1:] if argv is None else argv):
        parser.print_help(sys.stderr)  # all commands, where none was given
        parser.exit(2)
    options = parser.parse_args(argv)
    _find_model(parser, options)
    return options


def _model(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "model", nargs="?", metavar="MODEL.py[:name]", help="defines logp(theta, data), or `name`"
    )
    sub.add_argument(
        "--data", metavar="FILE", help=".json, .json.gz or .json.zip (default: `data` in MODEL.py)"
    )


def _dask(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--dask", metavar="ADDRESS", help="of the scheduler of a Dask cluster")


def _logp(command: Commands) -> None:
    sub = command("logp", "logp", "Evaluate a log-density and its gradient for every draw of a file.")
    _model(sub)
    kinds = (
        ".csv, .npy, .npz, .json, .nc, .zarr, or one of them as .gz, or .json.zip; several files count as one"
    )
    sub.add_argument("--draws", required=True, help=kinds, **SEVERAL)
    sub.add_argument("--out", required=True, metavar="FILE", help=".npz, .csv, or ArviZ's .nc or .zarr")
    sub.add_argument("--no-grad", action="store_true", help="log-densities only")
    sub.add_argument("--threads", type=_positive, metavar="N", help="default: as many as pay off")
    sub.add_argument("--chunk", type=_positive, metavar="N", help="draws in a block, the unit of work")
    sub.add_argument(
        "--resume",
        action="store_true",
        help="keep finished blocks in OUT.parts, and evaluate only what is missing there",
    )
    _dask(sub)
    sub.set_defaults(unit="block")


def _sample(command: Commands) -> None:
    """Declare the command ``sample`` and its options."""
    sub = command("sample", "sample", "Draw from a log-density by NUTS (nutpie); a killed run is resumed.")
    _model(sub)
    sub.add_argument(
        "--out", required=True, metavar="DIR", help="gets the chains, and draws.nc of all of them"
    )
    sub.add_argument("--draws", type=_positive, default=1000, metavar="N", help="kept of each chain (1000)")
    sub.add_argument("--tune", type=_positive, default=1000, metavar="N", help="draws before them (1000)")
    sub.add_argument("--chains", type=_positive, default=4, metavar="N", help="(4)")
    sub.add_argument("--cores", type=_positive, metavar="N", help="chains at a time (as many as CPUs)")
    sub.add_argument("--seed", type=_count, metavar="N", help="default: another one each time")
    sub.add_argument(
        "--init",
        metavar="R|FILE",
        help="radius around the start (1), or a file of draws to start at, one for each chain",
    )
    sub.add_argument("--target-accept", type=_share, default=0.8, metavar="P", help="mean acceptance (0.8)")
    sub.add_argument("--zarr", action="store_true", help="write draws.zarr instead of draws.nc")
    _dask(sub)
    sub.set_defaults(unit="chain")


def _optimize(command: Commands) -> None:
    sub = command("optimize", "optimize", "Find the mode of a log-density, and standard errors (Laplace).")
    _model(sub)
    sub.add_argument("--out", metavar="FILE", help=".npz: the mode, the Hessian, the covariance of theta")
    sub.add_argument("--method", choices=METHODS, default="both", help="L-BFGS, then a trust region (both)")
    sub.add_argument("--jacobian", action="store_true", help="maximise the density of theta, with Jacobians")
    sub.add_argument("--no-hessian", action="store_true", help="no standard errors")
    sub.add_argument("--starts", type=_positive, default=1, metavar="N", help="the best of N searches (1)")
    sub.add_argument("--init", metavar="R|FILE", help="radius of further starts (1), or a file of points")
    sub.add_argument("--seed", type=_count, default=0, metavar="N", help="of further starts (0)")
    sub.set_defaults(draws=None)


def _plot(command: Commands) -> None:
    sub = command("plot", "plot", "Draw log-densities, gradients, and the worst coordinates of a run.")
    sub.add_argument("results", metavar="OUT", help="of `sample` (a directory) or `logp`: .nc, .npz, .csv")
    sub.add_argument("--out", metavar="FILE", help=".png, .pdf or .svg (default: OUT.png)")
    sub.add_argument("--dpi", type=_positive, default=120, metavar="N", help="of .png (120)")


def _check(command: Commands) -> None:
    sub = command("check", "model_check", "Compare value and gradient with NumPy and finite differences.")
    _model(sub)
    sub.add_argument("--draws", help="check at the first draws of these files", **SEVERAL)
    sub.add_argument("--points", type=_positive, default=3, metavar="N", help="how many points (3)")
    sub.add_argument("--size", type=_positive, metavar="N", help="length of theta, without names or draws")
    sub.add_argument("--seed", type=_count, default=0, help="of the random points, without draws (0)")
    sub.add_argument("--rtol", type=_share, default=1e-6, help="tolerance of the gradient (1e-6)")


def _info(command: Commands) -> None:
    sub = command("info", "about", "Print versions, CPU, cache directory, and a table of compiled kernels.")
    sub.add_argument(
        "--prune",
        type=_days,
        nargs="?",
        const=60.0,
        metavar="DAYS",
        help="delete kernels not used for so long (60)",
    )


def _warmup(command: Commands) -> None:
    sub = command("warmup", "warm_kernels", "Compile all kernels now, so that later runs start fast.")
    sub.add_argument(
        "--all", action="store_true", help='those of float32 and of Config(values="numpy") as well'
    )


def _find_model(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Find the model among the files of draws, where the user has named it after them."""
    if getattr(options, "model", "") is not None:
        return
    files = options.draws if isinstance(options.draws, list) else []
    found = [file for file in files if file.endswith(".py") or ".py:" in file]
    if not found:
        parser.error(f"{options.command} needs a MODEL.py")
    options.model = found[0]
    files.remove(found[0])
    if not files:
        parser.error("--draws needs a file")


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return number


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer, 0 or more")
    return int(text)


def _days(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return number


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 0 and 1")
    return number
