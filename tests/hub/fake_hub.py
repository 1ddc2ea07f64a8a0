"""A Hugging Face hub on loopback: as much of its interface as `datasets` and `transformers` ask.

The real libraries talk to it over real HTTP; only the machine at the other end is ours.
"""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath

COMMIT = "c0ffee" + "0" * 34


@contextmanager
def serving(repos: dict[str, dict[str, bytes]]) -> Iterator[tuple[str, list[str]]]:
    """Serve `repos`, files by name by repository ("datasets/owner/name" or "owner/name").

    Yields the address for HF_ENDPOINT, and the list of the requests made so far.
    """
    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(f"{self.command} {self.path}")
            status, headers, body = answer(repos, self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_POST = do_GET

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def answer(repos: dict, path: str) -> tuple[int, dict[str, str], bytes]:
    """Return status, headers and body for `path`: a file, a listing, or 404 as the hub words it."""
    path = path.split("?")[0].strip("/")
    for repo, files in repos.items():
        if path.startswith(f"{repo}/resolve/"):
            name = path.removeprefix(f"{repo}/resolve/").split("/", 1)[1]
            if name in files:
                tag = hashlib.sha1(files[name]).hexdigest()
                return 200, {"ETag": f'"{tag}"', "X-Repo-Commit": COMMIT}, files[name]
        elif path.startswith(f"api/{repo}/tree/"):
            folder = PurePosixPath(*path.removeprefix(f"api/{repo}/tree/").split("/")[1:])
            return reply(listing(folder, files))
        elif path == f"api/{repo}" or path.startswith(f"api/{repo}/revision/"):
            siblings = [{"rfilename": name} for name in files]
            return reply(
                {"id": repo.removeprefix("datasets/"), "sha": COMMIT, "siblings": siblings}
            )
    return 404, {"X-Error-Code": "EntryNotFound"}, b""


def listing(folder: PurePosixPath, files: dict[str, bytes]) -> list[dict]:
    """Return how the hub lists `folder`: its files, and the folders in it."""
    found = {}
    for name, content in files.items():
        path = PurePosixPath(name)
        oid = hashlib.sha1(content).hexdigest()
        if path.parent == folder:
            found[path] = {"type": "file", "path": name, "size": len(content), "oid": oid}
        elif path.parent.parent == folder:
            found[path.parent] = {"type": "directory", "path": str(path.parent), "oid": oid}
    return list(found.values())


def reply(content) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()
