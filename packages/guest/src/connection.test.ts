import type { Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { encodeFrame, encodeJsonFrame, type Frame, FrameType } from './frames.ts'
import { FakeAgent } from './testing/fake-agent.ts'

const START = { type: 'start', processId: 'pr-2222222222222222', pid: 5 }

// The test plays a hostile agent, which sandbox code has taken over, on a real socket.
describe('an agent that misbehaves', () => {
  let agent: FakeAgent
  beforeEach(async () => {
    agent = await FakeAgent.listen()
  })
  afterEach(() => agent.close())

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
    agent.onRequest(answer)
    await expect(agent.client.runs.run({ code: '1' })).rejects.toMatchObject({ code: 'agent_unreachable' })
  })

  test('sends more than the window before the host has read: the connection ends', async () => {
    const piece = Buffer.alloc(256 * 1024)
    agent.onRequest((socket, channel) => {
      socket.write(encodeJsonFrame(FrameType.item, channel, START))
      for (let n = 0; n < 32; n += 1) socket.write(encodeFrame(FrameType.data, channel, piece))
    })
    const connection = await agent.client.processes.connect({ args: ['true'] })
    await expect(connection.exit).rejects.toMatchObject({ code: 'agent_unreachable' })
  })

  test('speaks another protocol: protocol_mismatch', async () => {
    agent.play = (socket) => socket.write(encodeJsonFrame(FrameType.hello, 0, { protocol: 2 }))
    await expect(agent.client.info()).rejects.toMatchObject({ code: 'protocol_mismatch' })
  })

  test('invents an error code: internal, and the message is cut', async () => {
    agent.onRequest((socket, channel) =>
      socket.write(
        encodeJsonFrame(FrameType.error, channel, { code: 'own_invention', message: 'x'.repeat(10_000) }),
      ),
    )
    const error = await agent.client.info().catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'internal' })
    expect((error as Error).message.length).toBeLessThan(3000)
  })

  test.each(['restore_failed', 'agent_unreachable', 'burrow_ended', 'snapshot_refused'])(
    'answers with the code %s of the host: internal, without its details',
    async (code) => {
      agent.onRequest((socket, channel) =>
        socket.write(
          encodeJsonFrame(FrameType.error, channel, { code, message: 'm', details: { snapshotId: 'sn-1' } }),
        ),
      )
      const error = await agent.client.info().catch((reason: unknown) => reason)
      expect(error).toMatchObject({ code: 'internal', message: 'm', details: {} })
    },
  )

  test('answers channels that were never opened: ignored', async () => {
    const info = { contexts: 1, processes: 2, runs: 3, rssBytes: 4 }
    agent.onRequest((socket, channel) => {
      socket.write(encodeJsonFrame(FrameType.end, channel + 7, {}))
      socket.write(encodeJsonFrame(FrameType.end, channel, info))
    })
    expect(await agent.client.info()).toEqual(info)
  })
})

describe('a host that asks the agent to quiesce', () => {
  test('sends nothing after it: the agent reads no more, and a write to its closed socket would lose the answer', async () => {
    const agent = await FakeAgent.listen()
    const frames: Frame[] = []
    let quiesced: { socket: Socket; channel: number } | undefined
    agent.play = (socket, frame) => {
      frames.push(frame)
      if (frame.type === FrameType.hello) socket.write(encodeJsonFrame(FrameType.hello, 0, { protocol: 1 }))
      else if (frame.type === FrameType.request && frame.channel === 1)
        // More than the step in which the host returns credit.
        for (let n = 0; n < 3; n += 1) socket.write(encodeFrame(FrameType.data, 1, Buffer.alloc(200_000)))
      else if (frame.type === FrameType.request) quiesced = { socket, channel: frame.channel }
    }
    const stream = await agent.client.open('file.read', {})
    const quiet = agent.client.quiesce()
    await expect.poll(() => quiesced).toBeDefined()
    const { socket, channel } = quiesced as NonNullable<typeof quiesced>
    const before = frames.length
    const received = stream.received()
    for (let n = 0; n < 3; n += 1) await received.next()
    await expect(agent.client.info()).rejects.toMatchObject({ code: 'agent_unreachable' })
    socket.end(encodeJsonFrame(FrameType.end, channel, {}))
    await quiet
    expect(frames.slice(before)).toEqual([])
    agent.close()
  })
})

describe('a host that wakes an agent', () => {
  const IDENTITY = { sandboxId: 'sb-2222222222222222', reason: 'resume', reseed: true }

  test('sends the introduction behind its greeting, without waiting for an answer, and only once', async () => {
    const agent = await FakeAgent.listen()
    const frames: Frame[] = []
    let answers: (() => void) | undefined
    agent.play = (socket, frame) => {
      frames.push(frame)
      answers = () => {
        socket.write(encodeJsonFrame(FrameType.hello, 0, { protocol: 1 }))
        socket.write(encodeJsonFrame(FrameType.end, 1, {}))
      }
    }
    const woken = agent.client.wake(IDENTITY)
    await expect.poll(() => frames.map(({ type }) => type)).toEqual([FrameType.hello, FrameType.request])
    expect(JSON.parse(String(frames[1]?.payload))).toEqual({ op: 'agent.wake', ...IDENTITY })
    answers?.()
    await woken
    expect(frames).toHaveLength(2)
    agent.close()
  })

  test('fails when the agent greets with another protocol', async () => {
    const agent = await FakeAgent.listen()
    agent.play = (socket) => socket.write(encodeJsonFrame(FrameType.hello, 0, { protocol: 2 }))
    await expect(agent.client.wake(IDENTITY)).rejects.toMatchObject({ code: 'protocol_mismatch' })
    agent.close()
  })
})
