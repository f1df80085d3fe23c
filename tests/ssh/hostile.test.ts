import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { connectRaw, execRaw } from './raw-client.ts'
import { useSsh } from './ssh-client.ts'
import { untilStalled } from './until-stalled.ts'

const MIB = 1024 ** 2
const bench = useSsh()
const serverMemoryBytes = () =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${bench.server.pid}/status`, 'utf8'))?.[1]) * 1024

describe('a client that does not keep to the rules', () => {
  test('and sends more than the window allows is cut off', async () => {
    const client = await connectRaw(bench)
    const channel = await execRaw(client, 'sleep 1000')
    // Not `once`, which takes the error that comes first for a failure.
    const closed = new Promise((resolve) => client.once('close', resolve))
    channel.outgoing.window = 2 ** 31
    const before = serverMemoryBytes()
    for (let n = 0; n < 128 && client._sock.writable; n += 1) {
      // Not a part of the window without a rest: ssh2 throws away what comes when just nothing is left.
      channel.write(Buffer.alloc(1_000_001))
      await sleep(2)
    }
    await closed
    // The command continues without its client, and counts as work of the sandbox.
    await bench.exec('pkill -x sleep')
    expect(serverMemoryBytes() - before).toBeLessThan(100 * MIB)
  })

  test('and takes nothing from a window without end makes the program wait, not the server hold it', async () => {
    const client = await connectRaw(bench)
    const channel = await execRaw(client, 'cat /dev/zero')
    const before = serverMemoryBytes()
    client._sock.pause()
    client._protocol.channelWindowAdjust(channel.outgoing.id, 2 ** 31)
    await untilStalled(bench, 'cat')
    expect(serverMemoryBytes() - before).toBeLessThan(100 * MIB)
    // Others do not notice.
    expect((await bench.exec('echo fine')).stdout.toString()).toBe('fine\n')
    client._sock.destroy()
    await expect.poll(async () => (await bench.exec('pgrep -f /dev/zero')).code, { timeout: 20_000 }).toBe(1)
  })

  test('and opens channels without end is refused the rest', async () => {
    const client = await connectRaw(bench)
    const outcomes = await Promise.allSettled(Array.from({ length: 300 }, () => execRaw(client, 'cat')))
    const refused = outcomes.filter(({ status }) => status === 'rejected') as PromiseRejectedResult[]
    expect(refused.length).toBe(300 - 256)
    expect(String(refused[0]?.reason)).toContain('too many channels are open')
    client.end()
    await expect
      .poll(async () => (await bench.exec('echo fine')).stdout.toString(), { timeout: 20_000 })
      .toBe('fine\n')
  })

  test('and closes a channel in the middle of everything leaves nothing behind', async () => {
    const client = await connectRaw(bench)
    for (let n = 0; n < 20; n += 1) {
      const channel = await execRaw(client, 'cat; sleep 0.1')
      channel.write(Buffer.alloc(100_000))
      channel.close()
    }
    client.end()
    await expect
      .poll(async () => (await bench.server.ok('/v1/sandboxes/box/why')).work, { timeout: 20_000 })
      .toEqual([])
  })
})
