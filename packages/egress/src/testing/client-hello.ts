import { connect, createServer } from 'node:net'
import { connect as tlsConnect } from 'node:tls'

/** What Node's own TLS says first. */
export function clientHello(servername: string | undefined): Promise<Buffer> {
  return new Promise((resolve) => {
    const server = createServer((socket) => {
      socket.once('data', (bytes) => {
        socket.destroy()
        server.close()
        resolve(bytes)
      })
    }).listen(0, '127.0.0.1', () => {
      const socket = connect((server.address() as { port: number }).port, '127.0.0.1')
      const secure = tlsConnect({ socket, ...(servername === undefined ? {} : { servername }) })
      secure.on('error', () => {})
    })
  })
}
