import type { ChildProcess } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { finish, sha256, useSsh } from './ssh-client.ts'

const bench = useSsh({ idleTimeoutMs: 600_000, idleConnectionMs: 600_000 })
const standby = (tier: string, name = 'box') =>
  bench.server.ok(`/v1/sandboxes/${name}/standby`, { json: { tier } })
const sleeping = async (name = 'box') => (await bench.server.ok(`/v1/sandboxes/${name}`)).tier
const firstOutput = (child: ChildProcess) => once(child.stdout as NonNullable<typeof child.stdout>, 'data')
const tierOf = (round: number) => (round % 3 === 2 ? 'stored' : 'frozen')

async function shell(name = 'box') {
  const terminal = bench.client.terminal(bench.key, [`${name}@127.0.0.1`])
  terminal.type(`PS1='prompt'"> "\r`)
  await terminal.shows(/prompt> $/)
  return terminal
}

describe('an SSH session while its sandbox sleeps', () => {
  test('a shell keeps its variables and its program over ten sleeps, takes a new size, and ends with its status', async () => {
    const terminal = await shell()
    terminal.type('kept=1; sleep 100000 & jobs -p > /tmp/job\r')
    await terminal.shows(/prompt> $/)
    for (let round = 0; round < 10; round += 1) {
      await standby(tierOf(round))
      if (round === 4) terminal.resize(50, 132)
      expect(await sleeping()).toBe(tierOf(round))
      terminal.type('kept=$((kept + 1)); echo "at $kept"\r')
      await terminal.shows(new RegExp(`at ${round + 2}\\r\\n[\\s\\S]*prompt> $`))
    }
    terminal.type('stty size; kill -0 $(cat /tmp/job) && echo ali""ve; kill %1; exit 7\r')
    await terminal.shows(/50 132\r\nalive\r\n/)
    expect(await terminal.status()).toBe(7)
    const { items } = await bench.server.ok('/v1/sandboxes/box/ledger')
    expect(items).toContainEqual(expect.objectContaining({ event: 'woke', cause: 'ssh' }))
  })

  test('no byte is lost or doubled in either direction, in fifty sleeps under load', async () => {
    const child = bench.client.start(bench.key, ['box@127.0.0.1', 'cat | cat'])
    child.stdin?.on('error', () => {})
    const [sent, back] = [createHash('sha256'), createHash('sha256')]
    const counts = { sent: 0, back: 0 }
    let isOver = false
    child.stdout?.on('data', (piece: Buffer) => {
      counts.back += piece.length
      back.update(piece)
    })
    const sending = (async () => {
      while (!isOver) {
        const piece = randomBytes(64 * 1024)
        counts.sent += piece.length
        sent.update(piece)
        if (child.stdin?.write(piece) !== true)
          await once(child.stdin as NonNullable<typeof child.stdin>, 'drain')
      }
      child.stdin?.end()
    })()
    for (let round = 0; round < 50; round += 1) {
      const before = counts.back
      // It flows before each sleep, and the bytes that were under way wake the sandbox.
      await expect.poll(() => counts.back, { timeout: 30_000, interval: 5 }).toBeGreaterThan(before)
      await standby(round % 10 === 2 ? 'stored' : 'frozen')
    }
    isOver = true
    const [code] = await Promise.all([once(child, 'close').then(([status]) => status), sending])
    expect([code, counts.back]).toEqual([0, counts.sent])
    expect(back.digest('hex')).toBe(sent.digest('hex'))
  })

  test('a command continues with its errors and its status; an upload arrives whole', async () => {
    const command = 'echo begun; read line; echo "got $line"; echo bad >&2; exit 9'
    const child = bench.client.start(bench.key, ['box@127.0.0.1', command])
    const ended = finish(child)
    await firstOutput(child)
    await standby('stored')
    child.stdin?.write('a line\n')
    expect(await ended).toMatchObject({
      code: 9,
      stdout: Buffer.from('begun\ngot a line\n'),
      stderr: 'bad\n',
    })
    const path = join(bench.client.dir, 'upload')
    const data = randomBytes(24 * 1024 ** 2)
    await writeFile(path, data)
    const options = bench.client.options(bench.key)
    const copying = bench.client.run('scp', ['-q', ...options, path, 'box@127.0.0.1:/tmp/upload'])
    const size = async () => Number((await bench.exec('stat -c %s /tmp/upload 2>/dev/null || echo 0')).stdout)
    await expect.poll(size, { timeout: 30_000, interval: 10 }).toBeGreaterThan(0)
    await standby('stored')
    expect((await copying).code).toBe(0)
    expect((await bench.exec('sha256sum < /tmp/upload')).stdout.toString()).toContain(sha256(data))
    await rm(path)
  })

  test('a fork, a snapshot and a refused standby disturb no session; the child hangs its copy up', async () => {
    const terminal = await shell()
    terminal.type('kept=41; echo $$ > /tmp/shell\r')
    await terminal.shows(/prompt> $/)
    const { children } = await bench.server.ok('/v1/sandboxes/box/fork', { json: { count: 1 } })
    await bench.server.ok('/v1/sandboxes/box/snapshots', { json: {} })
    await bench.server.run('box', 'import os; semaphore = os.eventfd(1, os.EFD_SEMAPHORE)')
    expect((await bench.server.call('/v1/sandboxes/box/standby', { json: { tier: 'stored' } })).status).toBe(
      409,
    )
    await bench.server.run('box', 'os.close(semaphore)')
    terminal.type('echo $((kept + 1)); exit 3\r')
    await terminal.shows(/42\r\n/)
    expect(await terminal.status()).toBe(3)
    const alive = 'import os; print(os.path.exists("/proc/" + open("/tmp/shell").read().strip()))'
    await expect.poll(() => bench.server.run(children[0].id, alive), { timeout: 20_000 }).toBe('False\n')
    await bench.server.ok(`/v1/sandboxes/${children[0].id}`, { method: 'DELETE' })
  })

  test('ends with a rollback, after keepAsleepMs, and at once if connections are not kept', async () => {
    const { id: snapshotId } = await bench.server.ok('/v1/sandboxes/box/snapshots', { json: {} })
    const rolled = await shell()
    await bench.server.ok('/v1/sandboxes/box/rollback', { json: { snapshotId } })
    expect(await rolled.status()).toBe(255)
    for (const keepAsleepMs of [300, 0]) {
      await bench.server.ok('/v1/sandboxes/box', { method: 'PATCH', json: { connections: { keepAsleepMs } } })
      const terminal = await shell()
      await standby('frozen')
      expect(await terminal.status()).toBe(255)
      expect(terminal.text).toContain('The sandbox went to sleep.')
    }
  })

  test('ends when the server is killed', async () => {
    await bench.server.ok('/v1/sandboxes', { json: { name: 'other' } })
    const terminal = await shell('other')
    await standby('stored', 'other')
    await bench.server.kill()
    expect(await terminal.status()).toBe(255)
    await bench.server.begin()
    await bench.client.learnAddress()
    const again = await bench.client.ssh(bench.key, ['other@127.0.0.1', 'echo again'])
    expect(again.stdout.toString()).toBe('again\n')
  })
})
