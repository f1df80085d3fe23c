import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { quoteForShell } from './build-hooks.ts'

it.each(["it's", '$(reboot)', 'a\nb', "''", '"`\\'])('quoteForShell keeps %j as it is', (text) => {
  expect(execFileSync('sh', ['-c', `printf %s ${quoteForShell(text)}`], { encoding: 'utf8' })).toBe(text)
})
