"""An OpenAI-compatible judge in this process, which replies what a function says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server:
    """A judge that replies what `reply` says to (system, user) texts; an int is an HTTP error, bytes are sent as is.

    Args:
        status: HTTP status of what is no error.
    """

    def __init__(self, reply: Callable[..., str | int | bytes], *, status: int = 200) -> None:
        server = self
        self.requests: list[dict] = []
        self.most_at_once = self.at_once = 0
        self.lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server.lock:
                    server.requests.append(body | {"key": self.headers["Authorization"]})
                    server.at_once += 1
                    server.most_at_once = max(server.most_at_once, server.at_once)
                answer = reply(*(message["content"] for message in body["messages"]))
                with server.lock:
                    server.at_once -= 1
                message = {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": str(answer)},
                }
                usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
                content = {
                    "id": "x",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "m",
                    "choices": [message],
                    "usage": usage,
                }
                data = answer if isinstance(answer, bytes) else json.dumps(content).encode()
                self.send_response(answer if isinstance(answer, int) else status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
