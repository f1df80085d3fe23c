import type { Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { heldBytes } from '../../../tests/held-memory.ts'
import { encodeFrame, encodeJsonFrame, FrameDecoder, FrameType } from './frames.ts'
import { FakeAgent } from './testing/fake-agent.ts'

const MIB = 1024 ** 2

// The other end is in hostile hands: sandbox code that has taken over the agent. A real socket, played by the test.
describe('an agent in hostile hands', () => {
  let agent: FakeAgent
  beforeEach(async () => {
    agent = await FakeAgent.listen()
  })
  afterEach(() => agent.close())

  const endsTheCall = { code: 'agent_unreachable' }
  const json = (type: number, text: string) => (socket: Socket, channel: number) =>
    socket.write(encodeFrame(type, channel, Buffer.from(text)))

  test.each<[string, (socket: Socket, channel: number) => void]>([
    ['an END of 5 MiB', json(FrameType.end, JSON.stringify({ rssBytes: 'x'.repeat(5 * MIB) }))],
    [
      'an ERROR of 1 MiB',
      json(FrameType.error, JSON.stringify({ code: 'internal', message: 'x'.repeat(MIB) })),
    ],
    ['an END with a million lists', json(FrameType.end, `[${'[],'.repeat(999_999)}[]]`)],
    ['an END nested 100,000 deep', json(FrameType.end, '['.repeat(100_000) + ']'.repeat(100_000))],
    ['half a character in an END', json(FrameType.end, '{"rssBytes":"\\ud800"}')],
    ['half a character in a short END', json(FrameType.end, '"\\uDfff"')],
    [
      'CREDIT of two bytes',
      (socket, channel) => socket.write(encodeFrame(FrameType.credit, channel, Buffer.alloc(2))),
    ],
    ['CREDIT for what was never sent', (socket, channel) => socket.write(credit(channel, 1))],
    [
      'a REQUEST',
      (socket, channel) => socket.write(encodeFrame(FrameType.request, channel, Buffer.from('{}'))),
    ],
  ])('sends %s: the call fails and the connection ends', async (_what, answer) => {
    agent.onRequest(answer)
    await expect(agent.client.info()).rejects.toMatchObject(endsTheCall)
    await agent.disconnected
  })

  test.each([
    ['that is not JSON', Buffer.from('{')],
    ['of 32 MiB', Buffer.alloc(32 * MIB, ' ')],
    ['nested too deep', Buffer.from('['.repeat(100_000))],
  ])('greets with a HELLO %s: the call fails', async (_what, hello) => {
    agent.play = (socket) => socket.write(encodeFrame(FrameType.hello, 0, hello))
    await expect(agent.client.info()).rejects.toMatchObject(endsTheCall)
  })

  test('escapes a backslash before ud800: that is a text like any other', async () => {
    agent.onRequest(json(FrameType.end, JSON.stringify({ text: '\\ud800 \\\\uDBFF' })))
    expect(await agent.client.call('agent.info', {})).toEqual({ text: '\\ud800 \\\\uDBFF' })
  })

  test('sends a million tiny frames to a slow reader: the host holds little more than the window', async () => {
    agent.onRequest((socket, channel) => {
      const start = { type: 'start', processId: 'pr-2222222222222222', pid: 5 }
      socket.write(encodeJsonFrame(FrameType.item, channel, start))
      const empty = encodeFrame(FrameType.data, channel)
      const one = encodeFrame(FrameType.data, channel, Buffer.from('x'))
      socket.write(Buffer.concat(Array.from({ length: 500_000 }, () => empty)))
      socket.write(Buffer.concat(Array.from({ length: 500_000 }, () => one)))
      agent.answer(socket)
    })
    const connection = await agent.client.processes.connect({ args: ['true'] })
    const before = heldBytes()
    await agent.answered
    for (let turn = 0; turn < 50; turn++) await setImmediate()
    expect(heldBytes() - before).toBeLessThan(16 * MIB)
    connection.close()
  })

  test.each([
    ['another process', { processId: 'pr-3333333333333333' }],
    ['input that ends before it begins', { inputBytes: -1 }],
    ['input beyond counting', { inputBytes: 2 ** 60 }],
    ['an end that is no answer', { inputEnded: 'perhaps' }],
  ])('continues a process with %s: the connection is refused', async (_what, lie) => {
    const processId = 'pr-2222222222222222'
    agent.onRequest((socket, channel) => {
      const start = { type: 'start', processId, pid: 5, inputBytes: 0, inputEnded: false, ...lie }
      socket.write(encodeJsonFrame(FrameType.item, channel, start))
    })
    const reconnecting = agent.client.processes.reconnect(processId, { receivedBytes: 0 })
    await expect(reconnecting).rejects.toMatchObject(endsTheCall)
  })

  test('gives credit without end and reads nothing: the host sends no more than the window', async () => {
    agent.onRequest((socket, channel) => {
      for (let n = 0; n < 100; n++) socket.write(credit(channel, 0xffffffff))
      socket.pause()
    })
    let taken = 0
    const source = (async function* () {
      for (; taken < 256 * MIB; taken += MIB) yield Buffer.alloc(MIB)
    })()
    await expect(agent.client.files.write('/x', source)).rejects.toMatchObject(endsTheCall)
    expect(taken).toBeLessThan(16 * MIB)
  })

  test('sends a long frame byte by byte: the host holds what has come, and not a buffer for each', () => {
    const decoder = new FrameDecoder()
    decoder.push(encodeFrame(FrameType.item, 1, Buffer.alloc(2 * MIB)).subarray(0, 10))
    const before = heldBytes()
    let frames = 0
    for (let at = 0; at < 200_000; at++) frames += decoder.push(Buffer.alloc(1)).length
    expect(frames).toBe(0)
    expect(heldBytes() - before).toBeLessThan(4 * MIB)
  })

  test('sends to channels that are over, without end: the connection ends', async () => {
    agent.onRequest((socket, channel) => {
      socket.write(encodeJsonFrame(FrameType.end, channel, {}))
      const stray = encodeFrame(FrameType.data, channel, Buffer.alloc(256 * 1024))
      const flood = () => {
        while (!socket.destroyed && socket.write(stray));
        if (!socket.destroyed) socket.once('drain', flood)
      }
      flood()
    })
    await agent.client.call('agent.info', {})
    await agent.disconnected
  })

  test('adds fields to an event: they are not passed on', async () => {
    agent.onRequest((socket, channel) => {
      const start = { seq: 0, type: 'start', runId: 'r', context: 'default', extra: 1, isAdmin: true }
      socket.write(encodeJsonFrame(FrameType.item, channel, start))
      socket.write(
        encodeFrame(
          FrameType.item,
          channel,
          Buffer.from('{"seq":1,"type":"stdout","data":"x","__proto__":{"between":true}}'),
        ),
      )
      socket.write(encodeJsonFrame(FrameType.end, channel, {}))
    })
    const events = []
    for await (const event of agent.client.runs.stream({ code: '1' })) events.push(event)
    expect(events).toEqual([
      { seq: 0, type: 'start', runId: 'r', context: 'default' },
      { seq: 1, type: 'stdout', data: 'x' },
    ])
    expect(Object.getPrototypeOf(events[1])).toBe(Object.prototype)
  })

  test.each([
    ['a duration that is no number', '{"seq":1,"type":"exit","exitCode":0,"durationMs":1e999}'],
    ['a seq out of range', '{"seq":1e300,"type":"stdout","data":"x"}'],
    ['fields of its prototype', '{"__proto__":{"seq":1,"type":"stdout","data":"x"}}'],
    ['a list for an object', '[]'],
  ])('sends an event with %s: the stream ends with an error', async (_what, text) => {
    agent.onRequest(json(FrameType.item, text))
    const stream = agent.client.runs.stream({ code: '1' })[Symbol.asyncIterator]()
    await expect(stream.next()).rejects.toMatchObject(endsTheCall)
  })

  test.each([
    ['context.list', '{"contexts":[{"context":5}]}', () => agent.client.contexts.list()],
    ['context.list', '{}', () => agent.client.contexts.list()],
    ['run.interrupt', '{"state":"deleted"}', () => agent.client.runs.interrupt('r')],
    ['run.interrupt', 'null', () => agent.client.runs.interrupt('r')],
  ])('answers %s with %s: the call fails', async (_op, text, call) => {
    agent.onRequest(json(FrameType.end, text))
    await expect(call()).rejects.toMatchObject(endsTheCall)
  })
})

function credit(channel: number, bytes: number): Buffer {
  const payload = Buffer.alloc(4)
  payload.writeUInt32BE(bytes)
  return encodeFrame(FrameType.credit, channel, payload)
}
