// Servers that remember every request to the byte: HTTPS on 8443 with a certificate for each name, plain HTTP on 8081.
// Both accept WebSockets, send back what they hear there, and say what they are told to.
import { createServer } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { createSecureContext } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { acceptWebSocket, sendText } from './websocket.mjs'

/** By SNI: `{ certificate, key }`, PEM. */
const certified = JSON.parse(process.argv[2] ?? '{}')
const seen = []
const webSockets = new Set()

process.on('message', ({ id, forget, say }) => {
  if (say !== undefined) for (const socket of webSockets) sendText(socket, say)
  process.send({ id, seen: [...seen] })
  if (forget === true) seen.length = 0
})
process.on('disconnect', () => process.exit())

/**
 * `/redirect?to` leads there, `/echo` says in its body what it was sent, `/echo.gz` compressed, whether it was asked
 * to or not. `/body` sends the body back, and is not remembered.
 */
async function answer(request, response) {
  const body = []
  for await (const piece of request) body.push(piece)
  const { method, url, rawHeaders, socket } = request
  const [path, value = ''] = url.split('?')
  if (path === '/body') return response.end(Buffer.concat(body))
  seen.push({
    ...{ method, url, headers: rawHeaders.join('\n'), body: Buffer.concat(body).toString() },
    address: socket.localAddress.replace(/^::ffff:/, ''),
    name: socket.servername ?? '',
  })
  if (path === '/redirect') return response.writeHead(302, { location: decodeURIComponent(value) }).end()
  if (path === '/echo.gz')
    return response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(rawHeaders.join('\n')))
  response.end(path === '/echo' ? rawHeaders.join('\n') : 'welcome')
}

const [fallback] = Object.values(certified)
const https = createHttps(
  {
    ...{ cert: fallback.certificate, key: fallback.key },
    SNICallback: (name, done) => {
      const { certificate: cert, key } = certified[name] ?? fallback
      done(null, createSecureContext({ cert, key }))
    },
  },
  answer,
)
const upgrade = (request, socket) => {
  const { method, url, rawHeaders } = request
  seen.push({ method, url, headers: rawHeaders.join('\n'), body: '', address: '', name: '' })
  webSockets.add(socket)
  socket.on('close', () => webSockets.delete(socket))
  acceptWebSocket(request, socket, (text) => sendText(socket, text))
}
https.on('upgrade', upgrade)
const http = createServer(answer).on('upgrade', upgrade)
// A connection that waits while its sandbox sleeps is not idle for too long.
for (const server of [https, http]) server.keepAliveTimeout = 300_000
https.listen(8443, '::', () => http.listen(8081, '::', () => process.send('ready')))
