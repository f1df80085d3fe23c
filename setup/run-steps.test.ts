import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ProgressEvents } from './progress-events.mjs'
import { runSteps, StepError } from './run-steps.mjs'
import { showFailure } from './show-failure.mjs'

let directory: string
let printed: string

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-steps-'))
  printed = ''
})

afterEach(() => rmSync(directory, { recursive: true }))

const output = { write: (text: string) => (printed += text) }

function context(signal = new AbortController().signal) {
  return { repoDir: directory, dataDir: join(directory, 'data'), signal, output }
}

/** A step that makes a file and counts how often it ran. */
function fileStep(inputs: () => string = () => 'one') {
  const result = join(directory, 'result')
  const step = {
    id: 'file',
    title: 'File',
    scope: 'repo' as const,
    hint: 'Look for the file.',
    runs: 0,
    inputs,
    isInPlace: () => existsSync(result),
    run: async (_work: unknown) => {
      step.runs++
      writeFileSync(result, '')
    },
  }
  return { step, result }
}

describe('runSteps', () => {
  it('runs a step once while its inputs and its result stay', async () => {
    const { step } = fileStep()
    await runSteps([step], context())
    await runSteps([step], context())
    expect(step.runs).toBe(1)
    expect(printed).toContain('ok File (in place)')
  })

  it('reports to `progress` instead of printing', async () => {
    const { step } = fileStep()
    const progress = new ProgressEvents(output)
    await runSteps([step], { ...context(), progress })
    await runSteps([step], { ...context(), progress })
    expect(
      printed
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line).state),
    ).toEqual(['started', 'ok', 'in_place'])
  })

  it('runs a step again when its inputs change', async () => {
    let inputs = 'one'
    const { step } = fileStep(() => inputs)
    await runSteps([step], context())
    inputs = 'two'
    await runSteps([step], context())
    expect(step.runs).toBe(2)
  })

  it('runs a step again when its result is gone, whatever the stamp says', async () => {
    const { step, result } = fileStep()
    await runSteps([step], context())
    rmSync(result)
    await runSteps([step], context())
    expect(step.runs).toBe(2)
  })

  it('refuses a step that succeeds without its result', async () => {
    const { step } = fileStep()
    step.run = async () => {}
    await expect(runSteps([step], context())).rejects.toThrow('its result is missing')
  })

  it('forgets the old stamp before a run that fails', async () => {
    let inputs = 'one'
    const { step } = fileStep(() => inputs)
    const good = step.run
    await runSteps([step], context())
    inputs = 'two'
    step.run = () => Promise.reject(new Error('broken'))
    await expect(runSteps([step], context())).rejects.toThrow(StepError)
    inputs = 'one'
    step.run = good
    await runSteps([step], context())
    expect(step.runs).toBe(2)
  })

  it('ends the program of an interrupted step and runs the step again later', async () => {
    const { step } = fileStep()
    const interruption = new AbortController()
    const pidFile = join(directory, 'pid')
    const good = step.run
    step.run = async (work) => {
      const { run } = work as { run: (command: object) => Promise<string> }
      setTimeout(() => interruption.abort('SIGTERM'), 200)
      await run({ argv: ['sh', '-c', `echo $$ > '${pidFile}'; sleep 60; true`] })
    }
    await expect(runSteps([step], context(interruption.signal))).rejects.toBe('SIGTERM')
    expect(existsSync(`/proc/${readFileSync(pidFile, 'utf8').trim()}`)).toBe(false)
    expect(printed).toContain('stopped File')
    step.run = good
    await runSteps([step], context())
    expect(step.runs).toBe(1)
  })

  it('says which directory cannot be used, and what to do', async () => {
    const { step } = fileStep()
    const dataDir = join(directory, 'file')
    writeFileSync(dataDir, '')
    const steps = [{ ...step, scope: 'data' as const }]
    const error = await runSteps(steps, { ...context(), dataDir }).catch((reason) => reason)
    printed = ''
    expect(showFailure(error, output, { isJson: true })).toBe(1)
    expect(JSON.parse(printed)).toEqual({
      error: {
        code: 'setup_failed',
        message: expect.stringContaining(`${dataDir} cannot be used: EEXIST`),
        hint: expect.stringContaining('--data DIR'),
      },
    })
  })

  it('runs on a full disk when every step is in place', async () => {
    const dataDir = join(directory, 'data')
    mkdirSync(dataDir)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8k', 'none', dataDir])
    try {
      // Empty files take no block.
      mkdirSync(join(dataDir, 'stamps'))
      for (const name of ['setup.lock', 'stamps/file']) writeFileSync(join(dataDir, name), '')
      expect(() => writeFileSync(join(dataDir, 'ballast'), Buffer.alloc(8193))).toThrow('ENOSPC')
      const { step } = fileStep(() => '')
      await runSteps([{ ...step, scope: 'data', isInPlace: () => true }], { ...context(), dataDir })
      expect(step.runs).toBe(0)
    } finally {
      execFileSync('umount', ['--lazy', dataDir])
    }
  })

  it('lets two set-ups of the same directory work one after the other', async () => {
    const events: string[] = []
    const slow = (name: string) => {
      const { step } = fileStep(() => name)
      step.run = async () => {
        events.push(`${name} begins`)
        await new Promise((resolve) => setTimeout(resolve, 200))
        writeFileSync(join(directory, 'result'), '')
        events.push(`${name} ends`)
      }
      return runSteps([step], context())
    }
    await Promise.all([slow('first'), slow('second')])
    expect(events).toHaveLength(4)
    expect(events[1]).toBe(events[0]?.replace('begins', 'ends'))
    expect(printed).toContain('waiting for it to finish')
  })
})

describe('showFailure', () => {
  it('shows what failed, the end of the output and the hint', async () => {
    const { step } = fileStep()
    step.run = async (work) => {
      const { run } = work as { run: (command: object) => Promise<string> }
      await run({ argv: ['sh', '-c', 'seq 1 30; echo no such thing >&2; exit 3'] })
    }
    const error = await runSteps([step], context()).catch((reason) => reason)
    printed = ''
    expect(showFailure(error, output)).toBe(1)
    expect(printed).toContain('File: sh -c')
    expect(printed).toContain('exit status 3')
    expect(printed).toContain('| no such thing')
    expect(printed).toContain('| 30\n')
    expect(printed).not.toContain('| 5\n')
    expect(printed).toContain('What to do: Look for the file.')
    printed = ''
    expect(showFailure(error, output, { isJson: true })).toBe(1)
    expect(JSON.parse(printed)).toEqual({
      error: {
        code: 'setup_failed',
        message: expect.stringContaining('exit status 3'),
        hint: 'Look for the file.',
        output: expect.arrayContaining(['no such thing', '30']),
      },
    })
  })

  it.each([
    ['a program', `echo 'cp: error writing: No space left on device' >&2; exit 1`],
    ['the system', undefined],
  ])('says that the disk is full when %s says so', async (_who, script) => {
    const { step } = fileStep()
    step.run = async (work) => {
      const { run } = work as { run: (command: object) => Promise<string> }
      if (script === undefined) writeFileSync('/dev/full', 'x')
      else await run({ argv: ['sh', '-c', script] })
    }
    const error = await runSteps([step], context()).catch((reason) => reason)
    printed = ''
    showFailure(error, output, { isJson: true })
    expect(JSON.parse(printed).error).toMatchObject({
      code: 'no_space',
      hint: expect.stringContaining('disk space'),
    })
  })

  it('names a program that is not installed', async () => {
    const { step } = fileStep()
    step.run = async (work) => {
      const { run } = work as { run: (command: object) => Promise<string> }
      await run({ argv: ['dormouse-no-such-program'] })
    }
    await expect(runSteps([step], context())).rejects.toThrow(/dormouse-no-such-program.*ENOENT/)
  })
})
