#!/usr/bin/env python3
"""Downloads and unpacks the libraries in wheels.txt and wheels_arrow.txt for the build; with --cuda, also those in
wheels_cuda.txt. Uses only Python's standard library.

Downloads go to $XDG_CACHE_HOME/trainer/downloads and are checked against the pinned SHA-256; an interrupted download
resumes. The files that the build needs are unpacked atomically to $TRAINER_DEPS (default:
$XDG_CACHE_HOME/trainer/deps), and those of Arrow and of a GPU build to folders of the same name with the suffixes -arrow
and -cuda.
The index, proxy and certificates come from pip's settings and the environment, so this works on any machine that can
`pip download`. You can also put a wheel into the downloads folder by hand.
"""

import ast
import errno
import fcntl
import fnmatch
import functools
import hashlib
import html.parser
import http.client
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import time
import typing
import urllib.error
import urllib.parse
import urllib.request
import zipfile

CHUNK = 1 << 20
ATTEMPTS = 5
STAMP = ".stamp"


class Failure(Exception):
    """An error that the user can fix; printed without a traceback."""


class Wheel(typing.NamedTuple):
    name: str
    version: str
    file: str
    sha256: str
    members: list

    def wants(self, member):
        return not member.endswith("/") and any(fnmatch.fnmatchcase(member, glob) for glob in self.members)


def read_wheels(path):
    lines = (line.split() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#"))
    return [Wheel(name, version, file, sha256, members.split(",")) for name, version, file, sha256, members in lines]


# --- source: pip's settings -------------------------------------------------------------------------------------------


def pip_settings():
    """pip's settings for `pip download`, from its files and PIP_ variables; later ones override earlier ones."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise Failure(f"{sys.executable} has no working pip. The download source comes from pip's settings.\n"
                      f"{answer.stderr.strip()}\nInstall python3-pip, or put a Python that has pip first in PATH.")
    by_section = {"global": {}, "download": {}, ":env:": {}}
    for line in answer.stdout.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in by_section:
            by_section[section][name] = ast.literal_eval(value)
    return {**by_section["global"], **by_section["download"], **by_section[":env:"]}


def index_urls(settings):
    from pip._internal.models.index import PyPI  # pip's built-in default, if nothing is configured
    main = [] if settings.get("no-index") in ("1", "true", "yes") else [settings.get("index-url", PyPI.simple_url)]
    return main + settings.get("extra-index-url", "").split()


def make_opener(settings):
    """Opens URLs with pip's certificates, proxy and passwords; the environment supplies the rest."""
    bundle = settings.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE")
    is_folder = bool(bundle) and os.path.isdir(bundle)
    context = ssl.create_default_context(capath=bundle if is_folder else None, cafile=None if is_folder else bundle)
    if settings.get("client-cert"):
        context.load_cert_chain(settings["client-cert"])
    proxy = settings.get("proxy")
    passwords = urllib.request.HTTPPasswordMgrWithPriorAuth()
    for url in map(urllib.parse.urlsplit, index_urls(settings)):
        if url.username:
            user, word = urllib.parse.unquote(url.username), urllib.parse.unquote(url.password or "")
            host = f"{url.scheme}://{url.netloc.rpartition('@')[2]}"
            passwords.add_password(None, host, user, word, is_authenticated=True)
    return urllib.request.build_opener(
        urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else None),
        urllib.request.HTTPSHandler(context=context), urllib.request.HTTPBasicAuthHandler(passwords))


def without_password(url):
    parts = urllib.parse.urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


class Links(html.parser.HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found += [value for key, value in attributes if tag == "a" and key == "href" and value]


class Source:
    """Finds and opens wheels as pip would; created only if something must be downloaded."""

    def __init__(self):
        self.settings = pip_settings()
        self.opener = make_opener(self.settings)
        self.timeout = float(self.settings.get("default-timeout") or self.settings.get("timeout") or 30)

    def open(self, url, headers=()):
        return self.opener.open(urllib.request.Request(url, headers=dict(headers)), timeout=self.timeout)

    def find(self, wheel):
        """A wheel's URL, from the first of the index pages that lists it."""
        for folder in self.settings.get("find-links", "").split():
            if pathlib.Path(folder, wheel.file).is_file():
                return pathlib.Path(folder, wheel.file).resolve().as_uri()
        pages = [without_password(url).rstrip("/") + f"/{wheel.name}/" for url in index_urls(self.settings)]
        problems = []
        for page in pages:
            try:
                with self.open(page, {"Accept": "text/html"}) as answer:
                    links = Links(answer.read().decode()).found
            except (OSError, http.client.HTTPException) as problem:
                problems.append(f"{page}: {problem}")
                continue
            for link in links:
                url = urllib.parse.urldefrag(urllib.parse.urljoin(page, link)).url
                if urllib.parse.unquote(url.rpartition("/")[2]) == wheel.file:
                    return url
            problems.append(f"{page}: does not list {wheel.file}")
        raise Failure("\n".join([
            f"found no download address for {wheel.name} {wheel.version}.", *(problems or ["pip's no-index is set"]),
            "Check the network. Behind a proxy or with a mirror, set https_proxy or configure pip",
            f"(pip config set global.index-url URL). Or put {wheel.file} into the downloads folder by hand."]))


# --- downloading ------------------------------------------------------------------------------------------------------


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def need_space(folder, size, what):
    free = shutil.disk_usage(folder).free
    if free < size:
        raise Failure(f"no space for {what}: {size / 1e6:.0f} MB needed, {free / 1e6:.0f} MB free in {folder}.\n"
                      "Free some space, or choose another disk with XDG_CACHE_HOME or TRAINER_DEPS.")


class Progress:
    """Progress of a download: one updating line on a terminal, otherwise one line per 10 %."""

    def __init__(self, label, total):
        self.label, self.total, self.shown = label, total, 0
        self.step = 1 if sys.stdout.isatty() else 10 if total > 100e6 else 100

    def at(self, done):
        percent = 100 * done // self.total if self.total else 0
        if percent // self.step == self.shown:
            return
        self.shown = percent // self.step
        line = f"  {self.label}: {percent:3d} % of {self.total / 1e6:.0f} MB"
        ends = "\n" if self.step > 1 or done >= self.total else ""
        print(f"\r{line}" if self.step == 1 else line, end=ends, flush=True)


def receive(source, url, part, label):
    """Appends the rest of `url` to `part`; true when it is complete. Restarts if the server does not support ranges."""
    have = part.stat().st_size if part.exists() else 0
    try:
        answer = source.open(url, {"Range": f"bytes={have}-"} if have else {})
    except urllib.error.HTTPError as problem:
        if problem.code == 416:  # `part` is already as long as the file, or longer: the hash check decides
            return True
        raise
    with answer:
        have = have if answer.status == 206 else 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else 0
        need_space(part.parent, total - have, part.name)
        progress = Progress(label, total)
        with open(part, "ab" if have else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                have += len(chunk)
                progress.at(have)
    return have >= total


def download(source, wheel, part):
    url = source.find(wheel)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            if receive(source, url, part, f"{wheel.name} {wheel.version}"):
                return
            problem = "the connection closed early"
        except (http.client.HTTPException, OSError) as caught:
            if getattr(caught, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
                raise
            problem = caught
        if attempt < ATTEMPTS:
            print(f"\n  {problem}; continuing in {attempt} s", flush=True)
            time.sleep(attempt)
    raise Failure(f"{wheel.file} could not be downloaded from {without_password(url)}: {problem}\n"
                  f"The partial file is kept in {part}; run this again to resume.")


def obtain(wheel, downloads, source):
    """The path of the wheel with the pinned hash, downloaded if it is missing."""
    path, part = downloads / wheel.file, downloads / (wheel.file + ".part")
    for attempt in (1, 2):
        if not path.exists():
            print(f"Downloading {wheel.name} {wheel.version}", flush=True)
            download(source(), wheel, part)
            part.replace(path)
        found = sha256_of(path)
        if found == wheel.sha256:
            return path
        path.unlink()
        message = f"{path} is not the published file:\n  SHA-256 expected {wheel.sha256}\n  SHA-256 found    {found}\n"
        if attempt == 1:
            print(f"{message}It is deleted and downloaded again.", flush=True)
    raise Failure(f"{message}It was wrong twice, and is deleted. Something on the network path changes files:\n"
                  "check pip's settings (`pip config list`) and the proxy, or put the file there by hand.")


# --- unpacking --------------------------------------------------------------------------------------------------------


def pins(wheels):
    return hashlib.sha256(repr(wheels).encode()).hexdigest()


def is_ready(deps, wheels):
    """True if the stamp names these wheels and every file in it exists with the right size."""
    try:
        first, *lines = (deps / STAMP).read_text().splitlines()
        return first == pins(wheels) and all(
            (deps / name).stat().st_size == int(size) for size, name in (line.split(" ", 1) for line in lines))
    except (OSError, ValueError):
        return False


def unpack(wheels, paths, deps):
    """Builds `deps` in a new folder next to it and moves it into place when it is complete."""
    fresh, old = deps.with_name(deps.name + ".new"), deps.with_name(deps.name + ".old")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    fresh.mkdir(parents=True)
    stamp = [pins(wheels)]
    for wheel, path in zip(wheels, paths):
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if wheel.wants(member.filename)]
            need_space(fresh, sum(member.file_size for member in members), f"the files of {wheel.name}")
            print(f"Unpacking {wheel.name}: {sum(member.file_size for member in members) / 1e6:.0f} MB", flush=True)
            for member in members:
                path = archive.extract(member, fresh)
                os.chmod(path, 0o755 if member.external_attr >> 16 & 0o100 else 0o644)  # extract() forgets programs
                stamp.append(f"{member.file_size} {member.filename}")
    (fresh / STAMP).write_text("\n".join(stamp) + "\n")
    if deps.exists():
        deps.rename(old)
    fresh.rename(deps)
    shutil.rmtree(old, ignore_errors=True)


def install(wheels, deps, downloads):
    """Unpacks `wheels` into `deps`, unless they are already there."""
    if is_ready(deps, wheels):
        return
    if deps.exists() and not (deps / STAMP).exists() and any(deps.iterdir()):
        raise Failure(f"{deps} contains files that this script did not create.\n"
                      "Set TRAINER_DEPS to another folder, or empty this one.")
    downloads.mkdir(parents=True, exist_ok=True)
    with open(downloads / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second setup waits here and finds the work done
        if is_ready(deps, wheels):
            return
        source = functools.cache(Source)
        unpack(wheels, [obtain(wheel, downloads, source) for wheel in wheels], deps)
    print(f"Libraries are in {deps}", flush=True)


def main():
    if sys.argv[1:] not in ([], ["--cuda"]):
        raise Failure(f"usage: {sys.argv[0]} [--cuda]")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "trainer"
    deps = pathlib.Path(os.environ.get("TRAINER_DEPS") or cache / "deps").absolute()
    lists = pathlib.Path(__file__).parent
    install(read_wheels(lists / "wheels.txt"), deps, cache / "downloads")
    install(read_wheels(lists / "wheels_arrow.txt"), deps.with_name(deps.name + "-arrow"), cache / "downloads")
    if sys.argv[1:] == ["--cuda"]:
        install(read_wheels(lists / "wheels_cuda.txt"), deps.with_name(deps.name + "-cuda"), cache / "downloads")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"error: {failure}")
    except OSError as failure:
        full = failure.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "The disk is full: free some space, or choose another" if full else "Choose a writable cache folder"
        sys.exit(f"error: {failure}\n{what} with XDG_CACHE_HOME or TRAINER_DEPS.")
    except KeyboardInterrupt:
        sys.exit("\nInterrupted. Run this again to resume.")
