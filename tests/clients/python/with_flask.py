"""The web application of examples/flask, as a process of its own."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from checks import main, promise, url

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    PORT = free.getsockname()[1]
ADDRESS = f"http://127.0.0.1:{PORT}"


def call(path, body=None):
    """The status and what the JSON says."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ADDRESS + path, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@promise("examples/flask: a note has an id of 14 symbols, under which it is found")
def note():
    status, created = call("/notes", {"text": "buy tea"})
    assert status == 201 and len(created["id"]) == 14, created
    status, found = call("/notes/" + created["id"])
    assert status == 200 and found["text"] == "buy tea", found
    # Small letters, as somebody may type them.
    assert call("/notes/" + created["id"].lower())[1] == found


@promise("examples/flask: a mistyped id is refused, one that does not exist is not found")
def mistyped():
    _, created = call("/notes", {"text": "buy cups"})
    id = created["id"]
    wrong = id[:-2] + ("0" if id[-2] != "0" else "1") + id[-1]
    status, text = call("/notes/" + wrong)
    assert status == 400 and "not the text of an id" in text, (status, text)
    status, _ = call("/notes/" + "0" * 14)
    assert status in (400, 404), status
    assert call("/notes", {"text": ""})[0] == 400


if __name__ == "__main__":
    app = Path(os.environ["LEAF_EXAMPLES"]) / "flask" / "app.py"
    command = [sys.executable, "-m", "flask", "--app", str(app), "run", "--port", str(PORT)]
    with subprocess.Popen(command, env=os.environ | {"DATABASE_URL": url("postgresql")}) as server:
        try:
            while True:
                assert server.poll() is None, "it did not start"
                try:
                    socket.create_connection(("127.0.0.1", PORT)).close()
                    break
                except ConnectionRefusedError:
                    time.sleep(0.05)
            main("flask")
        finally:
            server.terminate()
