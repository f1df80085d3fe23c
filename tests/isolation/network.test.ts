import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EVERYONE, useAttackers } from './attackers.ts'

const attackers = await useAttackers()

describe.each(EVERYONE)('%s cannot reach', (who) => {
  const abstractName = `dormouse-isolation-${process.pid}-${who}`
  const servers: Server[] = []
  let port = 0
  let connections = 0

  const listen = async (where: { host: string; port: number } | { path: string }) => {
    const server = createServer((socket) => {
      connections += 1
      socket.destroy()
    })
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(where, resolve))
    servers.push(server)
    return server.address()
  }
  beforeAll(async () => {
    const address = await listen({ host: '127.0.0.1', port: 0 })
    if (typeof address === 'object' && address !== null) port = address.port
    await listen({ path: `\0${abstractName}` })
  })
  afterAll(async () => {
    await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))))
  })

  test('a service on the host’s loopback', async () => {
    expect(port).toBeGreaterThan(0)
    for (const host of ['127.0.0.1', '127.0.0.2', '0.0.0.0']) {
      const connect = `tries(lambda: socket.create_connection(("${host}", ${port}), 5) and "connected")`
      expect(await attackers.attempt(who, connect)).toBe('ECONNREFUSED')
    }
    expect(connections).toBe(0)
  })

  test('an abstract unix socket of the host', async () => {
    const connect = `tries(lambda: socket.socket(socket.AF_UNIX).connect("\\0${abstractName}"))`
    expect(await attackers.attempt(who, connect)).toBe('ECONNREFUSED')
    expect(await attackers.attempt(who, 'reads("/proc/net/unix", 65536)')).not.toContain(abstractName)
    expect(connections).toBe(0)
  })

  test('a service on the loopback of another sandbox', async () => {
    const neighbour = await attackers.create({ user: 'root' })
    const code =
      'import socket; s = socket.create_server(("0.0.0.0", 0)); a = socket.socket(socket.AF_UNIX); a.bind("\\0neighbour"); a.listen(); print(s.getsockname()[1])'
    const { stdout } = await neighbour.guest.runs.run({ code })
    const tcp = `tries(lambda: socket.create_connection(("127.0.0.1", ${Number(stdout)}), 5) and "connected")`
    expect(await attackers.attempt(who, tcp)).toBe('ECONNREFUSED')
    const unix = 'tries(lambda: socket.socket(socket.AF_UNIX).connect("\\0neighbour"))'
    expect(await attackers.attempt(who, unix)).toBe('ECONNREFUSED')
    await neighbour.destroy()
  })

  test('any other interface: loopback is the only one', async () => {
    // Some kernels put tunnels into every new network namespace; they are down and lead nowhere.
    const fallbacks =
      '{"sit0", "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0"}'
    const names = `[name for _, name in socket.if_nameindex() if name not in ${fallbacks}]`
    expect(await attackers.attempt(who, names)).toEqual(['lo'])
  })
})

describe.each(EVERYONE)('sockets that %s is refused', (who) => {
  test.each([
    ['raw IPv4', 'socket.AF_INET, socket.SOCK_RAW, 1', 'EPERM'],
    ['raw IPv6', 'socket.AF_INET6, socket.SOCK_RAW, 58', 'EPERM'],
    ['raw IP header', 'socket.AF_INET, socket.SOCK_RAW, 255', 'EPROTONOSUPPORT'],
    ['packet by its old name', 'socket.AF_INET, 10, 3', 'EPERM'],
    ['packet', 'socket.AF_PACKET, socket.SOCK_RAW, 3', 'EAFNOSUPPORT'],
    ['vsock', '40, socket.SOCK_STREAM, 0', 'EAFNOSUPPORT'],
    ['kernel crypto', '38, socket.SOCK_SEQPACKET, 0', 'EAFNOSUPPORT'],
    ['Bluetooth', '31, socket.SOCK_RAW, 1', 'EAFNOSUPPORT'],
    ['CAN', '29, socket.SOCK_RAW, 1', 'EAFNOSUPPORT'],
    ['TIPC', '30, socket.SOCK_STREAM, 0', 'EAFNOSUPPORT'],
    ['RDS', '21, socket.SOCK_SEQPACKET, 0', 'EAFNOSUPPORT'],
    ['kernel connection multiplexer', '41, socket.SOCK_DGRAM, 0', 'EAFNOSUPPORT'],
    ['express data path', '44, socket.SOCK_RAW, 0', 'EAFNOSUPPORT'],
    ['a family beyond all', '63, socket.SOCK_RAW, 0', 'EAFNOSUPPORT'],
    ['SCTP', 'socket.AF_INET, socket.SOCK_STREAM, 132', 'EPROTONOSUPPORT'],
    ['DCCP', 'socket.AF_INET, 6, 33', 'EPROTONOSUPPORT'],
    ['UDP-Lite', 'socket.AF_INET, socket.SOCK_DGRAM, 136', 'EPROTONOSUPPORT'],
    ['L2TP', 'socket.AF_INET6, socket.SOCK_DGRAM, 115', 'EPROTONOSUPPORT'],
    [
      'multipath TCP, which no snapshot can hold',
      'socket.AF_INET, socket.SOCK_STREAM, 262',
      'EPROTONOSUPPORT',
    ],
    ['netlink: netfilter', '16, socket.SOCK_RAW, 12', 'EPROTONOSUPPORT'],
    ['netlink: IPsec', '16, socket.SOCK_RAW, 6', 'EPROTONOSUPPORT'],
    ['netlink: process events', '16, socket.SOCK_DGRAM, 11', 'EPROTONOSUPPORT'],
    ['netlink: crypto', '16, socket.SOCK_RAW, 21', 'EPROTONOSUPPORT'],
  ])('%s', async (_title, how, answer) => {
    expect(await attackers.attempt(who, `tries(lambda: socket.socket(${how}) and "opened")`)).toBe(answer)
  })

  test('the kernel’s own TLS on a socket', async () => {
    await attackers.python(who, PAIR)
    expect(await attackers.attempt(who, 'tries(lambda: PAIR[0].setsockopt(6, 31, b"tls"))')).toBe(
      'ENOPROTOOPT',
    )
  })

  test.each([
    [
      'set an address',
      'fcntl.ioctl(UDP, 0x8916, struct.pack("16sH2s4s8s", b"lo", 2, b"", bytes([10, 0, 0, 1]), b""))',
    ],
    ['take loopback down', 'fcntl.ioctl(UDP, 0x8914, struct.pack("16sH14s", b"lo", 0, b""))'],
    ['force a receive buffer', 'UDP.setsockopt(socket.SOL_SOCKET, 33, 1 << 30)'],
    ['replace packet filter rules', 'UDP.setsockopt(0, 64, bytes(96))'],
  ])('for changes to the network: %s', async (_title, action) => {
    await attackers.python(who, 'UDP = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)')
    expect(['EPERM', 'ENOPROTOOPT']).toContain(await attackers.attempt(who, `tries(lambda: ${action})`))
  })
})

const PAIR = `
_server = socket.create_server(("127.0.0.1", 0))
PAIR = (socket.create_connection(_server.getsockname()), _server.accept()[0])
`
