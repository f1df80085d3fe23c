import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { FirstProcess } from '../process/first-process.ts'
import { withNamespace } from '../process/with-namespace.ts'
import { sendUnacknowledgedAgain } from './connection-end.ts'
import { findGateAddon, type GateAddon } from './gate-addon.ts'
import { closeOutsideConnections, holdConnections, openGate, releaseConnections } from './open-gate.ts'

/** Python in a namespace of its own with the addresses of a burrow's; it runs a line, and prints one. */
const INSIDE = `
import socket, subprocess, sys
for command in ("link set lo up", "address add 198.18.0.2/32 dev lo", "-6 address add fd64:6f72:6d6f::2/128 dev lo nodad",
                "rule add priority 1 lookup local", "rule del priority 0", "-6 rule add priority 1 lookup local", "-6 rule del priority 0",
                "route add local default dev lo src 198.18.0.2", "-6 route add local default dev lo src fd64:6f72:6d6f::2"):
    subprocess.run(["ip", *command.split()], check=True)
open("/proc/sys/net/ipv4/tcp_timestamps", "w").write("0") # as in a virtual machine
print("ready", flush=True)
for line in sys.stdin:
    try: print(eval(line), flush=True)
    except OSError as error: print(type(error).__name__, flush=True)`

let inside: ChildProcess
let answers: AsyncIterator<string>
let first: FirstProcess
let addon: GateAddon
beforeAll(async () => {
  inside = spawn('unshare', ['--net', '--', 'python3', '-c', INSIDE], { stdio: ['pipe', 'pipe', 'inherit'] })
  answers = createInterface({ input: inside.stdout! })[Symbol.asyncIterator]()
  expect((await answers.next()).value).toBe('ready')
  const pid = inside.pid ?? 0
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  first = { pid, startTime: stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '' }
  const found = await findGateAddon()
  if (!('addon' in found)) throw new Error(found.missing)
  addon = found.addon
})
afterAll(() => void inside?.kill('SIGKILL'))

async function ask(expression: string): Promise<string> {
  inside.stdin!.write(`${expression}\n`)
  return (await answers.next()).value
}

async function withGate(work: (server: Server) => Promise<void>): Promise<void> {
  const gate = await openGate(first)
  const server = createServer((socket) => void socket.on('error', () => {}).write('hello')).listen({
    fd: gate.tcp,
  })
  try {
    await work(server)
  } finally {
    gate.close()
    closeSync(gate.dns)
    server.close()
  }
}

test('held connections wait, and arrive when they are released', async () => {
  await withGate(async (server) => {
    const [[socket]] = await Promise.all([
      once(server, 'connection'),
      ask(
        'globals().update(s=socket.create_connection(("192.0.2.1", 80)), t=socket.create_connection(("2001:db8::1", 80)))',
      ),
    ])
    expect(await ask('(s.recv(9), t.recv(9))')).toBe("(b'hello', b'hello')")
    await holdConnections(first)
    socket.write('later')
    await sleep(300)
    expect(await ask('(s.setblocking(False), s.recv(9))')).toBe('BlockingIOError')
    await releaseConnections(first)
    expect(await ask('(s.settimeout(20), s.recv(9))[1]')).toBe("b'later'")
  })
})

test('a gate opens also after a server that held connections died', async () => {
  await holdConnections(first)
  await holdConnections(first)
  await withGate(async () => {
    expect(await ask('socket.create_connection(("192.0.2.1", 80), 5).recv(9)')).toBe("b'hello'")
  })
})

/** What the worker of the gate does with an end: see `EndAddon` of egress. */
interface ParkingAddon {
  parkEnds(fds: Int32Array, maxBytes: number): { record: Uint8Array; old: number; standIn: number }[]
  putEnds(ends: Int32Array): boolean[]
}

/** Takes the end out, and makes it anew as if the program had acknowledged nothing of `sent`. */
async function makeAnew(socket: Socket, sent: string): Promise<void> {
  const parking = addon as GateAddon & ParkingAddon
  const { fd } = (socket as Socket & { _handle: { fd: number } })._handle
  const [taken] = parking.parkEnds(Int32Array.of(fd), 2 ** 20)
  closeSync(taken!.old)
  const record = Buffer.concat([taken!.record, Buffer.from(sent)])
  record.writeUInt32LE(record.length, 0)
  record.writeUInt32LE(sent.length, 4 * 4)
  const again = Buffer.from(sendUnacknowledgedAgain({ id: 1, record }).record)
  const { ends } = await withNamespace(first, 'net', (netns) => addon.makeEnds(netns, again))
  expect(addon.startEnds(again, Int32Array.from(ends))).toEqual([true])
  expect(parking.putEnds(Int32Array.of(fd, ends[0]!, taken!.standIn))).toEqual([true])
}

describe('an end that is made anew continues with a program', () => {
  const connect = async (server: Server) => {
    const [[socket]] = await Promise.all([
      once(server, 'connection') as Promise<[Socket]>,
      ask('globals().update(s=socket.create_connection(("192.0.2.1", 80), 20))'),
    ])
    expect(await ask('s.recv(9)')).toBe("b'hello'")
    return socket
  }

  test('that has received what is sent again', async () => {
    await withGate(async (server) => {
      const socket = await connect(server)
      socket.write('12345678')
      expect(await ask('s.recv(9)')).toBe("b'12345678'")
      await makeAnew(socket, '12345678')
      await ask('s.send(b"still")')
      expect(String((await once(socket, 'data'))[0])).toBe('still')
      socket.write('later')
      expect(await ask('s.recv(9)')).toBe("b'later'")
    })
  })

  test('that has received the end of the server', async () => {
    await withGate(async (server) => {
      const socket = await connect(server)
      socket.end()
      expect(await ask('s.recv(9)')).toBe("b''")
      await makeAnew(socket, '')
      await ask('(s.send(b"still"), s.close())')
      let text = ''
      for await (const piece of socket) text += String(piece)
      expect(text).toBe('still')
    })
  })
})

test('connections to the outside are hung up, and no others', async () => {
  await withGate(async () => {
    await ask('globals().update(server=socket.create_server(("127.0.0.1", 0)))')
    await ask(
      'globals().update(a=socket.create_connection(server.getsockname())) or globals().update(b=server.accept()[0])',
    )
    await ask('globals().update(many=[socket.create_connection(("192.0.2.1", 80)) for _ in range(700)])')
    await closeOutsideConnections(first)
    expect(await ask('a.send(b"inside") and b.recv(9)')).toBe("b'inside'")
    expect(await ask('[each.send(b"x") for each in many]')).toMatch(/ConnectionAbortedError|BrokenPipeError/)
    expect(await ask('open("/proc/net/tcp").read().count("010200C0:0050 01")')).toBe('0')
  })
})

test('descriptors come back to as many as there were', async () => {
  const count = () => readdirSync('/proc/self/fd').length
  await withGate(async () => {})
  const before = count()
  for (let round = 0; round < 20; round += 1) await withGate(async () => {})
  await expect(addon.openGate(-1)).rejects.toMatchObject({ code: 'EBADF' })
  expect(count()).toBe(before)
})

test('the host’s own namespace, and what is none, are refused', async () => {
  const own = openSync('/proc/self/ns/net', 'r')
  const file = openSync('/etc/passwd', 'r')
  await expect(addon.openGate(own)).rejects.toMatchObject({ code: 'EINVAL' })
  await expect(addon.hangUpOutside(own)).rejects.toMatchObject({ code: 'EINVAL' })
  await expect(addon.openGate(file)).rejects.toMatchObject({ code: 'EINVAL' })
  expect(() => addon.openGate('/proc/self/ns/net' as unknown as number)).toThrow(TypeError)
  closeSync(own)
  closeSync(file)
  await expect(openGate({ ...first, startTime: '1' })).rejects.toMatchObject({ code: 'burrow_ended' })
})
