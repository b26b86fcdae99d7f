"""Runs tools/fetch_wheels.py against a package index on loopback that drops connections and changes files."""

import hashlib
import http.server
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

TOOLS = pathlib.Path(__file__).parents[2] / "tools"
FILE = "toy-1.0-py3-none-any.whl"


def make_wheel():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("toy/lib/libtoy.so", os.urandom(3 << 20))
        archive.writestr("toy/lib/libother.so", b"not wanted")
        program = zipfile.ZipInfo("toy/lib/libtoy-tool")
        program.external_attr = 0o744 << 16
        archive.writestr(program, b"#!/bin/sh\n")
    return buffer.getvalue()


class Index(http.server.ThreadingHTTPServer):
    """Serves one wheel; the first `breaks` responses end after `break_after` bytes. `ranges`: knows Range."""

    def __init__(self, wheel):
        super().__init__(("127.0.0.1", 0), Handler)
        self.wheel, self.break_after, self.breaks, self.ranges, self.starts = wheel, 1 << 20, 0, True, []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/simple/toy/":
            body = f'<!DOCTYPE html><a class="x" href="../../files/{FILE}#sha256=00">{FILE}</a>'.encode()
            self.answer(200, body)
            return
        server = self.server
        start = int(self.headers.get("Range", "bytes=0-")[6:-1]) if server.ranges else 0
        server.starts.append(start)
        if start >= len(server.wheel):
            self.answer(416, b"")
            return
        self.answer(206 if start else 200, server.wheel[start:], short=server.breaks > 0)
        server.breaks -= 1

    def answer(self, status, body, short=False):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:self.server.break_after] if short else body)

    def log_message(self, *_):
        pass


class FetchWheels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.index = Index(make_wheel())
        self.addCleanup(self.index.server_close)
        self.addCleanup(self.index.shutdown)
        threading.Thread(target=self.index.serve_forever, args=(0.02,), daemon=True).start()
        shutil.copy(TOOLS / "fetch_wheels.py", self.root)
        digest = hashlib.sha256(self.index.wheel).hexdigest()
        (self.root / "wheels_arrow.txt").write_text("")
        (self.root / "wheels.txt").write_text(f"# a comment\ntoy 1.0 {FILE} {digest} toy/lib/libtoy*\n")
        self.downloads, self.deps = self.root / "trainer" / "downloads", self.root / "trainer" / "deps"

    def fetch(self, **more):
        kept = {name: value for name, value in os.environ.items()
                if not name.startswith("PIP_") and not name.lower().endswith("_proxy") and name != "TRAINER_DEPS"}
        environment = {**kept, "XDG_CACHE_HOME": str(self.root), "PIP_CONFIG_FILE": os.devnull,
                       "PIP_INDEX_URL": f"http://127.0.0.1:{self.index.server_address[1]}/simple", **more}
        return subprocess.run([sys.executable, self.root / "fetch_wheels.py"], env=environment,
                              capture_output=True, text=True, check=False)

    def unpacked(self):
        return sorted(str(path.relative_to(self.deps)) for path in self.deps.rglob("lib*.so"))

    def test_unpacks_wanted_files_and_then_does_nothing(self):
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(self.unpacked(), ["toy/lib/libtoy.so"])
        again = self.fetch(PIP_INDEX_URL="http://127.0.0.1:1/simple")
        self.assertEqual((again.returncode, again.stdout), (0, ""))

    def test_programs_can_be_run(self):
        self.assertEqual(self.fetch().returncode, 0)
        for name, mode in (("libtoy-tool", 0o755), ("libtoy.so", 0o644)):
            self.assertEqual((self.deps / "toy/lib" / name).stat().st_mode & 0o777, mode, name)

    def test_resumes_a_broken_download(self):
        self.index.breaks = 2
        answer = self.fetch()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(self.index.starts, [0, 1 << 20, 2 << 20])

    def test_resumes_the_download_of_an_earlier_run(self):
        self.downloads.mkdir(parents=True)
        (self.downloads / f"{FILE}.part").write_bytes(self.index.wheel[:1000])
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(self.index.starts, [1000])

    def test_restarts_if_the_server_does_not_support_ranges(self):
        self.index.breaks, self.index.ranges = 1, False
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual(self.index.starts, [0, 0])

    def test_replaces_a_damaged_download(self):
        self.downloads.mkdir(parents=True)
        (self.downloads / FILE).write_bytes(b"damaged")
        answer = self.fetch()
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn(hashlib.sha256(b"damaged").hexdigest(), answer.stdout)

    def test_recovers_from_a_partial_file_that_is_too_long(self):
        self.downloads.mkdir(parents=True)
        (self.downloads / f"{FILE}.part").write_bytes(self.index.wheel + b"more")
        self.assertEqual(self.fetch().returncode, 0)

    def test_refuses_a_file_with_another_hash(self):
        good = hashlib.sha256(self.index.wheel).hexdigest()
        self.index.wheel = make_wheel()
        answer = self.fetch()
        self.assertEqual(answer.returncode, 1)
        self.assertIn(good, answer.stderr)
        self.assertIn(hashlib.sha256(self.index.wheel).hexdigest(), answer.stderr)
        self.assertFalse(self.deps.exists())
        self.assertEqual(list(self.downloads.glob("toy*")), [])

    def test_repairs_a_damaged_library(self):
        self.fetch()
        (self.deps / "toy/lib/libtoy.so").write_bytes(b"")
        self.assertEqual(self.fetch().returncode, 0)
        self.assertEqual((self.deps / "toy/lib/libtoy.so").stat().st_size, 3 << 20)

    def test_uses_a_manually_downloaded_wheel(self):
        self.downloads.mkdir(parents=True)
        (self.downloads / FILE).write_bytes(self.index.wheel)
        self.assertEqual(self.fetch(PIP_INDEX_URL="http://127.0.0.1:1/simple").returncode, 0)

    def test_explains_what_to_do_without_network(self):
        answer = self.fetch(PIP_INDEX_URL="http://127.0.0.1:1/simple")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("127.0.0.1:1/simple/toy/", answer.stderr)
        self.assertIn("proxy", answer.stderr)
        self.assertNotIn("Traceback", answer.stderr)

    def test_leaves_a_folder_alone_that_it_did_not_create(self):
        mine = self.root / "mine"
        mine.mkdir()
        (mine / "thesis.txt").write_text("")
        answer = self.fetch(TRAINER_DEPS=str(mine))
        self.assertEqual(answer.returncode, 1)
        self.assertIn(str(mine), answer.stderr)
        self.assertEqual([path.name for path in mine.iterdir()], ["thesis.txt"])


if __name__ == "__main__":
    unittest.main()
