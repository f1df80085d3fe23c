import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useSharedBurrow } from '../../packages/engine/src/contract/shared-burrow.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

describe('the interpreter of a Python context', () => {
  const shared = useSharedBurrow(factory)
  beforeAll(async () => {
    const code = `python3 -m venv --without-pip /root/project/.venv
      cd /root/project/.venv/lib/python3*/site-packages && echo 'answer = 42' > only_here.py || exit 1
      printf '#!/bin/sh\\necho tool' > /root/project/.venv/bin/tool && chmod +x /root/project/.venv/bin/tool`
    expect(await shared.guest.runs.run({ code, language: 'bash' })).toMatchObject({ exitCode: 0 })
  })
  const run = (code: string, context: string) => shared.guest.runs.run({ code, context })

  test('is that of a virtual environment without IPython, with its libraries only', async () => {
    await shared.guest.contexts.create({ context: 'venv', python: 'project/.venv' })
    const code = 'import only_here, sys, os; print(only_here.answer, sys.prefix, os.environ["VIRTUAL_ENV"])'
    expect(await run(code, 'venv')).toMatchObject({
      stdout: '42 /root/project/.venv /root/project/.venv\n',
      stderr: '',
    })
    expect((await run('import numpy', 'venv')).error).toMatchObject({ name: 'ModuleNotFoundError' })
    expect(await run('!tool', 'venv')).toMatchObject({ stdout: 'tool\n' })
    const { results } = await run('x = [1, 2]; x', 'venv')
    expect(results).toEqual([{ 'text/plain': '[1, 2]' }])
    expect((await shared.guest.contexts.complete('venv', 'only_he')).matches).toContain('only_here')
  })

  test('is a program', async () => {
    const python = '/root/project/.venv/bin/python3'
    await shared.guest.contexts.create({ context: 'program', python })
    expect(await run('import sys; print(sys.executable)', 'program')).toMatchObject({ stdout: `${python}\n` })
  })

  test.each([
    [
      'a path without a program',
      { python: '/root/none' },
      'python: /root/none is no program that root may execute',
    ],
    [
      'a directory without one',
      { python: '/root' },
      'python: /root/bin/python is no program that root may execute',
    ],
    [
      'another language',
      { python: '/usr/bin/python3', language: 'bash' },
      'a context for bash has no Python',
    ],
  ] as const)('refuses %s', async (_what, options, message) => {
    const created = shared.guest.contexts.create({ context: 'refused', ...options })
    await expect(created).rejects.toMatchObject({
      code: 'invalid_argument',
      message: expect.stringContaining(message),
    })
    expect((await shared.guest.contexts.list()).map(({ context }) => context)).not.toContain('refused')
  })
})
