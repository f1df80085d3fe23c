import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { Browser, type Page } from './browser.ts'

let server: ServerProcess
let browser: Browser

beforeAll(async () => {
  ;[server, browser] = await Promise.all([ServerProcess.start(), Browser.open()])
  await server.ok('/v1/sandboxes', { json: { name: 'fox', idleTimeoutMs: 0 } })
})
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]()
  await server?.cleanUp()
})

const runs = (code: string) => server.ok('/v1/sandboxes/fox/run', { json: { code } })
const names = async () => (await server.ok('/v1/sandboxes')).items.map(({ name }: { name: string }) => name)

/** What the attacks below set in the page when they succeed. */
const isPwned = (page: Page) => page.evaluate(() => 'pwned' in globalThis || document.title === 'pwned')

describe('output of a sandbox', () => {
  it('runs no script and sends nothing, whatever HTML it is', async () => {
    const asked: string[] = []
    const html = `<p>harmless</p><script>parent.pwned=1</script><img src=x onerror="parent.pwned=1">
      <svg onload="parent.pwned=1"><script>top.pwned=1</script></svg>
      <iframe src="javascript:parent.pwned=1"></iframe><iframe srcdoc="<script>top.pwned=1</script>"></iframe>
      <a href="javascript:parent.pwned=1" id=link>click me</a><form action="/v1/sandboxes"><button>go</button></form>
      <math><mtext></form><form><mglyph><style></math><img src onerror=parent.pwned=1>
      <style>@import url(https://evil.test/css); body { background: url(https://evil.test/pixel) }</style>
      <base href="https://evil.test/"><meta http-equiv="refresh" content="0;url=https://evil.test/">
      <link rel=stylesheet href="https://evil.test/style"><object data="https://evil.test/o"></object>`
    await runs(`from IPython.display import HTML, display\ndisplay(HTML(${JSON.stringify(html)}))`)
    await runs(`from IPython.display import SVG, display
display(SVG('''<svg xmlns="http://www.w3.org/2000/svg" onload="top.pwned=1"><script>top.pwned=1</script>
<image href="https://evil.test/image"/></svg>'''))`)
    await runs(`from IPython.display import Latex, display
display(Latex(r"$\\\\href{javascript:top.pwned=1}{x} \\\\htmlData{x=y}{z}$"))`)
    await runs('print("<img src=x onerror=top.pwned=1>\\x1b]8;;javascript:top.pwned=1\\x07link")')
    const page = await browser.signedIn(server, '/page/sandboxes/fox')
    page.on('request', (request) => asked.push(request.url()))
    const frame = page.frameLocator('iframe.html').first()
    await frame.getByText('harmless').waitFor()
    await frame.getByText('click me').click({ force: true })
    await page.locator('.stdout', { hasText: 'onerror' }).waitFor()
    await page.locator('img.picture').first().waitFor()
    expect(await isPwned(page)).toBe(false)
    expect(asked.filter((url) => url.includes('evil.test'))).toEqual([])
    expect(
      await frame.locator('form, base, meta[http-equiv=refresh], link, object, iframe, script').count(),
    ).toBe(0)
    expect(page.url()).toContain('/sandboxes/fox')
    await page.close()
  })

  it('is never shown as a page of this origin when it is a file', async () => {
    await runs('open("attack.html", "w").write("<script>document.title=\\"pwned\\"</script>")')
    const page = await browser.signedIn(server, '/')
    // With the session, but without the page: as a link in a chat would.
    const response = await page
      .goto(`${server.url}/v1/sandboxes/fox/files?path=attack.html`)
      .catch(() => undefined)
    expect(response?.status() ?? 401).toBe(401)
    expect(await isPwned(page)).toBe(false)
    await page.close()
  })
})

describe('the page', () => {
  it('executes no inline script, and cannot be put into a frame', async () => {
    const response = await fetch(server.url)
    const policy = response.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("script-src 'self'")
    expect(policy).not.toMatch(/script-src[^;]*unsafe/)
    expect(await response.text()).not.toMatch(/<script(?![^>]*src=)/)
    const page = await browser.signedIn(server, '/')
    await page.evaluate(() => {
      const script = document.createElement('script')
      script.textContent = 'globalThis.pwned = 1'
      document.body.append(script)
      const image = document.createElement('div')
      image.innerHTML = '<img src=x onerror="globalThis.pwned=1">'
      document.body.append(image)
    })
    expect(await isPwned(page)).toBe(false)
    await page.close()
    await using evil = await otherSite(`<iframe src="${server.url}/"></iframe>`)
    const framing = await browser.page()
    await framing.goto(evil.url)
    await framing.waitForTimeout(300)
    expect(
      framing
        .frames()
        .map((frame) => frame.url())
        .filter((url) => url.startsWith(server.url)),
    ).toEqual([])
    await framing.close()
  })

  it('does nothing for other sites, though the browser is signed in', async () => {
    const signedIn = await browser.signedIn(server, '/')
    const before = await names()
    await using evil = await otherSite('<form method=post enctype="text/plain"><input name=x></form>')
    for (const host of ['127.0.0.1', 'localhost']) {
      const page = await browser.page()
      await page.goto(evil.url.replace('127.0.0.1', host))
      const statuses = await page.evaluate(async (url) => {
        const body = JSON.stringify({ name: 'stolen' })
        const tries: RequestInit[] = [
          { method: 'POST', body, credentials: 'include', mode: 'no-cors' },
          { method: 'POST', body, credentials: 'include', headers: { 'content-type': 'application/json' } },
          { method: 'POST', body, credentials: 'include', headers: { 'x-dormouse-page': '1' } },
          { credentials: 'include', headers: { 'x-dormouse-page': '1' } },
        ]
        const seen = []
        for (const one of tries)
          seen.push(
            await fetch(`${url}/v1/sandboxes`, one).then(
              (answer) => answer.type,
              () => 'refused',
            ),
          )
        return seen
      }, server.url)
      expect(statuses).toEqual(['opaque', 'refused', 'refused', 'refused'])
      const socket = await page.evaluate(
        (url) =>
          new Promise((resolve) => {
            const opened = new WebSocket(`${url.replace('http', 'ws')}/v1/sandboxes/fox/pty`)
            opened.onopen = () => resolve('open')
            opened.onerror = () => resolve('refused')
          }),
        server.url,
      )
      expect(socket).toBe('refused')
      await page.evaluate((url) => {
        const form = document.querySelector('form') as HTMLFormElement
        form.action = `${url}/v1/sandboxes`
        form.submit()
      }, server.url)
      await page.waitForURL('**/v1/sandboxes')
      expect(await page.textContent('body')).toContain('unauthorized')
      await page.close()
    }
    expect(await names()).toEqual(before)
    await signedIn.close()
  })

  it('needs its header also for a request that has the cookie', async () => {
    const page = await browser.signedIn(server, '/')
    const [cookie] = await browser.context.cookies()
    const headers = { cookie: `dormouse-session=${cookie?.value}` }
    const status = async (more: Record<string, string>) =>
      (await fetch(`${server.url}/v1/sandboxes`, { headers: { ...headers, ...more } })).status
    expect(await status({ 'x-dormouse-page': '1' })).toBe(200)
    expect(await status({})).toBe(401)
    expect(await status({ 'x-dormouse-page': '1', origin: 'https://evil.test' })).toBe(401)
    expect(await status({ 'x-dormouse-page': '1', 'sec-fetch-site': 'same-site' })).toBe(401)
    await page.close()
  })

  it('shows everything to a key with the scope read, and lets it touch nothing', async () => {
    const { key } = await server.ok('/v1/keys', { json: { name: 'looker', scopes: ['read'] } })
    await browser.context.clearCookies()
    const page = await browser.signedIn(server, '/', key)
    const status = await page.evaluate(async () => {
      const headers = { 'x-dormouse-page': '1', 'content-type': 'application/json' }
      return (await fetch('/v1/sandboxes', { method: 'POST', body: '{}', headers })).status
    })
    expect(status).toBe(403)
    expect(await page.getByRole('button', { name: 'New sandbox' }).count()).toBe(0)
    await page.close()
  })

  it('ends with its key', async () => {
    const { key, id } = await server.ok('/v1/keys', { json: { name: 'short', scopes: ['run'] } })
    await browser.context.clearCookies()
    const page = await browser.signedIn(server, '/', key)
    await server.fetch(`/v1/keys/${id}`, { method: 'DELETE' })
    await page.getByLabel('API key').waitFor()
    await page.close()
  })
})

describe('a preview', () => {
  it('is on an origin of its own, without the session', async () => {
    await server.ok('/v1/sandboxes/fox/processes', {
      json: {
        args: [
          'python3',
          '-c',
          `import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-type", "text/html")
        self.send_header("set-cookie", "dormouse-session=fixed; Path=/"); self.end_headers()
        seen = self.headers.get("cookie", "none")
        page = "<p id=seen>%s</p><script>try { parent.document.title = 'pwned' } catch {}\\n" % seen
        page += "fetch('/v1/sandboxes', {headers: {'x-dormouse-page': '1'}}).then(r => document.body.append(r.status))</script>"
        self.wfile.write(page.encode())
http.server.HTTPServer(("", 8123), Handler).serve_forever()`,
        ],
      },
    })
    await server.ok('/v1/sandboxes/fox/ports/8123/wait', { json: {} })
    await server.ok('/v1/sandboxes/fox/ports/8123', { method: 'PUT', json: { access: 'public' } })
    await browser.context.clearCookies()
    const page = await browser.signedIn(server, '/')
    const { id } = await server.ok('/v1/sandboxes/fox')
    await page.goto(`${server.url}/v1/sandboxes/${id}/ports/8123/`)
    expect(await page.textContent('#seen')).toBe('none')
    await page.waitForTimeout(300)
    expect(await page.textContent('body')).not.toContain('200')
    const cookies = await browser.context.cookies(server.url)
    expect(cookies.map(({ value }) => value)).not.toContain('fixed')
    await page.close()
  })
})

/** A page of another origin. */
async function otherSite(html: string): Promise<{ url: string } & AsyncDisposable> {
  const site: Server = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html')
    response.end(`<!doctype html><body>${html}`)
  })
  await new Promise<void>((resolve) => site.listen(0, resolve))
  const { port } = site.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/`,
    [Symbol.asyncDispose]: async () => {
      site.closeAllConnections()
      site.close()
    },
  }
}
