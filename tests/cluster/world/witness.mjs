// Hears the beats of sandboxes, as a service on the internet would. It asks each caller to repeat a number and takes an
// answer only for half a second: so what it takes was sent by a sandbox within that time, not by a queue on the way.
import { createServer } from 'node:net'

const ANSWER_MS = 500
const [address, port] = process.argv.slice(2)
const beats = []

createServer((socket) => {
  const askedAt = performance.now()
  let heard = ''
  socket.on('error', () => socket.destroy())
  socket.setTimeout(2 * ANSWER_MS, () => socket.destroy())
  socket.on('data', (data) => {
    heard += data
    if (heard.length > 200) return socket.destroy()
    const [, number, sandbox] = /^(\S+) (\S+)\n/.exec(heard) ?? []
    if (number === undefined) return
    const at = performance.now()
    if (Number(number) === askedAt && at - askedAt < ANSWER_MS)
      beats.push({ sandbox, from: socket.remoteAddress, at })
    socket.destroy()
  })
  socket.write(`${askedAt}\n`)
}).listen(Number(port), address, () => process.send('ready'))

process.on('message', () => process.send({ beats: beats.splice(0) }))
process.on('disconnect', () => process.exit())
