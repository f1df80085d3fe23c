// A relay in Node that copies bytes between a client and the server and parses nothing: the least that a proxy in a
// Node process can cost. Usage: relay.mjs PORT-OF-THE-SERVER; prints its own port.
import { connect, createServer } from 'node:net'

const port = Number(process.argv[2])
const relay = createServer({ noDelay: true }, (client) => {
  const server = connect({ port, host: '127.0.0.1', noDelay: true })
  for (const [from, to] of [
    [client, server],
    [server, client],
  ]) {
    from.on('data', (bytes) => {
      if (!to.write(bytes) && to.writableLength > 256 * 1024) from.pause()
    })
    from.on('drain', () => to.resume())
    from.on('error', () => to.destroy())
    from.on('close', () => to.destroy())
  }
})
relay.listen(0, '127.0.0.1', () => console.log(relay.address().port))
