import type { ChildProcess } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { makeAuthority, makeLeaf } from '../../packages/egress/src/edge/certificate.ts'
import { World } from './world/world.ts'

const VALUE = 'sk-live-0123456789abcdefgh'
const NAME = 'api.web.example'
const URL = `https://${NAME}:8443`

interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: string
  readonly body: string
  readonly address: string
  readonly name: string
}

let world: World
let outside: ChildProcess
let directory: string
let placeholder: string
let id: string
let fingerprint: string

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-secrets-'))
  const root = makeAuthority(new Date())
  const caFile = join(directory, 'roots.pem')
  writeFileSync(caFile, root.certificate)
  const certified = (name: string) => makeLeaf(name, root, new Date())
  const other = certified('other.example')
  fingerprint = new X509Certificate(other.certificate).fingerprint256
  const servers = { [NAME]: certified(NAME), 'other.example': other, 'liar.example': other }
  world = await World.make({ network: { caFile } })
  await world.say({ 'liar.example': { A: [['11.22.33.45']] } })
  outside = await world.startOutside('https-servers.mjs', JSON.stringify(servers))
  const secret = { name: 'API_KEY', value: VALUE, domains: [NAME, 'liar.example'] }
  placeholder = (await world.server.ok('/v1/secrets', { json: secret })).placeholder
  id = await world.create(undefined, { secrets: ['API_KEY'] })
})
afterAll(async () => {
  await world?.[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true, force: true })
})
beforeEach(() => take())

/** What has reached the servers since the last time. */
async function take(): Promise<Seen[]> {
  const answer = new Promise<{ seen: Seen[] }>((resolve) => outside.once('message', resolve as () => void))
  outside.send({ forget: true })
  return (await answer).seen
}

async function bash(code: string, sandbox = id): Promise<string> {
  const { stdout, stderr } = await world.server.ok(`/v1/sandboxes/${sandbox}/run`, {
    json: { code, language: 'bash', timeoutMs: 60_000 },
  })
  return stdout + stderr
}

const AUTHORIZATION = '-H "Authorization: Bearer $API_KEY"'

describe('the value arrives', () => {
  test('with curl', async () => {
    expect(await bash(`curl -sS ${AUTHORIZATION} ${URL}/models`)).toBe('welcome')
    expect(await take()).toMatchObject([
      { url: '/models', headers: expect.stringContaining(`Authorization\nBearer ${VALUE}`), name: NAME },
    ])
  })

  test('with Python, in a kernel that was there before', async () => {
    const code = `import os, urllib.request
request = urllib.request.Request("${URL}/", headers={"X-Key": os.environ["API_KEY"]})
print(urllib.request.urlopen(request).read().decode())`
    expect(await world.server.run(id, code)).toBe('welcome\n')
    expect((await take())[0]?.headers).toContain(`X-Key\n${VALUE}`)
  })

  test('with pip, which brings its own roots and sends a password', async () => {
    const index = `https://user:$API_KEY@${NAME}:8443/simple/`
    await bash(`python3 -m pip download --no-deps --retries 0 -d /tmp/x -i "${index}" nothing`)
    const [first] = await take()
    expect(first?.url).toBe('/simple/nothing/')
    expect(first?.headers).toContain(`Basic ${Buffer.from(`user:${VALUE}`).toString('base64')}`)
  })

  test('with what woke from disk, and in forks', async () => {
    await world.server.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored' } })
    expect(await bash(`curl -sS ${AUTHORIZATION} ${URL}/woken`)).toBe('welcome')
    const { children } = await world.server.ok(`/v1/sandboxes/${id}/fork`, { json: { count: 1 } })
    expect(await bash(`curl -sS ${AUTHORIZATION} ${URL}/forked`, children[0].id)).toBe('welcome')
    expect((await take()).map(({ url, headers }) => [url, headers.includes(VALUE)])).toEqual([
      ['/woken', true],
      ['/forked', true],
    ])
  })
})

describe('a service', () => {
  const PROGRAM = `
import http.server, os, urllib.request

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        headers = {"Authorization": "Bearer " + KEY}
        urllib.request.urlopen(urllib.request.Request("${URL}" + self.path, headers=headers)).read()
        self.send_response(200)
        self.end_headers()
        self.wfile.write((os.environ["COLOUR"] + " " + KEY).encode())

KEY = os.environ["API_KEY"]
print("the program has", KEY, flush=True)
http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), Handler).serve_forever()`

  test('has its environment and secrets in every replica and version, and nothing shows the value', async () => {
    const { server } = world
    const put = (colour: string) => {
      const replicas = { max: 2, concurrency: 1 }
      const inside = { secrets: ['API_KEY'], env: { PROGRAM, COLOUR: colour } }
      const json = { port: 3000, start: 'exec python3 -c "$PROGRAM"', replicas, ...inside }
      return server.ok('/v1/services/asking', { method: 'PUT', json })
    }
    await put('green')
    const service = () => server.ok('/v1/services/asking')
    await expect.poll(async () => (await service()).versions[0].state, { timeout: 60_000 }).toBe('ready')
    const ask = async (path: string) => (await server.fetch(`/v1/services/asking/http/${path}`)).text()
    expect(await ask('first')).toBe(`green ${placeholder}`)
    await expect
      .poll(
        async () => {
          await Promise.all(Array.from({ length: 8 }, () => ask('many')))
          return (await service()).replicas.items.length
        },
        { timeout: 30_000 },
      )
      .toBe(2)
    for (const { sandboxId } of (await service()).replicas.items)
      await server.ok(`/v1/sandboxes/${sandboxId}/standby`, { json: { tier: 'stored' } })
    expect(await ask('woken')).toBe(`green ${placeholder}`)
    await put('blue')
    await expect.poll(async () => (await service()).version, { timeout: 60_000 }).toBe(2)
    expect(await ask('second')).toBe(`blue ${placeholder}`)
    await server.ok('/v1/services/asking/rollback', { json: {} })
    expect(await ask('back')).toBe(`green ${placeholder}`)
    const seen = await take()
    const urls = ['/first', '/many', '/woken', '/second', '/back']
    expect(new Set(seen.map(({ url }) => url))).toEqual(new Set(urls))
    for (const { headers } of seen) expect(headers).toContain(`Bearer ${VALUE}`)
    const logs = await (await server.fetch('/v1/services/asking/logs')).text()
    expect(logs).toContain(`the program has ${placeholder}`)
    expect(logs + JSON.stringify(await service())).not.toContain(VALUE)
    await server.call('/v1/services/asking', { method: 'DELETE' })
  }, 120_000)
})

describe('nothing else is touched', () => {
  test('another host has its own certificate, and gets the placeholder', async () => {
    const certificate = `__import__("hashlib").sha256(__import__("ssl").PEM_cert_to_DER_cert(__import__("ssl").get_server_certificate(("other.example", 8443)))).hexdigest()`
    expect(await world.inside(id, certificate)).toBe(fingerprint.replaceAll(':', '').toLowerCase())
    await take()
    await bash(`curl -sSk ${AUTHORIZATION} https://other.example:8443/`)
    expect((await take())[0]?.headers).toContain(`Bearer ${placeholder}`)
  })

  test('addresses and bodies are sent as they are, and plain HTTP has no secrets', async () => {
    await bash(`curl -sS -d "key=$API_KEY" "${URL}/?key=$API_KEY"`)
    await bash(`curl -sS ${AUTHORIZATION} http://${NAME}:8081/`)
    const seen = await take()
    expect(seen).toMatchObject([{ url: `/?key=${placeholder}`, body: `key=${placeholder}` }, { url: '/' }])
    expect(JSON.stringify(seen)).not.toContain(VALUE)
  })

  test('a redirect carries the placeholder elsewhere', async () => {
    const target = encodeURIComponent('https://other.example:8443/there')
    await bash(`curl -sSk -L --location-trusted ${AUTHORIZATION} "${URL}/redirect?${target}"`)
    expect((await take()).map(({ name, headers }) => [name, headers.includes(VALUE)])).toEqual([
      [NAME, true],
      ['other.example', false],
    ])
  })

  test('a sandbox without the secret has no use for the placeholder', async () => {
    const plain = await world.create()
    await bash(`curl -sSk -H "Authorization: Bearer ${placeholder}" ${URL}/`, plain)
    expect((await take())[0]?.headers).toContain(placeholder)
  })
})

describe('a sandbox that wants the value', () => {
  test('does not lead it to another address, by SNI or by its own hosts file', async () => {
    await bash(`curl -sS ${AUTHORIZATION} --connect-to ${NAME}:8443:11.22.33.45:8443 ${URL}/a`)
    await bash(
      `echo 11.22.33.45 ${NAME} >> /etc/hosts; curl -sS ${AUTHORIZATION} ${URL}/b; sed -i '$d' /etc/hosts`,
    )
    const seen = await take()
    expect(seen.filter(({ headers }) => headers.includes(VALUE)).map(({ address }) => address)).toEqual([
      '11.22.33.44',
      '11.22.33.44',
    ])
  })

  test('does not lead it to another host behind the same address', async () => {
    expect(
      await bash(`curl -sS -w '%{http_code}' ${AUTHORIZATION} -H 'Host: other.example' ${URL}/`),
    ).toMatch(/"misdirected".*421$/s)
    expect(
      await bash(
        `curl -sS -w '%{http_code}' ${AUTHORIZATION} --request-target http://other.example/ ${URL}/`,
      ),
    ).toMatch(/421$/)
    expect(await take()).toEqual([])
  })

  test('does not lead it to another server', async () => {
    const said = await bash(`curl -sS -w '%{http_code}' ${AUTHORIZATION} https://liar.example:8443/`)
    expect(said).toMatch(/"unverified".*liar\.example.*502$/s)
    expect(await take()).toEqual([])
  })

  test('does not see it in an answer that repeats it', async () => {
    const said = await bash(`curl -sS ${AUTHORIZATION} ${URL}/echo`)
    expect(said).toContain(`Bearer ${'*'.repeat(VALUE.length)}`)
    expect(said).not.toContain(VALUE)
  })

  test('does not see it in an answer that is compressed, in Base64, or asked for in parts', async () => {
    const hidden = `Bearer ${'*'.repeat(VALUE.length)}`
    expect(await bash(`curl -sS --compressed ${AUTHORIZATION} ${URL}/echo.gz`)).toContain(hidden)
    expect(await bash(`curl -sS ${AUTHORIZATION} ${URL}/echo.gz`)).toContain(hidden)
    const parts = await bash(`curl -sS -r 0-3 ${AUTHORIZATION} ${URL}/echo`)
    expect(parts).toContain(hidden)
    const basic = await bash(`curl -sS -u "me:$API_KEY" ${URL}/echo`)
    const echoed = /Basic (?<credentials>\S+)/.exec(basic)?.groups?.['credentials'] ?? ''
    expect(echoed).toMatch(/\*{30}/)
    expect(Buffer.from(echoed, 'base64').toString('latin1')).not.toContain(VALUE.slice(2, -2))
    expect((await take()).every(({ headers }) => /Accept-Encoding\nidentity/.test(headers))).toBe(true)
  })

  test('does not find it in its memory, files or environment', async () => {
    const look = `import glob
pattern = b"sk-live-" + b"0123456789"
found = 0
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try: found += pattern in open(path, "rb").read()
    except OSError: pass
print(found)`
    expect(await world.server.run(id, look)).toBe('0\n')
    expect(
      await bash(
        `grep -rals 'sk-live-[0]123456789' /etc /root /home /tmp /var /usr/local /run /.dormouse; true`,
      ),
    ).toBe('')
  })
})

describe('policies', () => {
  test('a secret opens nothing', async () => {
    const closed = await world.create({ mode: 'allow', allow: ['other.example'] }, { secrets: ['API_KEY'] })
    expect(await bash(`curl -sS -m 10 ${AUTHORIZATION} ${URL}/`, closed)).toContain('Could not resolve')
    expect(
      await bash(
        `curl -sS -m 10 ${AUTHORIZATION} --connect-to ${NAME}:8443:11.22.33.45:8443 ${URL}/`,
        closed,
      ),
    ).not.toContain('welcome')
    expect(await take()).toEqual([])
  })

  test('a new value counts with the answer; without the secret the host is itself again', async () => {
    await world.server.ok('/v1/secrets/API_KEY', { method: 'PATCH', json: { value: 'the-next-value' } })
    await bash(`curl -sS ${AUTHORIZATION} ${URL}/`)
    expect((await take())[0]?.headers).toContain('Bearer the-next-value')
    await world.server.ok(`/v1/sandboxes/${id}`, { method: 'PATCH', json: { secrets: [] } })
    expect(await bash(`curl -sS ${AUTHORIZATION} ${URL}/`)).toContain('certificate')
    await bash(`curl -sSk ${AUTHORIZATION} ${URL}/`)
    expect((await take())[0]?.headers).toContain(`Bearer ${placeholder}`)
  })
})
