// An index of Python packages and a registry of npm packages, with one package each.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const [port, wheelPath, tarballPath] = process.argv.slice(2)
const wheel = readFileSync(wheelPath)
const tarball = readFileSync(tarballPath)
const sha256 = createHash('sha256').update(wheel).digest('hex')
const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`
const WHEEL = '/files/greeting_wheel-2.0-py3-none-any.whl'
const TARBALL = '/greeting-module/-/greeting-module-3.0.0.tgz'

const server = createServer((request, response) => {
  const send = (type, content) => response.setHeader('content-type', type).end(content)
  const base = `http://${request.headers.host}`
  if (request.url === '/simple/greeting-wheel/')
    return send('text/html', `<a href="${WHEEL}#sha256=${sha256}">greeting_wheel-2.0-py3-none-any.whl</a>`)
  if (request.url === WHEEL) return send('application/octet-stream', wheel)
  if (request.url === TARBALL) return send('application/octet-stream', tarball)
  if (request.url === '/greeting-module') {
    const dist = { tarball: base + TARBALL, integrity }
    const version = { name: 'greeting-module', version: '3.0.0', main: 'index.js', dist }
    const versions = { '3.0.0': version }
    return send(
      'application/json',
      JSON.stringify({ name: 'greeting-module', 'dist-tags': { latest: '3.0.0' }, versions }),
    )
  }
  response.writeHead(404).end('{}')
})
process.on('disconnect', () => process.exit())
server.listen(Number(port), '0.0.0.0', () => process.send({}))
