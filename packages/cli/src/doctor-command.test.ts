import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { HostReport } from '@dormouse/engine-linux/setup'
import { afterAll, expect, it } from 'vitest'
import { doctorCommand } from './doctor-command.ts'

const dataDir = mkdtempSync(join(tmpdir(), 'dormouse-doctor-'))
afterAll(() => rmSync(dataDir, { recursive: true }))

async function run(options: { json: boolean; examine?: () => Promise<HostReport> }) {
  let text = ''
  const status = await doctorCommand({ dataDir, stdout: { write: (part) => (text += part) }, ...options })
  return { status, text }
}

it('doctor --json fails before set-up, and every check has a meaning and a fix', async () => {
  const { status, text } = await run({ json: true })
  const report: HostReport = JSON.parse(text)
  expect(status).toBe(1)
  expect(report.canRunSandboxes).toBe(false)
  for (const check of report.checks) {
    expect(check).toMatchObject({
      id: expect.stringMatching(/^[a-z-]+$/),
      title: expect.any(String),
      status: expect.stringMatching(/^(ok|warn|fail)$/),
      found: expect.stringMatching(/./),
      meaning: expect.stringMatching(/./),
    })
    expect(check.mend !== undefined).toBe(check.status !== 'ok')
  }
  expect(new Set(report.checks.map(({ id }) => id)).size).toBe(report.checks.length)
  expect(report.checks.find(({ id }) => id === 'templates')).toMatchObject({ status: 'fail', found: 'none' })
  expect(readdirSync(dataDir)).toEqual([])
})

it('doctor exits with 0 when there are only warnings, and shows the fixes', async () => {
  const check = {
    id: 'disk',
    title: 'Disk',
    status: 'warn',
    found: 'little',
    meaning: 'space',
    mend: 'Free it.',
  } as const
  const examine = async () => ({ canRunSandboxes: true, checks: [check] })
  const { status, text } = await run({ json: false, examine })
  expect(status).toBe(0)
  expect(text).toContain('warn  Disk  little')
  expect(text).toContain('-> Free it.')
  expect(text).toContain('Sandboxes can run.')
})
