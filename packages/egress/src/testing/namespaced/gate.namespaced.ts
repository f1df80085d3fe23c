import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { CONNECTIONS_MAX_PER_SANDBOX } from '../../limits.ts'
import { CLOSED, echo, OPEN, outcome, useGates, World } from '../world.ts'

useGates('first')

describe('an open gate', () => {
  test('carries both ways, and counts', async () => {
    await using world = await World.open(OPEN)
    await world.serve('11.0.0.1', 80, echo)
    expect(await world.exchange('11.0.0.1', 80, 'hello')).toBe('hello')
    await expect
      .poll(() => world.counters.read())
      .toMatchObject({ bytesOut: 5, bytesIn: 5, connections: 1, denied: 0 })
  })

  test.each([
    '10.77.0.1',
    '10.0.0.1',
    '127.0.0.1',
    '169.254.169.254',
    '192.168.1.1',
    '12.0.0.1',
    '12.0.0.3',
    '168.63.129.16',
    '13.1.2.3',
    '0.0.0.0',
    '::1',
  ])('resets connections to %s', async (address) => {
    await using world = await World.open(OPEN)
    const reached: Socket[] = []
    await world.serve(address, 80, (socket) => reached.push(socket)).catch(() => {})
    expect(await world.exchange(address, 80, 'hello')).toBe('reset')
    await world.gateWorker.close()
    expect(world.denials).toMatchObject([{ sandboxId: 'one', protocol: 'tcp', address, port: 80, count: 1 }])
    expect(world.denials[0]?.reason).toContain('not a public address')
    // 13.0.0.0/8 leads back to this host by a route alone: it is found out after dialing, before a byte has passed.
    if (address !== '13.1.2.3') expect(reached).toEqual([])
    for (const socket of reached) expect(await outcome(socket)).toBe('reset')
  })

  test('passes the end of one direction on, and keeps the other open', async () => {
    await using world = await World.open(OPEN)
    await world.serve('11.0.0.1', 80, (socket) => {
      const chunks: Buffer[] = []
      socket.on('data', (chunk) => chunks.push(chunk))
      socket.on('end', () => socket.end(`got ${Buffer.concat(chunks)}`))
    })
    expect(await world.exchange('11.0.0.1', 80, 'question')).toBe('got question')
  })

  test('passes resets on, in both directions', async () => {
    await using world = await World.open(OPEN)
    const accepted: Socket[] = []
    await world.serve('11.0.0.1', 80, (socket) => accepted.push(socket.resume()))
    const one = world.connect('11.0.0.1', 80)
    await expect.poll(() => accepted).toHaveLength(1)
    const seen = outcome(accepted[0]!)
    one.resetAndDestroy()
    expect(await seen).toBe('reset')
    const two = world.connect('11.0.0.1', 80)
    await expect.poll(() => accepted).toHaveLength(2)
    accepted[1]!.resetAndDestroy()
    expect(await outcome(two)).toBe('reset')
  })

  test('leaves no descriptor behind, whenever it is closed', async () => {
    const open = () => readdirSync('/proc/self/fd').length
    await using world = await World.open(OPEN)
    const accepted: Socket[] = []
    // Ends its direction at once, with more than the reader takes: the end of it stays under way inside.
    await world.serve('11.0.0.1', 80, (socket) => {
      accepted.push(socket)
      socket.end(Buffer.alloc(8 * 1024 * 1024))
    })
    const before = open()
    const clients = Array.from({ length: 20 }, () => world.connect('11.0.0.1', 80).pause())
    await expect.poll(() => accepted).toHaveLength(20)
    await sleep(200)
    await world.gateWorker.close()
    for (const socket of [...accepted, ...clients]) socket.destroy()
    await expect.poll(() => open()).toBeLessThanOrEqual(before)
  })

  test('a port without a listener is a reset', async () => {
    await using world = await World.open(OPEN)
    expect(await world.exchange('11.0.0.1', 81, 'hello')).toBe('reset')
    expect(world.denials).toEqual([])
  })

  test('carries many megabytes whole, and holds back a server whose client does not read', async () => {
    await using world = await World.open(OPEN)
    const data = randomBytes(32 * 1024 * 1024)
    let written = 0
    await world.serve('11.0.0.1', 80, async (socket) => {
      for (let at = 0; at < data.length; at += 65_536) {
        if (!socket.write(data.subarray(at, at + 65_536))) await once(socket, 'drain')
        written = at
      }
      socket.end()
    })
    const client = world.connect('11.0.0.1', 80)
    client.pause()
    await sleep(500)
    expect(written).toBeLessThan(data.length * 0.75)
    const hash = createHash('sha256')
    for await (const chunk of client) hash.update(chunk as Buffer)
    expect(hash.digest('hex')).toBe(createHash('sha256').update(data).digest('hex'))
    expect(world.counters.read().bytesIn).toBe(data.length)
  })

  test('has room for so many connections, and for others when they end', async () => {
    await using world = await World.open(OPEN)
    await world.serve('11.0.0.1', 80, echo)
    const many = Array.from({ length: CONNECTIONS_MAX_PER_SANDBOX }, () => world.connect('11.0.0.1', 80))
    await expect.poll(() => world.counters.read().connections).toBe(CONNECTIONS_MAX_PER_SANDBOX)
    expect(await world.exchange('11.0.0.1', 80, 'x')).toBe('reset')
    for (const socket of many) socket.destroy()
    await expect.poll(() => world.exchange('11.0.0.1', 80, 'x')).toBe('x')
  })

  test('many refusals make few events', async () => {
    await using world = await World.open(OPEN)
    for (let at = 0; at < 50; at++) await world.exchange('10.0.0.1', 80, 'x')
    for (let at = 0; at < 50; at++) await world.exchange(`10.0.1.${at}`, 80, 'x')
    await world.gateWorker.close()
    expect(world.denials.length).toBeLessThanOrEqual(11)
    expect(world.denials[0]).toMatchObject({ address: '10.0.0.1', count: 50 })
    expect(world.denials.reduce((sum, { count }) => sum + count, 0)).toBe(100)
    expect(world.counters.read().denied).toBe(100)
  })
})

describe('a change of the policy', () => {
  test('ends what is no longer allowed before it is done, and nothing else', async () => {
    await using world = await World.open(OPEN)
    await world.serve('11.0.0.1', 80, echo)
    await world.serve('11.0.0.2', 80, echo)
    const [one, two] = [world.connect('11.0.0.1', 80), world.connect('11.0.0.2', 80)]
    for (const socket of [one, two]) {
      socket.write('x')
      await once(socket, 'data')
    }
    const ended = outcome(one)
    await world.gateWorker.change('one', { mode: 'allow', allow: [{ cidr: '11.0.0.2/32' }], secrets: [] })
    expect(await ended).toBe('reset')
    two.end('still there')
    expect(await outcome(two)).toBe('still there')
  })

  test('that comes while a connection is dialed is not passed by', async () => {
    await using world = await World.open(OPEN)
    await world.serve('11.0.0.1', 80, (socket) => socket.resume())
    const clients = Array.from({ length: 50 }, () => world.exchange('11.0.0.1', 80, 'secret'))
    // Accepted, some of them already dialing.
    await expect.poll(() => world.counters.read().connections).toBeGreaterThan(0)
    await world.gateWorker.change('one', CLOSED)
    const before = world.counters.read().bytesOut
    for (const seen of await Promise.all(clients)) expect(['reset', 'ECONNREFUSED']).toContain(seen)
    await sleep(50)
    expect(world.counters.read().bytesOut).toBe(before)
  })

  test('to nothing refuses names, too', async () => {
    await using world = await World.open(CLOSED)
    expect((await world.lookUp('example.com')).readUInt16BE(2) & 0xf).toBe(5)
    expect(await world.exchange('11.0.0.1', 80, 'x')).toBe('reset')
    expect(world.names.asked).toEqual([])
  })

  test('detaching ends everything', async () => {
    await using world = await World.open(OPEN)
    await world.serve('11.0.0.1', 80, echo)
    const socket = world.connect('11.0.0.1', 80)
    socket.write('x')
    await once(socket, 'data')
    const ended = outcome(socket)
    await world.gateWorker.detach('one')
    expect(await ended).toBe('reset')
    expect(await world.exchange('11.0.0.1', 80, 'x')).toBe('ECONNREFUSED')
  })
})
