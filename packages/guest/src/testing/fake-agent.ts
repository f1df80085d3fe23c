import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AgentClient } from '../agent-client.ts'
import { encodeJsonFrame, type Frame, FrameDecoder, FrameType } from '../frames.ts'

/** An agent played by a test at the other end of a real socket, and a client connected to it. */
export class FakeAgent {
  readonly client: AgentClient
  /** Called with every frame of the host. */
  play: (socket: Socket, frame: Frame) => void = greet
  /** Settles when a connection has ended. */
  readonly disconnected: Promise<void>
  /** Settles when `answer` was called and all written bytes were sent. */
  readonly answered: Promise<void>
  #tellAnswered: () => void = () => {}
  readonly #directory: string
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(directory: string) {
    this.#directory = directory
    this.answered = new Promise((resolve) => {
      this.#tellAnswered = resolve
    })
    let tellDisconnected = () => {}
    this.disconnected = new Promise((resolve) => {
      tellDisconnected = resolve
    })
    this.#server = createServer((socket) => this.#serve(socket))
    this.client = new AgentClient({
      connect: async () => {
        const socket = connect(join(directory, 'sock'))
        await once(socket, 'connect')
        return socket
      },
      onDisconnect: async () => tellDisconnected(),
    })
  }

  static async listen(): Promise<FakeAgent> {
    const agent = new FakeAgent(mkdtempSync(join(tmpdir(), 'dormouse-agent-')))
    agent.#server.listen(join(agent.#directory, 'sock'))
    await once(agent.#server, 'listening')
    return agent
  }

  /** Greets like an agent, then calls `answer` for every request. */
  onRequest(answer: (socket: Socket, channel: number) => void): void {
    this.play = (socket, frame) => {
      if (frame.type === FrameType.request) answer(socket, frame.channel)
      else greet(socket, frame)
    }
  }

  answer(socket: Socket): void {
    if (socket.writableLength === 0) this.#tellAnswered()
    else socket.once('drain', this.#tellAnswered)
  }

  close(): void {
    this.client.close()
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    rmSync(this.#directory, { recursive: true })
  }

  #serve(socket: Socket): void {
    const decoder = new FrameDecoder()
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      for (const frame of decoder.push(chunk)) this.play(socket, frame)
    })
  }
}

function greet(socket: Socket, { type }: Frame): void {
  if (type === FrameType.hello) socket.write(encodeJsonFrame(FrameType.hello, 0, { protocol: 1 }))
}
