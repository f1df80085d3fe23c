import { afterEach, describe, expect, test } from 'vitest'
import type { Burrow } from '../engine.ts'
import { runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'
import { NETWORK_HELPERS, TestGate } from './test-gate.ts'

const OWN_ADDRESSES = ['127.0.0.1', '::1', '198.18.0.2', 'fd64:6f72:6d6f::2']
/** Reserved for documentation: no host has this address. */
const OUTSIDE = ['192.0.2.7', '2001:db8::7']

export function describeNetwork(factory: EngineFactory): void {
  describe('network', () => {
    const shared = useSharedBurrow(factory)
    const gates: TestGate[] = []
    const open = async (...parameters: Parameters<typeof TestGate.at>) => {
      const gate = await TestGate.at(...parameters)
      gates.push(gate)
      return gate
    }
    const python = async (burrow: Burrow, code: string) =>
      (await runPython(burrow.guest, `${NETWORK_HELPERS}\n${code}`)).trim()
    afterEach(async () => {
      for (const gate of gates.splice(0)) await gate[Symbol.asyncDispose]()
    })

    test('connections fail at once without a gate', async () => {
      for (const address of OUTSIDE)
        expect(await python(shared.burrow, `print(outcome(lambda: dial("${address}", 80)))`)).toBe(
          'ECONNREFUSED',
        )
      expect(
        await python(shared.burrow, 'print(outcome(lambda: socket.getaddrinfo("example.com", 80)))'),
      ).toBe('gaierror')
    })

    test('connections arrive at the gate, with their destination', async () => {
      const gate = await open(shared.burrow)
      for (const address of OUTSIDE) {
        const code = `s = dial("${address}", 443); print(s.recv(9).decode(), s.getpeername()[0], s.getsockname()[0])`
        const own = address.includes(':') ? 'fd64:6f72:6d6f::2' : '198.18.0.2'
        expect(await python(shared.burrow, code)).toBe(`hello ${address} ${own}`)
      }
      await python(shared.burrow, 'dial("198.18.0.1", 53).recv(9), dial("169.254.169.254", 80).recv(9)')
      expect(gate.arrived.map((each) => each.replace('::ffff:', ''))).toEqual([
        '192.0.2.7 443',
        '2001:db8::7 443',
        '198.18.0.1 53',
        '169.254.169.254 80',
      ])
    })

    test('DNS queries arrive at the resolver, which answers them', async () => {
      await open(shared.burrow)
      const code = `
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.connect(("198.18.0.1", 53))
s.send(b"one"); print(s.recv(99).decode())`
      expect(await python(shared.burrow, code)).toBe('answer to one')
    })

    test('a closed gate refuses connections, and can be opened again', async () => {
      const gate = await open(shared.burrow)
      await expect(shared.burrow.openGate()).rejects.toMatchObject({ code: 'conflict' })
      const s = 'print(outcome(lambda: dial("192.0.2.7", 80).recv(9)))'
      expect(await python(shared.burrow, s)).toBe("b'hello'")
      gate.closeGate()
      expect(await python(shared.burrow, s)).toBe('ECONNREFUSED')
      await gate[Symbol.asyncDispose]()
      await open(shared.burrow)
      expect(await python(shared.burrow, s)).toBe("b'hello'")
    })

    test('a listener inside does not receive connections to the outside', async () => {
      const gate = await open(shared.burrow)
      const code = `
import threading
server = socket.create_server(("0.0.0.0", 8081))
threading.Thread(target=lambda: server.accept()[0].sendall(b"mine"), daemon=True).start()
outside = dial("192.0.2.7", 8081).recv(9)
inside = dial("198.18.0.2", 8081).recv(9)
server.close(); print(outside, inside)`
      expect(await python(shared.burrow, code)).toBe("b'hello' b'mine'")
      expect(gate.arrived).toHaveLength(1)
    })

    test('the list of listening ports does not contain the gate', async () => {
      const before = await shared.guest.ports.list()
      await open(shared.burrow)
      expect(await shared.guest.ports.list()).toEqual(before)
    })

    test('connections to own addresses stay inside the burrow', async () => {
      const gate = await open(shared.burrow)
      for (const address of OWN_ADDRESSES) {
        const code = `
server = socket.socket(socket.AF_INET6 if ":" in "${address}" else socket.AF_INET); server.bind(("${address}", 0)); server.listen()
a = dial("${address}", server.getsockname()[1]); b, _ = server.accept(); a.sendall(b"inside"); print(b.recv(9).decode())
server.close(); print(outcome(lambda: dial("${address}", 9)))`
        expect(await python(shared.burrow, code)).toBe('inside\nECONNREFUSED')
      }
      expect(gate.arrived).toEqual([])
    })

    test('servers inside can use any port, also those of outgoing connections', async () => {
      await open(shared.burrow, () => {})
      const code = `
out = [dial("192.0.2.7", port) for port in (80, 443)]
def serve(address, port):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((address, port)); s.listen(); s.close()
for address in ("0.0.0.0", "::", "127.0.0.1", "::1", "198.18.0.2", "fd64:6f72:6d6f::2"):
    for port in (2, 22, 53, 80, 443, 8000, 65535): serve(address, port)
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); dns.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); dns.bind(("0.0.0.0", 53))
print("all")`
      expect(await python(shared.burrow, code)).toBe('all')
    })

    test('other datagrams are refused, and ping fails', async () => {
      await open(shared.burrow)
      const udp = `
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(5); s.connect(("192.0.2.7", 443)); s.send(b"quic")
print(outcome(lambda: s.recv(9)), s.getsockname()[0])`
      expect(await python(shared.burrow, udp)).toBe('ECONNREFUSED 198.18.0.2')
      const ping = async (address: string) =>
        (await shared.guest.runs.run({ code: `ping -c 1 -W 1 ${address}`, language: 'bash' })).exitCode === 0
      expect(await Promise.all(OUTSIDE.map(ping))).toEqual([false, false])
      expect(await Promise.all(OWN_ADDRESSES.map(ping))).toEqual([true, true, true, true])
    })

    test('code inside can neither change the network nor see packets', async () => {
      const attempts = [
        'ip address add 10.0.0.1/8 dev lo',
        'ip route replace local default dev lo',
        'ip route del local default table main',
        'ip rule del priority 100',
        'ip link add d0 type dummy',
        'ip link set lo down',
        'python3 -c "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"',
        'python3 -c "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"',
        'python3 -c "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(321, 0, ctypes.create_string_buffer(72), 72) == -1)"',
        'echo 0 > /proc/sys/net/ipv4/ip_nonlocal_bind',
      ]
      for (const code of attempts) {
        const { exitCode } = await shared.guest.runs.run({ code, language: 'bash' })
        expect({ code, hasFailed: exitCode !== 0 }).toEqual({ code, hasFailed: true })
      }
    })

    test('two burrows have the same addresses and do not reach each other', async () => {
      const other = await shared.create()
      const [mine, theirs] = [await open(shared.burrow), await open(other)]
      await python(other, 'server = socket.create_server(("198.18.0.2", 7777)); dial("192.0.2.9", 1).recv(9)')
      expect(await python(shared.burrow, 'print(outcome(lambda: dial("198.18.0.2", 7777)))')).toBe(
        'ECONNREFUSED',
      )
      expect({ mine: mine.arrived, theirs: theirs.arrived.length }).toEqual({ mine: [], theirs: 1 })
      await python(other, 'server.close()')
    })

    test('a burrow that has ended has no gate', async () => {
      const other = await shared.create()
      await other.destroy()
      await expect(other.openGate()).rejects.toMatchObject({ code: 'burrow_ended' })
    })

    test('a program that takes the resolver’s port is reported, and affects no other burrow', async () => {
      const other = await shared.create()
      // The engine may have opened the gate ahead of need.
      await (await open(other))[Symbol.asyncDispose]()
      await python(other, 's = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("198.18.0.1", 53))')
      await expect(other.openGate()).rejects.toMatchObject({ code: 'in_use' })
      await python(other, 's.close(); t = socket.create_server(("0.0.0.0", 1))')
      await open(other)
      expect(await python(other, 'print(dial("192.0.2.7", 80).recv(9))')).toBe("b'hello'")
    })
  })
}
