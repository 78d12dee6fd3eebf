"""The embedded server, as the benches start it."""

import contextlib
import os
import pathlib
import shlex
import subprocess
import sys
import time


@contextlib.contextmanager
def server(program: pathlib.Path, folder: pathlib.Path, *options):
    """The process of a server that ends with this, and the environment of its clients."""
    exports = folder / "server"
    command = [program, "serve", "--listen", "127.0.0.1:0", "--env-file", exports, *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            for _ in range(100):
                if exports.exists() or process.poll() is not None:
                    break
                time.sleep(0.1)
            else:
                sys.exit("the server does not start")
            words = shlex.split(exports.read_text())
            yield process, os.environ | dict(word.split("=", 1) for word in words if "=" in word)
        finally:
            process.terminate()
