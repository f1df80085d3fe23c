import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { EdgeWorld, NAME } from './testing/edge-world.ts'

const IDLE_TIMEOUT_MS = 100

async function openWebSocket(world: EdgeWorld): Promise<{ inside: Socket; outside: Duplex }> {
  const upgraded = once(world.outside, 'upgrade')
  const asked = world.open({ headers: { host: NAME, Connection: 'Upgrade', Upgrade: 'websocket' } })
  asked.end()
  const [, outside] = (await upgraded) as [IncomingMessage, Duplex]
  outside.on('error', () => {})
  outside.write('HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n')
  const [, inside] = (await once(asked, 'upgrade')) as [IncomingMessage, Socket]
  inside.on('error', () => {})
  return { inside, outside }
}

describe('a connection of a sandbox that sleeps', () => {
  test('does not time out until the sandbox is awake, neither between requests nor as a WebSocket', async () => {
    await using world = await EdgeWorld.open((_request, response) => response.end('x'), {
      idleTimeoutMs: IDLE_TIMEOUT_MS,
    })
    world.isParked = true
    const [idle, { inside }] = await Promise.all([world.connect(), openWebSocket(world)])
    idle.on('error', () => {})
    idle.write(`GET / HTTP/1.1\r\nHost: ${NAME}\r\n\r\n`)
    await once(idle, 'data')
    for (const socket of [idle, inside]) socket.resume()
    await sleep(5 * IDLE_TIMEOUT_MS)
    expect([idle.closed, inside.closed]).toEqual([false, false])
    const closed = [idle, inside].map((socket) => once(socket, 'close'))
    world.isParked = false
    await Promise.all(closed)
  })

  test('tells when the server says something: an answer, and each message on a WebSocket', async () => {
    await using world = await EdgeWorld.open((_request, response) => response.end('x'))
    await world.ask()
    const answered = world.serverPieces
    expect(answered).toBeGreaterThan(0)
    const { inside, outside } = await openWebSocket(world)
    for (const message of ['one', 'two']) {
      const before = world.serverPieces
      const heard = once(inside, 'data')
      outside.write(message)
      expect(String((await heard)[0])).toBe(message)
      expect(world.serverPieces).toBe(before + 1)
    }
    // What the program inside sends does not count.
    const [before, heard] = [world.serverPieces, once(outside, 'data')]
    inside.write('three')
    expect(String((await heard)[0])).toBe('three')
    expect(world.serverPieces).toBe(before)
    inside.destroy()
  })
})
