// A service of the host itself, on every one of its addresses. Code in a sandbox that hears it has broken out.
import { createServer } from 'node:net'

let visits = 0
process.on('message', () => process.send({ visits }))
process.on('disconnect', () => process.exit())
createServer((socket) => {
  visits += 1
  socket.on('error', () => {})
  socket.end('HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached')
}).listen(Number(process.argv[2]), '::', () => process.send('ready'))
