import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type RunEvent, RunFailedError, RunTimeoutError, type Sandbox } from 'dormouse'
import { beforeAll, describe, expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()
let sandbox: Sandbox
beforeAll(async () => {
  sandbox = await server.create()
})

describe('runCode', () => {
  test('returns output, results and the value of the last expression', async () => {
    const run = await sandbox.runCode('import sys; print("out"); print("err", file=sys.stderr); 6 * 7')
    expect(run).toMatchObject({ stdout: 'out\n', stderr: 'err\n', exitCode: 0, text: '42' })
    expect(run.results).toEqual([{ 'text/plain': '42' }])
    expect(run.runId).toMatch(/^run-/)
  })

  test('returns what the code raised instead of throwing it', async () => {
    const run = await sandbox.runCode('1 / 0')
    expect(run.error).toMatchObject({ name: 'ZeroDivisionError', message: 'division by zero' })
    expect(run.error?.traceback).toContain('ZeroDivisionError')
  })

  test('fails when the kernel ends, whatever its exit code, and the next run says that the context is new', async () => {
    const died = await sandbox.runCode('lost = 1; import os; os._exit(0)')
    expect(died).toMatchObject({ exitCode: 1, error: { name: 'KernelDied' } })
    expect(died.stderr).toMatch(/^KernelDied: the kernel exited with code 0; .*its variables are gone\n$/)
    const next = await sandbox.runCode('"lost" in globals()')
    expect(next).toMatchObject({ exitCode: 0, text: 'False' })
    expect(next.contextRestarted).toMatch(/exited with code 0.*its variables are gone/)
    expect((await sandbox.runCode('1')).contextRestarted).toBeUndefined()
  })

  test('calls listeners while it runs', async () => {
    const heard: string[] = []
    await sandbox.runCode('import sys\nprint("a")\nprint("b", file=sys.stderr)\n"c"', {
      onStdout: (text) => heard.push(`out ${text.trim()}`),
      onStderr: (text) => heard.push(`err ${text.trim()}`),
      onResult: (data) => heard.push(`result ${data['text/plain']}`),
    })
    expect(heard.sort()).toEqual(['err b', 'out a', "result 'c'"])
  })

  test('asks for input, and interrupts the run when the answer fails', async () => {
    const code = 'import getpass\n[input("name? "), getpass.getpass("key? ")]'
    const asked: string[] = []
    const run = await sandbox.runCode(code, {
      onInput: async ({ prompt, hidden }) => {
        asked.push(`${prompt}${hidden}`)
        return hidden ? 'secret' : 'Ada'
      },
    })
    expect(run.text).toBe("['Ada', 'secret']")
    expect(asked).toEqual(['name? false', 'key? true'])
    const ended = await sandbox.runCode('input()', { onInput: () => undefined })
    expect(ended.error?.name).toBe('EOFError')
    expect((await sandbox.runCode('input()')).error?.message).toMatch(/no keyboard/)
    const failed = sandbox.runCode('input()', {
      onInput: () => {
        throw new Error('no idea')
      },
    })
    await expect(failed).rejects.toThrow('no idea')
    expect((await sandbox.runCode('"free"')).text).toBe("'free'")
  })

  test('is listed with its code, and contexts complete half-typed code', async () => {
    const { runId } = await sandbox.runCode('vole_count = 7')
    expect(await sandbox.runs.get(runId)).toMatchObject({ code: 'vole_count = 7' })
    expect((await sandbox.contexts.complete('default', 'vole_c')).matches).toEqual(['vole_count'])
  })

  test('runs bash, and ends at its time-out', async () => {
    expect((await sandbox.runCode('echo $((40 + 2))', { language: 'bash' })).stdout).toBe('42\n')
    const late = await sandbox.runCode('kept = 2; import time; time.sleep(60)', { timeoutMs: 200 })
    expect(late).toMatchObject({ timedOut: true, error: { name: 'RunTimeout' } })
    const thrown = thrownBy(() => late.check())
    expect(thrown).toBeInstanceOf(RunTimeoutError)
    expect(thrown).toMatchObject({ code: 'run_timed_out', result: late })
    expect((await sandbox.runCode('kept')).check().text).toBe('2')
  })

  test('check throws what the code raised', async () => {
    const failedRun = await sandbox.runCode('raise ValueError("no")')
    const thrown = thrownBy(() => failedRun.check())
    expect(thrown).toBeInstanceOf(RunFailedError)
    expect(thrown).toMatchObject({ code: 'run_failed', message: 'ValueError: no', result: failedRun })
  })

  test('creates the context that it names', async () => {
    const runs = ['a = 1', 'a = 2', 'a = 3'].map((code) => sandbox.runCode(code, { context: 'made' }))
    expect((await Promise.all(runs)).map(({ exitCode }) => exitCode)).toEqual([0, 0, 0])
    expect((await sandbox.runCode('a in (1, 2, 3)', { context: 'made' })).text).toBe('True')
    const gone = await server.create()
    await gone.delete()
    await expect(gone.runCode('1', { context: 'made' })).rejects.toMatchObject({ code: 'not_found' })
  })

  test('ends by its time when another caller puts the sandbox to standby, and says where the run is', async () => {
    const other = await server.create()
    const run = other.runCode('import time; time.sleep(600)', { timeoutMs: 1_000 }).catch((error) => error)
    await expect.poll(async () => (await other.runs.list().all())[0]?.state).toBe('running')
    await other.idle({ tier: 'stored' })
    const error = await run
    expect(error).toMatchObject({ code: 'run_unfinished', details: { sandboxState: 'standby' } })
    expect(await other.runs.get(error.details.runId)).toMatchObject({ state: 'running' })
    await other.delete()
  })

  test('returns pictures and tables that can be saved', async () => {
    const run = await sandbox.runCode(`
import matplotlib.pyplot as plt, pandas as pd
_ = plt.plot([1, 2]); plt.show()
display({'application/json': {'a': 1}}, raw=True)
pd.DataFrame({'a': [1]})`)
    const [plot, json, table] = run.results
    expect(String(plot?.['image/png'])).toMatch(/^iVBORw0KGgo/)
    expect(plot?.png?.subarray(1, 4)).toEqual(new TextEncoder().encode('PNG'))
    expect([json?.json, json?.isMain, table?.isMain]).toEqual([{ a: 1 }, false, true])
    expect(run.result).toBe(table)
    expect(table?.html).toContain('<table')
    const directory = await mkdtemp(join(tmpdir(), 'dormouse-results-'))
    await plot?.saveTo(join(directory, 'plot.png'))
    expect(new Uint8Array(await readFile(join(directory, 'plot.png')))).toEqual(plot?.png)
    await rm(directory, { recursive: true })
    // The journal has the same results.
    const stored = await sandbox.runs.get(run.runId)
    expect(stored.result?.results[0]?.png).toEqual(plot?.png)
    const events: RunEvent[] = []
    for await (const event of sandbox.runs.events(run.runId)) events.push(event)
    expect(events.flatMap((event) => (event.type === 'result' ? [event.data.isMain] : []))).toEqual([
      false,
      false,
      true,
    ])
  })

  test('keeps the beginning and the end of long output, and listeners get all of it', async () => {
    let length = 0
    // Not all at once: a burst that the server cannot take as fast is cut in the sandbox, and says so.
    const code = `
import time
for i in range(6000):
    print(str(i) + "x" * 1000)
    if i % 100 == 0: time.sleep(0.02)
`
    const run = await sandbox.runCode(code, {
      onStdout: (text) => {
        length += text.length
      },
    })
    expect(length).toBeGreaterThan(6_000_000)
    expect(run.stdout.length).toBeLessThan(4.2 * 1024 ** 2)
    expect(run.stdout.startsWith('0xx')).toBe(true)
    expect(run.stdout).toContain('5999xx')
    expect(run.truncated?.stdoutBytes).toBeGreaterThan(1_000_000)
  })

  test('with the same key does not run twice', async () => {
    await sandbox.runCode('times = 0')
    const options = { idempotencyKey: 'once' }
    const [one, two] = await Promise.all([
      sandbox.runCode('times += 1; times', options),
      sandbox.runCode('times += 1; times', options),
    ])
    expect([one.text, two.text, one.runId === two.runId]).toEqual(['1', '1', true])
    await expect(sandbox.runCode('other', options)).rejects.toMatchObject({ code: 'idempotency_mismatch' })
  })
})

describe('runCodeStream', () => {
  test('yields numbered events, `start` first and `exit` last', async () => {
    const events: RunEvent[] = []
    for await (const event of sandbox.runCodeStream('print(1)\n2')) events.push(event)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, index) => index))
    expect([events[0]?.type, events.at(-1)?.type]).toEqual(['start', 'exit'])
  })

  test('does not end the run when left early, and the run can be followed again', async () => {
    let runId = ''
    for await (const event of sandbox.runCodeStream('import time; time.sleep(0.5); print("done")')) {
      if (event.type === 'start') runId = event.runId
      break
    }
    const texts: string[] = []
    for await (const event of sandbox.runs.events(runId)) if (event.type === 'stdout') texts.push(event.data)
    expect(texts.join('')).toBe('done\n')
    expect((await sandbox.runs.get(runId)).state).toBe('finished')
    expect((await sandbox.runs.list().page({ limit: 1 })).items[0]?.runId).toBe(runId)
  })
})

describe('aborting', () => {
  test('interrupts the run and leaves the REPL as it was', async () => {
    await sandbox.runCode('kept = 1')
    const controller = new AbortController()
    const run = sandbox.runCode('import time\nprint("on", flush=True)\nwhile True: time.sleep(0.05)', {
      signal: controller.signal,
      onStdout: () => controller.abort(new Error('enough')),
    })
    await expect(run).rejects.toMatchObject({ code: 'cancelled', cause: new Error('enough') })
    expect((await sandbox.runCode('kept', { timeoutMs: 5_000 })).text).toBe('1')
  })

  test('by a signal that is a time-out interrupts the run, and is a time-out', async () => {
    const signal = AbortSignal.timeout(500)
    const run = sandbox.runCode('import time\nwhile True: time.sleep(0.05)', { signal })
    await expect(run).rejects.toMatchObject({ code: 'timed_out', cause: { name: 'TimeoutError' } })
    expect((await sandbox.runCode('1', { timeoutMs: 5_000 })).text).toBe('1')
  })

  test('cancels a run that waits in the queue', async () => {
    const first = sandbox.runCode('import time; time.sleep(1.5); "first"')
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 300)
    const second = sandbox.runCode('ran = True', { signal: controller.signal })
    await expect(second).rejects.toMatchObject({ code: 'cancelled' })
    expect((await first).text).toBe("'first'")
    expect((await sandbox.runCode('"ran" in globals()')).text).toBe('False')
  })

  test('before the answer has begun interrupts the run', async () => {
    const controller = new AbortController()
    const run = sandbox.runCode('import time\nwhile True: time.sleep(0.05)', { signal: controller.signal })
    setTimeout(() => controller.abort(), 0)
    await expect(run).rejects.toMatchObject({ code: 'cancelled' })
    expect((await sandbox.runCode('1', { timeoutMs: 5_000 })).text).toBe('1')
  })
})

function thrownBy(work: () => unknown): unknown {
  try {
    return work()
  } catch (error) {
    return error
  }
}
