"""A server over real sockets that sends a script byte by byte, in a thread of its own."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Reply:
    """What a behaviour may do with one request."""

    def __init__(self, handler: BaseHTTPRequestHandler, leave: threading.Event) -> None:
        self.handler, self.leave = handler, leave
        self.key = handler.headers.get("Authorization", "")
        self.sent_s: list[float] = []  # when each piece was handed to the socket

    def headers(
        self, status: int = 200, kind: str | None = "text/event-stream", **more: str
    ) -> None:
        self.handler.send_response(status)
        if kind is not None:
            self.handler.send_header("Content-Type", kind)
        for name, value in more.items():
            self.handler.send_header(name, value)
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.send_header("Connection", "close")  # which it does after every answer
        self.handler.end_headers()

    def send(self, data: bytes) -> None:
        self.sent_s.append(time.perf_counter())
        self.handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.handler.wfile.flush()

    def end(self) -> None:
        self.handler.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Close in the middle of the body."""
        self.handler.connection.shutdown(socket.SHUT_RDWR)

    def hang(self) -> None:
        """Say nothing more until the test is over."""
        self.leave.wait(60)


Behaviour = Callable[[Reply], None]


@contextlib.contextmanager
def fake_server(behaviour: Behaviour) -> Iterator[tuple[str, list[Reply]]]:
    """(its URL, what it answered so far) of a server on a free port of this machine."""
    leave = threading.Event()
    replies: list[Reply] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            reply = Reply(self, leave)
            replies.append(reply)
            with contextlib.suppress(OSError):  # the client may leave at any time
                behaviour(reply)
            self.close_connection = True

        do_GET = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", replies
    finally:
        leave.set()
        server.shutdown()
        thread.join()
        server.server_close()
