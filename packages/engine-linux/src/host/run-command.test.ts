import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { inOwnNamespaces, runCommand, runCommandOrFail } from './run-command.ts'

const directory = mkdtempSync(join(tmpdir(), 'dormouse-run-'))
afterAll(() => rmSync(directory, { recursive: true }))

/** A process that ended may stay a zombie until the first process of the machine takes notice. */
function isRunning(pid: string): boolean {
  const status = `/proc/${pid}/status`
  return existsSync(status) && !/^State:\s+[ZX]/m.test(readFileSync(status, 'utf8'))
}

describe('runCommand', () => {
  it('answers the exit code, stdout and the last lines of both streams', async () => {
    const result = await runCommand({ argv: ['sh', '-c', 'seq 1 100; sleep 0.1; echo bad >&2; exit 4'] })
    expect(result.exitCode).toBe(4)
    expect(result.stdout.split('\n')).toHaveLength(101)
    expect(result.tail).toHaveLength(20)
    expect(result.tail.at(-1)).toBe('bad')
  })

  it('says when a program is not installed', async () => {
    const result = await runCommand({ argv: ['dormouse-no-such-program'] })
    expect(result.ending).toBe('is not installed')
  })

  it('reads standard input from a file', async () => {
    writeFileSync(join(directory, 'input'), 'hello\n')
    expect((await runCommand({ argv: ['cat'], stdinFile: join(directory, 'input') })).stdout).toBe('hello\n')
  })

  it('ends a program that takes too long', async () => {
    const result = await runCommand({ argv: ['sleep', '60'], timeoutMs: 100 })
    expect(result.ending).toBe('was ended by SIGTERM')
  })

  it('ends everything the program started when aborted', async () => {
    const pidFile = join(directory, 'pid')
    const script = `sleep 60 & echo $! > '${pidFile}'; wait`
    const stop = new AbortController()
    setTimeout(() => stop.abort('enough'), 300)
    await expect(runCommand({ argv: ['sh', '-c', script], signal: stop.signal })).rejects.toBe('enough')
    expect(isRunning(readFileSync(pidFile, 'utf8').trim())).toBe(false)
  })

  it('keeps the exit code of a program in its own namespaces, where it is the first process', async () => {
    const result = await runCommand({ argv: inOwnNamespaces(['sh', '-c', 'echo $$; exit 7']) })
    expect(result).toMatchObject({ exitCode: 7, stdout: '1\n' })
  })
})

describe('runCommandOrFail', () => {
  it('throws setup_failed with the end of the output', async () => {
    const failing = runCommandOrFail({ argv: ['sh', '-c', 'echo why; exit 1'] }, 'making tea')
    await expect(failing).rejects.toMatchObject({
      code: 'setup_failed',
      message: 'making tea: sh ended with exit code 1',
      details: { output: ['why'] },
    })
  })
})
