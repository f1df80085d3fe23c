// Listens where the test is, on a descriptor that it was given, and connects where it runs: in the namespace of the server.
import { connect, createServer } from 'node:net'

let target = { port: 0 }
process.on('message', ({ port, host }) => {
  target = { port, host }
  process.send('ready')
})
process.on('disconnect', () => process.exit())
createServer({ allowHalfOpen: true }, (client) => {
  const server = connect({ ...target, allowHalfOpen: true })
  for (const [from, to] of [
    [client, server],
    [server, client],
  ]) {
    from.pipe(to)
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroy())
  }
}).listen({ fd: 3 })
