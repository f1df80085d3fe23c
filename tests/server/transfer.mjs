// Puts 80 MB into a file of a sandbox and gets them again: a client of its own process, so that the server's memory
// can be seen alone.
import { createHash } from 'node:crypto'

const [url, key] = process.argv.slice(2)
const headers = { authorization: `Bearer ${key}` }
const sent = createHash('sha256')
const piece = Buffer.alloc(1024 ** 2)

async function* pieces() {
  for (let n = 0; n < 80; n += 1) {
    piece.fill(`piece ${n} of many; `)
    sent.update(piece)
    yield Buffer.from(piece)
  }
}

const put = await fetch(url, { method: 'PUT', headers, body: pieces(), duplex: 'half' })
const { sizeBytes } = await put.json()
const received = createHash('sha256')
const got = await fetch(url, { headers })
for await (const part of got.body) received.update(part)
process.stdout.write(
  JSON.stringify({
    sizeBytes,
    contentLength: Number(got.headers.get('content-length')),
    isSame: sent.digest('hex') === received.digest('hex'),
  }),
)
