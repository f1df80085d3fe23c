import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeAuthority, makeLeaf } from '../../packages/egress/src/edge/certificate.ts'
import { World } from './world/world.ts'

const SECRET_HOST = 'api.web.example'
const SECRET = 'sk-live-0123456789abcdefgh'

let world: World
let https: ChildProcess
let directory: string
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-databases-'))
  const root = makeAuthority(new Date())
  const caFile = join(directory, 'roots.pem')
  writeFileSync(caFile, root.certificate)
  const servers = Object.fromEntries(
    [SECRET_HOST, 'other.example'].map((name) => [name, makeLeaf(name, root, new Date())]),
  )
  world = await World.make({ network: { caFile } })
  await world.startOutside('databases.mjs')
  https = await world.startOutside('https-servers.mjs', JSON.stringify(servers))
  const secret = { name: 'API_KEY', value: SECRET, domains: [SECRET_HOST] }
  await world.server.ok('/v1/secrets', { json: secret })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true, force: true })
})

const WEB_SOCKETS = `
import os, ssl
def exactly(s, size):
    got = b""
    while len(got) < size:
        more = s.recv(size - len(got))
        if not more: raise EOFError
        got += more
    return got
def open_web(s, host):
    s.settimeout(30)
    s.sendall(f"GET / HTTP/1.1\\r\\nHost: {host}\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nX-Key: {os.environ.get('API_KEY')}\\r\\n".encode() +
        b"Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\\r\\n\\r\\n")
    handshake = b""
    while not handshake.endswith(b"\\r\\n\\r\\n"): handshake += exactly(s, 1)
    return s
def say_web(s, text): s.sendall(bytes([0x81, 0x80 | len(text)]) + bytes(4) + text.encode())
def hear_web(s): return exactly(s, exactly(s, 2)[1]).decode()
`

/** Clients that speak the protocols of the servers themselves, so that nothing connects again behind our back. */
const CLIENTS = `${WEB_SOCKETS}
import http.client, struct
def connect(port): s = socket.create_connection(("web.example", port)); s.settimeout(30); return s

redis = connect(6379)
def ask_redis(line):
    redis.sendall(line.encode() + b"\\r\\n")
    return redis.recv(1000).decode().strip()

postgres = connect(5433)
def messages():
    while True:
        kind, size = struct.unpack("!cI", exactly(postgres, 5)); body = exactly(postgres, size - 4)
        yield kind, body
        if kind == b"Z": return
hello = struct.pack("!I", 196608) + b"user\\0postgres\\0database\\0postgres\\0\\0"
postgres.sendall(struct.pack("!I", len(hello) + 4) + hello); list(messages())
def ask_postgres(query):
    body = query.encode() + b"\\0"
    postgres.sendall(b"Q" + struct.pack("!I", len(body) + 4) + body)
    return [body[6:].decode() for kind, body in messages() if kind == b"D"]
ask_postgres("create temporary table visits (n int)")

web = open_web(connect(7009), "web.example")
def ask_web(text):
    say_web(web, text)
    return hear_web(web)

unverified = ssl._create_unverified_context()
through = http.client.HTTPSConnection("other.example", 8443, timeout=30, context=unverified)
edge = http.client.HTTPSConnection("${SECRET_HOST}", 8443, timeout=30)
def ask_https(to):
    to.auto_open = to.sock is None
    to.request("GET", "/", headers={"X-Key": os.environ["API_KEY"]})
    return to.getresponse().read().decode()
def ask_all(n):
    return [ask_redis(f"INCR visits"), ask_postgres(f"insert into visits values ({n}) returning n"),
            ask_postgres("select count(*) from visits"), ask_web(f"round {n}"), ask_https(through), ask_https(edge)]
`

test('PostgreSQL, Redis, a WebSocket and HTTPS, also with a secret, are still good after ten sleeps', async () => {
  const id = await world.create(undefined, { secrets: ['API_KEY'] })
  await world.server.run(id, CLIENTS)
  for (let round = 1; round <= 11; round += 1) {
    expect(await world.inside(id, `ask_all(${round})`)).toEqual([
      `:${round}`,
      [String(round)],
      [String(round)],
      `round ${round}`,
      'welcome',
      'welcome',
    ])
    const tier = round % 2 === 0 ? 'frozen' : 'stored'
    await world.server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })
    // One row per session: the same connection, and not a new one.
    expect(await world.inside(id, 'ask_redis("CLIENT LIST").count(" addr=")')).toBe(1)
  }
})

/** Sends random values to all servers and compares what comes back, until it is told to stop. */
const LOAD = `
import threading
stop, errors, counts = threading.Event(), [], {name: [0, 0] for name in ("redis", "postgres", "tls", "edge")}
def redis_round(s=connect(6379)):
    value = os.urandom(65536)
    s.sendall(b"*2\\r\\n$4\\r\\nINCR\\r\\n$4\\r\\nload\\r\\n*2\\r\\n$4\\r\\nECHO\\r\\n$%d\\r\\n%s\\r\\n" % (len(value), value))
    number = b":%d\\r\\n" % (counts["redis"][0] + 1)
    answer = number + b"$%d\\r\\n%s\\r\\n" % (len(value), value)
    return exactly(s, len(answer)) == answer, len(value)
ask_postgres("create temporary table load (n int, value text)")
def postgres_round():
    value = os.urandom(16384).hex()
    return ask_postgres(f"insert into load values (1, '{value}') returning value") == [value], len(value)
def https_round(to):
    value = os.urandom(65536)
    to.auto_open = to.sock is None
    to.request("POST", "/body", value)
    return to.getresponse().read() == value, len(value)
def repeat(name, one):
    try:
        while not stop.is_set():
            is_same, size = one()
            if not is_same: raise ValueError("another answer")
            counts[name][0] += 1; counts[name][1] += size
    except Exception as error: errors.append(f"{name}: {error!r}")
threads = [threading.Thread(target=repeat, args=each, daemon=True) for each in (
    ("redis", redis_round), ("postgres", postgres_round), ("tls", lambda: https_round(through)), ("edge", lambda: https_round(edge)))]
for each in threads: each.start()
`

test('no byte to or from PostgreSQL, Redis and HTTPS is lost or doubled under load, in fifty sleeps', async () => {
  const id = await world.create(undefined, { secrets: ['API_KEY'] })
  await world.server.run(id, CLIENTS)
  await world.server.run(id, LOAD)
  const rounds = () => world.inside<number[]>(id, '[rounds for rounds, size in counts.values()]')
  let before = await rounds()
  for (let round = 0; round < 50; round += 1) {
    const tier = round % 5 === 0 ? 'stored' : 'frozen'
    await world.server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier } })
    await world.server.ok(`/v1/sandboxes/${id}/resume`, { json: {} })
    if (round % 10 !== 9) continue
    // All work all the time, not only between the first sleeps.
    const look = async () => ({
      errors: await world.inside(id, 'errors'),
      isEachFurther: (await rounds()).every((count, at) => count > (before[at] ?? 0)),
    })
    await expect.poll(look, { timeout: 60_000 }).toEqual({ errors: [], isEachFurther: true })
    before = await rounds()
  }
  await world.server.run(id, 'stop.set(); [each.join(60) for each in threads]')
  expect(await world.inside(id, 'errors')).toEqual([])
  // They did what was asked exactly once.
  const same =
    '[ask_redis("GET load").split()[-1] == str(counts["redis"][0]), ' +
    'ask_postgres("select count(*), sum(length(value)) from load")[0].startswith(str(counts["postgres"][0])), ' +
    'ask_postgres("select sum(length(value)) from load") == [str(counts["postgres"][1])]]'
  expect(await world.inside(id, same)).toEqual([true, true, true])
}, 300_000)

describe('data wakes a sandbox whose connection the gate reads itself', () => {
  const seen = async (message: object) => {
    const answer = once(https, 'message')
    https.send({ id: 'seen', ...message })
    return (await answer)[0].seen as { headers: string }[]
  }

  test.each([
    [
      'to put a secret into a WebSocket',
      { secrets: ['API_KEY'] },
      `open_web(ssl.create_default_context().wrap_socket(
        socket.create_connection(("${SECRET_HOST}", 8443)), server_hostname="${SECRET_HOST}"), "${SECRET_HOST}")`,
      `X-Key\n${SECRET}`,
    ],
    [
      'because its plain HTTP is allowed by name',
      { network: { mode: 'allow', allow: ['other.example'] } },
      'open_web(socket.create_connection(("other.example", 8081)), "other.example")',
      'X-Key\nNone',
    ],
  ])('%s', async (_why, options, open, header) => {
    const { network, ...more } = options as { network?: object }
    const id = await world.create(network, { ...more, connections: { wakeOnData: true } })
    await seen({ forget: true })
    await world.server.run(id, `${WEB_SOCKETS}\nweb = ${open}`)
    expect((await seen({})).map(({ headers }) => headers)).toEqual([expect.stringContaining(header)])
    await world.server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    await seen({ say: 'wake up' })
    await expect
      .poll(async () => (await world.server.ok(`/v1/sandboxes/${id}`)).state, { timeout: 60_000 })
      .toBe('running')
    expect(await world.inside(id, 'hear_web(web)')).toBe('wake up')
    const { items } = await world.server.ok(`/v1/sandboxes/${id}/ledger`)
    expect(items).toContainEqual(expect.objectContaining({ event: 'woke', cause: 'data' }))
    expect(await world.inside(id, '(say_web(web, "thanks"), hear_web(web))[1]')).toBe('thanks')
    await world.server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  })
})
