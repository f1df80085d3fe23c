// Servers that remember every request to the byte: HTTPS on 8443 with a certificate for each name, plain HTTP on 8081.
import { createServer } from 'node:http'
import { createServer as createHttps } from 'node:https'
import { createSecureContext } from 'node:tls'
import { gzipSync } from 'node:zlib'

/** By SNI: `{ certificate, key }`, PEM. */
const certified = JSON.parse(process.argv[2] ?? '{}')
const seen = []

process.on('message', ({ id, forget }) => {
  process.send({ id, seen: [...seen] })
  if (forget === true) seen.length = 0
})
process.on('disconnect', () => process.exit())

/**
 * `/redirect?to` leads there, `/echo` says in its body what it was sent, `/echo.gz` compressed, whether it was asked
 * to or not.
 */
async function answer(request, response) {
  const body = []
  for await (const piece of request) body.push(piece)
  const { method, url, rawHeaders, socket } = request
  const [path, value = ''] = url.split('?')
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
https.listen(8443, '::', () => createServer(answer).listen(8081, '::', () => process.send('ready')))
