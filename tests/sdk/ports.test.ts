import { expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()
const SERVE = `
import http.server, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-length", "5"); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *_): pass
def serve(): http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Hello).serve_forever()
threading.Timer(0.5, serve).start()`

test('wait returns when a port listens; a link and public access reach it', async () => {
  const sandbox = await server.create()
  await expect(sandbox.waitForPort(8000, { timeoutMs: 10 })).rejects.toMatchObject({ code: 'port_closed' })
  await sandbox.runCode(SERVE)
  const port = await sandbox.waitForPort(8000)
  expect(port).toMatchObject({ port: 8000, isListening: true, access: 'private' })
  expect(await sandbox.ports.list()).toEqual([port])

  const { url, expiresAt } = await sandbox.ports.link(8000, { expiresInMs: 60_000 })
  expect(Date.parse(expiresAt)).toBeGreaterThan(Date.now())
  // By path: not every machine resolves names below localhost.
  const { url: base } = await server.client.http.address()
  const address = (path: string) => `${base}/v1/sandboxes/${sandbox.id}/ports/8000/${path}`
  expect(await textOf(address(new URL(url).search))).toBe('hello')
  expect((await fetch(address(''))).status).toBe(401)

  // Addresses that any client opens, and one without an address.
  expect(await textOf((await sandbox.ports.link(8000)).pathUrl)).toBe('hello')
  expect((await fetch(port.pathUrl)).status).toBe(401)
  const answer = await sandbox.ports.fetch(8000, '/any?x=1')
  expect([answer.status, await answer.text()]).toEqual([200, 'hello'])
  expect((await sandbox.ports.fetch(8000, 'any', { method: 'POST', body: 'x' })).status).toBe(501)
  await expect(sandbox.ports.fetch(8001)).rejects.toMatchObject({ code: 'port_closed' })
  await expect(sandbox.ports.fetch(8000, '/', { headers: { Authorization: 'x' } })).rejects.toMatchObject({
    code: 'invalid_argument',
  })

  for (const path of ['/../../..', '..', '/%2e%2e/', '/a/../../x', '/..\\..'])
    await expect(sandbox.ports.fetch(8000, path)).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining('path'),
    })
  expect(await (await sandbox.ports.fetch(8000, '/a/../b')).text()).toBe('hello')
  for (const wrong of [0, 65_536, 1.5, '../8000' as unknown as number])
    await expect(sandbox.ports.get(wrong)).rejects.toMatchObject({ code: 'invalid_argument' })
  // A program that accepts and never answers.
  await sandbox.runCode('import socket; deaf = socket.create_server(("127.0.0.1", 8002))')
  await sandbox.waitForPort(8002)
  await expect(sandbox.ports.fetch(8002, '/', { timeoutMs: 300 })).rejects.toMatchObject({
    code: 'timed_out',
  })
  await sandbox.runCode('deaf.close()')

  expect(await sandbox.ports.setAccess(8000, 'public')).toMatchObject({ access: 'public' })
  await sandbox.idle({ tier: 'stored' })
  expect(await textOf(address(''))).toBe('hello')
  expect(await sandbox.ports.setAccess(8000, 'private')).toMatchObject({ access: 'private' })
  expect((await fetch(address(''))).status).toBe(401)
  expect(await sandbox.ports.get(8001)).toMatchObject({ isListening: false })
  await sandbox.delete()
})

const REDIRECT = `
import http.server, threading, urllib.parse
class Redirect(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        to = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get("to")
        body = f"{self.command} {self.path}".encode()
        self.send_response(int(self.path[1:4]) if to else 200)
        if to: self.send_header("location", to[0])
        self.send_header("content-length", str(len(body))); self.end_headers(); self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *_): pass
threading.Thread(target=http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Redirect).serve_forever).start()`

test('fetch follows redirects of a program within its port, and not to the server', async () => {
  const sandbox = await server.create()
  await sandbox.runCode(REDIRECT)
  await sandbox.waitForPort(8000)
  const fetched = async (status: number, to: string, method = 'GET') => {
    const path = `/${status}/a?to=${encodeURIComponent(to)}`
    const response = await sandbox.ports.fetch(8000, path, method === 'GET' ? {} : { method, body: 'x' })
    return response.status === 200 ? response.text() : response.status
  }
  expect(await fetched(302, '/b')).toBe('GET /b')
  expect(await fetched(302, 'c?x=1')).toBe('GET /302/c?x=1')
  expect(await fetched(303, '../d', 'POST')).toBe('GET /d')
  expect(await fetched(307, 'http://localhost:8000/e', 'POST')).toBe('POST /e')
  await expect(fetched(302, '/302/a?to=/302/a')).resolves.toBe('GET /302/a')
  // The key of the client would put the sandbox to sleep.
  const { url } = await server.client.http.address()
  const standby = `/v1/sandboxes/${sandbox.id}/standby`
  for (const out of [url + standby, `/../..${'/..'.repeat(9)}${standby}`, `//${new URL(url).host}${standby}`])
    expect(await fetched(307, out, 'POST')).toBe(307)
  expect(await sandbox.refresh()).toMatchObject({ state: 'running' })
  await sandbox.delete()
})

async function textOf(url: string): Promise<string> {
  const response = await fetch(url)
  return response.status === 200 ? response.text() : `${response.status} ${await response.text()}`
}
