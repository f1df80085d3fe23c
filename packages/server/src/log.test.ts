import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { openLog } from './log.ts'

it('a log on a full disk drops its lines and throws no error', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'dormouse-log-'))
  try {
    symlinkSync('/dev/full', join(dataDir, 'server.log'))
    const { log, options } = openLog({ level: 'info', dataDir, isTerminal: true })
    const failures: unknown[] = []
    ;(options.stream as unknown as NodeJS.EventEmitter).on('error', (error) => failures.push(error))
    for (let i = 0; i < 3; i++) {
      log.info({ i }, 'said to a full disk')
      await sleep(20)
    }
    // The disk is meant to be full. The log's own listener takes the error when there is no other.
    expect(failures).toContainEqual(expect.objectContaining({ code: 'ENOSPC' }))
    expect((options.stream as unknown as NodeJS.EventEmitter).listenerCount('error')).toBeGreaterThan(1)
  } finally {
    rmSync(dataDir, { recursive: true })
  }
})
