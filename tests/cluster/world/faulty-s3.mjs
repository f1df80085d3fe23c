// A store that speaks S3 and does wrong when it is told to: `error` answers with 500, `cut` sends half of each object.
import { createServer, request } from 'node:http'
import S3rver from 's3rver'

const [address, port, directory] = process.argv.slice(2)
let fault = 'none'

const store = new S3rver({
  ...{ port: 0, address: '127.0.0.1', silent: true, directory },
  configureBuckets: [{ name: 'depot', configs: [] }],
})
const { port: inner } = await store.run()

createServer((incoming, outgoing) => {
  if (fault === 'error') return outgoing.writeHead(500).end()
  const { method, url, headers } = incoming
  const asked = request({ host: '127.0.0.1', port: inner, method, path: url, headers }, (answer) => {
    const isCut = fault === 'cut' && method === 'GET'
    const length = Number(answer.headers['content-length'] ?? 0)
    if (!isCut) {
      outgoing.writeHead(answer.statusCode, answer.headers)
      answer.pipe(outgoing)
      return
    }
    const pieces = []
    answer.on('data', (piece) => pieces.push(piece))
    answer.on('end', () => {
      const half = Buffer.concat(pieces).subarray(0, length >> 1)
      outgoing.writeHead(answer.statusCode, { ...answer.headers, 'content-length': half.length }).end(half)
    })
  })
  asked.on('error', () => outgoing.destroy())
  incoming.pipe(asked)
}).listen(Number(port), address, () => process.send('ready'))

process.on('message', (message) => {
  fault = message.fault
  process.send('done')
})
process.on('disconnect', () => process.exit())
