import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as tlsConnect } from 'node:tls'
import { describe, expect, test, vi } from 'vitest'
import type { EgressPolicy } from '../../policy/egress-policy.ts'
import { a, cname } from '../dns-server.ts'
import { echo, OPEN, outcome, useGates, World } from '../world.ts'

useGates('second')

const RULES: EgressPolicy = {
  mode: 'allow',
  allow: [
    { domain: 'good.example' },
    { domain: '*.wild.example', ports: [443, 80] },
    { cidr: '11.9.0.0/16' },
  ],
  secrets: [],
}
/** Both names are on one address, as with a CDN. */
const ZONE: Record<string, string> = {
  'good.example': '11.0.0.1',
  'evil.example': '11.0.0.1',
  'a.wild.example': '11.0.0.2',
  'private.wild.example': '10.0.0.9',
}
const say = ({ name }: { name: string }) => (ZONE[name] ? { answers: [a(name, ZONE[name])] } : { rcode: 3 })
const get = (host: string) => `GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`

describe('rules for names', () => {
  test('reach an address only after its name was asked for', async () => {
    await using world = await World.open(RULES, {}, say)
    await world.serve('11.0.0.1', 80, echo)
    expect(await world.exchange('11.0.0.1', 80, get('good.example'))).toBe('reset')
    await world.lookUp('GOOD.example.')
    expect(await world.exchange('11.0.0.1', 80, get('good.example'))).toBe(get('good.example'))
    await world.keeper.close()
    expect(world.denied).toMatchObject([{ address: '11.0.0.1', reason: 'no rule allows it' }])
  })

  test('do not let a request ask for another name at the same address', async () => {
    await using world = await World.open(RULES, {}, say)
    const reached: string[] = []
    await world.serve('11.0.0.1', 80, (socket) => socket.on('data', (chunk) => reached.push(String(chunk))))
    await world.lookUp('good.example')
    for (const host of ['evil.example', '11.0.0.1', 'good.example.evil.example', '']) {
      expect(await world.exchange('11.0.0.1', 80, get(host))).toBe('reset')
    }
    expect(reached).toEqual([])
    await world.keeper.close()
    expect(world.denied[0]).toMatchObject({ name: 'evil.example', address: '11.0.0.1', port: 80 })
  })

  test('do not let TLS ask for another name, or for none', async () => {
    await using world = await World.open(RULES, {}, say)
    const reached: Buffer[] = []
    await world.serve('11.0.0.1', 443, (socket) => socket.on('data', (chunk) => reached.push(chunk)))
    await world.lookUp('good.example')
    for (const servername of ['evil.example', '']) {
      const secure = tlsConnect({ socket: world.connect('11.0.0.1', 443), servername })
      const [error] = (await once(secure, 'error')) as [NodeJS.ErrnoException]
      expect(error.code).toBe('ECONNRESET')
    }
    expect(reached).toEqual([])
    const socket = world.connect('11.0.0.1', 443)
    tlsConnect({ socket, servername: 'Good.Example' }).on('error', () => {})
    await vi.waitFor(() => expect(reached).toHaveLength(1))
    socket.destroy()
  })

  test('read what a client says first whenever it says it', async () => {
    await using world = await World.open(RULES, {}, say)
    const reached: Buffer[] = []
    await world.serve('11.0.0.1', 80, (socket) => {
      socket.write('220 welcome\r\n')
      socket.on('data', (chunk) => reached.push(chunk))
    })
    await world.lookUp('good.example')
    const socket = world.connect('11.0.0.1', 80)
    // A server that speaks first is heard at once.
    expect(String((await once(socket, 'data'))[0])).toBe('220 welcome\r\n')
    await sleep(600)
    const seen = outcome(socket)
    socket.write('GET / HTTP/1.1\r\nHo')
    await sleep(50)
    expect(reached).toEqual([])
    socket.write('st: evil.example\r\n\r\n')
    expect(await seen).toBe('reset')
    expect(reached).toEqual([])
  })

  test('let protocols through that name nobody', async () => {
    await using world = await World.open(RULES, {}, say)
    await world.serve('11.0.0.1', 22, echo)
    await world.lookUp('good.example')
    expect(await world.exchange('11.0.0.1', 22, 'SSH-2.0-x\r\n')).toBe('SSH-2.0-x\r\n')
    expect(await world.exchange('11.0.0.1', 22, '')).toBe('')
    expect(await world.exchange('11.0.0.1', 22, 'hello')).toBe('hello')
    // This could become a request, for anybody.
    expect(await world.exchange('11.0.0.1', 22, 'GET / HTTP/1.0\r\nX: y\r\n')).toBe('reset')
  })

  test('hold for their ports', async () => {
    await using world = await World.open(RULES, {}, say)
    for (const port of [80, 8080]) await world.serve('11.0.0.2', port, echo)
    await world.lookUp('a.wild.example')
    expect(await world.exchange('11.0.0.2', 80, get('a.wild.example'))).toBe(get('a.wild.example'))
    expect(await world.exchange('11.0.0.2', 8080, get('a.wild.example'))).toBe('reset')
  })

  test('never lead to an address that is not public, directly or by another name', async () => {
    await using world = await World.open(RULES, {}, (asked) =>
      asked.name === 'chain.wild.example'
        ? { answers: [cname(asked.name, 'inner.corp'), a('inner.corp', '10.0.0.9')] }
        : say(asked),
    )
    for (const name of ['private.wild.example', 'chain.wild.example']) {
      const answer = await world.lookUp(name)
      expect(answer.readUInt16BE(6)).toBe(0)
      expect(answer.includes('corp')).toBe(false)
    }
    expect(await world.exchange('10.0.0.9', 80, get('private.wild.example'))).toBe('reset')
  })

  test('with a range, everything in it is reached, whatever it says', async () => {
    await using world = await World.open(RULES, {}, say)
    await world.serve('11.9.0.1', 80, echo)
    expect(await world.exchange('11.9.0.1', 80, get('evil.example'))).toBe(get('evil.example'))
    expect(await world.exchange('11.8.0.1', 80, 'x')).toBe('reset')
  })

  test('end connections that were opened when nobody looked at their names', async () => {
    await using world = await World.open(OPEN, {}, say)
    await world.serve('11.0.0.1', 80, echo)
    await world.lookUp('good.example')
    const socket = world.connect('11.0.0.1', 80)
    socket.write(get('evil.example'))
    await once(socket, 'data')
    const seen = outcome(socket)
    await world.keeper.change('one', RULES)
    expect(await seen).toBe('reset')
  })
})

describe('registries', () => {
  const registries = [{ host: '10.77.0.1', port: 4873 }]
  test('are reached at their port, even on this host, and no other port of it', async () => {
    await using world = await World.open(OPEN, { registries })
    for (const port of [4873, 22]) await world.serve('10.77.0.1', port, echo)
    expect(await world.exchange('10.77.0.1', 4873, 'x')).toBe('x')
    expect(await world.exchange('10.77.0.1', 22, 'x')).toBe('reset')
    await world.keeper.change('one', RULES)
    expect(await world.exchange('10.77.0.1', 4873, 'x')).toBe('reset')
  })
})
