"""Servers of several kinds for the tests of kept connections. Each answer says how many connections there were before."""

import socket
import threading
import time

LOG = "/root/ends.log"


def note(text):
    with open(LOG, "a") as file:
        file.write(text + "\n")


def read_head(connection):
    """The head of a request, or nothing at the end of the connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = connection.recv(1)
        if not part:
            return b""
        head += part
    return head


def answer(connection, text, extra=b""):
    body = text.encode()
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body + extra)


def talk(connection, number, port):
    """Answers until the other side ends the connection, and notes how it did."""
    try:
        served = 0
        while read_head(connection):
            served += 1
            answer(connection, f"connection {number} request {served}")
        note(f"{port} eof after {served}")
    except OSError as error:
        note(f"{port} {type(error).__name__} after {served}")
    connection.close()


def close_silently(connection, number, port):
    """Answers once as if the connection were kept, and closes it a moment later."""
    if read_head(connection):
        answer(connection, f"connection {number} request 1")
        time.sleep(0.1)
    connection.close()


def send_endless_head(connection, number, port):
    read_head(connection)
    try:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for n in range(1_000_000):
            connection.sendall(b"x-%d: y\r\n" % n)
        note(f"{port} all was read")
    except OSError:
        note(f"{port} cut off")


def say_too_much(connection, number, port):
    """A second response that no request asked for."""
    if read_head(connection):
        answer(connection, f"connection {number} request 1", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")
        time.sleep(5)
    connection.close()


def serve(port, work, at_once=True, host="127.0.0.1"):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)

    def accept():
        number = 0
        while True:
            connection, _ = listener.accept()
            number += 1
            if at_once:
                threading.Thread(target=work, args=(connection, number, port), daemon=True).start()
            else:
                work(connection, number, port)

    threading.Thread(target=accept, daemon=True).start()


open(LOG, "w").close()
serve(9001, talk)
serve(9002, talk, at_once=False)
serve(9003, close_silently)
serve(9004, send_endless_head)
serve(9005, say_too_much)
serve(9006, talk, host="::1")
serve(9007, talk, host="0.0.0.0")
serve(9000, talk)
threading.Event().wait()
