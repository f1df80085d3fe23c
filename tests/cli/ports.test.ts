import { beforeAll, expect, test } from 'vitest'
import { useCommandLine } from './command-line.ts'

const cli = useCommandLine()
const SERVE = `
import http.server, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(self.path.encode())
    def log_message(self, *_): pass
def serve(): http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Hello).serve_forever()
threading.Timer(1, serve).start()`
let id: string
beforeAll(async () => {
  id = (await cli.json(['create', 'site'])).id
})

/** By path, because not every resolver knows names below localhost. */
const ask = (query = '') => fetch(`${cli.server.url}/v1/sandboxes/${id}/ports/8000/${query}`)

test('port wait, ls, link and set work on a port of a running program', async () => {
  const none = await cli.run(['port', 'ls', 'site'])
  expect(none).toMatchObject({ status: 0, stdout: '' })
  expect(none.stderr).toContain('Nothing listens in site')
  const early = await cli.run(['port', 'wait', 'site', '8000', '--timeout', '10ms'])
  expect(early.status).toBe(1)
  expect(early.stderr).toContain('port_closed')
  await cli.run(['run', 'site', SERVE])
  const waited = await cli.run(['port', 'wait', 'site', '8000'])
  const address = `http://8000-${id}.localhost:${new URL(cli.server.url).port}/`
  expect(waited).toEqual({ status: 0, stdout: `${address}\n`, stderr: '' })
  expect((await cli.run(['port', 'ls', 'site'])).stdout).toMatch(
    /^PORT +LISTENS +ACCESS +ADDRESS\n8000 +127\.0\.0\.1 +private +http:\/\/8000-sb-/,
  )

  const link = await cli.json(['port', 'link', 'site', '8000', '--for', '5m', '--path', '/page?a=1'])
  expect(Date.parse(link.expiresAt) - Date.now()).toBeGreaterThan(200_000)
  expect(Date.parse(link.expiresAt) - Date.now()).toBeLessThanOrEqual(300_000)
  expect((await ask()).status).toBe(401)
  const { pathname, search } = new URL(link.url)
  expect(await (await ask(pathname.slice(1) + search)).text()).toBe('/page?a=1')
  expect((await cli.run(['port', 'link', 'site', '8000'])).stdout).toMatch(/^http:\/\/8000-sb-.*token=.*\n$/)

  expect(await cli.json(['port', 'set', 'site', '8000', 'public'])).toMatchObject({ access: 'public' })
  expect((await ask()).status).toBe(200)
  expect(await cli.json(['port', 'list', 'site'])).toMatchObject({
    ports: [{ port: 8000, access: 'public' }],
  })
  const closed = await cli.run(['port', 'set', 'site', '8000', 'private'])
  expect(closed.stderr).toContain('Only requests with a key or a link can now reach port 8000 of site')
  expect((await ask()).status).toBe(401)
})

test.each([
  [['set', 'site', '8000', 'open'], 'private, public'],
  [['set', 'site', '0', 'public'], 'is not a port'],
  [['link', 'site', 'http'], 'is not a port'],
  [['wait', 'site', '70000'], 'is not a port'],
])('port %j is refused with status 2', async (args, message) => {
  const { status, stdout, stderr } = await cli.run(['port', ...args])
  expect(stderr).toContain(message)
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
})
