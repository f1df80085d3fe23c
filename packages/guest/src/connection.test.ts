import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { AgentClient } from './agent-client.ts'
import { encodeFrame, encodeJsonFrame, FrameDecoder, FrameType } from './frames.ts'

// The test plays a hostile agent, which sandbox code has taken over, on a real socket.
describe('an agent that misbehaves', () => {
  let directory: string
  let server: Server
  let client: AgentClient
  let play: (socket: Socket, frame: { type: number; channel: number }) => void

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'dormouse-guest-'))
    server = createServer((socket) => {
      const decoder = new FrameDecoder()
      socket.on('error', () => {})
      socket.on('data', (chunk) => {
        for (const frame of decoder.push(chunk)) play(socket, frame)
      })
    })
    server.listen(join(directory, 'sock'))
    await once(server, 'listening')
    client = new AgentClient({
      connect: async () => {
        const socket = connect(join(directory, 'sock'))
        await once(socket, 'connect')
        return socket
      },
    })
  })
  afterEach(async () => {
    client.close()
    server.close()
    rmSync(directory, { recursive: true })
  })

  const afterHello = (answer: (socket: Socket, channel: number) => void) => {
    play = (socket, { type, channel }) => {
      if (type === FrameType.hello) socket.write(encodeJsonFrame(FrameType.hello, 0, { protocol: 1 }))
      else if (type === FrameType.request) answer(socket, channel)
    }
  }

  test.each<[string, (socket: Socket, channel: number) => void]>([
    [
      'sends bytes that are not JSON',
      (socket, channel) => socket.write(encodeFrame(FrameType.end, channel, Buffer.from('{'))),
    ],
    ['sends an unknown frame type', (socket, channel) => socket.write(encodeFrame(99, channel))],
    ['announces a frame of 4 GB', (socket) => socket.write(Buffer.from('ffffffff030000000001', 'hex'))],
    ['hangs up', (socket) => socket.destroy()],
    [
      'sends an event without its fields',
      (socket, channel) => {
        socket.write(encodeJsonFrame(FrameType.item, channel, { seq: 'x', type: 'stdout', data: 5 }))
        socket.write(encodeJsonFrame(FrameType.end, channel, {}))
      },
    ],
  ])('%s: the call fails as agent_unreachable, and the host continues', async (_what, answer) => {
    afterHello(answer)
    await expect(client.runs.run({ code: '1' })).rejects.toMatchObject({ code: 'agent_unreachable' })
  })

  test('sends more than the window before the host has read: the connection ends', async () => {
    const piece = Buffer.alloc(256 * 1024)
    afterHello((socket, channel) => {
      socket.write(encodeJsonFrame(FrameType.item, channel, { type: 'open' }))
      for (let n = 0; n < 32; n += 1) socket.write(encodeFrame(FrameType.data, channel, piece))
    })
    const connection = await client.ports.connect(80)
    const error = await new Promise((resolve) => connection.once('error', resolve))
    expect(error).toMatchObject({ code: 'agent_unreachable' })
  })

  test('speaks another protocol: protocol_mismatch', async () => {
    play = (socket) => socket.write(encodeJsonFrame(FrameType.hello, 0, { protocol: 2 }))
    await expect(client.info()).rejects.toMatchObject({ code: 'protocol_mismatch' })
  })

  test('invents an error code: internal, and the message is cut', async () => {
    afterHello((socket, channel) =>
      socket.write(
        encodeJsonFrame(FrameType.error, channel, { code: 'own_invention', message: 'x'.repeat(10_000) }),
      ),
    )
    const error = await client.info().catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'internal' })
    expect((error as Error).message.length).toBeLessThan(3000)
  })

  test.each(['restore_failed', 'agent_unreachable', 'burrow_ended', 'snapshot_refused'])(
    'answers with the code %s of the host: internal, without its details',
    async (code) => {
      afterHello((socket, channel) =>
        socket.write(
          encodeJsonFrame(FrameType.error, channel, { code, message: 'm', details: { snapshotId: 'sn-1' } }),
        ),
      )
      const error = await client.info().catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'internal', message: 'm', details: {} })
    },
  )

  test('answers channels that were never opened: ignored', async () => {
    const info = { contexts: 1, processes: 2, runs: 3, rssBytes: 4 }
    afterHello((socket, channel) => {
      socket.write(encodeJsonFrame(FrameType.end, channel + 7, {}))
      socket.write(encodeJsonFrame(FrameType.end, channel, info))
    })
    expect(await client.info()).toEqual(info)
  })
})
