"""An agent in hostile hands: it greets like the real one and answers each request with what `answers.json` says."""

import json
import os
import socket
import struct

HELLO, REQUEST, END, ERROR = 1, 2, 5, 6
HEADER = struct.Struct(">IBBI")

ANSWERS = json.load(open("/opt/answers.json"))


def frame(kind, channel, value):
    body = json.dumps(value).encode()
    return HEADER.pack(len(body), kind, 0, channel) + body


def read(connection, length):
    data = b""
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def serve(connection):
    while True:
        length, kind, _flags, channel = HEADER.unpack(read(connection, HEADER.size))
        body = read(connection, length)
        if kind == HELLO:
            connection.sendall(frame(HELLO, 0, {"protocol": 1, "agent": "0.1.0", "python": "3.13", "pid": 2}))
        elif kind == REQUEST:
            answer = ANSWERS.get(json.loads(body)["op"], {})
            if answer == "silence":
                continue
            connection.sendall(frame(ERROR if "code" in answer else END, channel, answer))


listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ["DORMOUSE_AGENT_SOCKET"])
listener.listen()
os.write(int(os.environ["DORMOUSE_READY_FD"]), b"1")
while True:
    try:
        serve(listener.accept()[0])
    except EOFError:
        pass
