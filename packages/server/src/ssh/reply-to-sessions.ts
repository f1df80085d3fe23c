import type { Connection, ServerChannel, ServerSession } from 'ssh2'

/**
 * Answers every session with one message and runs nothing. ssh2 refuses port forwarding, because nothing listens for
 * it.
 */
export function replyToSessions(client: Connection, text: string, status: number): void {
  client.on('session', (accept) => {
    const session: ServerSession = accept()
    const tell = (channel: ServerChannel | undefined) => {
      if (channel === undefined) return
      channel.on('error', () => {})
      channel.resume()
      const stream = status === 0 ? channel : channel.stderr
      stream.write(`${text}\r\n`)
      channel.exit(status)
      channel.end()
    }
    session.on('pty', (acceptPty) => acceptPty?.())
    session.on('shell', (acceptShell) => tell(acceptShell()))
    session.on('exec', (acceptExec) => tell(acceptExec()))
    session.on('subsystem', (acceptSubsystem) => tell(acceptSubsystem()))
  })
}
