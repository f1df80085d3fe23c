import { createSocket, type Socket } from 'node:dgram'

/** Answers questions on a bound datagram socket. The returned socket owns the descriptor. */
export function serveUdp(
  fd: number,
  answer: (packet: Buffer) => Promise<Buffer | undefined>,
): Promise<Socket> {
  const socket = createSocket('udp4')
  socket.on('message', (packet, { address, port }) => {
    void answer(packet).then((reply) => {
      // The client or the socket may be gone; then the reply is dropped.
      if (reply !== undefined) trySend(socket, reply, { address, port })
    })
  })
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.bind({ fd }, () => {
      socket.removeListener('error', reject)
      socket.on('error', () => {})
      resolve(socket)
    })
  })
}

function trySend(socket: Socket, reply: Buffer, to: { address: string; port: number }): void {
  try {
    socket.send(reply, to.port, to.address, () => {})
  } catch {
    // The socket was closed while the question was being answered.
  }
}
