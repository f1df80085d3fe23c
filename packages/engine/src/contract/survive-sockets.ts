import { inContext } from './survive-item.ts'

export const socketsThatSurvive = inContext('sockets', {
  'unix socket pairs of every type, and the data in them': {
    setUp: `
      import array, socket
      kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)
      pairs = [socket.socketpair(socket.AF_UNIX, kind) for kind in kinds]
      for one, other in pairs:
          one.settimeout(20); other.settimeout(20)
          one.send(b"on the way"); other.send(b"and back")
    `,
    check: `
      for one, other in pairs:
          assert other.recv(100) == b"on the way" and one.recv(100) == b"and back"
          one.send(b"on the way"); other.send(b"and back")
    `,
  },
  'unix servers with a path and with an abstract name, and their connected clients': {
    setUp: `
      import multiprocessing, socket
      def serve(address, datagram):
          server = socket.socket(socket.AF_UNIX)
          server.bind(address); server.listen()
          import threading
          def talk(connection):
              n = 0
              while data := connection.recv(100):
                  n += 1
                  connection.send(b"%d " % n + data)
          while True: threading.Thread(target=talk, args=server.accept()[:1], daemon=True).start()
      addresses = ["/tmp/unix-server", "\\0abstract-server"]
      servers = [multiprocessing.Process(target=serve, args=(each, False), daemon=True) for each in addresses]
      for each in servers: each.start()
      def dial(address):
          client = socket.socket(socket.AF_UNIX)
          client.settimeout(20)
          client.connect(address)
          return client
      def can_dial(address):
          try: return bool(dial(address))
          except OSError: return False
      for each in addresses: until(lambda: can_dial(each))
      clients = [dial(each) for each in addresses]
      n = 0
    `,
    check: `
      n += 1
      for client, address, server in zip(clients, addresses, servers):
          assert server.is_alive()
          client.send(b"hello")
          assert client.recv(100) == b"%d hello" % n
          fresh = dial(address)
          fresh.send(b"new"); assert fresh.recv(100) == b"1 new"
          fresh.close()
    `,
  },
  'a loopback TCP server and its connected clients, IPv4 and IPv6, and data in flight': {
    setUp: `
      import multiprocessing, socket
      def serve(server):
          import threading
          def talk(connection):
              n = 0
              while data := connection.recv(100):
                  n += 1
                  connection.sendall(b"%d " % n + data)
          while True: threading.Thread(target=talk, args=server.accept()[:1], daemon=True).start()
      addresses, servers, clients, names, pairs = [], [], [], [], []
      for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
          listener = socket.create_server((host, 0), family=family)
          addresses.append((family, listener.getsockname()))
          servers.append(multiprocessing.Process(target=serve, args=(listener,), daemon=True)); servers[-1].start()
          listener.close()
          clients.append(socket.create_connection(addresses[-1][1][:2], 20))
          names.append((clients[-1].getsockname(), clients[-1].getpeername()))
          clients[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
          # Both ends in this process, with unread bytes.
          with socket.create_server((host, 0), family=family) as once:
              near = socket.create_connection(once.getsockname()[:2], 20); far, _ = once.accept()
          far.settimeout(20); near.sendall(b"n" * 10_000); far.sendall(b"f" * 10_000)
          pairs.append((near, far))
      def take(connection, size):
          data = b""
          while len(data) < size: data += connection.recv(size - len(data))
          return data
      n = 0
    `,
    check: `
      n += 1
      for (family, address), server, client, ends in zip(addresses, servers, clients, names):
          assert server.is_alive() and (client.getsockname(), client.getpeername()) == ends
          assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
          client.sendall(b"hello")
          assert client.recv(100) == b"%d hello" % n
          with socket.create_connection(address[:2], 20) as fresh:
              fresh.sendall(b"new"); assert fresh.recv(100) == b"1 new"
      for near, far in pairs:
          assert take(far, 10_000) == b"n" * 10_000 and take(near, 10_000) == b"f" * 10_000
          near.sendall(b"n" * 10_000); far.sendall(b"f" * 10_000)
    `,
  },
  'UDP sockets on the loopback': {
    setUp: `
      import socket
      receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); receiver.bind(("127.0.0.1", 0)); receiver.settimeout(20)
      sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sender.connect(receiver.getsockname())
      names = (receiver.getsockname(), sender.getsockname())
    `,
    check: `
      assert (receiver.getsockname(), sender.getsockname()) == names and sender.getpeername() == names[0]
      sender.send(b"packet")
      assert receiver.recvfrom(100) == (b"packet", names[1])
    `,
  },
  'half-closed and just accepted connections': {
    setUp: `
      import socket
      listener = socket.create_server(("127.0.0.1", 0))
      near = socket.create_connection(listener.getsockname(), 20); far, _ = listener.accept()
      near.sendall(b"last words"); near.shutdown(socket.SHUT_WR)
      left = b"last words"
    `,
    check: `
      far.settimeout(20)
      assert far.recv(100) == left
      left = b""
      assert far.recv(100) == b""
      far.sendall(b"answer")
      assert near.recv(100) == b"answer"
    `,
  },
})
