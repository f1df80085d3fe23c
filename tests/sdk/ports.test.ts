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

  expect(await sandbox.ports.setAccess(8000, 'public')).toMatchObject({ access: 'public' })
  await sandbox.idle({ tier: 'stored' })
  expect(await textOf(address(''))).toBe('hello')
  expect(await sandbox.ports.setAccess(8000, 'private')).toMatchObject({ access: 'private' })
  expect((await fetch(address(''))).status).toBe(401)
  expect(await sandbox.ports.get(8001)).toMatchObject({ isListening: false })
  await sandbox.delete()
})

async function textOf(url: string): Promise<string> {
  const response = await fetch(url)
  return response.status === 200 ? response.text() : `${response.status} ${await response.text()}`
}
