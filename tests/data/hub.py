"""A small server on this machine that answers as a model hub does, for test_hub.py."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlparse

import yaml


class Hub(ThreadingHTTPServer):
    """Keeps repositories in memory: files by their name, and a commit for each state."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.repos: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}
        self.refused = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, repo: str, files: dict[str, bytes]) -> None:
        self.repos[repo], self.private[repo] = dict(files), False

    def commit(self, repo: str) -> str:
        state = sorted((name, hashlib.sha1(data).hexdigest()) for name, data in self.repos[repo].items())
        return hashlib.sha1(json.dumps(state).encode()).hexdigest()


class Answers(BaseHTTPRequestHandler):
    """The part of the hub's interface that creating, committing, listing and fetching need."""

    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None: ...

    def give(self, code: int, content: Any, headers: dict[str, str] | None = None, head: bool = False) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if not head:
            self.wfile.write(data)

    def do_POST(self) -> None:
        hub, path = self.server, unquote(urlparse(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if path == "/api/repos/create":
            asked = json.loads(body)
            repo = f"{asked.get('type', 'model')}s/{asked['organization']}/{asked['name']}"
            if repo == hub.refused:
                return self.give(403, {"error": "no"})
            known = repo in hub.repos
            hub.repos.setdefault(repo, {".gitattributes": b""})
            hub.private.setdefault(repo, bool(asked.get("private")) or asked.get("visibility") == "private")
            return self.give(409 if known else 200, {"url": f"{hub.address}/{repo.removeprefix('models/')}"})
        if path == "/api/validate-yaml":
            content = json.loads(body)["content"]
            front = yaml.safe_load(content.split("---")[1])
            errors = [] if isinstance(front["license"], str) else [{"message": "no license"}]
            return self.give(200, {"errors": errors, "warnings": []})
        found = re.fullmatch(r"/api/(\w+/[^/]+/[^/]+)/(preupload|commit)/main", path)
        if found is None or found[1] not in hub.repos:
            return self.give(404, {"error": "none"}, {"X-Error-Code": "RepoNotFound"})
        repo, files = found[1], hub.repos[found[1]]
        if found[2] == "preupload":
            asked = [file["path"] for file in json.loads(body)["files"]]
            modes = [{"path": path, "uploadMode": "regular", "shouldIgnore": False, "oid": None} for path in asked]
            return self.give(200, {"files": modes})
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            elif line["key"] == "deletedFile":
                del files[line["value"]["path"]]
        address = f"{hub.address}/{repo.removeprefix('models/')}/commit/{hub.commit(repo)}"
        return self.give(200, {"commitUrl": address, "commitOid": hub.commit(repo), "success": True})

    def do_HEAD(self) -> None:
        self.do_GET(head=True)

    def do_GET(self, head: bool = False) -> None:
        hub, path = self.server, unquote(urlparse(self.path).path)
        found = re.fullmatch(r"/api/(\w+/[^/]+/[^/]+)(/(revision|tree)/(\w+))?", path)
        if found is not None and found[1] in hub.repos:
            return self.give(200, self.tell(found[1], found[3], found[4]), head=head)
        found = re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/(\w+)/(.+)", path)
        repo = f"{found[1] or 'models/'}{found[2]}" if found else ""
        if found is None or repo not in hub.repos:
            return self.give(404, {"error": "none"}, {"X-Error-Code": "RepoNotFound"}, head)
        data = hub.repos[repo].get(found[4])
        if data is None:
            return self.give(404, {"error": "none"}, {"X-Error-Code": "EntryNotFound"}, head)
        headers = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": hub.commit(repo)}
        return self.give(200, data, headers, head)

    def tell(self, repo: str, what: str | None, revision: str | None) -> Any:
        files, commit = self.server.repos[repo], self.server.commit(repo)
        if what == "tree":
            return [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in files.items()
            ]
        name = repo.partition("/")[2]
        siblings = [{"rfilename": file} for file in files]
        return {"id": name, "modelId": name, "sha": commit, "siblings": siblings, "private": self.server.private[repo],
                "tags": [], "downloads": 0, "likes": 0}  # fmt: skip
