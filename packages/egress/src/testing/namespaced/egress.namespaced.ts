import { execFile } from 'node:child_process'
import { readdirSync, readlinkSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Denial } from '../../gate/denial-collector.ts'
import { Egress, type EgressStartOptions } from '../../worker/egress.ts'
import { a, DnsServer } from '../dns-server.ts'
import { CLOSED, echo, OPEN } from '../world.ts'

const run = promisify(execFile)
let nextNamespace = 0
/** A gate in a network of its own, as that of a burrow; each can be taken once. */
function takeGate() {
  const first = 800 + 3 * nextNamespace++
  return { tcp: first, dns: first + 1, namespace: first + 2 }
}

const SCRIPT = `
import errno, socket, sys
try:
    s = socket.create_connection((sys.argv[1], 443), 20)
    s.sendall(b"hello")
    try: s.shutdown(socket.SHUT_WR)
    except OSError as error:
        if error.errno != errno.ENOTCONN: raise  # A reset came before; recv says so.
    print(s.recv(99).decode() or "end")
except socket.gaierror: print("no such name")
except OSError as e: print(type(e).__name__)
`

/** What a program inside gets that says hello. */
async function hello(namespace: number, address: string): Promise<string> {
  const at = `/proc/${process.pid}/fd/${namespace}`
  const { stdout } = await run('nsenter', [`--net=${at}`, 'python3', '-c', SCRIPT, address])
  return stdout.trim()
}

/** A name, looked up over UDP at the resolver's own address. */
async function ask(namespace: number, name: string): Promise<string> {
  const script = `
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20); s.connect(("198.18.0.1", 53))
q = b"".join(bytes([len(l)]) + l.encode() for l in sys.argv[1].split(".")) + b"\\0\\0\\x01\\0\\x01"
s.send(b"\\x12\\x34\\x01\\0\\0\\x01\\0\\0\\0\\0\\0\\0" + q); r = s.recv(999)
print(r[3] & 15, ".".join(map(str, r[-4:])) if r[7] else "")
`
  const { stdout } = await run('nsenter', [
    `--net=/proc/${process.pid}/fd/${namespace}`,
    'python3',
    '-c',
    script,
    name,
  ])
  return stdout.trim()
}

let names: DnsServer
let reached: Socket[]
const server = createServer({ allowHalfOpen: true }, (socket) => {
  reached.push(socket.on('error', () => {}))
  echo(socket)
})
beforeAll(async () => {
  reached = []
  names = await DnsServer.start(({ name }) => ({ answers: [a(name, '11.1.2.3')] }))
  await new Promise<void>((resolve) => server.listen(443, '11.1.2.3', resolve))
})
afterAll(async () => {
  server.close()
  await names.close()
})

/** A value of a wrong type is a bug that the worker cannot foresee: it dies of the next connection. */
const bug = { isThere: false }

async function start(options: EgressStartOptions = {}) {
  const egress = await Egress.start({
    resolvers: [names.address],
    hostAddresses: () => (bug.isThere ? [42 as never] : ['11.1.2.9']),
    ...options,
  })
  return Object.assign(egress, { [Symbol.asyncDispose]: () => egress.close() })
}

describe('egress', () => {
  test('connects a sandbox, counts, and tells what was refused', async () => {
    await using egress = await start()
    const denials: Denial[] = []
    egress.onDenial((one) => denials.push(one))
    const gate = takeGate()
    await egress.attach('one', gate, OPEN)
    expect(await hello(gate.namespace, '11.1.2.3')).toBe('hello')
    expect(await ask(gate.namespace, 'www.example')).toBe('0 11.1.2.3')
    expect(await hello(gate.namespace, '10.77.0.1')).toBe('ConnectionResetError')
    expect(await hello(gate.namespace, '11.1.2.9')).toBe('ConnectionResetError')
    expect(await hello(gate.namespace, '::ffff:127.0.0.1')).toBe('ConnectionResetError')
    expect(await hello(gate.namespace, '64:ff9b::7f00:1')).toBe('ConnectionResetError')
    await expect
      .poll(() => egress.counters('one'))
      .toMatchObject({ bytesOut: 5, bytesIn: 5, connections: 1, names: 1, denied: 4 })
    await expect
      .poll(() => denials.map(({ address }) => address))
      .toEqual(['10.77.0.1', '11.1.2.9', '127.0.0.1', '64:ff9b::7f00:1'])
    await egress.change('one', CLOSED)
    expect(await hello(gate.namespace, '11.1.2.3')).toBe('ConnectionResetError')
    expect(await ask(gate.namespace, 'www.example')).toBe('5')
    await egress.detach('one')
    expect(await hello(gate.namespace, '11.1.2.3')).toBe('ConnectionRefusedError')
    expect(egress.counters('one').bytesOut).toBe(5)
    egress.forget('one')
    expect(egress.counters('one').bytesOut).toBe(0)
  })

  test('keeps sandboxes apart: what one has asked for opens nothing to the other', async () => {
    await using egress = await start()
    const [one, two] = [takeGate(), takeGate()]
    const rules = { mode: 'allow', allow: [{ domain: 'www.example' }], secrets: [] } as const
    await egress.attach('one', one, rules)
    await egress.attach('two', two, rules)
    expect(await ask(one.namespace, 'www.example')).toBe('0 11.1.2.3')
    expect(await hello(one.namespace, '11.1.2.3')).toBe('hello')
    expect(await hello(two.namespace, '11.1.2.3')).toBe('ConnectionResetError')
  })

  test('a worker that dies cuts sandboxes off, and its successor opens their gates again', async () => {
    const troubles: string[] = []
    const next = takeGate()
    const reopened: string[] = []
    await using egress = await start({
      onError: (message) => troubles.push(message),
      reopen: async (sandboxId) => {
        reopened.push(sandboxId)
        return next
      },
    })
    const gate = takeGate()
    await egress.attach('one', gate, OPEN)
    bug.isThere = true
    await egress.change('one', OPEN)
    bug.isThere = false
    expect(await hello(gate.namespace, '11.1.2.3')).toBe('ConnectionResetError')
    expect(await hello(gate.namespace, '11.1.2.3')).toBe('ConnectionRefusedError')
    await expect.poll(() => hello(next.namespace, '11.1.2.3')).toBe('hello')
    expect(reopened).toEqual(['one'])
    expect(troubles).toHaveLength(1)
    expect(egress.counters('one').connections).toBe(1)
  })

  test('without a way to open them again, sandboxes stay cut off, and that is said', async () => {
    const troubles: string[] = []
    await using egress = await start({ onError: (message) => troubles.push(message) })
    const gate = takeGate()
    await egress.attach('one', gate, OPEN)
    bug.isThere = true
    await egress.change('one', OPEN)
    bug.isThere = false
    expect(await hello(gate.namespace, '11.1.2.3')).toBe('ConnectionResetError')
    // In the meantime nothing hangs.
    await egress.change('one', CLOSED)
    await expect.poll(() => troubles).toHaveLength(2)
    expect(await hello(gate.namespace, '11.1.2.3')).toBe('ConnectionRefusedError')
    await egress.detach('one')
  })

  test('refuses descriptors that are none, and closes nothing that is not its own', async () => {
    await using egress = await start()
    const innocent = readdirSync('/proc/self/fd').length
    await expect(egress.attach('one', { tcp: 9_999, dns: 9_998 }, OPEN)).rejects.toMatchObject({
      code: 'internal',
    })
    expect(readdirSync('/proc/self/fd').length).toBeGreaterThanOrEqual(innocent - 1)
    await egress.detach('one')
  })

  test('closes every descriptor that it was given', async () => {
    const gate = takeGate()
    const link = readlinkSync(`/proc/self/fd/${gate.tcp}`)
    const holders = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`) === link
        } catch {
          return false
        }
      })
    expect(holders()).toEqual([String(gate.tcp)])
    const egress = await start()
    await egress.attach('one', gate, OPEN)
    await egress.close()
    expect(holders()).toEqual([])
  })

  test('says which rules could never allow anything', async () => {
    await using egress = await start({ reachable: ['10.1.0.0/16'] })
    egress.check({ mode: 'allow', allow: [{ cidr: '10.1.2.0/24' }], secrets: [] })
    expect(() => egress.check({ mode: 'allow', allow: [{ cidr: '10.2.2.0/24' }], secrets: [] })).toThrow(
      '10.2.2.0/24',
    )
  })
})
