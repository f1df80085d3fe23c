import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { ConnectProcess, ProcessConnection, ProcessExit } from '../guest.ts'
import { eventually, runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const MIB = 1024 ** 2

interface Finished {
  readonly stdout: Buffer
  readonly stderr: Buffer
  readonly exit: ProcessExit
}

export function describeConnectedProcesses(factory: EngineFactory): void {
  describe('connected processes', () => {
    const shared = useSharedBurrow(factory)
    const connect = (request: ConnectProcess) => shared.guest.processes.connect(request)
    const run = async (request: ConnectProcess, input?: Uint8Array) => {
      const connection = await connect(request)
      if (input !== undefined) void connection.write(input).then(() => connection.end())
      else connection.end()
      return finish(connection)
    }
    const isAlive = async (pid: number) =>
      (await runPython(shared.guest, `import os; print(os.path.exists("/proc/${pid}"))`)).trim() === 'True'
    const isGone = (pid: number) => eventually(`the end of ${pid}`, async () => !(await isAlive(pid)))

    test('stdout and stderr arrive separately and as bytes, then the exit code', async () => {
      const done = await run({ shell: String.raw`printf '\377\000\200'; printf 'err\376' >&2; exit 3` })
      expect(done.stdout).toEqual(Buffer.from([0xff, 0, 0x80]))
      expect(done.stderr).toEqual(Buffer.from([0x65, 0x72, 0x72, 0xfe]))
      expect(done.exit).toEqual({ exitCode: 3, signal: undefined })
    })

    test('the exit names the signal that ended the process', async () => {
      expect((await run({ shell: 'kill -KILL $$' })).exit).toEqual({ exitCode: 137, signal: 'SIGKILL' })
      const connection = await connect({ args: ['sleep', '1000'] })
      expect((await shared.guest.processes.list()).map(({ processId }) => processId)).toContain(
        connection.processId,
      )
      await shared.guest.processes.signal(connection.processId, 'SIGTERM')
      expect((await finish(connection)).exit).toEqual({ exitCode: 143, signal: 'SIGTERM' })
    })

    test('64 MiB return unchanged, also while stderr is full', async () => {
      const connection = await connect({
        shell: `head -c ${16 * MIB} /dev/zero | tr '\\0' e >&2 & cat; wait`,
      })
      const sent = createHash('sha256')
      const sending = (async () => {
        for (let n = 0; n < 64; n += 1) {
          const piece = Buffer.alloc(MIB, `\xff\0piece ${n}, `, 'latin1')
          sent.update(piece)
          await connection.write(piece)
        }
        connection.end()
      })()
      const { stdout, stderr, exit } = await finish(connection)
      await sending
      expect(createHash('sha256').update(stdout).digest('hex')).toBe(sent.digest('hex'))
      expect(stderr.equals(Buffer.alloc(16 * MIB, 'e'))).toBe(true)
      expect(exit.exitCode).toBe(0)
    })

    test('writes arrive in order, and before the end, when the caller does not wait', async () => {
      const connection = await connect({ args: ['cat'] })
      for (let n = 0; n < 4; n += 1) void connection.write(Buffer.alloc(MIB, String(n)))
      connection.end()
      const expected = Buffer.concat([0, 1, 2, 3].map((n) => Buffer.alloc(MIB, String(n))))
      expect((await finish(connection)).stdout.equals(expected)).toBe(true)
    })

    test('the process waits, and loses no output, while its output is not read', async () => {
      const code = 'import sys\nfor n in range(64):\n sys.stdout.write("x" * 1048576); sys.stderr.write(".")'
      const connection = await connect({ args: ['python3', '-c', code] })
      await sleep(500)
      expect(await isAlive(connection.pid)).toBe(true)
      const { stdout, stderr } = await finish(connection)
      expect([stdout.length, stderr.length]).toEqual([64 * MIB, 64])
    })

    test('the sender waits while the process does not read; unread input is discarded at its end', async () => {
      const deaf = await connect({ args: ['sleep', '1000'] })
      let taken = 0
      const sending = (async () => {
        for (let n = 0; n < 16; n += 1) {
          await deaf.write(Buffer.alloc(MIB))
          taken += MIB
        }
      })()
      await sleep(300)
      expect(taken).toBeLessThan(4 * MIB)
      deaf.close()
      await sending
      await shared.guest.processes.signal(deaf.processId, 'SIGKILL')
      const early = await run(
        { shell: 'head -c 5; exec 0<&-; sleep 0.2; echo " done"' },
        Buffer.alloc(16 * MIB, 'a'),
      )
      expect(early.stdout.toString()).toBe('aaaaa done\n')
      expect(early.exit.exitCode).toBe(0)
    })

    test('output of children after the end of the process arrives; a terminal ends with its process', async () => {
      expect((await run({ shell: '(sleep 0.3; echo later) & echo now' })).stdout.toString()).toBe(
        'now\nlater\n',
      )
      const pty = { cols: 80, rows: 24 }
      const shell = 'trap "" HUP; (trap "" HUP; sleep 1000) & echo shown; exit 4'
      const { stdout, exit } = await run({ shell, pty })
      expect([stdout.toString(), exit.exitCode]).toEqual(['shown\r\n', 4])
    })

    test('a terminal accepts input and a new size, and ends at Ctrl-D', async () => {
      const connection = await connect({
        args: ['bash', '--norc'],
        env: { PS1: '> ' },
        pty: { cols: 70, rows: 20 },
      })
      let shown = ''
      const finished = finish(connection, (data) => {
        shown += data.toString()
      })
      await connection.write(Buffer.from('stty size\r'))
      await eventually('the first size', async () => shown.includes('20 70'))
      await shared.guest.processes.resize(connection.processId, { cols: 132, rows: 50 })
      await connection.write(Buffer.from('stty size; exit 6\r'))
      const { stdout, exit } = await finished
      expect(stdout.toString()).toMatch(/20 70\r\n[\s\S]*50 132\r\n/)
      expect(exit.exitCode).toBe(6)
      expect((await run({ args: ['cat'], pty: { cols: 80, rows: 24 } })).exit.exitCode).toBe(0)
    })

    test('closing the connection closes the pipes and hangs up the terminal', async () => {
      const reader = await connect({ args: ['cat'] })
      reader.close()
      await isGone(reader.pid)
      const writer = await connect({ shell: 'while echo more; do sleep 0.05; done' })
      for await (const { data } of writer.output) {
        expect(data.toString()).toMatch(/more/)
        break
      }
      await isGone(writer.pid)
      const stop = new AbortController()
      const shell = await shared.guest.processes.connect(
        { args: ['bash', '--norc', '-i'], pty: { cols: 80, rows: 24 } },
        { signal: stop.signal },
      )
      stop.abort()
      await isGone(shell.pid)
      await expect(finish(shell)).rejects.toMatchObject({ code: 'cancelled' })
    })

    test('a connection ends when the burrow is saved, and another continues it in the next burrow', async () => {
      const burrow = await shared.create()
      const { processes } = burrow.guest
      const counted = await processes.connect({ shell: 'seq 1 200000; cat; exit 4' })
      const shell = await processes.connect({ args: ['bash', '-i'], pty: { cols: 80, rows: 24 } })
      void shell.write(Buffer.from('echo re""ady\r'))
      let shown = ''
      for await (const { data } of shell.output) {
        shown += data.toString()
        if (shown.includes('ready')) break
      }
      // Leaving the loop has hung up the shell. Nothing of the other output was read.
      const { snapshot } = await shared.engine.snapshot(burrow, { leave: 'gone' })
      const woken = shared.hold(await shared.engine.restore(snapshot.id, { sandboxId: burrow.sandboxId }))
      const again = woken.guest.processes
      await expect(again.reconnect(shell.processId, { receivedBytes: 0 })).rejects.toMatchObject({
        code: 'conflict',
      })
      await expect(again.reconnect(counted.processId, { receivedBytes: 10 ** 9 })).rejects.toMatchObject({
        code: 'conflict',
      })
      const { connection, inputBytes, inputEnded } = await again.reconnect(counted.processId, {
        receivedBytes: 0,
      })
      expect([inputBytes, inputEnded]).toEqual([0, false])
      void connection.write(Buffer.from('the end')).then(() => connection.end())
      const { stdout, exit } = await finish(connection)
      const all = Array.from({ length: 200_000 }, (_, index) => `${index + 1}\n`).join('')
      expect([stdout.equals(Buffer.from(`${all}the end`)), exit.exitCode]).toEqual([true, 4])
      await woken.destroy()
      await shared.engine.deleteSnapshot(snapshot.id)
    })

    test('a program that cannot be started is refused', async () => {
      await expect(connect({ args: ['/nowhere'] })).rejects.toMatchObject({ code: 'not_found' })
      await expect(connect({ shell: 'true', cwd: '/nowhere' })).rejects.toMatchObject({ code: 'not_found' })
    })
  })
}

async function finish(
  { output, exit }: ProcessConnection,
  onData: (data: Buffer) => void = () => {},
): Promise<Finished> {
  const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  for await (const { stream, data } of output) {
    parts[stream].push(data)
    onData(data)
  }
  return { stdout: Buffer.concat(parts.stdout), stderr: Buffer.concat(parts.stderr), exit: await exit }
}
