"""The developer's commands, which need only Python on the machine: ``python3 tools/dev.py VERB`` (or ``make VERB``).

    setup     make .venv with what Drawbridge needs, and update the web UI if it has been built
    serve     run the agent server; it prints the address of its web UI
    demo      like serve, with a temporary project and a scripted agent; needs no account
    test      check, then every test except the thorough and slow ones
    nvim      only the tests that use Neovim, with the one on PATH
    thorough  the tests with real programs that take several seconds each; CI runs them, too
    slow      the long tests, and more examples for the tests with generated input
    flaky     run a selection of tests many times alongside busy processes: flaky SELECTION --rounds N --load L
    check     lint the code, and check its format and types
    format    format the code
    bench     run the benchmarks
    vsix      pack the VS Code extension into dist/
    lock      rewrite the lock files from pyproject.toml
    page      build the web UI (serve, demo and test do this, too)
    programs  fetch the real programs that the tests use, once for each user
    quiet     wait up to five minutes until no other program keeps the processors busy
    clean     remove what the verbs above have created in this checkout

Arguments after the verb are passed on: ``test -k selection``, ``serve --port 12345``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import bootstrap
import checks
import flaky
import page as web_page
import programs as real_programs
import quiet as quiet_machine
from bootstrap import CACHE, ROOT, SetupError

MADE_BY_TOOLS = (".venv", ".cache", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "build", "dist")
MADE_BY_BUILD = ("web/node_modules", "src/drawbridge/page")

PASSED = "DRAWBRIDGE_PASSED"
"""The environment variable that names the file with the tests that have passed on another kind of machine, and are not
run again. CI sets it."""


def setup(arguments: list[str]) -> None:
    python = bootstrap.ensure("dev" if arguments == ["--dev"] else "runtime")
    bootstrap.log(f"ready: {python.with_name('drawbridge')}")
    if web_page.PAGE.exists():  # after an update, a server must not serve the previous web UI
        page([])


def serve(arguments: list[str]) -> None:
    python = bootstrap.ensure("runtime")
    try_page()
    replace_process([python, "-m", "drawbridge", "serve", *arguments])


def demo(arguments: list[str]) -> None:
    python = bootstrap.ensure("runtime")
    try_page()
    replace_process([python, "-m", "drawbridge", "demo", *arguments])


def page(_arguments: list[str]) -> None:
    bootstrap.ensure("runtime")
    try:
        web_page.build()
    except web_page.PageError as error:
        raise SetupError(str(error)) from None
    bootstrap.log(f"the web UI is in {web_page.PAGE.relative_to(ROOT)}")


def try_page() -> None:
    """Builds the web UI. If that fails, the server still runs, and shows the reason in place of the web UI."""
    try:
        web_page.build()
    except web_page.PageError as error:
        bootstrap.log(str(error))
        os.environ[web_page.FAILED] = str(error)


def test(arguments: list[str]) -> None:
    try_page()
    with compiling_the_tests():
        check([])
    pytest_in_parallel(arguments)


@contextlib.contextmanager
def compiling_the_tests() -> Iterator[None]:
    """In a new checkout, imports all tests in another process until the context exits, to store their bytecode. The
    checks keep only one processor busy. Without the bytecode, every worker of pytest would compile all tests itself.
    """
    if (ROOT / "tests" / "__pycache__").exists():
        yield
        return
    collecting = [str(bootstrap.ensure("dev")), "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(collecting, cwd=ROOT, stdin=nowhere, stdout=nowhere, stderr=nowhere) as process:
        try:
            yield
            process.wait()
        finally:
            process.kill()


def nvim(arguments: list[str]) -> None:
    program = shutil.which("nvim")
    if program is None:
        raise SetupError("Neovim was not found on PATH. Install it (the Debian package neovim), and run this again.")
    os.environ["DRAWBRIDGE_TEST_NVIMS"] = program
    try_page()
    pytest_in_parallel(["--only-nvim", *arguments])


def thorough(arguments: list[str]) -> None:
    try_page()
    selected = ["-m", "thorough and not slow", "--durations=0", "--durations-min=1"]
    pytest_in_parallel([*selected, *arguments])


def pytest_in_parallel(arguments: list[str]) -> None:
    command = parallel_pytest() + arguments
    if PASSED in os.environ:
        command += ["-p", "tools.passed", f"--passed={os.environ[PASSED]}"]
    if flaky.LIST in os.environ:
        raise SystemExit(flaky.run(command, Path(os.environ[flaky.LIST])))
    replace_process(command)


def parallel_pytest() -> list[str]:
    """The command for parallel tests. It uses one process more than there are cores, but at most 8, because the tests
    spend more than half of their time waiting for real programs."""
    workers = min((os.cpu_count() or 1) + 1, 8)
    return [str(bootstrap.ensure("dev")), "-m", "pytest", "--numprocesses", str(workers), "--dist", "worksteal"]


def flaky_tests(arguments: list[str]) -> None:
    raise SystemExit(flaky.campaign(parallel_pytest(), arguments))


def slow(arguments: list[str]) -> None:
    try_page()
    # Hypothesis marks its own tests. They run here again, with more examples than `make test` has time for.
    selected = ["-m", "slow or hypothesis", "--hypothesis-profile=thorough"]
    replace_process([bootstrap.ensure("dev"), "-m", "pytest", *selected, *arguments])


def check(_arguments: list[str]) -> None:
    python = str(bootstrap.ensure("dev"))
    for tool in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        step([python, "-m", *tool])
    checks.check()


def format_code(_arguments: list[str]) -> None:
    step([str(bootstrap.ensure("dev")), "-m", "ruff", "format"])
    checks.format_code()


def bench(arguments: list[str]) -> None:
    replace_process([bootstrap.ensure("dev"), "-m", "bench", *arguments])


def vsix(_arguments: list[str]) -> None:
    sys.path.insert(0, str(ROOT / "src"))
    from drawbridge.core.errors import DrawbridgeError
    from drawbridge.setup.vsix import manifest, pack

    folder = ROOT / "extensions" / "vscode"
    try:
        target = ROOT / "dist" / f"drawbridge-{manifest(folder)['version']}.vsix"
        pack(folder, target)
    except DrawbridgeError as error:
        raise SetupError(str(error)) from None
    shown = target.relative_to(ROOT)
    bootstrap.log(f"packed {shown}; to install it: code --install-extension {shown}")


def lock(arguments: list[str]) -> None:
    """Rewrites the lock files for all supported Python versions, with the hashes of every platform's files, and without
    the address of the package index.
    """
    uv = shutil.which("uv") or _own_uv()
    compile_ = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
    compile_ += ["--no-header", "--no-emit-index-url", *arguments, "pyproject.toml"]
    step([*compile_, "--group", "build", "--output-file", "requirements.lock"])
    step([*compile_, "--group", "dev", "--constraints", "requirements.lock", "-o", "requirements-dev.lock"])


def _own_uv() -> str:
    directory = CACHE / "uv"
    if not (directory / "bin" / "uv").exists():
        bootstrap.make_venv(directory)
        bootstrap.run([str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv"])
    return str(directory / "bin" / "uv")


def quiet(_arguments: list[str]) -> None:
    quiet_machine.wait()


def programs(_arguments: list[str]) -> None:
    real_programs.fetch_all()


def clean(_arguments: list[str]) -> None:
    for name in (*MADE_BY_TOOLS, *MADE_BY_BUILD):
        shutil.rmtree(ROOT / name, ignore_errors=True)
    for folder in ("src", "tests", "tools", "bench"):
        for cached in (ROOT / folder).rglob("__pycache__"):
            shutil.rmtree(cached, ignore_errors=True)


def step(command: list[str]) -> None:
    """Runs ``command`` in the root of the checkout. If it fails, raises ``SystemExit`` with its exit code."""
    code = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        raise SystemExit(code)


def replace_process(command: Sequence[str | Path]) -> None:
    """Replaces this process, so that signals, the terminal and the exit code are the command's own."""
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execv(command[0], [str(part) for part in command])


VERBS = {
    verb.__name__: verb
    for verb in (setup, serve, demo, test, nvim, thorough, slow, check, bench, vsix, lock, page, programs, quiet, clean)
}
VERBS |= {"format": format_code, "flaky": flaky_tests}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in VERBS:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        VERBS[arguments[0]](arguments[1:])
    except SetupError as error:
        bootstrap.log(str(error))
        return error.code
    except KeyboardInterrupt:
        return 130
    return 0
