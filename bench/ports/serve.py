"""The HTTP/1.1 server that bench/ports.mjs measures, with as little overhead as the standard library allows."""

import asyncio
import sys

BIG = 256 * 1024**2
PIECE = bytes(256 * 1024)
SMALL = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n" + b"x" * 1024


async def serve(reader, writer):
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            closes = b"connection: close" in head.lower()
            if head.startswith(b"GET /big"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BIG)
                for _ in range(BIG // len(PIECE)):
                    writer.write(PIECE)
                    await writer.drain()
            else:
                writer.write(SMALL)
            if closes:
                break
        await writer.drain()
        writer.close()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
