// An echo server on port 7007 that says how each connection ended; on 7008 one that is silent until it is told what to
// say. `id` of an answer is the port that the connection came from.
import { createServer } from 'node:net'

const ends = []
const silent = []
process.on('disconnect', () => process.exit())
process.on('message', ({ id, say, end, count }) => {
  const pieces = say === undefined ? [] : [say.repeat(count ?? 1)]
  for (const socket of silent) {
    for (const piece of pieces) socket.write(piece)
    if (end === true) socket.end()
  }
  process.send({ id, ends: [...ends], open: silent.length })
})

const follow = (socket) => {
  socket.on('error', ({ code }) => ends.push(code))
  socket.on('end', () => ends.push('end'))
}
const echo = createServer({ allowHalfOpen: true }, (socket) => {
  follow(socket)
  socket.pipe(socket)
})
const quiet = createServer({ allowHalfOpen: true }, (socket) => {
  follow(socket)
  silent.push(socket)
  socket.on('close', () => silent.splice(silent.indexOf(socket), 1))
  socket.resume()
})
await Promise.all([
  new Promise((resolve) => echo.listen(7007, '::', resolve)),
  new Promise((resolve) => quiet.listen(7008, '::', resolve)),
])
process.send({ id: 'ready' })
