import { once } from 'node:events'
import { createServer, request } from 'node:https'
import { connect } from 'node:tls'
import { describe, expect, test } from 'vitest'
import { makeAuthority, makeLeaf } from '../../edge/certificate.ts'
import type { EgressPolicy } from '../../policy/egress-policy.ts'
import { a } from '../dns-server.ts'
import { useGates, World } from '../world.ts'

useGates('fourth')

const inside = makeAuthority(new Date())
const outside = makeAuthority(new Date())
const secret = {
  placeholder: 'dormouse-secret-k3v9x2m4p7q8r5t6',
  value: 'sk-live-0123456789',
  domains: ['api.example'],
}
const policy: EgressPolicy = { mode: 'public', allow: [], secrets: [secret] }

async function serveHttps(address: string, name: string) {
  const seen: (string | undefined)[] = []
  const { certificate, key } = makeLeaf(name, outside, new Date())
  const server = createServer({ cert: certificate, key }, (incoming, response) => {
    seen.push(incoming.headers.authorization)
    response.end('done')
  }).listen(443, address)
  await once(server, 'listening')
  return { seen, [Symbol.asyncDispose]: async () => void server.close() }
}

function get(world: World, address: string, name: string, ca: string): Promise<string> {
  return new Promise((resolve) => {
    request({
      host: name,
      servername: name,
      ca,
      agent: false,
      headers: { authorization: `Bearer ${secret.placeholder}` },
      ...({ socket: world.connect(address, 443) } as object),
    })
      .on('response', (response) => response.on('data', (chunk) => resolve(String(chunk))))
      .on('error', (error: NodeJS.ErrnoException) => resolve(String(error.code)))
      .end()
  })
}

describe('a policy with secrets', () => {
  const options = { ca: inside, upstreamCa: outside.certificate }
  const say = ({ name }: { name: string }) => ({
    answers: [a(name, name === 'api.example' ? '11.0.0.3' : '11.0.0.4')],
  })

  test('puts them into requests to their domain, wherever the sandbox had wanted to send those', async () => {
    await using world = await World.open(policy, options, say)
    await using api = await serveHttps('11.0.0.3', 'api.example')
    await using thief = await serveHttps('11.0.0.4', 'api.example')
    await world.lookUp('api.example')
    expect(await get(world, '11.0.0.3', 'api.example', inside.certificate)).toBe('done')
    // The name is asked for, but at an address of the thief.
    expect(await get(world, '11.0.0.4', 'api.example', inside.certificate)).toBe('done')
    expect(api.seen).toEqual([`Bearer ${secret.value}`, `Bearer ${secret.value}`])
    expect(thief.seen).toEqual([])
  })

  test('leaves connections to other names alone', async () => {
    await using world = await World.open(policy, options, say)
    await using other = await serveHttps('11.0.0.4', 'other.example')
    expect(await get(world, '11.0.0.4', 'other.example', outside.certificate)).toBe('done')
    expect(other.seen).toEqual([`Bearer ${secret.placeholder}`])
  })

  test('that have been taken away are not sent any more, on no connection', async () => {
    await using world = await World.open(policy, options, say)
    await using api = await serveHttps('11.0.0.3', 'api.example')
    const socket = world.connect('11.0.0.3', 443)
    const kept = connect({ socket, servername: 'api.example', ca: inside.certificate })
    kept.on('error', () => {})
    kept.write('GET / HTTP/1.1\r\nHost: api.example\r\n\r\n')
    await once(kept, 'data')
    const closed = new Promise((resolve) => kept.once('close', resolve))
    await world.gateWorker.change('one', { ...policy, secrets: [] })
    await closed
    expect(await get(world, '11.0.0.3', 'api.example', outside.certificate)).toBe('done')
    expect(api.seen.at(-1)).toBe(`Bearer ${secret.placeholder}`)
  })

  test('without an edge is a reset, not a placeholder on the wire', async () => {
    await using world = await World.open(policy, {}, say)
    await using api = await serveHttps('11.0.0.3', 'api.example')
    expect(await get(world, '11.0.0.3', 'api.example', outside.certificate)).toBe('ECONNRESET')
    expect(api.seen).toEqual([])
  })
})
